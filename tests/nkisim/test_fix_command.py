"""``nkisim check --fix`` and ``--diff``: what is written, what is reported, and the exit status."""

import json
import linecache
import os

import pytest
from click.testing import CliRunner

from nkisim.cli import commands
from nkisim.diagnostics import Rewrite
from nkisim.filecheck import fixes

from .checker_cases import COMPREHENSION, EXAMPLES, GOOD, HEAD, UNWRITTEN, WARNED, write

SHAPES = ("--shapes", "x=f32[4,8]")
FIXED_WARNED = WARNED.replace("engine=5", "engine=nisa.engine.vector")


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Runs the command in an empty folder; returns exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, shapes=SHAPES):
        arguments = ["check", *map(str, arguments), *shapes]
        done = CliRunner().invoke(commands, arguments, standalone_mode=False)
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout, done.stderr

    return run


def test_fix_writes_and_reports_what_was_fixed_and_what_is_left(check, tmp_path):
    file = write(tmp_path, WARNED, UNWRITTEN)
    status, out, _ = check(file, "--fix")
    assert file.read_text() == HEAD + FIXED_WARNED + "\n\n" + UNWRITTEN.replace("MARK", "")
    assert status == 1
    assert out.startswith("fixed[A013] integer-enum at kernels.py:11: ")
    assert "error[M001]" in out
    assert "error[A013]" not in out
    assert "1 finding: 1 error, 1 fixed; checked 2 kernels" in out
    assert os.listdir(tmp_path) == ["kernels.py"]


def test_all_fixed_is_status_0(check, tmp_path):
    file = write(tmp_path, WARNED, COMPREHENSION)
    status, out, _ = check(file, "--fix", "--fail-on", "warning")
    assert status == 0
    assert "no findings, 2 fixed" in out
    before = file.stat()
    assert check(file, "--fix")[0] == 0
    assert file.stat().st_mtime_ns == before.st_mtime_ns  # nothing to fix, nothing written


def test_diff_changes_no_file(check, tmp_path):
    file = write(tmp_path, WARNED)
    text = file.read_text()
    status, out, err = check(file, "--diff", "--fail-on", "warning")
    assert status == 1
    assert file.read_text() == text
    assert out.startswith("--- a/kernels.py\n+++ b/kernels.py\n@@ ")
    assert "A013" in err
    rows = out.splitlines()[3:]
    (old,) = [row[1:] for row in rows if row.startswith("-")]
    (new,) = [row[1:] for row in rows if row.startswith("+")]
    assert text.replace(old, new) == HEAD + FIXED_WARNED


def test_fix_with_diff_writes_and_prints(check, tmp_path):
    file = write(tmp_path, WARNED)
    status, out, err = check(file, "--fix", "--diff")
    assert status == 0
    assert "+    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add, engine=nisa.en" in out
    assert "fixed[A013]" in err
    assert file.read_text() == HEAD + FIXED_WARNED


def test_json_has_the_fixed_findings(check, tmp_path):
    data = json.loads(check(write(tmp_path, WARNED), "--fix", "--format", "json")[1])
    assert data["findings"] == []
    assert [(f["rule"], f["file"], f["line"]) for f in data["fixed"]] == [
        ("A013", "kernels.py", 11)
    ]
    clean = json.loads(check(write(tmp_path, GOOD), "--format", "json")[1])
    assert clean["fixed"] == []


def test_only_selected_rules_are_fixed(check, tmp_path):
    file = write(tmp_path, WARNED, COMPREHENSION)
    check(file, "--fix", "--only", "A013")
    assert file.read_text() == HEAD + FIXED_WARNED + "\n\n" + COMPREHENSION


def test_silenced_findings_are_not_fixed(check, tmp_path):
    file = write(tmp_path, WARNED.replace("engine=5)", "engine=5)  # nkisim: ignore[A013]"))
    text = file.read_text()
    check(file, "--fix")
    assert file.read_text() == text


