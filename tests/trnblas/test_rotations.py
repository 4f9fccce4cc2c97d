"""Plane rotations: what BLAS's rotg and rot give, over the whole range of the numbers."""

import math

import mpmath
import numpy as np
import pytest
import scipy.linalg.blas as reference
import torch

import trnblas
from each_case import each_case
from oracles import blas as oracle

from .agreement import FLOATING, ROUNDOFF, array, assert_agrees, draw

# The signs and orders of magnitude that decide between the cases of rotg.
PAIRS = [
    (3.0, 4.0),
    (4.0, 3.0),
    (-3.0, 4.0),
    (3.0, -4.0),
    (-4.0, 3.0),
    (4.0, -3.0),
    (-4.0, -3.0),
    (2.0, 2.0),
    (-2.0, 2.0),
    (0.0, 0.0),
    (0.0, -2.5),
    (-2.5, 0.0),
    (1.0, 1e-30),
    (1e-30, -1.0),
]


@each_case("pair", PAIRS, ids=str)
def test_real_rotations_are_those_of_blas(pair):
    a, b = pair
    tensors = (torch.tensor(value, dtype=torch.float64) for value in pair)
    r, z, c, s = (float(value) for value in trnblas.rotg(*tensors))
    want = reference.drotg(a, b)
    assert (c, s) == pytest.approx(want, rel=4 * 2.0**-53, abs=0)
    assert r == pytest.approx(c * a + s * b, rel=4 * 2.0**-53, abs=0)
    # What z says, c and s follow from.
    if z == 1:
        again = (0.0, 1.0)
    elif abs(z) < 1:
        again = (math.sqrt(1 - z * z), z)
    else:
        again = (1 / z, math.sqrt(1 - 1 / (z * z)))
    assert again == pytest.approx((c, s), rel=16 * 2.0**-53, abs=2.0**-53)


def test_the_sign_of_r_is_that_of_the_larger():
    a = torch.tensor([-4.0, 4.0, -3.0, 3.0, 2.0])
    b = torch.tensor([3.0, -3.0, 4.0, -4.0, -2.0])
    assert trnblas.rotg(a, b).r.sign().tolist() == [-1, 1, 1, -1, -1]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_rotations_are_those_of_blas(dtype):
    a, b = draw((20,), dtype, 0), draw((20,), dtype, 1)
    a[0], b[1] = 0, 0
    a[2] = b[2] = 0
    found = trnblas.rotg(a, b)
    assert found.c.dtype is dtype.to_real()
    assert torch.equal(found.z, b)
    for i in range(20):
        r, _, c, s = (complex(v[i]) for v in found)
        f, g = complex(a[i]), complex(b[i])
        want_c, want_s = reference.zrotg(f, g)
        near = {"rel": 0, "abs": 8 * ROUNDOFF[dtype]}
        assert c == pytest.approx(complex(want_c), **near)
        assert s == pytest.approx(complex(want_s), **near)
        assert c * f + s * g == pytest.approx(r, rel=8 * ROUNDOFF[dtype])
        assert abs(c * g - s.conjugate() * f) <= 8 * ROUNDOFF[dtype] * (abs(f) + abs(g))


@each_case("dtype", FLOATING, ids=str)
@each_case("scale", [1.0, 1e-4, 2e3])
def test_rotations_of_every_dtype_turn_b_to_zero(dtype, scale):
    a, b = scale * draw((5, 4), dtype, 0), scale * draw((5, 4), dtype, 1)
    r, _, c, s = trnblas.rotg(a, b)
    assert r.dtype is s.dtype is dtype
    assert not c.is_complex()
    wide = [array(v) for v in (a, b, r, c, s)]
    size = np.abs(wide[0]) + np.abs(wide[1])
    bound = 8 * ROUNDOFF[dtype] * size
    assert (np.abs(wide[3] * wide[0] + wide[4] * wide[1] - wide[2]) <= bound).all()
    assert (np.abs(wide[3] * wide[1] - wide[4].conj() * wide[0]) <= bound).all()


@each_case("scale", [1e-38, 1e-30, 1e30, 1e38])
@each_case("dtype", [torch.float32, torch.complex64], ids=str)
def test_no_square_overflows_or_vanishes(dtype, scale):
    r, _, c, s = trnblas.rotg(
        torch.tensor(3 * scale / 2, dtype=dtype), torch.tensor(2 * scale, dtype=dtype)
    )
    for got, want in ((r, 2.5 * scale), (c, 0.6), (s, 0.8)):
        assert abs(complex(got) - want) <= 16 * 2.0**-24 * want


