"""The command ``trnsci``: exit codes, output, files."""

import json
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner

from fresh_process import printed_by
from trnsci.cli import main
from trnsci.cli.bench import draw, read_results

QUICK = ("validate", "--quick", "--lib", "trnblas", "--kernel", "symm")


@pytest.fixture
def trnsci(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(
            main, [*arguments], env={"TRNSCI_RECORDS": str(tmp_path)}, catch_exceptions=False
        )

    return run


def test_validate_then_status(trnsci, tmp_path):
    first = trnsci(*QUICK)
    assert first.exit_code == 0
    assert first.output == f"1 of 1 kernels passed, 0 of them before; records in {tmp_path}\n"
    assert "1 of 1 kernels passed, 1 of them before" in trnsci(*QUICK).output
    assert "0 of them before" in trnsci(*QUICK, "--again").output
    shown = trnsci("status", "--lib", "trnblas", "--format", "json")
    assert shown.exit_code == 0
    found = {row["kernel"]: row["status"] for row in json.loads(shown.output)["rows"]}
    assert found.pop("symm") == "passed"
    assert set(found.values()) == {"not run"}


def test_a_broken_kernel_turns_its_row_red(trnsci, monkeypatch):
    from trnblas.symmetric import SYMM

    right = SYMM.launch
    monkeypatch.setattr(SYMM, "launch", lambda launch, *operands: -right(launch, *operands))
    found = trnsci(*QUICK)
    assert found.exit_code == 1
    assert "trnblas.symm failed: the result is off by 2, allowed" in found.output
    shown = trnsci("status", "--lib", "trnblas")
    assert shown.exit_code == 1
    assert "FAILED" in next(line for line in shown.output.splitlines() if " symm " in line)


def test_a_corrupt_record_is_reported_and_made_anew(trnsci, tmp_path):
    (tmp_path / "trnblas.symm.json").write_text("{")
    shown = trnsci("status", "--lib", "trnblas")
    assert shown.exit_code == 1
    assert "unreadable" in shown.output
    assert trnsci(*QUICK).exit_code == 0
    assert trnsci("status", "--lib", "trnblas").exit_code == 0


def test_status_fits_120_columns_unless_wide_is_asked_for(trnsci, tmp_path):
    assert trnsci(*QUICK).exit_code == 0
    (tmp_path / "trnblas.gemm.json").write_text("{")  # has a long note
    lines = trnsci("status").output.splitlines()
    assert max(map(len, lines)) <= 120
    assert "; --wide shows all" in " ".join(" ".join(lines).split())
    wide = trnsci("status", "--wide").output.splitlines()
    assert max(map(len, wide)) > 120
    assert set(lines[0].split()) < set(wide[0].split())
    assert "time gen4" in wide[0]
    page = tmp_path / "status.txt"
    trnsci("status", "--output", str(page))
    assert page.read_text().splitlines() == lines


def test_status_writes_a_page(trnsci, tmp_path):
    page = tmp_path / "page.html"
    found = trnsci("status", "--format", "html", "--output", str(page))
    assert found.exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate", "--lib", "cublas"), "--lib: got 'cublas', accepted: trnblas, "),
        (("validate", "--kernel", "gem"), "no kernel is called 'gem'; did you mean 'gemm'?"),
        (("validate", "--lib", "trnrand", "--kernel", "gemm"), "no kernel of trnrand is called"),
        (("validate", "--records", "/dev/null/x"), "--records: cannot write to /dev/null/x: "),
        (("status", "--output", "/dev/null/x"), "--output: cannot write /dev/null/x: "),
        (("validate", "--target", "trn9"), "--target: "),
        (("validate", "--jobs", "0"), "0 is not in the range"),
        (("validate", "--on", "device"), "--on device: no NeuronCore can be reached"),
        (("status", "--format", "pdf"), "'pdf' is not one of"),
        (("bench", "nothing"), "got 'nothing', accepted: "),
        (("valdiate",), "No such command 'valdiate'"),
    ],
)
def test_wrong_usage_ends_with_2(trnsci, arguments, said):
    found = trnsci(*arguments)
    assert found.exit_code == 2
    assert said in found.output


