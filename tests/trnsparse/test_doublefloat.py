"""Public functions at doublefloat: products of every format, their gradients, and solutions.

Results on the simulator are compared with dense float64, whose own sums round K times.
"""

from __future__ import annotations

import pytest
import torch

import trnblas
import trnsolver
import trnsparse as ts
from each_case import each_case
from required import requiring
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, ConvergenceError, ConvergenceWarning
from trnsci.core.testing import random_tensor, refusals_expected, unit_roundoff
from trnsparse._paths.blocks import BSR_SPMM

from .cases import FORMATS, in_format, random_dense

DOUBLE = torch.float64
LEVEL = 2.0**-44
KERNEL = dict.fromkeys(FORMATS, "doublefloat_spmm") | {"bsr": "doublefloat_gemm"}


def at_level(call, launches=None):
    """The result on the simulator, of these launches or any, and of nothing on torch."""
    before = counts()
    blocks = (library.backend("simulator") for library in (ts, trnblas, trnsolver))
    first, second, third = blocks
    with first, second, third, precision("doublefloat"):
        found = call()
    since = counts() - before
    assert since.launches
    assert launches is None or dict(since.launches) == launches
    assert not since.fallbacks
    assert not since.refusals
    assert not since.no_kernel
    return found


def assert_close(found, a, b, terms=1):
    """Each entry is within the level of |A| |B|, with its rounding, and those of the reference."""
    a, b = (x.detach().to(torch.promote_types(x.dtype, DOUBLE)) for x in (a, b))
    depth = a.shape[-1]
    allowed = (LEVEL + depth * 2.0**-52 + unit_roundoff(found.dtype)) * (a.abs() @ b.abs())
    if a.is_complex():  # of two parts, each of twice as many terms
        allowed = 3 * allowed
    assert ((found - a @ b).abs() <= terms * allowed).all()


# -- products --------------------------------------------------------------------------------------


@each_case("dtype", [torch.float32, DOUBLE, torch.complex64, torch.complex128])
@each_case("name", FORMATS)
def test_products_of_every_format_and_dtype(name, dtype):
    a = random_dense(37, 29, 0.2, dtype=dtype)
    matrix, b = in_format(a, name), random_tensor(29, 3, dtype=dtype)
    found = at_level(lambda: ts.spmm(matrix, b), {KERNEL[name]: 1})
    assert found.dtype is dtype
    # Blocks have a bound by norms, at most sqrt(K) |A| |B| for entries of one size.
    assert_close(found, a, b, 8 if name == "bsr" else 1)
    found = at_level(lambda: ts.spmv(matrix, b[:, 0].contiguous()), {KERNEL[name]: 1})
    assert_close(found.unsqueeze(1), a, b[:, :1])


def test_float32_results_are_rounded_once():
    a, b = random_dense(40, 30, 0.3, dtype=torch.float32), random_tensor(30, 2)
    for name in ("csr", "bsr"):
        found = at_level(lambda name=name: in_format(a, name) @ b)
        assert torch.equal(found, (a.double() @ b.double()).float())


@each_case("name", ["csr", "bsr"])
@each_case("given", ["transposed", "strided", "batch", "vector", "conjugated", "int32"])
def test_layouts_of_operands(name, given):
    dtype = torch.complex128 if given == "conjugated" else DOUBLE
    a, b = random_dense(21, 18, dtype=dtype), random_tensor(18, 4, dtype=dtype)
    matrix = in_format(a, name)
    if given == "transposed":
        b = random_tensor(4, 18, dtype=DOUBLE).mT
    elif given == "strided":
        b = random_tensor(36, 8, dtype=DOUBLE)[::2, ::3]
    elif given == "batch":
        b = random_tensor(2, 3, 18, 4, dtype=DOUBLE)
    elif given == "vector":
        b = b[:, 1]
    elif given == "conjugated":
        b = b.conj()
    elif name == "csr":
        index = matrix.col_indices.int(), matrix.row_ptrs.int()
        matrix = ts.CSRMatrix(matrix.values, *index, matrix.shape)
    found = at_level(lambda: matrix @ b, {KERNEL[name]: 1})
    columns = b.unsqueeze(-1) if b.ndim == 1 else b
    assert found.shape == (a @ columns).reshape(found.shape).shape
    assert_close(found.reshape((a @ columns).shape), a, columns, 8)