def of_all_sizes(dtype):
    """Numbers of a real dtype: 0, subnormal, normal and near the largest."""
    info = torch.finfo(dtype)
    least, half = info.smallest_normal * info.eps, 0.5
    sizes = [0.0, least, 3 * least, info.smallest_normal * 0.7, info.smallest_normal]
    return [*sizes, half**40, 0.75, 2.0**40, info.max * 0.3, info.max * 0.9]


def near(dtype, want, size=None):
    """Eight roundings of ``size``, and of the least number; or infinite, beyond the largest."""
    info = torch.finfo(dtype)
    slack = 8 * info.eps * abs(want if size is None else size) + 2 * info.smallest_normal * info.eps
    return math.inf if abs(want) > info.max else pytest.approx(float(want), rel=0, abs=float(slack))


@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_rotations_of_numbers_of_all_sizes(dtype):
    sizes = of_all_sizes(dtype)
    a, b = (
        v.flatten() for v in torch.meshgrid(*2 * [torch.tensor(sizes, dtype=dtype)], indexing="ij")
    )
    r, _, c, s = trnblas.rotg(a, b)
    for i, (f, g) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        f, g = mpmath.mpf(f), mpmath.mpf(g)
        size = mpmath.hypot(f, g)
        assert r[i].item() == near(dtype, size), (f, g)
        assert c[i].item() == near(dtype, f / size if size else 1), (f, g)
        assert s[i].item() == near(dtype, g / size if size else 0), (f, g)


@each_case("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_rotations_of_numbers_of_all_sizes(dtype):
    real = dtype.to_real()
    sizes = torch.tensor(of_all_sizes(real), dtype=real)
    numbers = torch.cat([torch.complex(sizes, sizes.flip(0)), torch.complex(sizes, -sizes / 2)])
    a, b = (v.flatten() for v in torch.meshgrid(numbers, numbers, indexing="ij"))
    r, _, c, s = trnblas.rotg(a, b)
    for i, (f, g) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        f, g = mpmath.mpc(f), mpmath.mpc(g)
        size = mpmath.hypot(abs(f), abs(g))
        along = f / abs(f) if f else mpmath.mpf(1)
        want = (abs(f) / size, along * mpmath.conj(g) / size) if size else (1, mpmath.mpc(0))
        assert c[i].item() == near(real, want[0]), (f, g)
        for got, whole in ((s[i], want[1]), (r[i], along * size)):
            assert got.real.item() == near(real, whole.real, abs(whole)), (f, g)
            assert got.imag.item() == near(real, whole.imag, abs(whole)), (f, g)


@each_case("dtype", FLOATING, ids=str)
def test_rot_agrees_with_the_definition(dtype):
    x, y = draw((3, 4), dtype, 0), draw((3, 4), dtype, 1)
    sine = 0.8j if dtype.is_complex else -0.8
    got = trnblas.rot(x, y, 0.6, sine)
    want = oracle.rot(array(x), array(y), 0.6, sine)
    size = np.abs(array(x)) + np.abs(array(y))
    for ours, theirs in zip(got, want, strict=True):
        assert_agrees(ours, theirs, dtype, 5, size)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_rot_undoes_itself_and_takes_tensors(dtype):
    x, y = draw((4,), dtype, 0), draw((4,), dtype, 1)
    _, _, c, s = trnblas.rotg(draw((), dtype, 2), draw((), dtype, 3))
    turned = trnblas.rot(x, y, c, s)
    number = trnblas.rot(x, y, c.item(), s.item())
    for ours, theirs in zip(turned, number, strict=True):
        assert torch.equal(ours, theirs)
    for back, was in zip(trnblas.rot(*turned, c, -s), (x, y), strict=True):
        assert_agrees(back, array(was), dtype, 12, np.abs(array(x)) + np.abs(array(y)))


def test_derivatives_of_rotations():
    for dtype in (torch.float64, torch.complex128):
        x, y = (draw((3,), dtype, i).requires_grad_() for i in range(2))
        c = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
        s = torch.tensor(-0.8, dtype=dtype, requires_grad=True)
        assert torch.autograd.gradcheck(trnblas.rot, (x, y, c, s))
        a, b = (draw((4,), dtype, 5 + i).requires_grad_() for i in range(2))
        assert torch.autograd.gradcheck(lambda a, b: trnblas.rotg(a, b)[2:], (a, b))
        assert torch.autograd.gradcheck(lambda a, b: trnblas.rotg(a, b)[0], (a, b))
    a, b = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    sum(v.sum() for v in trnblas.rotg(a, b)).backward()
    assert a.grad.isfinite().all()
    assert b.grad.isfinite().all()
