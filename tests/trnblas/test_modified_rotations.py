"""Modified plane rotations: their two equations in exact fractions, and what SciPy's BLAS gives."""

from fractions import Fraction

import pytest
import scipy.linalg.blas as reference
import torch

import trnblas
from each_case import each_case
from trnblas.modified_rotations import _power
from trnsci.core.errors import DTypeError

from .agreement import ROUNDOFF, draw

REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# Signs, orders of magnitude and zeros that decide between the cases of rotmg.
PROBLEMS = [
    (1.0, 1.0, 2.0, 1.0),
    (1.0, 1.0, 1.0, 2.0),
    (2.0, 0.5, -3.0, 3.0),
    (0.25, 4.0, 1.0, -1.0),
    (3.0, -0.5, 2.0, 1.5),
    (3.0, -0.5, 1.0, 3.0),
    (-1.0, 2.0, 1.0, 1.0),
    (1.0, 2.0, 1.0, 0.0),
    (1.0, 0.0, 1.0, 2.0),
    (0.0, 2.0, 1.0, 2.0),
    (1.0, 2.0, 0.0, 2.0),
    (0.0, 0.0, 0.0, 0.0),
    (1e-9, 1.0, 1.0, 1e-9),
    (1.0, 1e-9, 2.0, 1.0),
    (1e9, 1.0, 1.0, 1.0),
    (1.0, 1e9, 1.0, 1e-9),
]


def elements(param):
    """The matrix (h11, h21, h12, h22) of BLAS's parameters."""
    flag, h11, h21, h12, h22 = param
    return {
        -2: (1, 0, 0, 1),
        -1: (h11, h21, h12, h22),
        0: (1, h21, h12, 1),
        1: (h11, -1, 1, h22),
    }[int(flag)]


def solved(problem, dtype=torch.float64):
    tensors = [torch.tensor(v, dtype=dtype) for v in problem]
    found = trnblas.rotmg(*tensors)
    return [float(v) for v in tensors], [float(v) for v in found[:3]], found.param.tolist()


# Without a first component, OpenBLAS leaves an element zero that has no weight.
@each_case("problem", [p for p in PROBLEMS if p[0] * p[2] or not p[1] * p[3]], ids=str)
def test_parameters_are_those_of_blas(problem):
    _, _, param = solved(problem)
    want = reference.drotmg(*problem)
    assert param[0] == want[0]
    got, wanted = elements(param), elements(want)
    assert got == pytest.approx(wanted, rel=4 * 2.0**-53, abs=0)


@each_case("dtype", REAL, ids=str)
@each_case("problem", [*PROBLEMS, (1e-37, 1e30, 1e5, 1e-22), (1e37, 3.0, 1e-30, 1e-12)], ids=str)
def test_a_rotation_keeps_the_weighted_length(problem, dtype):
    """H (x1, y1) is (new x1, 0) and H^T D' H is D, to a few roundings of the sizes of the terms."""
    info = torch.finfo(dtype)
    extreme = [v for v in problem if v and not info.smallest_normal < abs(v) < info.max]
    if extreme or (dtype.itemsize == 2 and max(map(abs, problem)) > 1e3):
        return  # not a number of this dtype, or results beyond its range
    (d1, d2, x1, y1), (e1, e2, x), param = solved(problem, dtype)
    if param[0] == -1 and not any(param[1:]):  # of a negative length
        assert (e1, e2, x) == (0, 0, 0)
        assert d1 < 0 or d1 * x1 * x1 + d2 * y1 * y1 < 0
        return
    h11, h21, h12, h22 = map(Fraction, elements(param))
    d1, d2, x1, y1, e1, e2, x = map(Fraction, (d1, d2, x1, y1, e1, e2, x))
    small = 16 * Fraction(ROUNDOFF[dtype])
    if param[0] == -2:
        assert (e1, e2, x) == (d1, d2, x1)
        assert d2 * y1 == 0
        return
    assert abs(h11 * x1 + h12 * y1 - x) <= small * (abs(h11 * x1) + abs(h12 * y1))
    assert abs(h21 * x1 + h22 * y1) <= small * (abs(h21 * x1) + abs(h22 * y1))
    pairs = (
        (d1, (h11, h11), (h21, h21)),
        (d2, (h12, h12), (h22, h22)),
        (0, (h11, h12), (h21, h22)),
    )
    for want, first, second in pairs:
        terms = e1 * first[0] * first[1], e2 * second[0] * second[1]
        # The difference of the terms cancels where the length is nearly zero.
        assert abs(sum(terms) - want) <= small * sum(map(abs, terms)) * 4
    for factor in (e1, e2):
        assert factor == 0 or 2.0**-24 < abs(factor) < 2.0**24


