"""Numbers that pairs of float32 cannot hold as they are, at doublefloat in every function.

The answer is that of float64 on torch, or the same error: infinities, NaN, subnormals, graded rows
and numbers beyond the range of float32 are scaled, refused or computed by torch, never lost. A
refusal and a fallback are counted.
"""

from __future__ import annotations

import math
import random
import warnings
from contextlib import suppress

import pytest
import torch

import trnsolver
from each_case import each_case
from required import on_simulator
from trnsci.core.backend.fallback import forget_causes
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.errors import TrnsciError
from trnsci.core.examples import examples_of, function_of
from trnsci.core.testing import random_tensor
from trnsci.validation import LIBRARIES

DRAWN = ("eigh_randomized", "hutch_plus_plus", "nystrom", "rsvd", "eigsh", "svds", "lobpcg")
"""Functions of random numbers, or of random first vectors."""


def with_entry(value):
    def changed(x):
        x = x.clone()
        x[(-1,) * x.ndim] = value
        return x

    return changed


def graded(x):
    steps = torch.arange(x.shape[0], dtype=torch.float64).reshape(-1, *[1] * (x.ndim - 1))
    return x * 2.0 ** (-40 * steps)


CHANGES = {
    "nan": with_entry(torch.nan),
    "infinity": with_entry(torch.inf),
    "graded rows": graded,
    "subnormal": lambda x: x * 2.0**-1040,
    "below float32": lambda x: x * 2.0**-200,
    "beyond float32": lambda x: x * 2.0**200,
}
TOLERANCE = 2.0**-30
"""Of the largest entry of a result. Loss is all of it, half, or the digits beyond float32: 2^-24.

Problems have condition numbers of up to some hundred, and errors of 2^-43 of norms.
"""

FUNCTIONS = [
    (library, name)
    for library in LIBRARIES
    if library != "trnrand"
    for name in examples_of(library)
    if name not in DRAWN and "preconditioner" not in name
]
ITERATIONS = ("bicgstab", "cg", "fgmres", "gmres", "minres")
"""What they promise is a residual: of a graded matrix, x may have no digit in float64 either."""
UNDETERMINED = {("svd", "graded rows"), ("polar", "graded rows")}
"""Vectors of singular values below the bound, 2^-42 of the largest: any orthonormal ones."""
LOST_BY_TORCH = {("det", "subnormal"), ("slogdet", "subnormal")}
"""They are 0 or NaN there; see the test of determinants."""
EVERY = [
    (*function, change)
    for function in FUNCTIONS
    for change in CHANGES
    if (function[1], change) not in UNDETERMINED | LOST_BY_TORCH
]


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result.to_dense() if result.layout is not torch.strided else result]
    if isinstance(getattr(result, "imag", None), torch.Tensor):
        return [torch.complex(result.real, result.imag)]
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in tensors(part)]
    return tensors(result.x) if hasattr(result, "x") else []


def operands(library, name, change):
    """The example's arguments in float64, of which the first tensor is changed."""
    for dtype in (torch.float64, torch.complex128):
        with suppress(TrnsciError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = examples_of(library)[name].of(dtype)
            function_of(library, name)(*given.args, **given.options)
            break
    args = list(given.args)
    for place, value in enumerate(args):
        if isinstance(value, torch.Tensor) and value.ndim and value.dtype is dtype:
            args[place] = CHANGES[change](value)
            return args, given.options
    return None


def outcome(library, name, given):
    """The tensors that a call returns, or the class of its error."""
    try:
        return tensors(function_of(library, name)(*given[0], **given[1]))
    except TrnsciError as error:
        return type(error).__name__


def agree(found, want, lost):
    """Whether two tensors agree; entries that are not finite in float64 may be if they are lost."""
    if found.dtype is torch.bool or not (found.is_floating_point() or found.is_complex()):
        return torch.equal(found, want)
    usual = want.isfinite()
    if not (torch.equal(found.isfinite(), usual) or (lost and found[usual].isfinite().all())):
        return False
    size = want[usual].abs().max() if usual.any() else torch.tensor(0.0)
    off = [(of(found) - of(want))[usual].abs() for of in (lambda x: x, torch.abs)]
    return any(bool((each <= TOLERANCE * size).all()) for each in off)


def check(library, name, change):
    given = operands(library, name, change)
    if given is None:
        return
    with precision("doublefloat"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = outcome(library, name, given)
        before = counts()
        with on_simulator(*LIBRARIES):
            found = outcome(library, name, given)
        since = counts() - before
        forget_causes()
    reported = f"{since.refusals} {since.fallbacks}"
    if isinstance(want, str) or isinstance(found, str):
        assert found == want, reported
        return
    if name in ITERATIONS and change == "graded rows":
        a, b = given[0][:2]
        (x,) = found
        with precision("doublefloat"), warnings.catch_warnings(), on_simulator(*LIBRARIES):
            warnings.simplefilter("ignore")
            converged = function_of(library, name)(*given[0], **given[1]).converged
        left = torch.linalg.vector_norm(b - a @ x) / torch.linalg.vector_norm(b)
        assert left <= 2e-6 or not converged
        return
    assert len(found) == len(want)
    for got, exact in zip(found, want, strict=True):
        # Pivots of LAPACK that are subnormal have infinite reciprocals.
        assert agree(got, exact, change == "subnormal"), f"{got}\n{exact}\n{reported}"


@each_case("library, name, change", random.Random(70).sample(EVERY, 24))
def test_nothing_is_lost_silently(library, name, change):
    check(library, name, change)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@each_case("library, name, of", EVERY)
def test_nothing_is_lost_silently_in_any_function(library, name, of, change):
    if of == change:
        check(library, name, change)


def test_determinants_of_subnormal_matrices():
    """The determinant of order 4 is 2^-4160 times that of the matrix before, which is 0."""
    a = torch.diag(torch.tensor([1.0, -1.5, 2.0, 3.0], dtype=torch.float64))
    a[3, 0] = 0.5
    with precision("doublefloat"), on_simulator(*LIBRARIES):
        sign, size = trnsolver.slogdet(a * 2.0**-1040)
        assert trnsolver.det(a * 2.0**-1040) == 0
    assert sign == -1
    assert abs(float(size) - math.log(9) + 4160 * math.log(2)) <= 2.0**-43 * 4160


def test_singular_vectors_of_graded_rows():
    a = graded(random_tensor(4, 4).double() + 2 * torch.eye(4))
    with precision("doublefloat"), on_simulator(*LIBRARIES):
        u, s, vh = trnsolver.svd(a)
    eye = torch.eye(4, dtype=torch.float64)
    for off, size in ((u * s @ vh - a, s[0]), (u.mT @ u - eye, 1), (vh @ vh.mT - eye, 1)):
        assert off.abs().max() <= 4 * 2.0**-42 * size
