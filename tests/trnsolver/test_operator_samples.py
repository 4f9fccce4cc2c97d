"""torch's own samples of its operators, computed by our functions on kernels and on torch.

Results, and gradients by all operands, are compared. What a factorization leaves open, signs and
phases of vectors, is taken out; all other gradients are arbitrary numbers, complex ones too.
"""

import itertools
import sys
import types
import unittest
import warnings

import pytest
import torch

import trnsolver as ts
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver.factored import CholeskyFactor, PivotedLU

ROUNDINGS = 2000
"""Allowed roundings of the largest element: 20 n of a result, times conditions up to 20."""


def op_samples():
    # torch's database of samples imports a package for tests of its own, of which it needs a class.
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
    from torch.testing._internal.common_methods_invocations import op_db

    return {(op.name, op.variant_test_name): op for op in op_db}


def squared(parts):
    return [part * part.conj() for part in parts]


def solved_by_lu(lu, pivots, b, *, left=True, adjoint=False):
    if not left:  # X A = B, as A^H X^H = B^H
        return solved_by_lu(lu, pivots, b.mH, adjoint=not adjoint).mH
    rows = torch.lu_unpack(lu.detach(), pivots, unpack_data=False)[0].real.argmax(-2)
    return ts.lu_solve(PivotedLU(lu, rows), b, trans="C" if adjoint else "N")


def solved_by_cholesky(b, factor, upper=False):
    return ts.cholesky_solve(CholeskyFactor(factor.mH if upper else factor), b)


# The operator, and our function of its sample; None for a sample of something that we do not offer.
CALLS = {
    "cholesky": lambda a, upper=False: ts.cholesky(a, upper),
    "cholesky_solve": solved_by_cholesky,
    "linalg.cholesky": lambda a, upper=False: ts.cholesky(a, upper),
    "linalg.det": ts.det,
    "linalg.eigh": lambda a, UPLO="L": squared(ts.eigh(a.mH if UPLO == "U" else a)),
    "linalg.eigvalsh": lambda a, UPLO="L": ts.eigvalsh(a.mH if UPLO == "U" else a),
    "linalg.eigvals": lambda a: ts.eigvals(a).abs().sort(-1).values,
    "linalg.inv": ts.inv,
    "linalg.lstsq": lambda a, b, **k: ts.lstsq(a, b).solution,
    "linalg.lu": lambda a, pivot=True: list(ts.lu(a)) if pivot else None,
    "linalg.lu_solve": solved_by_lu,
    "linalg.pinv": lambda a, rtol=None, atol=None, hermitian=False: (
        ts.pinv(a) if rtol is None and atol is None and not hermitian else None
    ),
    "linalg.qr": lambda a, mode="reduced": squared(ts.qr(a)) if mode == "reduced" else None,
    "linalg.slogdet": lambda a: list(ts.slogdet(a)),
    "linalg.solve": lambda a, b, left=True: ts.solve(a, b) if left else None,
    "linalg.svd": lambda a, **k: squared(ts.svd(a)) if k == {"full_matrices": False} else None,
    "linalg.svdvals": ts.svdvals,
    "matrix_exp": ts.expm,
}
QUICK = ("linalg.cholesky", "linalg.lu")


def outcome(function, sample, backend, wide):
    """Return results and gradients, and None for what our function does not offer."""

    def moved(value):
        if not isinstance(value, torch.Tensor) or (
            not value.dtype.is_floating_point and not value.is_complex()
        ):
            return value
        dtype = torch.promote_types(value.dtype, torch.float64) if wide else value.dtype
        return value.detach().to(dtype).requires_grad_(value.requires_grad)

    args = [moved(value) for value in (sample.input, *sample.args)]
    with ts.backend(backend):
        found = function(*args, **sample.kwargs)
        if found is None:
            return None
        results = [found] if isinstance(found, torch.Tensor) else list(found)
        leaves = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
        smooth = [r for r in results if r.requires_grad and r.numel()]
        given = [random_tensor(*r.shape, dtype=r.dtype, seed=i) for i, r in enumerate(smooth)]
        grads = torch.autograd.grad(smooth, leaves, given, allow_unused=True) if smooth else []
    return [x.detach() for x in (*results, *grads) if x is not None]


def near(mine, theirs):
    """Return whether results agree to rounding, in units of the largest element, at least 1."""
    if mine.shape != theirs.shape or not mine.numel():
        return mine.shape == theirs.shape
    scale = max(1.0, float(theirs.abs().max()))
    allowed = ROUNDINGS * unit_roundoff(torch.float32) * scale
    return float((mine - theirs).abs().max()) <= allowed


def differing(name, dtype, most):
    """Return how many samples were compared, and those that differ."""
    op = op_samples()[name, ""]
    count, failed = 0, []
    for number, sample in enumerate(itertools.islice(op.sample_inputs("cpu", dtype, True), most)):
        try:
            want = outcome(CALLS[name], sample, "pytorch", True)
        except Exception:
            continue
        if want is None:
            continue
        count += 1
        got = outcome(CALLS[name], sample, "simulator", False)
        for mine, theirs in zip(got, want, strict=True):
            scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
            allowed = ROUNDINGS * unit_roundoff(torch.float32) * scale
            if mine.shape != theirs.shape or (
                mine.numel() and not float((mine - theirs).abs().max()) <= allowed
            ):
                failed.append(number)
                break
    return count, failed


def compared(names, most):
    counts, wrong = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, dtype in itertools.product(names, (torch.float32, torch.complex64)):
            count, failed = differing(name, dtype, most)
            counts += count
            if failed:
                wrong[f"{name} {dtype}"] = failed
            print(f"{name} {dtype}: {count - len(failed)} of {count}", flush=True)
    return counts, wrong


def test_samples_of_what_had_a_convention_of_its_own():
    count, wrong = compared(QUICK, 12)
    assert count >= 40
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_samples_are_the_same_on_kernels(name):
    count, wrong = compared([name], 40)
    assert count > 0
    assert not wrong
