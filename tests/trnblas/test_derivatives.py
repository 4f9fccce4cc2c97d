"""Derivatives of products and solutions on kernels, with every option, against torch in float64."""

from __future__ import annotations

import itertools

import torch
from torch.func import jvp, vjp

import trnblas
from each_case import each_case
from pairwise import pairwise
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, unit_roundoff

A, B, C = random_tensor(3, 4), random_tensor(4, 2, seed=1), random_tensor(3, 2, seed=2)
SQUARE = random_tensor(3, 3, seed=3)
WELL = torch.eye(3) * 3 + 0.25 * SQUARE  # its triangles are far from singular
ROOM, BATCH = random_tensor(3, 3, seed=4), random_tensor(2, 3, 2, seed=5)

SIDES, TRIANGLES = ("left", "right"), ("upper", "lower")
CASES = {}

for turn_a, turn_b in itertools.product((False, True), repeat=2):
    operands = (A.mT if turn_a else A), (B.mT if turn_b else B)
    flags = {"transA": turn_a, "transB": turn_b}
    CASES[f"gemm {flags}"] = trnblas.gemm, (*operands, C), flags
    pair = (A.mT if turn_a else A), (A if turn_b else A.mT)
    for uplo in TRIANGLES:
        named = {**flags, "uplo": uplo}
        CASES[f"gemmt {named}"] = trnblas.gemmt, (*pair, ROOM), named
for side, uplo in itertools.product(SIDES, TRIANGLES):
    flags = {"side": side, "uplo": uplo}
    thin = C if side == "left" else C.mT
    CASES[f"symm {flags}"] = trnblas.symm, (SQUARE, thin, thin + 1), flags
for side, uplo, trans, diag in pairwise(SIDES, TRIANGLES, (False, True), ("unit", "nonunit")):
    flags = {"side": side, "uplo": uplo, "trans": trans, "diag": diag}
    thin = C if side == "left" else C.mT
    CASES[f"trmm {flags}"] = trnblas.trmm, (SQUARE, thin), flags
    CASES[f"trsm {flags}"] = trnblas.trsm, (WELL, thin), flags
for trans in (False, True):
    flags = {"trans": trans}
    tall = A.mT if trans else A
    CASES[f"syrk {flags}"] = trnblas.syrk, (tall, ROOM + ROOM.mT), flags
    CASES[f"syr2k {flags}"] = trnblas.syr2k, (tall, tall + 1, ROOM + ROOM.mT), flags
CASES["gemm with a shared left matrix"] = trnblas.gemm, (SQUARE, BATCH), {}
CASES["gemm with a shared right matrix"] = trnblas.gemm, (BATCH.mT, SQUARE), {}
CASES["trsm with a shared matrix"] = trnblas.trsm, (WELL, BATCH), {}
CASES["trsm from the right"] = trnblas.trsm, (WELL, BATCH.mT), {"side": "right"}

WITH_C = ("gemm {", "gemmt", "symm", "syrk", "syr2k")


def function_of(name):
    """The call with factors, as a function of its matrices."""
    routine, _, flags = CASES[name]
    if not name.startswith(WITH_C):
        return lambda *matrices: routine(1.5, *matrices, **flags)
    return lambda *matrices: routine(1.5, *matrices[:-1], 0.5, matrices[-1], **flags)


def assert_close(got, want):
    # Sums of four terms, three products deep, of a triangle with condition below 3.
    for found, truth in zip(got, want, strict=True):
        bound = 64 * unit_roundoff(torch.float32) * float(truth.abs().max())
        assert float((found - truth).abs().max()) <= bound


@each_case("name", CASES)
def test_backward_runs_on_kernels_and_gives_the_gradients(name):
    function, matrices = function_of(name), CASES[name][1]
    wide = [matrix.double() for matrix in matrices]
    result, pull = vjp(function, *wide)
    grad = random_tensor(*result.shape, seed=9)
    want = pull(grad.double())
    with trnblas.backend("simulator"), launched():
        _, pull = vjp(function, *matrices)
        before = counts()
        got = pull(grad)
        assert (counts() - before).launches
    assert_close(got, want)


@each_case("name", CASES)
def test_the_derivative_forward_runs_on_kernels(name):
    function, matrices = function_of(name), CASES[name][1]
    tangents = tuple(random_tensor(*m.shape, seed=11 + i) for i, m in enumerate(matrices))
    wide = (tuple(x.double() for x in given) for given in (matrices, tangents))
    want = jvp(function, *wide)[1]
    with trnblas.backend("simulator"), launched():
        before = counts()
        got = jvp(function, tuple(matrices), tangents)[1]
        assert sum((counts() - before).launches.values()) >= 2
    assert_close([got], [want])


@each_case("in_dims", [(0, None), (None, 0), (0, 0), (2, 1)])
@each_case("routine", ["gemm", "trsm"])
def test_vmap_is_one_launch(routine, in_dims):
    function = getattr(trnblas, routine)
    matrices = [
        matrix if dim is None else torch.stack([matrix, 2 * matrix], dim)
        for matrix, dim in zip((WELL, C), in_dims, strict=True)
    ]
    want = torch.vmap(lambda a, b: function(1.5, a, b), in_dims)(*matrices)
    before = counts()
    with trnblas.backend("simulator"):
        got = torch.vmap(lambda a, b: function(1.5, a, b), in_dims)(*matrices)
    assert sum((counts() - before).launches.values()) == 1
    assert_close([got], [want])
