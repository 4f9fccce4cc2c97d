"""A text in place of a file: ``check_source(source=)``, and ``-`` of ``check`` and ``judge``."""

from __future__ import annotations

import gc
import json
import linecache
from itertools import pairwise

import pytest
from click.testing import CliRunner

import nkisim
from nkisim.cli import commands

TEXT = """\
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
def double(x: nt.tensor[256, 64]):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 128):
        tile = nl.load(x[i * 128 : i * 128 + 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nl.store(out[i * 128 : i * 128 + 128], tile)
    return out


@nki.jit
def same(x: nt.tensor[128, 64]):
    return x
"""
FLAWED = TEXT.replace("operand0=", "scalar=").replace("// 128", "/ 128")


def run(line, text=None):
    result = CliRunner().invoke(commands, line, input=text, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


@pytest.mark.parametrize("text", [TEXT, FLAWED], ids=["right", "flawed"])
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_check_of_stdin_is_that_of_the_file(tmp_path, monkeypatch, text, form):
    (tmp_path / "kernel.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    status, report = run(["check", "kernel.py", "--format", form])
    given_status, given = run(["check", "-", "--format", form], text)
    assert given_status == status == (text is FLAWED)
    assert given.split() == report.replace("kernel.py", "-").split()  # marks are moved to the left
    rows = given.splitlines()
    for mark, row in [(mark, row) for row, mark in pairwise(rows) if set(mark) == {" ", "^"}]:
        assert row[mark.index("^") : len(mark)] == "2.0"


def test_a_kernel_of_stdin_its_fixes_and_its_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.nkisim]\nignore = ["L019", "A025"]\n')
    _, one = run(["check", "--format", "json", "--", "-::same"], FLAWED)
    assert [kernel["name"] for kernel in json.loads(one)["kernels"]] == ["same"]
    _, ignored = run(["check", "-", "--source-only"], FLAWED)
    assert "L019" not in ignored
    (tmp_path / "pyproject.toml").unlink()
    _, diff = run(["check", "-", "--diff"], FLAWED)
    assert "+        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)" in diff
    assert "+++ b/-" in diff
    for option in ("--fix", "--watch"):
        with pytest.raises(Exception, match="need a file"):
            run(["check", "-", option], TEXT)
    assert [*tmp_path.iterdir()] == []


def test_judge_of_stdin_is_that_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.py").write_text("def doubled(x):\n    return 2 * x\n")
    (tmp_path / "kernel.py").write_text(FLAWED)
    options = ["--reference", "reference.py::doubled", "--format", "json", "--seed", "1"]
    verdicts = []
    for name, text in (("kernel.py", None), ("-", FLAWED)):
        status, verdict = run(["judge", *options, "--", f"{name}::double"], text)
        verdicts.append(json.loads(verdict) | {"file": "", "seconds": 0})
        assert status == 1
    changed = json.dumps(verdicts[0]).replace(str(tmp_path / "kernel.py"), "-")
    assert json.loads(changed.replace("kernel.py", "-")) == verdicts[1]


def test_check_source_of_a_text_is_that_of_the_file(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(FLAWED)
    of_file, of_text = nkisim.check_source(file), nkisim.check_source(source=FLAWED)
    other = nkisim.check_source(source=TEXT)
    gc.collect()  # the text is there as long as its report
    name = of_text.findings[0].file
    assert str(of_text) == str(of_file).replace(str(file), name)
    assert other.ok
    del of_text
    gc.collect()
    assert name not in linecache.cache


def test_check_source_takes_one_of_both():
    for given in ({}, {"path": "kernel.py", "source": TEXT}):
        with pytest.raises(TypeError, match="one of path and source"):
            nkisim.check_source(**given)
    with pytest.raises(SyntaxError):
        nkisim.check_source(source="def kernel(:\n")
    assert "no function with @nki.jit" in nkisim.check_source(source="").stopped
    assert nkisim.check_source(source=TEXT, kernel="same").ok
