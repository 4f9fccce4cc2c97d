"""docs/precision-figures.md is made of its record, which has what the libraries compute now."""

import json
import math
import sys
from pathlib import Path

import pytest

from each_case import each_case
from trnsci.core.examples import examples_of

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

from gen_coverage import at_doublefloat  # noqa: E402
from gen_precision import GROWTH, PAGE, RECORD, Timed, cell, measured, page  # noqa: E402

from trnsci.coverage import Cell, Line  # noqa: E402

FIGURES = json.loads(RECORD.read_text(encoding="utf-8"))
RUN = "run `python tools/gen_precision.py --record`"


def test_the_page_is_made_of_the_record():
    assert PAGE.read_text(encoding="utf-8") == page(FIGURES), "run `python tools/gen_precision.py`"


def check(library, names):
    """Figures are those of the record, up to rounding errors of other machines."""
    found = dict(measured(library, names))
    assert found.keys() == {name for name in names if name in FIGURES[library]}, RUN
    for name, levels in found.items():
        known = FIGURES[library][name]
        assert levels.keys() == known.keys(), RUN
        for level, figure in levels.items():
            for key in ("kernels", "partly"):
                assert figure[key] == known[level][key], f"{name} at {level}: {RUN}"
            assert figure["us"] == pytest.approx(known[level]["us"], rel=0.05), RUN
            errors = figure["error"], known[level]["error"]
            assert (errors[0] is None) == (errors[1] is None)
            # The last digits of an error depend on the order of torch's own sums.
            if errors[0] and min(errors) > 2.0**-46:
                assert abs(math.log10(errors[0] / errors[1])) <= 0.5, f"{name} at {level}: {RUN}"


def test_figures_of_some_functions_are_current():
    check("trnblas", ["gemm", "iamax"])
    check("trnfft", ["rfft"])


@pytest.mark.slow
@each_case("library", GROWTH)
def test_figures_of_every_function_are_current(library):
    check(library, examples_of(library))


@each_case("library", GROWTH)
def test_doublefloat_has_its_digits(library):
    """Thirteen, of which vectors lose one or two by the gaps of their values."""
    for name, levels in FIGURES[library].items():
        assert (levels.get("doublefloat", {}).get("error") or 0) <= 1e-11, name


def test_a_time_is_that_of_the_launches_of_a_call():
    import torch

    import trnblas
    from trnsci.core.backend.launch import SIMULATE

    timed, a = Timed(), torch.eye(8)
    with trnblas.backend("simulator"), SIMULATE.scope(timed):
        trnblas.gemm(1.0, a, a)
        first = timed.us
        trnblas.gemm(1.0, a, a)
    assert 0 < first < timed.us == 2 * first


def test_a_level_that_runs_what_float32_runs_has_no_cell():
    base = {"error": 1e-7, "us": 10.0, "kernels": ["gemm"], "partly": False}
    assert cell(base, base) == "7.0"
    assert cell(dict(base), base) == ""
    other = {"error": 1e-14, "us": 25.0, "kernels": ["doublefloat_gemm"], "partly": True}
    assert cell(other, base) == "14.0, 2.5x, partly"
    assert cell({**other, "error": None}, {}) == "no digits, partly"


def line(function, level, outcome, reasons=()):
    kernels = ("doublefloat_gemm",) * (outcome in ("kernel", "partly"))
    cells = {"float64": Cell(outcome, kernels, reasons), "complex128": Cell("error")}
    return Line("trnsolver", function, "", level, cells)


def test_the_share_counts_functions_that_have_a_kernel():
    found = [
        line("solve", "doublefloat", "kernel"),
        line("eigsh", "doublefloat", "partly", ("trnrand.draw: no float64",)),
        line("matrix_power", "float32", "kernel"),
        line("matrix_power", "doublefloat", "refused", ("trnsolver.matrix_power: no level",)),
        line("schur", "doublefloat", "torch"),
    ]
    (row,) = at_doublefloat(found)
    assert row == ("trnsolver", "3", "1, 33%", "`eigsh`: no float64; `matrix_power`: no level")