def test_only_the_named_files_change(check, tmp_path):
    helper = write(tmp_path, WARNED.replace("@nki.jit\n", ""), name="helper.py")
    kernel = "from helper import warned\n\n\n@nki.jit\ndef kernel(x):\n    return warned(x)\n"
    file = write(tmp_path, kernel)
    before = helper.read_text()
    status, out, _ = check(file, "--fix", "--fail-on", "warning")
    assert status == 1
    assert "--> helper.py:10" in out
    assert helper.read_text() == before
    status, out, _ = check(file, helper, "--fix", "--fail-on", "warning")
    assert status == 0
    assert helper.read_text() == before.replace("engine=5", "engine=nisa.engine.vector")


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: ("# -*- coding: latin-1 -*-\n# é\n" + text).encode("latin-1"),
        lambda text: b"\xef\xbb\xbf" + ("# é\n" + text).encode(),
        lambda text: ("# é ∑ 漢\n" + text).encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.replace("\n\n", "\n\x0c\n").encode(),
        lambda text: text.rstrip("\n").encode(),
    ],
)
def test_encodings_marks_and_line_endings_stay(check, tmp_path, encode):
    file = tmp_path / "kernels.py"
    file.write_bytes(encode(HEAD + WARNED))
    assert check(file, "--fix")[0] == 0
    assert file.read_bytes() == encode(HEAD + FIXED_WARNED)


def test_a_comment_that_would_be_lost_leaves_the_line(check, tmp_path):
    lost = COMPREHENSION.replace(
        "[t[:, i : i + 1] for i in range(2)]",
        "[\n        t[:, i : i + 1]  # a column\n        for i in range(2)\n    ]",
    )
    file = write(tmp_path, lost)
    status, out, _ = check(file, "--fix")
    assert status == 1
    assert file.read_text() == HEAD + lost
    assert "L006" in out


def rewritten_as(monkeypatch, change, rule=""):
    """Makes every rewrite of findings, or of those of one rule, another one."""
    plain = fixes.check_files

    def check_files(wanted, settings):
        ledger = plain(wanted, settings)
        for finding in ledger.findings:
            if finding.rewrite is not None and finding.rule.id.startswith(rule):
                finding.rewrite = change(finding.rewrite)
        return ledger

    monkeypatch.setattr(fixes, "check_files", check_files)


def test_a_fix_that_does_not_parse_is_reported(check, tmp_path, monkeypatch):
    file = write(tmp_path, WARNED)
    text = file.read_text()
    rewritten_as(monkeypatch, lambda r: Rewrite(r.file, r.first, r.last, "    t = ("))
    _, out, _ = check(file, "--fix")
    assert file.read_text() == text
    assert "no code: the result would not be valid Python" in out


VECTOR = "engine=nisa.engine.vector"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda line: line.replace("=5", "=six").replace("=3", "=5").replace("six", "3"),
            "have warning[A013]",
        ),
        (lambda line: line + "\n    t = t", "have warning[A013]"),
        (lambda line: line.replace("data1=t,", "data1=t[:, 0:4],"), "have error[S007]"),
        (lambda line: line.replace("engine=5", "engine=[][0]"), "stopped by IndexError"),
        (lambda line: line.replace("add, engine=5", f"subtract, {VECTOR}"), "other results"),
    ],
    ids=["undoes", "remains", "new error", "exception", "results"],
)
def test_a_fix_that_does_not_hold_is_reported_and_not_written(
    check, tmp_path, monkeypatch, change, reason
):
    file = write(tmp_path, WARNED, COMPREHENSION)

    def other(rewrite):
        line = linecache.getline(rewrite.file, rewrite.first).rstrip()
        return Rewrite(*(rewrite.file, rewrite.first, rewrite.first), change(line))

    rewritten_as(monkeypatch, other, "A013")
    status, out, _ = check(file, "--fix", "--format", "json")
    data = json.loads(out)
    assert status == 0
    assert [finding["rule"] for finding in data["fixed"]] == ["L006"]  # the other fix is written
    assert file.read_text().startswith(HEAD + WARNED)
    (left,) = data["findings"]
    assert left["rule"] == "A013"
    assert left["rewrite"] is None
    (note,) = left["notes"]
    assert note.startswith("no code: ")
    assert reason in note