@each_case("name", ["csr", "bsr"])
def test_empty_operands_and_factors(name):
    a, b = random_dense(9, 8), random_tensor(8, 2, dtype=DOUBLE)
    matrix, y = in_format(a, name), random_tensor(9, 2, dtype=DOUBLE, seed=1)
    found = at_level(lambda: ts.spmm(matrix, b, -2.0, y, 0.5))
    assert torch.allclose(found, -2 * a @ b + 0.5 * y, rtol=0, atol=1e-12)
    with ts.backend("simulator"), precision("doublefloat"):
        assert (matrix @ b[:, :0]).shape == (9, 0)
        empty = in_format(torch.zeros(9, 8, dtype=DOUBLE), name)
        assert torch.equal(empty @ b, torch.zeros(9, 2, dtype=DOUBLE))


@each_case("value", [torch.inf, -torch.inf, torch.nan])
@each_case("operand", ["matrix", "dense"])
@each_case("name", ["csr", "bsr"])
def test_infinities_and_nan_reach_the_results_that_they_reach_in_float64(name, operand, value):
    a, b = random_dense(9, 8), random_tensor(8, 3, dtype=DOUBLE)
    if operand == "matrix":
        a[4, 2] = value
    else:
        b[5, 1] = value
    matrix = in_format(a, name)
    found, exact = at_level(lambda: matrix @ b), ts.spmm(matrix, b)
    finite = torch.isfinite(exact)
    assert not finite.all()
    assert torch.equal(found[~finite].nan_to_num(3.0), exact[~finite].nan_to_num(3.0))
    assert (found - exact)[finite].abs().max() <= 1e-12


@each_case("dtype", [torch.float32, DOUBLE])
def test_results_beyond_the_range_of_their_dtype_overflow_as_in_float64(dtype):
    large = torch.finfo(dtype).max / 2
    a = torch.diag(torch.tensor([4.0, 0.5, 1.0], dtype=dtype)) * large**0.5
    b = torch.tensor([1.0, 1.0, torch.finfo(dtype).tiny], dtype=dtype) * large**0.5
    for name in ("csr", "bsr"):
        found = at_level(lambda name=name: in_format(a, name) @ b)
        assert torch.equal(found.isinf(), torch.tensor([True, False, False]))
        want = (a.double() @ b.double()).to(dtype)
        allowed = LEVEL + 2 * unit_roundoff(dtype)
        assert torch.allclose(found[1:], want[1:], rtol=allowed, atol=0)


def test_sampled_products():
    pattern = random_dense(20, 15)
    c, d = random_tensor(20, 140, dtype=DOUBLE), random_tensor(15, 140, dtype=DOUBLE, seed=1)
    found = at_level(lambda: ts.sddmm(ts.from_dense(pattern), c, d), {"doublefloat_spmm": 1})
    kept = pattern != 0
    allowed = (LEVEL + 141 * 2.0**-52) * (c.abs() @ d.abs().mT)
    assert ((found.to_dense() - c @ d.mT).abs() <= allowed)[kept].all()


LAUNCHES = {"csr": {"doublefloat_spmm": 3}, "bsr": {"doublefloat_gemm": 3}}


