"""Empty operands: results have the shape of the definition, and gradients."""

from itertools import combinations

import numpy as np
import pytest
import torch

import trnblas
from each_case import each_case
from oracles import blas as oracle

from .cases import BATCH, CASES, K, M, N, unchanged

BACKENDS = ("pytorch", "simulator")
BROADCAST = ("gemv", "symv", "hemv", "gemm", "batched_gemm", "symm", "hemm", "gemmt")
"""Routines whose accumulator, the last operand, broadcasts."""


def _emptied(with_all_options=False):
    """Return cases with shapes in which one or two of the dimensions are 0."""
    found = {}
    zeros = [z for count in (1, 2) for z in combinations((M, N, K, BATCH), count)]
    for case in CASES:
        routine = case.name.partition("-")[0]
        for zero in zeros:
            shapes = tuple(tuple(0 if n in zero else n for n in s) for s in case.shapes)
            if shapes == case.shapes:
                continue
            name = case.name if with_all_options else routine
            found[name, shapes] = case, shapes
            if routine in BROADCAST and len(shapes) == 3:
                for accumulator in ((1,), ()):
                    narrow = (*shapes[:2], accumulator)
                    found[name, narrow] = case, narrow
    return list(found.values())


@pytest.mark.parametrize("backend", BACKENDS)
@each_case("case, shapes", _emptied(), ids=str)
def test_empty_operands(case, shapes, backend):
    assert_empty(case, shapes, backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@each_case("case, shapes", _emptied(with_all_options=True), ids=str)
def test_empty_operands_with_all_options(case, shapes, backend):
    assert_empty(case, shapes, backend)


def assert_empty(case, shapes, backend):
    operands = [torch.ones(shape, requires_grad=True) for shape in shapes]
    want = case.call(oracle, unchanged, *(x.detach().numpy() for x in operands))
    with trnblas.backend(backend):
        got = case.call(trnblas, unchanged, *operands)
    assert got.shape == np.shape(want)
    # Sums of at most 7 products of small whole numbers are exact.
    assert np.array_equal(got.detach().numpy(), want)
    if not case.name.startswith("swap"):  # returns one operand of two
        grads = torch.autograd.grad(got.sum(), operands)
        assert [g.shape for g in grads] == [x.shape for x in operands]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_occupied_orbitals_have_no_energy(backend):
    operands = [torch.ones(shape, requires_grad=True) for shape in ((0, 3, 2), (0,), (3,))]
    with trnblas.backend(backend):
        assert trnblas.mp2.nki_batched_pair_energy(*operands) == 0
