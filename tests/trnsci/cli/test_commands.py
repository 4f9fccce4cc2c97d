"""The command ``trnsci``: exit codes, output, files."""

import json

import pytest
from click.testing import CliRunner

from fresh_process import printed_by
from trnsci.cli import main
from trnsci.cli.bench import draw

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
    import trnblas._launches as launches

    right = launches.symm
    monkeypatch.setattr(launches, "symm", lambda launch, *operands: -right(launch, *operands))
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
        (("validate", "--kernel", "gem"), "no kernel is called gem"),
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
    assert "'.[torch]'" in found["use the libraries"][1]
    assert found["run kernels on a NeuronCore"][0] == "no"


def test_benchmarks_are_listed(trnsci):
    assert {"blas", "fft", "rand", "simulator"} <= set(trnsci("bench", "--list").output.split())


def test_the_latest_results_are_drawn(tmp_path):
    results = tmp_path / "toy.csv"
    results.write_text(
        "date,problem,contender,wall_p50_s\n"
        "1,gemm,ours,9e-3\n1,gemm,theirs,1e-3\n2,gemm,ours,2e-3\n2,gemm,theirs,1e-3\n"
    )
    picture = draw(results, tmp_path / "charts")
    text = picture.read_text()
    assert picture.name == "toy.svg"
    assert text.count("gemm: ") == 2
    assert "<svg" in text


def test_help_needs_neither_torch_nor_a_simulator():
    code = """
import sys
from trnsci.cli import main
print(json.dumps([name for name in ("torch", "numpy", "matplotlib") if name in sys.modules]))
"""
    assert printed_by(code) == []
