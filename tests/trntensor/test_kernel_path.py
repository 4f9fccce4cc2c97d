"""Any contraction on the simulator, with kernels required: nothing is left to torch unsaid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trntensor
from drawn import examples
from each_case import each_case
from oracles.einsum import contraction
from required import requiring
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.testing import random_tensor

from .cases import COMMON, TRICKY, operands
from .test_einsum import problems, terms_of


@pytest.fixture(autouse=True)
def _required():
    with requiring("trntensor"):
        yield


@each_case("subscripts", TRICKY + COMMON)
def test_kernels_give_what_torch_gives(subscripts):
    tensors = operands(subscripts, torch.float32)
    with trntensor.backend("simulator"):
        got = trntensor.einsum(subscripts, *tensors)
    inputs, output = terms_of(subscripts)
    wide = [x.double().numpy() for x in tensors]
    size = contraction(inputs, output, [np.abs(x) for x in wide])
    # At most 60 terms are summed in any of them, in two products.
    assert (np.abs(got.numpy() - contraction(inputs, output, wide)) <= 64 * 2.0**-24 * size).all()


@given(problem=problems(), narrow=st.booleans())
@examples(40)
def test_any_contraction_on_kernels(problem, narrow):
    inputs, output, shapes = problem
    rng = np.random.default_rng(len(output))
    arrays = [rng.integers(-1, 2, shape).astype(float) for shape in shapes]
    dtype = torch.bfloat16 if narrow else torch.float32
    tensors = [torch.from_numpy(np.asarray(x)).to(dtype) for x in arrays]
    want = contraction(inputs, output, arrays)
    with trntensor.backend("simulator"):
        got = trntensor.einsum(f"{','.join(inputs)}->{output}", *tensors)
    assert got.shape == want.shape
    assert got.dtype is dtype
    if np.abs(want).max(initial=0) <= 2**8:  # what bfloat16 holds exactly
        size = contraction(inputs, output, [np.abs(x) for x in arrays])
        exact = size.max(initial=0) <= 2**8 or not narrow
        assert not exact or np.array_equal(got.double().numpy(), want)


def test_what_a_call_would_do_is_told():
    a, b = random_tensor(4, 3), random_tensor(3, 5)
    with trntensor.backend("simulator"):
        told = str(explain(trntensor.einsum, "ij,jk->ik", a, b))
    assert "trntensor.contract" in told
    assert "simulator" in told


def test_slices_run_on_kernels():
    a, b = random_tensor(6, 8), random_tensor(8, 6)
    limit = 2 * 36 * 4 + 100
    plan = trntensor.plan_contraction("ij,jk,kl,lm->im", a, b, a, b, memory_limit=limit)
    assert plan.slices
    with trntensor.backend("simulator"):
        before = counts()
        got = plan.execute(a, b, a, b)
    assert (counts() - before).launches
    assert torch.allclose(got, a @ b @ a @ b, atol=1e-3)


def test_precisions_on_kernels():
    a, b = random_tensor(4, 64), random_tensor(64, 5)
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    with trntensor.backend("simulator"):
        before = counts()
        got = trntensor.einsum("ij,jk->ik", a, b, precision="dd")
        assert (counts() - before).launches["contract"] == 6
        narrow = trntensor.einsum("ij,jk->ik", a.bfloat16(), b.bfloat16(), precision="sr")
    assert bool(((got - exact).abs() <= 66 * 2.0**-24 * size).all())
    assert narrow.dtype is torch.bfloat16


def test_equal_contractions_are_one_launch():
    pairs = [(random_tensor(3, 4, seed=s), random_tensor(4, 5, seed=s)) for s in range(4)]
    with trntensor.backend("simulator"):
        before = counts()
        got = trntensor.multi_einsum(*(("ij,jk->ki", a, b) for a, b in pairs))
    assert dict((counts() - before).launches) == {"contract": 1}
    for (a, b), result in zip(pairs, got, strict=True):
        assert torch.allclose(result, (a @ b).T, atol=1e-5)
