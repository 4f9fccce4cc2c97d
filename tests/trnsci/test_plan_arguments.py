"""Arguments of a wrong kind to planning functions: an error of ours that names the argument."""

from __future__ import annotations

import pytest
import torch

import trnblas
import trnblas.distributed
import trnfft
import trnfft.distributed
import trnfft.published
import trnsolver.distributed
import trnsparse
import trnsparse.distributed
import trntensor
import trntensor.distributed
from each_case import each_case
from trnsci.core.errors import TrnsciError

WRONG = {
    "none": None,
    "float": 1.5,
    "text": "x",
    "nested": [[1, 2], [3]],
    "dtype": torch.complex64,
    "tensor": torch.ones(2, 2),
    "dict": {"a": 1},
    "object": object(),
    "function": len,
    "integer": -7,
    "floats": [1.5, 2.0],
    "texts": ["x"],
    "bool": True,
}
A = torch.ones(4, 5)
SPARSE = trnsparse.from_dense(torch.eye(4))

# For each function: the function, the legal arguments, and for each argument its legal kinds.
FUNCTIONS = {
    "trnfft.plan": (
        trnfft.plan,
        {"shape": (4, 8), "dim": -1, "dtype": "float32", "kind": "fft", "n": 8, "norm": "ortho"}
        | {"generation": "gen3"},
        {"dim": "none", "n": "none", "norm": "none", "generation": "none", "dtype": "dtype"},
    ),
    "trnfft.create_plan": (
        trnfft.published.create_plan,
        {"n": 8, "inverse": False},
        {"inverse": "bool"},
    ),
    "trnblas.plan_gemm": (
        trnblas.plan_gemm,
        {"M": 4, "N": 4, "K": 4, "dtype": "float32", "transA": False, "transB": False}
        | {"generation": "gen3", "precision": "float32"},
        {"transA": "bool", "transB": "bool", "generation": "none", "precision": "none"},
    ),
    "trntensor.plan_contraction": (
        lambda subscripts, operand, **options: trntensor.plan_contraction(
            subscripts, operand, A.mT, **options
        ),
        {"subscripts": "ij,jk->ik", "operand": A, "precision": "float32", "memory_limit": 1000}
        | {"minimize": "flops", "path": [(0, 1)]},
        {"precision": "none", "memory_limit": "none", "path": "none function"},
    ),
    "trntensor.estimate_flops": (
        lambda subscripts, operand: trntensor.estimate_flops(subscripts, operand, A.mT),
        {"subscripts": "ij,jk->ik", "operand": A},
        {},
    ),
    "trnfft.distributed.plan": (
        trnfft.distributed.plan,
        {"function": "fftn", "shape": (8, 8), "mesh": 2, "in_placements": None}
        | {"placements": None, "dtype": torch.complex64, "s": None, "dim": None}
        | {"transposed": False},
        {"in_placements": "none", "placements": "none", "s": "none", "dim": "none"}
        | {"dtype": "none dtype"},
    ),
    "trnblas.distributed.plan": (
        lambda function, shapes, **options: trnblas.distributed.plan(
            function, shapes, (4, 4), **options
        ),
        {"function": "gemm", "shapes": (4, 4), "mesh": 2, "in_placements": None, "placements": None}
        | {"dtype": torch.float32, "transA": False, "transB": False},
        {"in_placements": "none", "placements": "none", "dtype": "dtype"}
        | {"transA": "bool", "transB": "bool"},
    ),
    "trntensor.distributed.plan": (
        lambda function, subscripts, shape, **options: trntensor.distributed.plan(
            function, subscripts, shape, (4, 4), **options
        ),
        {"function": "einsum", "subscripts": "ij,jk->ik", "shape": (4, 4), "mesh": 2}
        | {"in_placements": None, "placements": None, "dtype": torch.float32},
        {"in_placements": "none", "placements": "none", "dtype": "dtype"},
    ),
    "trnsolver.distributed.plan": (
        trnsolver.distributed.plan,
        {"function": "tsqr", "rows": (8, 8), "columns": 4, "right_sides": 1, "k": 1}
        | {"oversampling": 1, "power_iterations": 1, "iterations": 1, "preconditioned": False}
        | {"A": None, "dtype": torch.float32},
        {"A": "none", "preconditioned": "bool", "dtype": "dtype", "columns": "none"},
    ),
    "trnsparse.distributed.plan": (
        trnsparse.distributed.plan,
        {"function": "matmul", "A": SPARSE, "layout": 2, "columns": None, "right_sides": 1},
        {"columns": "none"},
    ),
}
CASES = [
    pytest.param(name, argument, kind, id=f"{name}-{argument}-{kind}")
    for name, (_, legal, accepted) in FUNCTIONS.items()
    for argument in legal
    for kind in WRONG
    if kind not in accepted.get(argument, "").split()
]


@each_case("name, argument, kind", CASES, group=lambda name, argument, kind: name)
def test_an_argument_of_a_wrong_kind_is_named(name, argument, kind):
    function, legal, _ = FUNCTIONS[name]
    with pytest.raises(TrnsciError, match=argument):
        function(**{**legal, argument: WRONG[kind]})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_legal_arguments_are_accepted(name):
    function, legal, _ = FUNCTIONS[name]
    function(**legal)
