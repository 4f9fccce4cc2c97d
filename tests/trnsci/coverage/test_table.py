"""The coverage table as text, Markdown, HTML and JSON, and its command."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from trnsci.cli import main
from trnsci.core.backend.precision import LEVELS
from trnsci.core.examples import DTYPES, examples_of, public_functions
from trnsci.coverage import WORDS, Cell, Line, lines, render, summary, survey

KERNEL, REFUSED = Cell("kernel", ("gemm",)), Cell("refused", (), ("trnblas.gemm: not torch.int64",))
LONG = Cell("partly", ("a" * 19, "b" * 30), ("trnblas.gemm: too wide", "trnblas.syrk: too wide"))


def line(function, level="float32", case="", **cells):
    own = {dtype: cells.get(dtype, Cell("torch")) for dtype in DTYPES}
    return Line("trnblas", function, case, level, own)


FOUND = [
    line("gemm", float32=KERNEL, int64=REFUSED),
    line("gemm", "bfloat16", float32=KERNEL, int64=REFUSED),
    line("gemm", "float16x3", float32=LONG, int64=REFUSED),
    line("gemm", "doublefloat", float32=LONG, int64=REFUSED),
    line("a_name_of_twenty_seven_chars", case="<long>", float64=LONG),
]


@pytest.fixture
def listed(monkeypatch):
    """The lines of a library; test_survey.py is about what its calls do."""
    monkeypatch.setattr(survey, "outcome_of", lambda *example: LONG)
    return lines(["trntensor"])


def assert_120_wide(found):
    text = render(found, "text")
    assert max(map(len, text.splitlines())) <= 120
    assert summary(found) in text


@pytest.mark.slow
def test_the_table_of_a_library_is_120_wide():
    measured = lines(["trntensor"])
    assert_120_wide(measured)
    assert {cell.outcome for line in measured for cell in line.cells.values()} <= set(WORDS)


def test_text_is_120_wide_and_other_levels_are_shown_where_they_differ(listed):
    assert_120_wide(FOUND)
    assert_120_wide(listed)
    text = render(FOUND, "text").splitlines()
    assert [row[:30].rstrip() for row in text[4:7]][:2] == ["gemm", "  at float16x3, doublefloat"]
    assert text[4].split()[-1] == "gemm"
    assert sum(row.startswith("  at ") for row in text) == 1
    reasons = [row for row in text if re.match(r"\(\d\)", row)]
    assert reasons == ["(1) not this dtype", "(2) too wide"]


def test_a_dtype_that_nothing_accepts_has_no_column():
    error = Cell("error", (), ("dot: no",))
    found = [line("dot", int64=error), line("dot", "bfloat16", int64=error)]
    assert "int64" not in render(found, "text").splitlines()[2]
    assert "int64" in render([*found, line("gemm")], "text").splitlines()[2]


def test_markdown_names_the_kernels():
    rows = [row for row in render(FOUND, "md").splitlines() if row.startswith("| ")]
    assert rows[2] == "| `gemm` | torch | torch | `gemm` | torch | torch | torch | refused 1 |"
    assert rows[3].startswith("| at float16x3, doublefloat | torch | torch | `" + "a" * 19)
    assert rows[4].startswith("| `a_name_of_twenty_seven_chars`, <long> |")


def test_html_is_one_page_that_follows_the_width_and_the_colours_of_the_reader():
    page = render(FOUND, "html")
    assert "color-scheme: light dark" in page
    assert 'name="viewport"' in page
    assert "overflow-x: auto" in page
    assert '<td class="kernel">gemm</td>' in page
    assert "&lt;long&gt;" in page
    assert "{{" not in page
    assert not re.search(r"(src|href)=", page)


def test_json_has_every_line(listed):
    found = json.loads(render(listed, "json"))
    assert (found["dtypes"], found["levels"]) == (list(DTYPES), list(LEVELS))
    assert len(found["lines"]) == len(examples_of("trntensor")) * len(LEVELS)
    assert found["lines"] == json.loads(json.dumps([asdict(line) for line in listed]))
    shown = {line["function"] for line in found["lines"]}
    assert shown | set(found["left_out"]["trntensor"]) == set(public_functions("trntensor"))


def test_every_function_of_a_library_is_shown_or_left_out(listed):
    text = render(listed, "text")
    missing = [
        name for name in public_functions("trntensor") if not re.search(rf"\b{name}\b", text)
    ]
    assert not missing


def test_the_command_writes_a_file_and_refuses_unknown_libraries(tmp_path, monkeypatch, listed):
    asked = []
    monkeypatch.setattr("trnsci.coverage.lines", lambda names, *_: asked.extend(names) or listed)
    file = tmp_path / "coverage.json"
    run = CliRunner().invoke(
        main, ["coverage", "--lib", "trntensor", "--format", "json", "--output", str(file)]
    )
    assert (run.exit_code, run.output.strip()) == (0, str(file))
    assert asked == ["trntensor"]
    assert file.read_text() == render(listed, "json")
    run = CliRunner().invoke(main, ["coverage", "--lib", "trnblass"])
    assert (run.exit_code, "trnblas" in run.output) == (2, True)
    lost = tmp_path / "no" / "folder"
    run = CliRunner().invoke(main, ["coverage", "--lib", "trntensor", "--output", str(lost)])
    assert (run.exit_code, "cannot write" in run.output) == (2, True)