@each_case("dtype", [torch.float32, DOUBLE, torch.complex128])
@each_case("name", ["csr", "bsr"])
def test_gradients_have_the_level_after_its_block(name, dtype):
    a, b = random_dense(14, 11, dtype=dtype), random_tensor(11, 2, dtype=dtype)
    weights = random_tensor(14, 2, dtype=dtype, seed=1)
    matrix = in_format(a, name).requires_grad_()
    right = b.clone().requires_grad_()
    before = counts()
    with ts.backend("simulator"), precision("doublefloat"):
        found = matrix @ right
    torch.autograd.backward(found, weights)
    assert dict((counts() - before).launches) == LAUNCHES[name]
    of_matrix = matrix.blocks.grad if name == "bsr" else matrix.values.grad
    by_matrix = matrix.detach()
    held = "blocks" if name == "bsr" else "values"
    setattr(by_matrix, held, of_matrix)
    kept = (in_format(torch.ones_like(a), name) if name == "bsr" else matrix).to_dense() != 0
    want = torch.where(kept, weights @ b.mH, 0)
    rounding = 30 * unit_roundoff(DOUBLE) + 16 * LEVEL + 2 * unit_roundoff(dtype)
    assert (by_matrix.to_dense() - want).abs().max() <= rounding * want.abs().max()
    want = a.mH @ weights
    assert (right.grad - want).abs().max() <= rounding * want.abs().max()


# -- refusals --------------------------------------------------------------------------------------


def test_what_has_no_kernel_of_the_level_is_refused_with_the_reason():
    a, b = random_dense(6, 6, dtype=torch.float32), random_tensor(6, 2)
    several = ts.CSRMatrix(
        torch.stack([ts.from_dense(a).values] * 2),
        ts.from_dense(a).col_indices,
        ts.from_dense(a).row_ptrs,
        a.shape,
    )
    calls = {
        "trnsparse.spmm": lambda: several @ b,
        "trnsparse.screened_spmm": lambda: ts.screened_spmm(a, torch.ones(6), b, 0.1),
    }
    reasons = {
        "trnsparse.spmm": "the kernel takes one matrix, not a batch",
        "trnsparse.screened_spmm": "the kernel does not have precision 'doublefloat'",
    }
    for name, call in calls.items():
        before = counts()
        with ts.backend("simulator"), precision("doublefloat"), refusals_expected():
            call()
            with requiring("trnsparse"), pytest.raises(BackendError, match=reasons[name]):
                call()
        assert dict((counts() - before).refusals) == {(name, reasons[name]): 1}
        assert not (counts() - before).launches


def test_blocks_beyond_the_longest_contraction_are_refused():
    pattern = torch.tensor([0, 1]), torch.tensor([0])
    for blocks in (torch.empty(1, 4097, 4097), torch.empty(1, 2049, 2049, dtype=torch.complex64)):
        refusal = BSR_SPMM.refined.refusal(blocks, *pattern, torch.empty(1, 1), 1)
        assert "takes blocks of up to 4096, not 409" in refusal


# -- iterations ------------------------------------------------------------------------------------


def definite(n=20, condition=1e2):
    """A banded matrix with a spectrum from about 1 to the condition number."""
    off = torch.diag(random_tensor(n - 1, dtype=DOUBLE), 1) + torch.diag(torch.ones(n - 4), 4)
    both = off + off.mT
    return both + torch.diag(
        both.abs().sum(1) + torch.logspace(0, torch.tensor(condition).log10(), n)
    )


def matrices(a):
    return {"dense": a, "csr": ts.from_dense(a), "bsr": ts.BSRMatrix.from_dense(a, 16)}


KERNELS = {"dense": "doublefloat_gemm", "csr": "doublefloat_spmm", "bsr": "doublefloat_gemm"}
METHODS = {
    "trnsparse.cg": ts.cg,
    "trnsolver.cg": trnsolver.cg,
    "trnsolver.gmres": trnsolver.gmres,
    "trnsparse.minres": ts.minres,
    "trnsolver.bicgstab": trnsolver.bicgstab,
}
TAKEN = [(f, m) for f in KERNELS for m in list(METHODS)[:3]] + [
    ("csr", m) for m in list(METHODS)[3:]
]