def test_kernels_are_listed_with_their_levers(trnsci):
    text = trnsci("kernels", "--lib", "trnblas").output
    assert "trnblas.gemm   trnblas._kernels.gemm" in text
    assert "reuse in SBUF" in text
    data = json.loads(trnsci("kernels", "--format", "json").output)
    assert {"trnblas", "trnfft", "trnrand"} <= {entry["library"] for entry in data}
    assert all(entry["lever"] for entry in data)


def test_doctor_says_what_works_and_how_to_get_the_rest(trnsci, monkeypatch):
    monkeypatch.setenv("TRNBLAS_USE_SIMULATOR", "1")
    text = trnsci("doctor").output
    assert "[ok] run kernels on the simulator" in text
    assert "[ok] use the libraries: torch" in text
    assert "TRNBLAS_USE_SIMULATOR=1" in text


def test_doctor_without_torch_names_the_remedy():
    code = """
import sys
sys.modules["torch"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else real(name, *rest)
from trnsci.cli.doctor import diagnoses
print(json.dumps([(d.what, d.state, d.remedy) for d in diagnoses()]))
"""
    found = {what: (state, remedy) for what, state, remedy in printed_by(code)}
    assert found["use the libraries"][0] == "no"
    assert "'nkisim[torch]'" in found["use the libraries"][1]
    assert found["run kernels on a NeuronCore"][0] == "no"


def test_benchmarks_are_listed(trnsci):
    assert {"blas", "fft", "rand", "simulator"} <= set(trnsci("bench", "--list").output.split())


RESULTS = """\
date,commit,machine,python,problem,contender,wall_p50_s
2026-01-01T00:00:00,aa,one,3.11,gemm,trnblas,9e-3
2026-01-01T00:00:00,aa,one,3.11,gemm,mm,1e-3
2026-01-02T00:00:00,bb,two,3.11,gemm,trnblas,2e-3
2026-01-02T00:00:00,bb,two,3.11,gemm,scipy,8e-3
2026-01-02T00:00:00,bb,two,3.11,gemm,mm,4e-3
2026-01-02T00:00:00,bb,two,3.11,draw <b>,philox,6e-6
2026-01-02T00:00:00,bb,two,3.11,draw <b>,philox plain,1e-6
2026-01-02T00:00:00,bb,two,3.11,draw <b>,threefry,1e-6
2026-01-02T00:00:00,bb,two,3.11,draw <b>,torch,3e-6
2026-01-02T00:00:00,bb,two,3.11,alone,nkisim,3e-6
"""


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "toy.csv"
    path.write_text(RESULTS)
    return path


def test_the_last_run_counts_and_its_strongest_baseline(results):
    gemm, draws = read_results(results)
    assert (gemm.rival, gemm.ratio, gemm.date, gemm.machine) == ("mm", 0.5, "2026-01-02", "two")
    assert (draws.rival, draws.ratio) == ("torch", pytest.approx(2.0))


def test_results_are_drawn(results, tmp_path):
    picture = draw(results, tmp_path / "charts")
    assert picture.name == "toy.svg"
    root = ElementTree.fromstring(picture.read_text())
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["gemm: 0.50 times as long as mm", "draw <b>: 2.00 times as long as torch"]
    bars = [float(r.get("width")) for r in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert bars[0] == bars[1]  # half and twice are equally far from 1
    assert "currentColor" not in picture.read_text()


def test_what_is_no_table_is_said(tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_text("date,problem\n1,gemm\n")
    with pytest.raises(click.ClickException, match=r"broken\.csv: not a table of results"):
        draw(broken, tmp_path)


def test_charts_that_cannot_be_written_are_said(results, tmp_path):
    with pytest.raises(click.ClickException, match="--draw: "):
        draw(results, results)  # a file where the folder would be


def test_help_needs_neither_torch_nor_a_simulator():
    code = """
import sys
from trnsci.cli import main
print(json.dumps([name for name in ("torch", "numpy", "matplotlib") if name in sys.modules]))
"""
    assert printed_by(code) == []
