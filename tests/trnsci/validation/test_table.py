"""The table: one row per kernel in the tree, red where something is wrong."""

import dataclasses
import importlib
import json

import pytest

from browser import browse, needs_browser
from each_case import each_case
from trnsci.core.evidence import kernels_of
from trnsci.validation import Record, render, rows, write_record
from trnsci.validation.record import fingerprint
from trnsci.validation.table import summary


@pytest.fixture
def folder(tmp_path):
    for source in kernels_of("trnblas"):
        record = Record(
            "trnblas",
            source.name,
            source.name,
            "passed",
            reference="a <reference>",
            error=1e-7,
            bound=1e-5,
            launches=1,
            generations={"gen2": [], "gen3": [], "gen4": []},
            fingerprint=fingerprint("trnblas"),
            stamp={"date": "2026-01-02T03:04:05+00:00"},
        )
        write_record(record, tmp_path)
    return tmp_path


def change(folder, kernel, **changes):
    path = folder / f"trnblas.{kernel}.json"
    write_record(dataclasses.replace(Record.from_json(path.read_text()), **changes), folder)


def states(folder):
    return {row.kernel: row.status for row in rows(folder, ["trnblas"])[0]}


def test_every_kernel_has_a_row_and_all_are_green(folder):
    assert set(states(folder)) == {source.name for source in kernels_of("trnblas")}
    assert set(states(folder).values()) == {"passed"}


def test_what_is_wrong_shows_in_its_row(folder):
    change(folder, "gemm", status="failed", message="the result is off by 1")
    change(folder, "symm", fingerprint="of other sources")
    (folder / "trnblas.syrk.json").write_text("{")
    (folder / "trnblas.trsm.json").unlink()
    found = states(folder)
    assert found["gemm"] == "failed"
    assert found["symm"] == "stale"
    assert found["syrk"] == "unreadable"
    assert found["trsm"] == "not run"
    table, bad = rows(folder, ["trnblas"])
    assert "1 failed, 1 stale, 1 unreadable, 1 not run" in summary(table)
    text = render(table, bad, "text")
    assert "trnblas.gemm: the result is off by 1" in text
    assert "trnblas.syrk.json" in text


def test_a_finding_is_named_in_its_generation(folder):
    change(folder, "gemm", generations={"gen2": ["M001"], "gen3": []}, status="failed")
    (row,) = (row for row in rows(folder, ["trnblas"])[0] if row.kernel == "gemm")
    assert row.cells()[8:11] == ("M001", "clean", "-")


def test_a_kernel_launched_by_itself_says_so(folder):
    change(folder, "gemm", public=False)
    change(folder, "symm", launches=0)
    reached = {row.kernel: row.reached for row in rows(folder, ["trnblas"])[0]}
    assert (reached["gemm"], reached["symm"], reached["trsm"]) == ("itself", "-", "set_backend")


def test_hardware_is_pending_until_there_is_a_record(folder, tmp_path, monkeypatch):
    device = tmp_path / "device"
    made = {"date": "2026-03-04T00:00:00+00:00", "instance": "trn2.3xlarge", "sdk": "2.29.1"}
    write_record(Record("trnblas", "gemm", "GEMM", "passed", stamp=made), device)
    monkeypatch.setattr("trnsci.validation.record.HARDWARE", device)
    found = {row.kernel: row.hardware for row in rows(folder, ["trnblas"])[0]}
    assert found["gemm"] == "passed 2026-03-04, trn2.3xlarge, 2.29.1"
    assert found["symm"] == "pending"


def test_a_narrow_terminal_gets_the_columns_that_fit(folder):
    found = rows(folder, ["trnblas"])
    whole = render(*found, "text").splitlines()
    widest = max(map(len, whole))
    assert render(*found, "text", width=widest).splitlines() == whole
    lines = render(*found, "text", width=70).splitlines()
    assert max(len(line) for line in lines[: 2 + len(found[0])]) <= 70
    assert lines[0].split() == ["library", "kernel", "simulator", "gen2", "gen3", "gen4"]
    notes = " ".join(line.strip() for line in lines[2 + len(found[0]) :])
    assert (
        "not shown, the line is too narrow: what, reached by, dtypes, reference, rel. error"
        in notes
    )
    assert "; --wide shows all" in notes
    assert max(map(len, lines)) <= 70
    # What must be shown is not left out, however narrow the terminal.
    assert render(*found, "text", width=10).splitlines()[0] == lines[0]


def test_what_is_wrong_is_red(folder):
    change(folder, "gemm", status="failed", message="off")
    change(folder, "symm", fingerprint="of other sources")
    painted = render(*rows(folder, ["trnblas"]), "text", colour=True).splitlines()
    (red,) = (line for line in painted if line.startswith("\x1b[31m"))
    (yellow,) = (line for line in painted if line.startswith("\x1b[33m"))
    assert " gemm " in red
    assert " symm " in yellow
    assert "\x1b" not in render(*rows(folder, ["trnblas"]), "text")


NAMED = {
    "trnfft": ("butterfly FFT", "complex mask"),
    "trnblas": ("GEMM", "batched GEMM", "complex GEMM", "fused MP2 energy"),
    "trnrand": ("Philox 4x32-10", "Box-Muller from Philox"),
    "trnsolver": ("Jacobi eigh", "Jacobi eigh: rotate_pairs"),
    "trnsparse": ("SpMM gather-matmul-scatter",),
    "trntensor": ("fused einsum",),
}


@each_case("library", NAMED)
def test_the_kernels_of_the_suite_have_rows_of_their_names(library):
    module = importlib.import_module(f"{library}.evidence")
    titles = {case.title: case.kernel for case in module.CASES}
    kernels = {source.name for source in kernels_of(library)}
    assert {titles[title] for title in NAMED[library]} <= kernels


def test_markdown_has_a_line_per_kernel(folder):
    lines = render(*rows(folder, ["trnblas"]), "md").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(kernels_of("trnblas"))
    assert len({line.count("|") for line in table}) == 1


def test_json_is_data(folder):
    content = json.loads(render(*rows(folder, ["trnblas"]), "json"))
    assert {row["status"] for row in content["rows"]} == {"passed"}
    assert content["rows"][0]["record"]["bound"] == 1e-5


def test_the_page_is_whole_and_escapes_what_it_shows(folder):
    change(folder, "gemm", status="failed", message="<script>alert(1)</script>")
    page = render(*rows(folder, ["trnblas"]), "html")
    assert "{{" not in page
    assert "<script>alert" not in page
    assert "a &lt;reference&gt;" in page
    assert "http" not in page
    assert page.count('class="failed"') == 1


@needs_browser
def test_the_page_opens_in_a_browser(folder, tmp_path):
    change(folder, "gemm", status="failed", message="off")
    page = tmp_path / "status.html"
    page.write_text(render(*rows(folder, ["trnblas"]), "html"))
    seen = browse(page.as_uri(), tmp_path / "user")
    assert seen.dom.count('tabindex="0"') == len(kernels_of("trnblas"))
    assert seen.console == []
    assert seen.asked == set()