@each_case(("form", "method"), TAKEN)
def test_solutions_have_the_residual_that_float64_reaches(form, method):
    """The smallest residual of each: what products add is at most the level of |A| |x|."""
    a, b = definite(), random_tensor(20, dtype=DOUBLE)
    solve, matrix = METHODS[method], matrices(a)[form]
    options = {"rtol": 1e-14, "max_iter": 1 if "gmres" in method else 25, "on_failure": "ignore"}
    found = at_level(lambda: solve(matrix, b, **options))
    plain = solve(a, b, **options)
    reached, usual = (torch.linalg.vector_norm(b - a @ each.x) for each in (found, plain))
    assert reached <= usual + 8 * LEVEL * torch.linalg.vector_norm(a.abs() @ plain.x.abs())


@each_case("form", KERNELS)
def test_nothing_but_products_of_the_level_is_launched(form):
    a, b = definite(), random_tensor(20, dtype=DOUBLE)
    before = counts()
    assert at_level(lambda: ts.cg(matrices(a)[form], b, rtol=1e-12)).info.converged
    assert set((counts() - before).launches) == {KERNELS[form]}


@each_case("form", KERNELS)
def test_float32_systems_are_solved_in_float64_and_rounded(form):
    a, b = definite(condition=1e4), random_tensor(20)
    a = a.float().double()
    found = at_level(lambda: ts.cg(matrices(a.float())[form], b, rtol=1e-13, max_iter=60))
    assert found.x.dtype is torch.float32
    assert found.info.converged
    want = torch.linalg.solve(a, b.double())
    # The condition number is above 1e3: an error of 2e-7 is that of one rounding.
    assert torch.linalg.vector_norm(found.x - want) <= 2e-7 * torch.linalg.vector_norm(want)


@each_case("form", KERNELS)
def test_columns_preconditioners_and_a_start(form):
    a, b = definite(), random_tensor(20, 3, dtype=DOUBLE)
    matrix = matrices(a)[form]
    single = matrices(a.float())[form]
    inverse = ts.from_dense(torch.diag(1 / a.diagonal()))
    calls = (
        lambda: ts.cg(matrix, b, rtol=1e-12, M=inverse, x0=b),
        lambda: ts.cg(single, b.float(), rtol=1e-12, M=inverse.to(torch.float32)),
        lambda: ts.cg(single, b.float(), rtol=1e-12, M=lambda r: r / a.float().diagonal()[:, None]),
    )
    for call in calls:
        found = at_level(call)
        assert found.info.converged
        limit = 1e-10 if found.x.dtype is DOUBLE else 1e-5
        assert torch.linalg.matrix_norm(b - a @ found.x.double()) <= limit * b.norm()


@each_case("form", KERNELS)
def test_derivatives_of_solutions_have_the_level_after_its_block(form):
    a, b = definite(condition=10.0), random_tensor(20)
    matrix, right = matrices(a.float())[form], b.clone().requires_grad_()
    matrix.requires_grad_()
    with ts.backend("simulator"), trnblas.backend("simulator"), precision("doublefloat"):
        x = ts.cg(matrix, right, rtol=1e-13).x
    before = counts()
    x.sum().backward()
    assert KERNELS[form] in (counts() - before).launches
    want = torch.linalg.solve(a.float().double(), torch.ones(20, dtype=DOUBLE))
    assert (right.grad - want).abs().max() <= 2.0**-22 * want.abs().max()
    found = matrix.grad if form == "dense" else matrix.entries.grad
    exact = -torch.outer(want, torch.linalg.solve(a.float().double(), b.double()))
    exact = torch.where(a != 0, exact, 0)
    if form == "csr":
        exact = exact[a != 0]
        assert (found - exact).abs().max() <= 2.0**-21 * exact.abs().max()


def test_failures_are_said():
    b = random_tensor(12, dtype=DOUBLE)
    indefinite = torch.diag(torch.linspace(-1, 1, 12, dtype=DOUBLE))
    for matrix in matrices(indefinite).values():
        with pytest.warns(ConvergenceWarning, match="breakdown"):
            found = at_level(lambda matrix=matrix: ts.cg(matrix, b, rtol=1e-12))
        assert not found.info.converged
        with pytest.raises(ConvergenceError):
            at_level(
                lambda matrix=matrix: trnsolver.gmres(
                    matrix, b, max_iter=1, restart=2, on_failure="raise"
                )
            )
