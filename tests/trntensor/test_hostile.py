"""Calls that a contraction refuses with words of its own, and odd ones that it takes."""

from __future__ import annotations

import re
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import torch

import trntensor
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


@pytest.mark.parametrize("case", WRONG)
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
