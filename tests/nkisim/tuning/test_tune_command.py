"""nkisim tune: what it prints and writes, and its exit status."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import nkisim
from nkisim.cli import commands

from .tuned_kernels import matrix, product

FILE = Path(__file__).with_name("tuned_kernels.py")
PRODUCT = (f"{FILE}::product", "--shapes", "a=f32[256,128] b=f32[256,512]")
SPACE = ("--space", "COLUMNS=128,512,1024  K=64,128")


def run(*arguments, jobs="1"):
    call = ["tune", *map(str, arguments), "--jobs", jobs]
    done = CliRunner().invoke(commands, call, standalone_mode=False)
    if isinstance(done.exception, click.ClickException):
        return done.exception.exit_code, done.stdout, done.exception.format_message()
    assert done.exception is None, repr(done.exception)
    return done.return_value, done.stdout, done.stderr


def test_other_processes_import_a_file_that_imports_nki(tmp_path):
    path = tmp_path / "doubling.py"
    path.write_text(
        "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef double(x, FACTOR, KIND):\n"
        "    out = nl.ndarray(x.shape, dtype=KIND, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.multiply(nl.load(x, dtype=KIND), FACTOR))\n    return out\n"
    )
    call = (
        f"{path}::double",
        "--shapes",
        "x=f32[128,64]",
        "--space",
        "FACTOR=2.0,4.0 KIND=f32,bf16",
    )
    status, text, _ = run(*call, "--format", "json", jobs="2")
    assert status == 0
    (found,) = json.loads(text)["tunings"]
    values = [tuple(variant["values"].values()) for variant in found["variants"]]
    assert values == [(2.0, "float32")]
    assert found["agreement"].startswith(
        "those of the first legal variant, FACTOR=2.0 KIND=float32:"
    )
    reasons = [dropped["reason"] for dropped in found["dropped"]]
    assert "output 0 is bfloat16, and the narrowest input is float32" in reasons[0]
    assert "8192 elements are wrong; output 0 at (" in reasons[1]


def test_a_reference_is_named_as_for_judge(tmp_path):
    home = tmp_path / "reference.py"
    home.write_text(
        "def product(a, b):\n    return a.T @ b\n\n\ndef sums(a, b):\n    return a.T @ b + 1\n"
    )
    status, text, _ = run(*PRODUCT, *SPACE, "--reference", f"{home}::product")
    assert status == 0
    assert "outputs of the first line: those of the reference: at most" in text
    status, text, err = run(*PRODUCT, *SPACE, "--reference", f"{home}::sums")
    assert (status, text) == (1, "")
    assert "computes something else than the reference: 65536 elements are wrong" in err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_ranking_is_that_of_the_function(jobs):
    status, text, _ = run(*PRODUCT, *SPACE, "--format", "json", jobs=jobs)
    assert status == 0
    (found,) = json.loads(text)["tunings"]
    expected = nkisim.tune(product, {"COLUMNS": [128, 512, 1024], "K": [64, 128]})(
        matrix(256, 128), matrix(256, 512)
    )
    times = [(v["values"], v["latency_us"]) for v in found["variants"]]
    assert times == [(v.values, v.latency_us) for v in expected.variants]
    assert [d["reason"] for d in found["dropped"]] == [d.reason for d in expected.dropped]


def test_a_parameter_of_the_space_needs_no_default(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(FILE.read_text().replace("ROWS=128, COLUMNS=512, K=128", "ROWS, COLUMNS, K"))
    space = ("--space", "ROWS=64,128 COLUMNS=512 K=128")
    status, text, _ = run(f"{file}::product", *PRODUCT[1:], *space)
    assert status == 0
    assert text.splitlines()[4].split()[:3] == ["128", "512", "128"]


def test_the_page(tmp_path):
    status, _, _ = run(*PRODUCT, *SPACE, "--html", tmp_path / "tune.html")
    assert status == 0
    page = (tmp_path / "tune.html").read_text()
    assert page.count("<circle") == 4
    assert "COLUMNS=512 K=128" in page
    assert "2 dropped" in page


def test_no_legal_variant():
    status, text, err = run(*PRODUCT, "--space", "COLUMNS=1024,2048")
    assert (status, text) == (1, "")
    assert "no variant of product is legal and right" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*PRODUCT, "--space", ""), "space: it is empty"),
        ((*PRODUCT, "--space", "COLUMNS="), "space: COLUMNS has no values"),
        ((*PRODUCT, *SPACE, "--reference", str(FILE)), "accepted: FILE::FUNCTION"),
        ((*PRODUCT, *SPACE, "--reference", f"{FILE}::none"), "has no function none"),
        ((*PRODUCT, "--space", "TILE=1,2"), "has a parameter 'TILE'"),
        ((*PRODUCT, "--space", "COLUMNS=a,b"), "COLUMNS=a,b are not constants"),
        ((*PRODUCT, "--space", "COLUMNS=1 COLUMNS=2"), "'COLUMNS' is given twice"),
        ((*PRODUCT, "--space", "1,2"), "is no name of a parameter"),
        ((str(FILE), "--space", "K=1"), "tune takes one kernel"),
        (("none.py::product", "--space", "K=1"), "does not exist"),
    ],
)
def test_mistakes_on_the_command_line(arguments, message):
    status, text, err = run(*arguments)
    assert (status, text) == (2, "")
    assert message in err


def test_nothing_to_tune():
    status, _, err = run(f"{FILE}::product", "--space", "K=64,128")
    assert status == 3
    assert "product was not run, no value for a, b" in err
