"""The work of a call, plans of single columns, and batches next to single operands."""

import pytest
import torch

import trnblas
from each_case import each_case
from oracles import blas as oracle
from trnblas import mp2  # noqa: F401  (declares the energies)
from trnblas._library import LIBRARY
from trnblas.plans import plan_gemm

from .agreement import array, assert_agrees, draw

M, N, K, BATCH = 2, 3, 5, 4


def e(*shape):
    return torch.empty(shape)


# Two operations, a product and a sum, for every term; half of the terms where a triangle is known.
FLOPS = [
    ("gemm", (1.0, e(M, K), e(K, N), 0.0, None, "N", "N"), 2 * M * N * K),
    ("gemm", (1.0, e(K, M), e(N, K), 0.0, None, "T", "T"), 2 * M * N * K),
    ("batched_gemm", (1.0, e(BATCH, M, K), e(K, N), 0.0, None, "N", "N"), 2 * M * N * K * BATCH),
    ("batched_gemm", (1.0, e(M, K), e(BATCH, K, N), 0.0, None, "N", "N"), 2 * M * N * K * BATCH),
    (
        "batched_gemm",
        (1.0, e(BATCH, K, M), e(BATCH, N, K), 0.0, None, "T", "T"),
        2 * M * N * K * BATCH,
    ),
    ("gemmt", (1.0, e(M, K), e(K, M), 0.0, None, True, "N", "N"), M * M * K),
    ("gemmt", (1.0, e(M, K), e(M, K), 0.0, None, True, "N", "T"), M * M * K),
    ("symm", (1.0, e(K, K), e(K, N), 0.0, None, True, True, False), 2 * K * K * N),
    ("syrk", (1.0, e(M, K), 0.0, None, "N", False), M * M * K),
    ("syrk", (1.0, e(K, M), 0.0, None, "T", False), M * M * K),
    ("syr2k", (1.0, e(M, K), e(M, K), 0.0, None, "N"), 2 * M * M * K),
    ("syr2k", (1.0, e(K, M), e(K, M), 0.0, None, "T"), 2 * M * M * K),
    ("trsm", (1.0, e(K, K), e(K, N), True, True, "N", False), K * K * N),
    ("batched_trsm", (1.0, e(K, K), e(BATCH, K, N), True, True, "N", False), K * K * N * BATCH),
    ("trmm", (1.0, e(K, K), e(K, N), True, True, "N", False), K * K * N),
    # Of energies: three products and sums for every entry of T; or the product that makes T.
    ("mp2_energy", (e(M * N, K * N), e(M), e(K), e(N)), 6 * M * N * K * N),
    ("pair_energy", (e(N, K), e(N, K), -1.0, -1.0, e(N)), 2 * N * N * K),
    ("batched_pair_energy", (e(M, N, K), e(M), e(N)), 2 * M * M * N * N * K),
]


@each_case(("name", "args", "want"), FLOPS, ids=lambda v: v if type(v) is str else "")
def test_the_work_of_a_call(name, args, want):
    assert LIBRARY.operations[name]._flops(*args) == want


@each_case("name", ["symv", "hemv", "trmv", "trsv"])
@each_case("dtype", [torch.float64, torch.complex128], ids=str)
def test_batches_of_vectors_next_to_one_matrix(name, dtype):
    n = 60
    a, x = draw((n, n), dtype, 0) / n + 2 * torch.eye(n, dtype=dtype), draw((3, n), dtype, 1)
    alpha = () if name.startswith("tr") else (2.0,)
    want = getattr(oracle, name)(*alpha, array(a), array(x))
    # Matrices of a norm below 8 with inverses below 1; sums of 60 terms.
    assert_agrees(getattr(trnblas, name)(*alpha, a, x), want, dtype, 8 * n, abs(array(x)).max())


def test_an_accumulator_of_a_batch_that_shares_an_operand():
    a, b, c = (draw(s, torch.float64, i) for i, s in enumerate([(3, 2, 4), (4, 5), (3, 2, 5)]))
    for left, right in ((a, b), (b.mT, a.mT)):
        below = c if left is a else c.mT
        want = array(left) @ array(right) * 2 - array(below)
        got = trnblas.batched_gemm(2.0, left, right, -1.0, below)
        assert_agrees(got, want, torch.float64, 12, 40.0)
        with pytest.raises(ValueError, match="C must broadcast"):
            trnblas.batched_gemm(2.0, left, right, -1.0, below[:2])


def test_the_plan_of_a_single_number():
    assert "transposed product" not in plan_gemm(1, 1, 300).describe()
    assert "transposed product" in plan_gemm(300, 1, 300).describe()
    assert "transposed product" not in plan_gemm(1, 300, 300).describe()
