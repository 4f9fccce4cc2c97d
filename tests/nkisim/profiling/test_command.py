"""``nkisim profile``: what it profiles, what it writes, and its exit status."""

import gzip
import json
import os
import re

import pytest
from click.testing import CliRunner

from nkisim.cli import commands

from .profile_cases import ENGINES, EXAMPLES, FILE

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"

REFUSED = """\
@nki.jit
def refused(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum)
    nisa.dma_copy(dst=tile, src=x)
    return out
"""

ENDLESS = """\
@nki.jit
def endless(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    while True:
        nisa.tensor_copy(dst=tile, src=tile)
"""

SPINNING = """\
@nki.jit
def spinning(x):
    while True:
        pass
"""

RAISING = """\
@nki.jit
def raising(x):
    return {}["nothing"]
"""

COPY = """\
@nki.jit
def copy(x):
    print("a line of the kernel")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""

SHAPES = ("--shapes", "x=f32[4,8]")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command in a folder with ``k.py`` of a text; returns status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("NKISIM_TARGET", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def profile(text, *arguments, file="k.py"):
        (tmp_path / "k.py").write_text(text)
        done = CliRunner().invoke(commands, ["profile", file, *arguments], standalone_mode=False)
        if done.exception is not None and hasattr(done.exception, "format_message"):
            return done.exception.exit_code, done.stdout, done.exception.format_message()
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout, done.stderr

    return profile


def test_kernels_with_examples_are_profiled_on_trn2(run):
    status, out, err = run(FILE + EXAMPLES)
    assert (status, err) == (0, "")
    assert out.startswith("product on gen3, NKI 0.3.0\n")
    assert "\ncritical path" in out


def test_a_stream_without_block_characters_gets_ascii(run, tmp_path):
    (tmp_path / "k.py").write_text(HEAD + COPY)
    done = CliRunner(charset="ascii").invoke(commands, ["profile", "k.py", *SHAPES])
    assert done.exception is None
    assert "|" in done.stdout
    assert done.stdout.isascii()


def test_generations_are_compared(run):
    status, out, _ = run(HEAD + COPY, *SHAPES, "--target", "trn1,trn2")
    assert status == 0
    assert re.findall(r"^copy on (\w+),", out, re.MULTILINE) == ["gen2", "gen3"]
    assert re.findall(r"^copy +(gen\d) ", out, re.MULTILINE) == ["gen2", "gen3"]


def test_the_table_of_several_files_names_them(run, tmp_path):
    (tmp_path / "other.py").write_text(HEAD + COPY)
    _, out, _ = run(HEAD + COPY, *SHAPES, "other.py", "--html", "page.html")
    assert re.findall(r"^(\S+)::copy +gen3 ", out, re.MULTILINE) == ["k.py", "other.py"]
    page = (tmp_path / "page.html").read_text()
    assert ">k.py::copy</a>" in page
    assert ">other.py::copy</a>" in page


def test_the_earlier_spelling_of_the_format_is_accepted(run):
    _, out, _ = run(HEAD + COPY, *SHAPES, "--json")
    assert out == run(HEAD + COPY, *SHAPES, "--format", "json")[1]


def test_the_target_all_is_every_generation(run):
    _, out, _ = run(HEAD + COPY, *SHAPES, "--target", "all", "--format", "json")
    assert [p["target"] for p in json.loads(out)["profiles"]] == ["gen2", "gen3", "gen4"]


def test_a_project_chooses_the_target(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.nkisim]\ntarget = "trn1"\n')
    assert run(HEAD + COPY, *SHAPES)[1].startswith("copy on gen2")


def test_one_kernel_is_selected_and_runs_on_two_cores(run):
    text = HEAD + COPY + "\n\n" + COPY.replace("def copy", "def other")
    _, out, _ = run(text, *SHAPES, "--json", file="k.py::other")
    assert [p["kernel"] for p in json.loads(out)["profiles"]] == ["other"]
    status, out, _ = run(text, *SHAPES, "--format", "json", file="k.py::copy[2]")
    (profile,) = json.loads(out)["profiles"]
    assert (status, profile["kernel"], len(profile["per_core"])) == (0, "copy", 2)
    # Both cores write the same rows, perhaps the same bytes: values are not computed.
    (found,) = profile["findings"]
    assert (found["rule"], found["severity"]) == ("C008", "warning")
    assert found["text"].startswith("warning[C008] ")


def test_json_alone_is_on_stdout(run):
    status, out, err = run(HEAD + COPY, *SHAPES, "--format", "json")
    assert (status, err) == (0, "a line of the kernel\n")
    (found,) = json.loads(out)["profiles"]
    assert found["kernel"] == "copy"
    assert found["transfers"] == 2
    assert set(found["engine_busy_us"]) == set(ENGINES)


def test_files_are_written(run, tmp_path):
    written = {"--trace": "t.json.gz", "--html": "r.html", "--output": "p.txt"}
    status, out, _ = run(FILE + EXAMPLES, *(part for pair in written.items() for part in pair))
    assert (status, out) == (0, "")
    assert json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "p.txt").read_text("utf-8").startswith("product on gen3")
    assert sorted(os.listdir(tmp_path)) == ["k.py", "p.txt", "r.html", "t.json.gz"]


def test_a_refused_kernel_is_status_1_with_its_findings(run):
    status, out, _ = run(HEAD + REFUSED, *SHAPES, "--target", "all")
    assert status == 1
    assert out.count("error[M018]") == 1
    assert "--> k.py:10   nisa.dma_copy(dst=tile, src=x)" in out
    assert "on    gen2, gen3, gen4" in out
    assert "on gen3: refused has no device time, 1 finding: 1 error" in out


def test_without_a_profile_reports_are_not_written(run, tmp_path):
    (tmp_path / "r.html").write_text("old")
    status, _, err = run(HEAD + REFUSED, *SHAPES, "--html", "r.html", "--trace", "t.json")
    assert status == 1
    assert "--html: no profile; r.html was not written" in err
    assert "--trace: no profile; t.json was not written" in err
    assert (tmp_path / "r.html").read_text() == "old"
    assert not (tmp_path / "t.json").exists()


def test_a_refused_kernel_does_not_hide_the_others(run):
    status, out, _ = run(HEAD + REFUSED + "\n\n" + COPY, *SHAPES, "--format", "json")
    assert status == 1
    found = json.loads(out)
    assert [p["kernel"] for p in found["profiles"]] == ["copy"]
    assert [(r["kernel"], r["target"]) for r in found["refused"]] == [("refused", "gen3")]
    assert [f["rule"] for f in found["findings"]] == ["M018"]


def test_an_endless_kernel_ends_at_the_limit(run):
    status, out, _ = run(HEAD + ENDLESS, *SHAPES, "--max-instructions", "500")
    assert status == 1
    assert "endless executes more than 500 instructions" in out


def test_a_kernel_without_instructions_ends_at_the_time_limit(run):
    status, out, _ = run(HEAD + SPINNING, *SHAPES, "--max-seconds", "0.1")
    assert status == 1
    assert "spinning exceeded the limit of 0.1 seconds; --max-seconds sets another" in out


def test_an_exception_of_the_kernel_names_its_line(run, tmp_path):
    status, out, _ = run(HEAD + RAISING, *SHAPES)
    assert status == 1
    assert re.search(r"raising raised KeyError: 'nothing' at .*k\.py:8", out)


def test_missing_arguments_are_status_3(run):
    status, out, err = run(FILE)
    assert (status, out) == (3, "")
    assert err.startswith("nkisim: product was not run, no value for a, b: give --shapes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "nothing was profiled: no function with @nki.jit"),
        ("def f(:\n", "k.py:1: not valid Python"),
        ("import no_such_module\n" + HEAD + COPY, "k.py cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_file_without_kernels_is_status_3(run, text, message):
    status, out, err = run(text, *(SHAPES if "@nki" in text else ()))
    assert (status, out) == (3, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "trn9"), "target: unknown platform 'trn9'; accepted: trn1"),
        (("--trace", "missing/t.json"), "--trace: cannot write missing/t.json: the folder"),
        (("--html", "."), "--html: cannot write .: it is a folder"),
        (("--output", "missing/p.txt"), "--output: cannot write missing/p.txt"),
        (("--trace", "a", "--html", "./a"), "--html: ./a is also the file of --trace"),
        (("--shapes", "y=f32[2]"), "no kernel of k.py has a parameter 'y'"),
        (("--shapes", "y=f99[2]"), "y has dtype 'f99'"),
        (("--shapes", "x=f32[2]"), "x is given twice"),
    ],
)
def test_wrong_usage_is_status_2_and_leaves_no_file(run, tmp_path, arguments, message):
    status, out, err = run(HEAD + COPY, *SHAPES, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert os.listdir(tmp_path) == ["k.py"]


@pytest.mark.parametrize("file", ["missing.py", "k.py::missing", "k.py::copy[3]"])
def test_an_unknown_file_or_kernel_is_status_2(run, file):
    assert run(HEAD + COPY, *SHAPES, file=file)[0] == 2
