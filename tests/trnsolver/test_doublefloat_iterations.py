"""Iterative solvers at doublefloat: vectors in float64, products of dense matrices on kernels."""

from __future__ import annotations

import pytest
import torch

import trnblas
import trnsolver
from each_case import each_case
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError
from trnsci.core.testing import random_tensor, refusals_expected, unit_roundoff

from .test_doublefloat_factors import run, spd

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
METHODS = ("cg", "gmres", "minres", "bicgstab", "fgmres")


def system(dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return spd([1.0, 1.5, 2, 3, 4, 6], 3, wide).to(dtype), random_tensor(6, dtype=dtype)


@each_case("dtype", DTYPES)
@each_case("name", METHODS)
def test_a_solution_has_the_tolerance_that_float64_admits(name, dtype):
    """The error is at most the condition number, 6, times the residual, and one rounding."""
    a, b = system(dtype)
    found = run(lambda: getattr(trnsolver, name)(a, b, rtol=1e-12))
    assert found.info.converged
    assert found.x.dtype is dtype
    want = torch.linalg.solve(a.to(torch.complex128), b.to(torch.complex128))
    allowed = 6e-12 + (0 if dtype in (torch.float64, torch.complex128) else unit_roundoff(dtype))
    assert torch.linalg.vector_norm(found.x - want) <= allowed * torch.linalg.vector_norm(want)


@each_case("given", ("function", "matrix", "start", "columns", "batch"))
def test_other_arguments_take_part(given):
    a, b = system(torch.float32)
    options = {"rtol": 1e-10}
    if given == "function":
        options["M"] = trnsolver.jacobi_preconditioner(a)
    elif given == "matrix":
        options["M"] = torch.diag(1 / a.diagonal())
    elif given == "start":
        options["x0"] = torch.ones(6)
    elif given == "columns":
        b = torch.stack([b, 2 * b + 1], -1)
    else:
        a, b = torch.stack([a, 2 * a]), torch.stack([b, b])
    found = run(lambda: trnsolver.cg(a, b, **options))
    want = torch.linalg.solve(a.double(), b.double())
    assert found.info.converged
    assert torch.linalg.vector_norm(found.x - want) <= 2.0**-22 * torch.linalg.vector_norm(want)


def test_a_matrix_of_another_dtype_is_refused_as_at_other_levels():
    a, b = system(torch.float32)
    with (
        precision("doublefloat"),
        pytest.raises(DTypeError, match="cg: A and b must have one dtype"),
    ):
        trnsolver.cg(a.double(), b)


def test_operators_have_the_dtype_of_their_vectors_and_are_counted():
    a, b = system(torch.float32)
    before = counts()
    with (
        trnsolver.backend("simulator"),
        trnblas.backend("simulator"),
        precision("doublefloat"),
        refusals_expected(),
    ):
        found = trnsolver.cg(lambda v: a @ v, b, rtol=1e-5)
        trnsolver.gmres(lambda v: a @ v, b, rtol=1e-5)
    assert found.x.dtype is torch.float32
    since = counts() - before
    assert [name for name, _ in since.refusals] == ["trnsolver.cg"]
    assert since.no_kernel == {"trnsolver.gmres": 1}


def test_gradients_are_those_of_the_level():
    a, b = system(torch.float32)
    a.requires_grad_()
    b.requires_grad_()
    run(lambda: trnsolver.cg(a, b, rtol=1e-12).x.sum().backward())
    wide = [x.detach().double().requires_grad_() for x in (a, b)]
    torch.linalg.solve(*wide).sum().backward()
    for got, want in zip((a.grad, b.grad), (x.grad for x in wide), strict=True):
        assert (got - want).abs().max() <= 2.0**-22 * want.abs().max()
