"""The rules that kernels' gradients are made of, against torch's own in float64.

Both sides are float64 on problems of order 5 and condition below 100; a rule has about 10 roundings
of numbers up to the condition squared, so they agree to 1e4 * 10 * eps = 2e-11.
"""

import pytest
import torch
from torch.func import grad, jvp, vjp, vmap

import trnsolver
from each_case import each_case
from trnsci.core.testing import random_tensor
from trnsolver._library import LIBRARY
from trnsolver.eigen import EIGH
from trnsolver.factor import CHOLESKY, LU
from trnsolver.iterative import CG, _cg_backward, _cg_jvp
from trnsolver.orthogonal import QR
from trnsolver.singular_values import SVD

# What torch does when forward mode is first used.

TOLERANCE = 2e-11
GENERAL = random_tensor(2, 5, 5, dtype=torch.float64) + 4 * torch.eye(5)
TALL = random_tensor(2, 7, 5, dtype=torch.float64)
SYMMETRIC = GENERAL + GENERAL.mT
POSITIVE = GENERAL @ GENERAL.mT + torch.eye(5)
SIDES = random_tensor(2, 5, dtype=torch.float64, seed=1)
COMPLEX = random_tensor(2, 7, 5, dtype=torch.complex128)
HERMITIAN = COMPLEX[:, :5] + COMPLEX[:, :5].mH + 4 * torch.diag(torch.arange(5.0))

CASES = {
    "eigh": (SYMMETRIC, lambda a: EIGH.reference(a, 10), (10,)),
    "eigh of complex matrices": (HERMITIAN, lambda a: EIGH.reference(a, 10), (10,)),
    "svd": (TALL, lambda a: SVD.reference(a, 10, False), (10, False)),
    "svd of square matrices": (GENERAL, lambda a: SVD.reference(a, 10, False), (10, False)),
    "svd with a square U": (TALL, lambda a: SVD.reference(a, 10, True), (10, True)),
    "cholesky": (POSITIVE, CHOLESKY.reference, ()),
    "cholesky of complex matrices": (
        HERMITIAN @ HERMITIAN.mH + torch.eye(5),
        CHOLESKY.reference,
        (),
    ),
    "qr": (TALL, QR.reference, ()),
    "qr of complex matrices": (COMPLEX, QR.reference, ()),
    "lu": (GENERAL, LU.reference, ()),
    "lu of tall matrices": (TALL, LU.reference, ()),
    "lu of wide matrices": (TALL.mT, LU.reference, ()),
}


def _parts(value):
    return value if isinstance(value, tuple) else (value,)


def _direction(like, seed):
    """Any direction: also one that is not Hermitian, or is complex where the result is real."""
    return random_tensor(*like.shape, dtype=like.dtype, seed=seed)


def _gauge_free(name, result):
    """Cotangents by which only what the factorization determines is differentiated."""
    if name.startswith("eigh"):
        w, v = result
        return _direction(w, 3), 2 * v * _direction(v.real, 4)
    if name.startswith("svd"):
        u, s, vh = result
        left, right = _direction(u, 4), _direction(vh, 5)
        return 2 * u * left, _direction(s, 3), 2 * vh * right
    return tuple(_direction(part, 3 + i) for i, part in enumerate(_parts(result)))


@each_case("name", CASES)
def test_rules_agree_with_torch(name):
    a, reference, options = CASES[name]
    rule = name.split()[0]
    result = reference(a)
    grads = _gauge_free(name, result)
    if rule == "lu":
        grads = (torch.zeros_like(grads[0]), *grads[1:])
    given = grads if isinstance(result, tuple) else grads[0]
    operation = LIBRARY.operations[rule]
    (found, *_) = operation._backward(given, (True,), a, *options, result=result)
    (want,) = vjp(reference, a)[1](given)
    torch.testing.assert_close(
        found, want, rtol=TOLERANCE, atol=TOLERANCE * float(want.abs().max())
    )

    tangent = _direction(a, 9)
    found = operation._jvp((tangent,), a, *options, result=result)
    want = jvp(reference, (a,), (tangent,))[1]
    for mine, theirs in zip(_parts(found), _parts(want), strict=True):
        scale = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale)