def test_powers_bring_every_number_into_the_range():
    for dtype in (torch.float32, torch.float64):
        info = torch.finfo(dtype)
        exponents = torch.arange(
            -148 if dtype is torch.float32 else -1073, 127, dtype=torch.float64
        )
        values = torch.cat([m * 2.0**exponents for m in (1.0, 1.5)]).to(dtype)
        values = torch.cat([values, torch.tensor([2.0**24, 2.0**-24, info.max], dtype=dtype)])
        scaled = values.double() * _power(values).double() * _power(values).double()
        assert ((scaled > 2.0**-24) & (scaled < 2.0**24)).all()
        assert (_power(values[(values > 2.0**-24) & (values < 2.0**24)]) == 1).all()


@each_case("dtype", REAL, ids=str)
@each_case("flag", [-2.0, -1.0, 0.0, 1.0])
def test_rotm_applies_the_matrix_of_its_parameters(flag, dtype):
    x, y = draw((3, 5), dtype, 0), draw((3, 5), dtype, 1)
    param = torch.cat([torch.tensor([flag], dtype=dtype), draw((4,), dtype, 2)])
    h11, h21, h12, h22 = elements(param.tolist())
    for got, (p, q) in zip(trnblas.rotm(x, y, param), ((h11, h12), (h21, h22)), strict=True):
        terms = p * x.double(), q * y.double()
        assert got.dtype is dtype
        bound = 3 * ROUNDOFF[dtype] * sum(t.abs() for t in terms)
        assert ((got.double() - sum(terms)).abs() <= bound).all()


@each_case("flag", [-2.0, -1.0, 0.0, 1.0])
def test_rotm_is_that_of_blas(flag):
    x, y, h = draw((7,), torch.float64, 0), draw((7,), torch.float64, 1), [flag, 1.5, -0.5, 0.25, 2]
    want = reference.drotm(x.numpy(), y.numpy(), h)
    for got, expected in zip(trnblas.rotm(x, y, torch.tensor(h).double()), want, strict=True):
        assert got.tolist() == pytest.approx(expected.tolist(), rel=3 * 2.0**-53, abs=2.0**-50)


@each_case("problem", [p for p in PROBLEMS[:5] if p[1] > 0], ids=str)
def test_derivatives(problem):
    inputs = [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in problem]
    if abs(problem[0] * problem[2] ** 2) != abs(problem[1] * problem[3] ** 2):
        assert torch.autograd.gradcheck(trnblas.rotmg, inputs)
    x, y = (draw((4,), torch.float64, seed).requires_grad_() for seed in range(2))
    param = trnblas.rotmg(*inputs).param[0].detach()
    assert torch.autograd.gradcheck(lambda x, y: trnblas.rotm(x, y, param), (x, y))


def test_a_rotation_of_nothing_has_derivatives():
    """An element without a second component stays, and so does its derivative."""
    inputs = [torch.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(3)]
    y = torch.zeros(3, requires_grad=True)
    trnblas.rotmg(*inputs, y).x1.sum().backward()
    assert inputs[2].grad.tolist() == [1.0, 1.0, 1.0]
    assert y.grad.isfinite().all()


def test_complex_numbers_are_refused():
    z = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(DTypeError, match=r"rotmg: d1 must be real, got torch\.complex64"):
        trnblas.rotmg(z, z, z, z)
    with pytest.raises(DTypeError, match=r"rotm: x must be real, got torch\.complex64"):
        trnblas.rotm(z, z, torch.zeros(5, dtype=torch.complex64))