def test_results_of_unseeded_arguments_are_not_compared(check, tmp_path):
    example = EXAMPLES.replace("NAME", "warned").replace("np.ones((4, 8),", "RANDOM.astype(")
    file = write(tmp_path, "RANDOM = np.random.default_rng().random((4, 8))", WARNED, example)
    _, out, _ = check(file, "--fix", shapes=())
    assert WARNED in file.read_text()
    assert "its arguments differ from run to run; seed their random numbers" in out


STOPPED = """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer="shared_hbm")
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer="sbuf")
    nisa.dma_copy(dst=t, src=x)
    LINE
    nisa.dma_copy(dst=out, src=t)
    return out
"""


@pytest.mark.parametrize(
    ("line", "fixed", "error"),
    [
        ("t += 1.0", ["A014", "A014", "L029"], ""),
        ("nisa.max8(dst=t, src=t[:, 0:4])", [], "S048"),
    ],
)
def test_what_a_fix_reveals_is_fixed_with_it_or_the_fix_is_not_written(
    check, tmp_path, line, fixed, error
):
    file = write(tmp_path, STOPPED.replace("LINE", line))
    before = file.read_text()
    data = json.loads(check(file, "--fix", "--format", "json")[1])
    assert sorted(finding["rule"] for finding in data["fixed"]) == fixed
    assert (file.read_text() == before) == (not fixed)
    assert all(error in note for finding in data["findings"] for note in finding["notes"])


RELATIVES = {
    "max8 of too few": ("t = nl.load(x)", "nisa.max8(dst=t, src=t[:, 4:12])"),
    "one side of a transposition": (
        "t = nl.ndarray((8, 4), dtype=x.dtype, buffer=nl.sbuf)",
        "nisa.dma_transpose(dst=t, src=x[0:16, 0:16])",
    ),
    "a range in pairs": ("t = nl.load(x)", "for i, j in enumerate(range(2)):\n        assert i"),
}


@pytest.mark.parametrize("name", RELATIVES)
def test_a_fixed_file_has_no_error_that_it_did_not_have(check, tmp_path, name):
    made, line = RELATIVES[name]
    file = write(tmp_path, STOPPED.replace("LINE", line).replace('"', "").replace("=s", "=nl.s"))
    text = file.read_text().replace("t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)", made)
    file.write_text(text.replace("    nisa.dma_copy(dst=t, src=x)\n", ""))
    before = json.loads(check(file, "--format", "json")[1])["findings"]
    after = json.loads(check(file, "--fix", "--format", "json")[1])["findings"]
    assert before
    assert {f["rule"] for f in after} <= {f["rule"] for f in before}


def test_a_file_that_cannot_be_written_is_status_4(check, tmp_path, monkeypatch):
    file = write(tmp_path, WARNED)
    text = file.read_text()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    status, out, err = check(file, "--fix")
    assert status == 4
    assert "kernels.py: cannot be written, nothing was changed: no permission to write" in err
    assert file.read_text() == text
    assert "fixed[" not in out


def test_a_file_that_is_saved_meanwhile_is_left(check, tmp_path, monkeypatch):
    file = write(tmp_path, WARNED)
    plain = fixes.check_files

    def saved_meanwhile(wanted, settings):
        file.write_text(HEAD + WARNED + "# saved\n")
        return plain(wanted, settings)

    monkeypatch.setattr(fixes, "check_files", saved_meanwhile)
    status, _, err = check(file, "--fix")
    assert status == 4
    assert "not fixed: it changed while it was checked" in err
    assert file.read_text() == HEAD + WARNED + "# saved\n"


def test_a_file_that_is_not_python_is_left_and_the_others_are_fixed(check, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import nki\nx = (\n")
    file = write(tmp_path, WARNED)
    status, out, _ = check(tmp_path, "--fix")
    assert status == 4
    assert "X002" in out
    assert broken.read_text() == "import nki\nx = (\n"
    assert file.read_text() == HEAD + FIXED_WARNED


BEYOND = """\
@nki.jit
def beyond(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[0:2], nl.load(x[6:8]))
    return out
"""


def test_a_slice_that_starts_past_the_end_is_left_as_it_is(check, tmp_path):
    file = write(tmp_path, BEYOND)
    text = file.read_text()
    status, out, _ = check(file, "--fix")
    assert status == 1
    assert file.read_text() == text
    assert "error[S009]" in out
    assert "fixed[" not in out