def test_the_gradient_of_a_solution_is_that_of_the_inverse():
    start = torch.zeros_like(SIDES)
    result = CG.reference(POSITIVE, SIDES, start, 1e-15, 8)
    grad = random_tensor(2, 5, dtype=torch.float64, seed=2)
    for_a, for_b, *_ = _cg_backward(
        (grad, torch.zeros(2, 9)), (True, True), POSITIVE, SIDES, start, 1e-15, 8, result=result
    )
    pull = vjp(lambda a, b: torch.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1), POSITIVE, SIDES)[1]
    want_a, want_b = pull(grad)
    torch.testing.assert_close(for_a, want_a, rtol=0, atol=1e-9 * float(want_a.abs().max()))
    torch.testing.assert_close(for_b, want_b, rtol=0, atol=1e-9 * float(want_b.abs().max()))
    moved, _ = _cg_jvp((POSITIVE, grad, None), POSITIVE, SIDES, start, 1e-15, 8, result=result)
    right = grad - (POSITIVE @ result[0].unsqueeze(-1)).squeeze(-1)
    want = torch.linalg.solve(POSITIVE, right.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(moved, want, rtol=0, atol=1e-9 * float(want.abs().max()))


# Two equal pairs of values; the functions below are symmetric in them, so they have derivatives.
LEFT, RIGHT = (torch.linalg.qr(random_tensor(n, 4, seed=3)).Q for n in (6, 4))
REPEATED = LEFT @ torch.diag(torch.tensor([2.0, 2.0, 1.0, 1.0])) @ RIGHT.mT
DEFICIENT = LEFT @ torch.diag(torch.tensor([2.0, 2.0, 0.0, 0.0])) @ RIGHT.mT
EQUAL = RIGHT @ torch.diag(torch.tensor([2.0, 2.0, 1.0, 1.0])) @ RIGHT.mT
COLUMNS = random_tensor(6, 2, seed=4)

AT_REPEATED = {
    "pinv": (trnsolver.pinv, REPEATED),
    "pinv of wide matrices": (trnsolver.pinv, REPEATED.mT.contiguous()),
    "pinv of low rank": (lambda a: trnsolver.pinv(a, rcond=1e-3), DEFICIENT),
    "lstsq": (lambda a: trnsolver.lstsq(a, COLUMNS.to(a)).solution, REPEATED),
    "residuals of lstsq": (lambda a: trnsolver.lstsq(a, COLUMNS.to(a)).residuals, REPEATED),
    "lstsq by B": (lambda b: trnsolver.lstsq(REPEATED.to(b), b).solution, COLUMNS),
    "svdvals": (trnsolver.svdvals, REPEATED),
    "svdvals of wide matrices": (trnsolver.svdvals, REPEATED.mT.contiguous()),
    "svdvals of low rank": (trnsolver.svdvals, DEFICIENT),
    "values of svd": (lambda a: trnsolver.svd(a)[1], REPEATED),
    "eigvalsh": (trnsolver.eigvalsh, EQUAL),
    "values of eigh": (lambda a: trnsolver.eigh(a).eigenvalues, EQUAL),
}


def _assert_same_on_kernels(function, *operands):
    """Compare a function of float32 operands on the kernels with torch in float64.

    Condition numbers are at most 2, and about 10 roundings of results up to 50 are made.
    """
    want = function(*(operand.double() for operand in operands))
    with trnsolver.backend("simulator"):
        got = function(*operands)
    torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5 * max(1, want.abs().max()))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", AT_REPEATED)
def test_derivatives_at_repeated_values_are_those_of_torch(name):
    function, operand = AT_REPEATED[name]

    def energy(a):
        return (function(a) ** 3).sum()

    _assert_same_on_kernels(grad(energy), operand)
    direction = random_tensor(*operand.shape, seed=6)
    _assert_same_on_kernels(lambda a, t: jvp(energy, (a,), (t,))[1], operand, direction)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", ["pinv", "lstsq"])
def test_second_derivatives_at_repeated_values_are_those_of_torch(name):
    function, operand = AT_REPEATED[name]
    first = grad(lambda a: (function(a) ** 2).sum())
    _assert_same_on_kernels(grad(lambda a: (first(a) ** 2).sum()), operand)
    _assert_same_on_kernels(vmap(first), torch.stack([operand, 1.25 * operand]))
