"""Every public function with operands of every dtype and level: a result, or a clear error."""

from __future__ import annotations

import re
import warnings
from inspect import signature

import pytest
import torch

import trnsolver
import trnsparse
from each_case import each_case
from trnsci.core.backend.precision import precision
from trnsci.core.errors import TrnsciError
from trnsci.core.examples import DTYPES, examples_of, function_of
from trnsci.core.testing import random_tensor
from trnsci.validation import LIBRARIES


def converted(library, name, dtype):
    """Return the example with operands of a dtype; None where these refuse it."""
    try:
        return examples_of(library)[name].of(getattr(torch, dtype))
    except TrnsciError:
        return None


def names_an_argument(text, function):
    """Whether the first line of an error has the function, and one of its parameters."""
    line = text.partition("\n")[0]
    parameters = [*signature(function).parameters, "dtype", "operands", "entries"]
    return re.match(r"[\w.]+: ", line) and re.search(rf"\b({'|'.join(parameters)})\b", line)


# The levels between act on trnblas' products only, which tests/trnblas has at all four. Draws are
# the same at every level, see coverage/test_survey.py.
@each_case("level", ["float32", "doublefloat"])
@each_case("dtype", [*DTYPES, "bool", "float8_e4m3fn"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_result_or_an_error_that_names_the_argument(library, dtype, level):
    if (library, level) == ("trnrand", "doublefloat"):
        return
    wrong = []
    with warnings.catch_warnings(), precision(level):
        warnings.simplefilter("ignore")
        for name in examples_of(library):
            function, example = function_of(library, name), converted(library, name, dtype)
            try:
                if example is not None:
                    function(*example.args, **example.options)
            except TrnsciError as error:
                if not names_an_argument(str(error), function):
                    wrong.append(f"{name}: {error}")
            except Exception as error:  # one of torch
                wrong.append(f"{name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


@each_case("dtype", [torch.complex64, torch.complex128])
def test_complex_systems_at_doublefloat_are_solved_in_complex128(dtype):
    """Factors of 2 I + E with |E| < 1/2 rounded to complex64 give errors below 64 roundings."""
    a, b = (random_tensor(6, 6, dtype=dtype, seed=seed) for seed in range(2))
    spd = a @ a.mH / 72 + 2 * torch.eye(6)
    wide = spd.to(torch.complex128), b.to(torch.complex128)
    want = torch.linalg.solve(*wide)
    with precision("doublefloat"):
        found = [trnsolver.solve(spd, b), trnsolver.solve_spd(spd, b), trnsolver.inv(spd) @ b]
    for got in found:
        assert got.dtype is dtype
        assert (got - want).abs().max() <= 64 * torch.finfo(dtype).eps * want.abs().max()


def test_screening_selects_elements_of_a_complex_matrix():
    a, b = (random_tensor(4, 4, dtype=torch.complex64, seed=seed) for seed in range(2))
    integrals = torch.tensor([1.0, 1e-4, 4.0, 1e-6])
    kept = torch.outer(integrals, integrals) > 1e-4
    got = trnsparse.screened_spmm(a, integrals, b, 1e-4)
    assert torch.equal(got, torch.where(kept, a, 0) @ b)


def test_eigenvalues_of_a_narrow_matrix_are_computed_in_float32():
    a = torch.diag(torch.arange(1.0, 13.0)).half()
    found = trnsolver.lobpcg(a, 2, largest=True)
    # The residuals are at most sqrt(eps) of 12, and so are the errors of eigenvalues.
    assert torch.allclose(found[0], torch.tensor([11.0, 12.0]), rtol=0, atol=12 * 2.0**-11.5)
