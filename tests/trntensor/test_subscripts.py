"""What is wrong with subscripts is said, and shown where."""

from __future__ import annotations

from itertools import pairwise

import opt_einsum
import pytest
import torch

import trntensor
from each_case import each_case
from trnsci.core.errors import DeviceError, DTypeError, FlagError, ShapeError

A, B, C = torch.ones(4, 3), torch.ones(3, 5), torch.ones(5, 5)


@each_case(
    ("subscripts", "tensors", "error", "message"),
    [
        ("i!,j0", (A, B), FlagError, "invalid characters: '!', '0'\n    i!,j0\n     ^  ^"),
        (
            "ij,jk->ix",
            (A, B),
            FlagError,
            "index 'x' is in no operand\n    ij,jk->ix\n            ^",
        ),
        (
            "ij,jk->iki",
            (A, B),
            FlagError,
            "index 'i' is there twice\n    ij,jk->iki\n           ^ ^",
        ),
        ("ij,jk->i->k", (A, B), FlagError, "one arrow '->'\n    ij,jk->i->k\n            ^^"),
        ("ij>jk", (A,), FlagError, "one arrow '->'\n    ij>jk\n      ^"),
        ("ij,jk->i,k", (A, B), FlagError, "no comma after '->'\n    ij,jk->i,k\n            ^"),
        ("i..,jk", (A, B), FlagError, "three dots, at most once"),
        ("...i...,jk", (A, B), FlagError, "three dots, at most once in each operand"),
        ("ij,jk,kl", (A, B), ShapeError, "have 3 operand terms, and 2 operands were given"),
        ("ij", (A, B), ShapeError, "have 1 operand term, and 2 operands were given"),
        ("ij,jkl->il", (A, B), ShapeError, "operand 1 has 2 dimensions, and its subscripts name 3"),
        ("i,jk->ik", (A, B), ShapeError, "operand 0 has 2 dimensions, and its subscripts name 1"),
        (
            "...ijk,jk",
            (A, B),
            ShapeError,
            "operand 0 has 2 dimensions, and its subscripts name 3 or",
        ),
        (
            "ij,kj->ik",
            (A, B),
            ShapeError,
            "index 'j' has size 3 in operand 0 and 5 in operand 1\n    ij,kj->ik\n     ^  ^",
        ),
        ("ii,ik->k", (A, B), ShapeError, "index 'i' has size 4 in operand 0 and 3 elsewhere in it"),
        (
            "...,...",
            (A, B),
            ShapeError,
            "dimension -2 of the ellipsis has size 4 in operand 0 and 3",
        ),
    ],
)
def test_the_message_names_the_fault_and_points_at_it(subscripts, tensors, error, message):
    for function in (trntensor.einsum, trntensor.plan_contraction):
        with pytest.raises(error) as caught:
            function(subscripts, *tensors)
        assert message in str(caught.value)
        assert subscripts in str(caught.value)
        assert isinstance(caught.value, ValueError)


def test_operands_of_one_dtype_on_one_device():
    with pytest.raises(
        DTypeError, match=r"one dtype, got torch.float32 in operand 0 and torch.flo"
    ):
        trntensor.einsum("ij,jk->ik", A, B.double())
    with pytest.raises(DeviceError, match="one device, got cpu in operand 0 and meta in operand 1"):
        trntensor.einsum("ij,jk->ik", A, B.to("meta"))
    with pytest.raises(DTypeError, match=r"operand 1 must be a torch.Tensor, got list"):
        trntensor.einsum("ij,jk->ik", A, [1.0])
    with pytest.raises(ShapeError, match="at least one operand, got none"):
        trntensor.einsum("ij,jk->ik")


def test_sublists_hold_integers_that_have_a_letter():
    with pytest.raises(FlagError, match=r"integers from 0 to 51, got 52 in \[0, 52\]"):
        trntensor.einsum(A, [0, 52])
    with pytest.raises(FlagError, match=r"got 'i' in \['i', 'j'\]"):
        trntensor.einsum(A, "ij")
    with pytest.raises(DTypeError, match="must alternate, got int for a sublist"):
        trntensor.einsum(A, 3)


def test_options_that_are_not_known():
    with pytest.raises(ValueError, match="unknown dtype 'float8'"):
        trntensor.einsum("ij,jk->ik", A, B, dtype="float8")
    with pytest.raises(ValueError, match=r"precision must be one of .*, got 'best'"):
        trntensor.einsum("ij,jk->ik", A, B, precision="best")
    with pytest.raises(ValueError, match="minimize must be flops, time or size, got 'money'"):
        trntensor.plan_contraction("ij,jk->ik", A, B, minimize="money")
    with pytest.raises(ValueError, match="memory_limit must be an integer of at least 0, got -1"):
        trntensor.einsum("ij,jk->ik", A, B, memory_limit=-1)


def test_every_symbol_of_opt_einsum_names_an_index():
    # The signs that planners write when 52 letters do not do.
    symbols = "".join(opt_einsum.get_symbol(i) for i in range(46, 90))
    term = ",".join(a + b for a, b in pairwise(symbols))
    tensors = [torch.full((1, 1), 2.0)] * (len(symbols) - 1)
    found = trntensor.einsum(f"{term}->{symbols[0]}{symbols[-1]}", *tensors)
    assert float(found) == 2.0 ** len(tensors)
