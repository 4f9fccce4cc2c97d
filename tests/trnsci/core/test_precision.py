"""The ladder of precision: names, precedence, contexts, and what libraries compute at a level."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import trnblas
import trnfft
import trnsci
import trnsparse
import trntensor
from required import requiring
from trnsci.core import explain
from trnsci.core.backend.precision import LEVELS
from trnsci.core.counters import counts
from trnsci.core.errors import FlagError
from trnsci.core.testing import refusals_expected

LIBRARIES = (trnblas, trnfft, trntensor)


@pytest.fixture(autouse=True)
def initial_precision():
    """Set the precisions of the process within a block, which ends with the test."""
    with trnsci.precision("float32"):
        yield


def test_the_innermost_block_counts():
    with trnblas.precision("bfloat16"):
        assert trnblas.get_precision() == "bfloat16"
        assert trntensor.get_precision() == "float32"
        with trnsci.precision("doublefloat"):
            assert {x.get_precision() for x in LIBRARIES} == {"doublefloat"}
            with trnblas.precision("float16x3"):
                assert trnblas.get_precision() == "float16x3"
                assert trnsci.get_precision() == "doublefloat"
        assert trnblas.get_precision() == "bfloat16"


def test_a_library_takes_precedence_over_the_suite():
    trnblas.set_precision("bfloat16")
    trnsci.set_precision("doublefloat")
    assert trnblas.get_precision() == "bfloat16"
    assert trntensor.get_precision() == "doublefloat"


def test_blocks_belong_to_their_thread():
    with trnsci.precision("doublefloat"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(trnblas.get_precision).result() == "float32"


@pytest.mark.parametrize("setter", ["precision", "set_precision"])
@pytest.mark.parametrize("name", ["float64", "fp32", 32, None])
def test_unknown_names_are_refused(setter, name):
    accepted = "accepted: bfloat16, float16x3, float32, doublefloat"
    for module in (trnsci, trnblas):
        with pytest.raises(FlagError, match=accepted):
            getattr(module, setter)(name)


def test_published_names_are_accepted_by_their_library_alone():
    for name in ("fast", "fp32", "double"):
        with trnfft.precision(name):
            assert trnfft.get_precision() == name
    for name in ("fast", "kahan", "dd", "sr"):
        with trntensor.precision(name):
            assert trntensor.get_precision() == name
    with pytest.raises(FlagError, match="got precision 'kahan'"):
        trnblas.set_precision("kahan")
    with pytest.raises(FlagError, match="got precision 'double'"):
        trntensor.set_precision("double")


# -- what is computed ------------------------------------------------------------------------------


def _dense():
    generator = torch.Generator().manual_seed(4517)
    matrix = torch.randn(48, 48, generator=generator)
    return matrix @ matrix.T + 48 * torch.eye(48), torch.randn(48, 3, generator=generator)


CALLS = {
    "trntensor.einsum": lambda a, b: trntensor.einsum("ij,jk->ik", a, b),
    "trnsparse.matmul": lambda a, b: trnsparse.from_dense(a) @ b,
    "trnfft.fft": lambda a, b: trnfft.fft(b).to_torch_complex(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_doublefloat_rounds_float64_once(call):
    """The result in float32 is the rounded one in float64, and not that of float32."""
    a, b = _dense()
    with trnsci.precision("doublefloat"):
        found = call(a, b)
        wide = call(a.double(), b.double())
    assert found.dtype in (torch.float32, torch.complex64)
    assert torch.equal(found, wide.to(found.dtype))
    assert not torch.equal(found, call(a, b))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_gradients_have_the_level_of_the_forward(call, level):
    a, b = (x.requires_grad_() for x in _dense())
    with trnsci.precision(level):
        result = call(a, b)
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    found = torch.autograd.grad((result * weights).real.sum(), b)[0]
    wide = [x.detach().double().requires_grad_() for x in (a, b)]
    result = call(*wide)
    exact = torch.autograd.grad((result * weights).real.sum(), wide[1])[0]
    assert found.dtype is torch.float32
    error = (found - exact).abs().max() / exact.abs().max()
    # Rounded once at doublefloat; sums of 48 products of float32 otherwise, of a condition below 8.
    assert error <= (2**-24 if level == "doublefloat" else 8 * 48 * 2**-24)


@pytest.mark.parametrize("call", [CALLS["trntensor.einsum"], CALLS["trnfft.fft"]])
def test_compiled_functions_follow_the_level(call):
    a, b = _dense()
    compiled = torch.compile(call, backend="eager", fullgraph=True)
    single = compiled(a, b)
    with trnsci.precision("doublefloat"):
        assert torch.equal(compiled(a, b), call(a, b))
        assert not torch.equal(compiled(a, b), single)
    assert torch.equal(compiled(a, b), single)


@refusals_expected()
def test_a_kernel_without_the_level_is_refused_with_the_reason():
    a, b = _dense()
    ones = torch.ones(48)
    reason = "the kernel does not have precision 'doublefloat'"
    with trnsparse.backend("simulator"), trnsci.precision("doublefloat"):
        before = counts()
        result = trnsparse.screened_spmm(a, ones, b, 0.5)
        after = counts()
        assert reason in str(explain(lambda: trnsparse.screened_spmm(a, ones, b, 0.5)))
        with requiring("trnsparse"), pytest.raises(RuntimeError, match="precision 'doublefloat'"):
            trnsparse.screened_spmm(a, ones, b, 0.5)
    assert torch.equal(result, (a.double() @ b.double()).float())
    assert after.launches == before.launches
    assert sum(after.refusals.values()) > sum(before.refusals.values())
