"""Calls that a contraction refuses with words of its own, and odd ones that it takes."""

from __future__ import annotations

import re
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import torch

import trntensor
from each_case import each_case
from trnsci.core.testing import random_tensor
from trntensor import einsum, estimate_flops, plan_contraction

A, B = torch.ones(3, 4), torch.ones(4, 5)
PLAN = plan_contraction("ij,jk->ik", A, B)

WRONG = {
    "an operand alone": (lambda: einsum(A), "einsum: the call is (subscripts, *operands) or"),
    "a number for subscripts": (lambda: einsum(5, A), "must alternate, got Tensor for a sublist"),
    "an operand for the output": (lambda: einsum(A, [0, 1], B), "got Tensor for a sublist"),
    "an array for a sublist": (lambda: einsum(A, np.ones((9, 9))), "got ndarray for a sublist"),
    "a vector for the output": (lambda: einsum(A, [0, 1], B[0]), "got Tensor for a sublist"),
    "no tensor to plan": (
        lambda: plan_contraction("ij,jk->ik", A, None),
        "plan_contraction: operand 1 must be a torch.Tensor, got NoneType",
    ),
    "no tensor to estimate": (
        lambda: estimate_flops("ij,jk->ik", A, 3),
        "estimate_flops: operand 1 must be a torch.Tensor, got int",
    ),
    "no tensor to execute": (
        lambda: PLAN.execute(A, None),
        "execute: operand 1 must be a torch.Tensor, got NoneType",
    ),
    "alpha in letters": (
        lambda: einsum("ij,jk->ik", A, B, alpha="2"),
        "einsum: alpha must be a number or a 0-d tensor, got str",
    ),
    "no beta": (
        lambda: einsum("ij,jk->ik", A, B, beta=None, out=torch.ones(3, 5)),
        "einsum: beta must be a number or a 0-d tensor, got NoneType",
    ),
    "products of truth": (
        lambda: einsum("ij,jk->ik", A.bool(), B.bool()),
        "operands must be numbers, got torch.bool",
    ),
}


@each_case("case", WRONG)
def test_a_wrong_type_is_named(case):
    call, message = WRONG[case]
    with pytest.raises(TypeError, match=re.escape(message)) as info:
        call()
    assert len(str(info.value)) < 300


def test_a_precision_that_is_no_name_is_refused():
    with pytest.raises(ValueError, match="precision must be one of fast"):
        plan_contraction("ij,jk->ik", A, B, precision=["fast"])


def test_numbers_of_numpy_scale_as_others_do():
    got = einsum("ij,jk->ik", A, B, alpha=np.float32(0.5), beta=np.float64(2), out=torch.ones(3, 5))
    assert torch.equal(got, torch.full((3, 5), 4.0))


def test_a_single_operand_may_be_bool():
    assert torch.equal(einsum("ij->ji", A.bool()), A.T.bool())


def test_compiled_networks_may_have_more_indices_than_letters():
    names = [chr(0x4E00 + at) for at in range(61)]
    terms = [a + b for a, b in pairwise(names)]
    text = f"{','.join(terms)}->{names[0]}{names[-1]}"
    matrices = [random_tensor(2, 2, dtype=torch.float64, seed=at) for at in range(60)]
    compiled = torch.compile(lambda *x: trntensor.einsum(text, *x), backend="eager", fullgraph=True)
    want = reduce(torch.matmul, matrices)
    assert torch.allclose(compiled(*matrices), want, rtol=1e-10, atol=1e-12)


def test_shards_take_the_options_that_tensors_take():
    whole = random_tensor(7, 512)
    other = random_tensor(512, 3, seed=1)
    shards = trntensor.parallel.scatter(whole, 1, 3)
    wide = einsum("ij,jk->ik", shards, other, dtype="f64")
    assert wide.dtype is torch.float64
    assert torch.allclose(wide, whole.double() @ other.double(), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="no precision reaches 1e-20"):
        einsum("ij,jk->ik", shards, other, target_forward_error=1e-20)
    with pytest.raises(ValueError, match="exclude each other"):
        einsum("ij,jk->ik", shards, other, target_forward_error=0.1, precision="kahan")
    # The bound of all 512 terms needs split operands, that of a third of them would not.
    target = 300 * 2.0**-24
    careful = einsum("ij,jk->ik", shards, other, target_forward_error=target)
    assert torch.equal(careful, einsum("ij,jk->ik", shards, other, precision="dd"))
    with pytest.raises(ValueError, match="memory_limit must be at least"):
        einsum("ij,jk->ik", shards, other, memory_limit=8)


def test_coefficients_beside_shards_are_tensors():
    eri = trntensor.parallel.scatter(torch.ones(3, 3, 4), 2, 2)
    with pytest.raises(TypeError, match=r"C_occ must be a torch\.Tensor, got NoneType"):
        trntensor.ao_to_mo_transform(eri, None, torch.ones(3, 2))


def test_an_energy_without_fitting_functions_is_zero():
    assert trntensor.mp2_energy(torch.ones(2, 3, 0), -torch.ones(2), torch.ones(3)) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda x: trntensor.cp_decompose(x, 2),
        lambda x: trntensor.tt_decompose(x, 2),
        lambda x: trntensor.tucker_decompose(x, eps=0.1),
    ],
)
def test_a_tensor_without_elements_is_refused(call):
    with pytest.raises(ValueError, match=r"tensor must have elements, got shape \(0, 3, 2\)"):
        call(torch.ones(0, 3, 2))


def test_a_rank_that_is_no_integer_is_refused():
    with pytest.raises(ValueError, match="ranks must be an integer"):
        trntensor.tucker_decompose(torch.ones(3, 3), (2.5, 2))


def test_a_zero_tensor_has_a_train_of_ranks_one():
    cores = trntensor.tt_decompose(torch.zeros(4, 5, 6), eps=0.1)
    assert [core.shape[2] for core in cores] == [1, 1, 1]
    assert not trntensor.tt_reconstruct(cores).any()
    core, _ = trntensor.tucker_decompose(torch.zeros(4, 5, 6), eps=0.1)
    assert core.shape == (1, 1, 1)
