"""Complex operands on kernels: one launch, and the bound of each level.

A part of a product is a real sum of 2 K products, with the error of that; the modulus of a number
has sqrt(2) times it. u is 2**-24.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import trnblas
from each_case import each_case
from trnblas._library import LIBRARY
from trnblas.triangular_systems import TRSM
from trnsci.core import explain
from trnsci.core.backend.precision import LEVELS
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError
from trnsci.core.testing import random_tensor

U = 2.0**-24
K = 20
ROOT = 2**0.5
# Errors relative to the moduli of a sum, for a part that sums 2 K products.
BOUNDS = {
    "bfloat16": 2.0**-7 + 2.0**-16 + 2 * K * U,
    "float16x3": 3 * 2.0**-22 + 6 * K * U,
    "float32": 2 * K * U,
}


def drawn(*shape, seed=0, dtype=torch.complex64):
    return random_tensor(*shape, dtype=torch.complex64, seed=seed).to(dtype)


def hermitian(a):
    return a.triu(1) + a.triu(1).mH + torch.diag(torch.diagonal(a).real).to(a)


def symmetric(a):
    return a.triu() + a.triu(1).mT


A, B, C, S = drawn(9, K), drawn(K, 7, seed=1), drawn(9, 7, seed=2), drawn(K, K, seed=3)
X, Y = drawn(K, seed=4), drawn(K, seed=5)
MANY = drawn(3, 9, K, seed=6)

# A call, its definition, the operands, and the magnitude of its sums.
CALLS = {
    "gemm": (
        lambda a, b, c, **o: trnblas.gemm(1.5 - 1j, a.mH, b, 0.3j, c, "C", **o),
        lambda a, b, c: (1.5 - 1j) * a @ b + 0.3j * c,
        (A, B, C),
    ),
    "real factors": (
        lambda a, b, c, **o: trnblas.gemm(1.5, a, b.mT, -2, c, transB=True, **o),
        lambda a, b, c: 1.5 * a @ b - 2 * c,
        (A, B, C),
    ),
    "batched_gemm": (
        lambda a, b, **o: trnblas.batched_gemm(1j, a, b, **o),
        lambda a, b: 1j * a @ b,
        (MANY, B),
    ),
    "broadcast": (
        lambda a, b, **o: trnblas.gemm(1j, a, b[None, None], **o),
        lambda a, b: (1j * a @ b)[None],
        (MANY, B),
    ),
    "grouped_gemm": (
        lambda a, b, **o: torch.cat(trnblas.grouped_gemm(1j, [a, a], [b, -b], **o)),
        lambda a, b: 1j * torch.cat([a @ b, -a @ b]),
        (A, B),
    ),
    "gemmt": (
        lambda a, c, **o: trnblas.gemmt(1j, a, a, 2j, c, "lower", transB="C", **o),
        lambda a, c: (1j * a @ a.mH + 2j * c).tril() + c.triu(1),
        (A, A[:, :9]),
    ),
    "syrk": (
        lambda a, **o: trnblas.syrk(1.5j, a, trans=True, **o),
        lambda a: 1.5j * a.mT @ a,
        (A.mT,),
    ),
    "herk": (
        lambda a, c, **o: trnblas.herk(1.5, a, -1, c, **o),
        lambda a, c: 1.5 * a @ a.mH - hermitian(c),
        (A, A[:, :9]),
    ),
    "syr2k": (
        lambda a, b, **o: trnblas.syr2k(1.5j, a, b, **o),
        lambda a, b: 1.5j * (a @ b.mT + b @ a.mT),
        (A, MANY[0]),
    ),
    "her2k": (
        lambda a, b, **o: trnblas.her2k(1.5j, a, b, **o),
        lambda a, b: 1.5j * a @ b.mH - 1.5j * b @ a.mH,
        (A, MANY[0]),
    ),
    "symm": (
        lambda a, b, **o: trnblas.symm(1.5j, a, b, **o),
        lambda a, b: 1.5j * symmetric(a) @ b,
        (S, B),
    ),
    "hemm": (
        lambda a, b, **o: trnblas.hemm(1.5j, a, b, side="right", **o),
        lambda a, b: 1.5j * b @ hermitian(a),
        (S, A),
    ),
    "trmm": (
        lambda a, b, **o: trnblas.trmm(1.5j, a, b, trans="C", **o),
        lambda a, b: 1.5j * a.triu().mH @ b,
        (S, B),
    ),
    "syr": (lambda x, **o: trnblas.syr(2j, x, **o), lambda x: 2j * torch.outer(x, x), (X,)),
    "her": (lambda x, **o: trnblas.her(2, x, **o), lambda x: 2 * torch.outer(x, x.conj()), (X,)),
    "syr2": (
        lambda x, y, **o: trnblas.syr2(2j, x, y, **o),
        lambda x, y: 2j * (torch.outer(x, y) + torch.outer(y, x)),
        (X, Y),
    ),
    "her2": (
        lambda x, y, **o: trnblas.her2(2j, x, y, **o),
        lambda x, y: 2j * torch.outer(x, y.conj()) - 2j * torch.outer(y, x.conj()),
        (X, Y),
    ),
}
AT_DOUBLEFLOAT = {
    "gemv": (lambda a, x, **o: trnblas.gemv(2j, a, x, **o), lambda a, x: 2j * a @ x, (A, X)),
    "hemv": (
        lambda a, x, **o: trnblas.hemv(2j, a, x, **o),
        lambda a, x: 2j * hermitian(a) @ x,
        (S, X),
    ),
    "gerc": (
        lambda x, y, **o: trnblas.gerc(2j, x, y, **o),
        lambda x, y: 2j * torch.outer(x, y.conj()),
        (X, Y),
    ),
    "axpy": (
        lambda x, y, **o: trnblas.axpy(1 - 2j, x, y, **o),
        lambda x, y: (1 - 2j) * x + y,
        (A, MANY[0]),
    ),
    "dot": (lambda x, y, **o: trnblas.dot(x, y, **o), lambda x, y: (x * y).sum(), (X, Y)),
    "dotc": (lambda x, y, **o: trnblas.dotc(x, y, **o), lambda x, y: (x.conj() * y).sum(), (X, Y)),
    "nrm2": (lambda x, **o: trnblas.nrm2(x, **o), lambda x: x.abs().square().sum().sqrt(), (A,)),
}
LAUNCHES = {"axpy": 2, "dot": 2, "dotc": 2}
"""Kernels of vectors take one real factor, or return one real sum."""

PROMISES = {"axpy": 2 * 2.0**-44, "dot": 2.0**-41, "dotc": 2.0**-41, "nrm2": 2.0**-41}


def launched(call, operands, level):
    before = counts()
    with LIBRARY.backend("simulator"), LIBRARY.requiring("1"):
        got = call(*operands, precision=level)
    since = counts() - before
    assert not since.refusals
    return got, dict(since.launches)


@each_case("level", [None, *BOUNDS])
@each_case("name", CALLS)
def test_a_call_is_one_launch_within_the_bound_of_its_level(name, level):
    call, truth, operands = CALLS[name]
    got, launches = launched(call, operands, level)
    want = truth(*(x.to(torch.complex128) for x in operands))
    assert got.dtype is torch.complex64
    assert got.shape == want.shape
    assert list(launches.values()) == [1]
    kernel = "complex_gemm" if level == "bfloat16" else f"{level}_gemm"
    assert (level or "float32") == "float32" or list(launches) == [kernel]
    # Entries of magnitude up to 4: two sums of K products, a factor up to 2 and an addend.
    magnitude = 2 * 2 * K * 16 + 8
    bound = ROOT * (BOUNDS[level or "float32"] + 8 * U) * magnitude
    assert float((got - want).abs().max()) <= bound


@each_case("dtype", [torch.complex64, torch.complex128])
@each_case("name", [*CALLS, *AT_DOUBLEFLOAT])
def test_doublefloat(name, dtype):
    call, truth, operands = (CALLS | AT_DOUBLEFLOAT)[name]
    operands = [x.to(dtype) for x in operands]
    got, launches = launched(call, operands, "doublefloat")
    assert list(launches.values()) == [LAUNCHES.get(name, 1)]
    assert all(kernel.startswith("doublefloat") for kernel in launches)
    want = truth(*(x.to(torch.complex128) for x in operands))
    # Of entries up to 4: norms of rows and columns of K, two sums and a factor; or of a vector.
    magnitude = 2 * 2 * K * 16 if name != "nrm2" else float(want)
    bound = ROOT * PROMISES.get(name, 2.0**-45) * magnitude
    bound += torch.finfo(dtype).eps * float(want.abs().max())
    assert got.dtype is (want.real.to(got.dtype).dtype if name == "nrm2" else dtype)
    assert float((got - want).abs().max()) <= bound


def entries(generator, rows, columns, kind):
    """Gaussian integers of 20 bits times powers of two, as Python numbers: exact in float64."""
    whole = generator.integers(-(2**20), 2**20, (2, rows, columns))
    powers = np.zeros((rows, columns), int)
    if kind == "graded":  # by the row, of which the bound takes the norm
        powers += np.linspace(-60, 60, rows, dtype=int)[:, None]
    if kind in ("huge", "tiny"):
        powers += 100 if kind == "huge" else -120
    return np.ldexp(whole[0], powers) + 1j * np.ldexp(whole[1], powers)


def exactly(a, b):
    """Real and imaginary parts of the product of rational numbers, as Fractions."""
    a, b = ([np.vectorize(Fraction, [object])(x) for x in (m.real, m.imag)] for m in (a, b))
    return a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]


@pytest.mark.parametrize("kind", ["plain", "graded", "cancelling", "huge", "tiny"])
def test_every_part_is_within_the_bound_of_exact_arithmetic(kind):
    generator = np.random.default_rng(7)
    a = entries(generator, 24, 40, kind)
    b = entries(generator, 40, 24, "plain" if kind != "cancelling" else kind)
    if kind == "cancelling":  # the second half of the terms almost takes away the first
        a[:, 20:], b[20:] = a[:, :20], -b[:20] * (1 + 2.0**-18)
    exact = exactly(a, b)
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
    moduli = np.abs(a) @ np.abs(b)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    wide, _ = launched(lambda *x, **o: trnblas.gemm(1, *x, **o), (left, right), "doublefloat")
    for got, want in zip((wide.real, wide.imag), exact, strict=True):
        off = np.abs((np.vectorize(Fraction, [object])(got.numpy()) - want).astype(float))
        assert (off <= (2.0**-45 + 2.0**-53) * norms).all()
    if kind == "huge":  # beyond float32
        return
    narrow = left.to(torch.complex64), right.to(torch.complex64)
    exact = exactly(*(x.to(torch.complex128).numpy() for x in narrow))
    single, _ = launched(lambda *x, **o: trnblas.gemm(1, *x, **o), narrow, "float32")
    for got, want in zip((single.real, single.imag), exact, strict=True):
        off = np.abs((np.vectorize(Fraction, [object])(got.numpy()) - want).astype(float))
        assert (off <= 2 * 40 * U * moduli * (1 + 2 * U) + 80 * 2.0**-126).all()


@each_case("shape", [(1, 1, 1), (127, 129, 2), (128, 64, 256), (128, 65, 256), (65, 128, 257)])
def test_tails(shape):
    m, k, n = shape
    a, b = drawn(m, k), drawn(k, n, seed=1)
    got, launches = launched(lambda *x, **o: trnblas.gemm(1, *x), (a, b), None)
    wide = a.to(torch.complex128), b.to(torch.complex128)
    assert launches == {"gemm" if k <= 64 else "complex_gemm": 1}
    bound = ROOT * 2 * k * U * (wide[0].abs() @ wide[1].abs())
    assert ((got - wide[0] @ wide[1]).abs() <= bound).all()


@each_case("order", [1, 5, 63, 64, 65, 130])
@each_case("side", ["left", "right"])
def test_triangular_systems_read_one_triangle(order, side):
    """The residual of a solution is within that of substitution (Higham, theorem 8.5)."""
    off = drawn(order, order).triu(1) / order
    a = off + (1.5 - 2j) * torch.eye(order)
    unread = torch.full((order, order), torch.nan).tril(-1) + a
    sides = drawn(order, 7, seed=1)
    b = sides if side == "left" else sides.mT
    x, launches = launched(lambda *t, **o: trnblas.trsm(1j, *t, side), (unread, b), None)
    assert launches == {"trsm": 1}
    a, x, b = (t.to(torch.complex128) for t in (a, x, 1j * b))
    residual, size = (a @ x - b, a.abs() @ x.abs()) if side == "left" else (
        x @ a - b,
        x.abs() @ a.abs(),
    )  # fmt: skip
    # Inverses of blocks of the diagonal, with a condition below 2, multiply the error.
    assert ((residual).abs() <= ROOT * 2 * 2 * (2 * order + 4) * U * (size + b.abs())).all()


def test_a_unit_diagonal_is_not_read_and_a_zero_one_is_not_finite():
    off = drawn(6, 6).tril(-1) / 6
    unread = off + torch.full((6,), torch.nan).diag()
    b = drawn(6, 2, seed=1)
    x, _ = launched(lambda *t, **o: trnblas.trsm(1, *t, "L", "L", False, "U"), (unread, b), None)
    want = torch.linalg.solve_triangular(off, b, upper=False, unitriangular=True)
    assert float((x - want).abs().max()) <= 64 * U * float(want.abs().max())
    with LIBRARY.backend("simulator"):
        assert not trnblas.trsm(1, off, b, uplo="lower").isfinite().all()


def test_hermitian_results_are_exactly_hermitian():
    with LIBRARY.backend("simulator"):
        for found in (trnblas.herk(2, A), trnblas.her2k(2j, A, MANY[0]), trnblas.her(2, X)):
            assert torch.equal(found, found.mH)
        found = trnblas.syrk(2j, A)
        assert torch.equal(found, found.mT)


def test_what_is_refused_is_named():
    wide = drawn(4, 4, dtype=torch.complex128)
    with LIBRARY.backend("simulator"):
        for call in (trnblas.gemm, trnblas.hemm, trnblas.trsm):
            assert "does not take torch.complex128" in str(explain(call, 1, wide, wide))
        assert trnblas.gemm(1, drawn(0, 4), drawn(4, 4)).shape == (0, 4)
    large = torch.zeros(1, dtype=torch.complex64).expand(9217, 9217)
    assert "order 18432, not 18434" in TRSM.refusal(1.0, large, large, True, True, "N", False)


def test_energies_are_real():
    z = drawn(6, 6)
    with pytest.raises(DTypeError, match=r"takes real numbers, got torch.complex64"):
        trnblas.mp2.nki_mp2_energy(z, z[0, :1], z[0, :1], z[0], precision="doublefloat")


def test_levels_are_those_of_the_suite():
    assert {*BOUNDS, "doublefloat"} == set(LEVELS)
