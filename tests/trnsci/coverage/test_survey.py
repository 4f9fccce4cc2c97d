"""The coverage table against what the calls do when kernels are required."""

from __future__ import annotations

import random
import warnings
from contextlib import suppress
from itertools import product

import pytest
import torch

import trnsolver
from each_case import each_case
from required import on_simulator, requiring
from trnsci import precision
from trnsci.core import explain
from trnsci.core.backend.fallback import forget_causes
from trnsci.core.backend.precision import LEVELS
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, NkiRefusalWarning
from trnsci.core.examples import DTYPES, examples_of, function_of, with_dtype
from trnsci.coverage import survey
from trnsci.validation import LIBRARIES

EXAMPLES = [(library, name) for library in LIBRARIES for name in examples_of(library)]
DRAWN = random.Random(45).sample(list(product(EXAMPLES, DTYPES, LEVELS)), 50)


def called(library, name, dtype):
    args, options = examples_of(library)[name].of(getattr(torch, dtype))
    return function_of(library, name)(*args, **options)


def required(library, name, dtype, level, strength="1"):
    """Return the counts of a call where kernels are required, and its error."""
    before = counts()
    error = ""
    with requiring(*LIBRARIES, level=strength), precision(level), torch.no_grad():
        try:
            called(library, name, dtype)
        except Exception as raised:
            error = str(raised) or type(raised).__name__
    return counts() - before, error


@pytest.mark.filterwarnings("ignore")
@each_case("example, dtype, level", DRAWN)
def test_a_cell_is_what_the_call_does_where_kernels_are_required(example, dtype, level):
    with survey.on_simulator():
        cell = survey.outcome_of(*example, dtype, level)
    assert survey.UNREPORTED not in cell.reasons
    with on_simulator(*LIBRARIES):
        since, error = required(*example, dtype, level)
        if cell.outcome == "kernel":
            assert (tuple(sorted(since.launches)), error) == (cell.kernels, "")
        elif cell.outcome == "torch":
            assert (since.launches.total(), error) == (0, "")
            assert "has no kernel" in required(*example, dtype, level, "all")[1]
        elif cell.outcome == "error":
            assert error
            assert not since.launches
        else:
            assert any(error.startswith(reason) for reason in cell.reasons), error
            assert bool(cell.kernels) == (cell.outcome == "partly")


@pytest.mark.filterwarnings("ignore")
@each_case("example, dtype, level", DRAWN[:25])
def test_a_cell_agrees_with_the_declarations(example, dtype, level):
    with survey.on_simulator():
        cell = survey.outcome_of(*example, dtype, level)
    if cell.outcome == "error":
        return
    args, options = examples_of(example[0])[example[1]].of(getattr(torch, dtype))
    with on_simulator(*LIBRARIES), precision(level):
        found = explain(function_of(*example), *args, **options)
    refused = {f"{s.operation}: {s.reason}" for s in found.steps if s.path == "pytorch"}
    refused = {reason for reason in refused if not reason.endswith("has no kernel")}
    assert refused <= set(cell.reasons)
    if not found.open_end:
        assert refused == set(cell.reasons)
        assert any(s.path == "simulator" for s in found.steps) == bool(cell.kernels)


@each_case("example, dtype, level", DRAWN)
def test_a_call_warns_if_and_only_if_its_cell_has_refusals(example, dtype, level):
    library, name = example
    with on_simulator(*LIBRARIES), survey.on_simulator(), precision(level), torch.no_grad():
        cell = survey.outcome_of(*example, dtype, level)
        forget_causes()
        recorded = warnings.catch_warnings(record=True, action="always")
        with recorded as caught, suppress(Exception):  # "error" is an outcome too
            called(library, name, dtype)
            called(library, name, dtype)
    found = [str(one.message) for one in caught if one.category is NkiRefusalWarning]
    if cell.outcome != "error":
        assert bool(found) == (cell.outcome in ("partly", "refused")), found
        assert {text.partition(" (")[2].partition(");")[0] for text in found} == {
            reason.partition(": ")[2] for reason in cell.reasons
        }
    assert len(found) == len(set(found))
    function = name.partition(",")[0]
    if function.isidentifier():
        assert all(text.startswith(f"{library}.{function}: ") for text in found), found


def test_the_torch_path_refuses_nothing():
    before = counts()
    with trnsolver.backend("pytorch"), precision("doublefloat"), requiring("trnsolver"):
        trnsolver.svd(torch.eye(4, 3), full_matrices=True)
    assert not (counts() - before).refusals


def test_a_failing_kernel_is_named(monkeypatch):
    from trnblas.matrix_products import GEMM

    def fail(*args):
        raise ValueError("broken")

    monkeypatch.setattr(GEMM, "launch", fail)
    with survey.on_simulator():
        cell = survey.outcome_of("trnblas", "gemm", "float32", "float32")
    assert cell == survey.Cell("refused", (), ("trnblas.gemm: the kernel failed",))


def test_operands_and_dtypes_are_converted_and_others_copied():
    x, z = torch.ones(2), torch.ones(2, dtype=torch.complex64)
    index = torch.arange(2)
    values = {"x": [x, 3.0], "dtype": torch.float32, "index": index}
    found = with_dtype(values, torch.float64)
    assert (found["x"][0].dtype, found["x"][1], found["dtype"]) == (
        torch.float64,
        3.0,
        torch.float64,
    )
    assert found["index"].dtype == torch.int64
    assert found["index"].data_ptr() != index.data_ptr()
    assert with_dtype(x, torch.float32).data_ptr() != x.data_ptr()
    mixed = with_dtype((z, x), torch.complex128)
    assert [part.dtype for part in mixed] == [torch.complex128, torch.float64]
    assert with_dtype(z, torch.int64).dtype == torch.int64


def test_draws_are_the_same_at_every_level():
    with survey.on_simulator():
        cells = {survey.outcome_of("trnrand", "normal", "float32", level) for level in LEVELS}
    assert cells == {survey.Cell("kernel", ("philox_normal",))}


@each_case(
    "library, name, dtype, reason",
    [
        ("trnfft", "stft", "complex64", "takes a real window"),
        ("trnsolver", "lu", "complex128", "does not take torch.complex128"),
    ],
)
def test_complex_operands_are_refused_and_not_silently_left_to_torch(library, name, dtype, reason):
    with on_simulator(library), requiring(library), pytest.raises(BackendError, match=reason):
        called(library, name, dtype)
