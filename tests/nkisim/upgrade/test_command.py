"""``nkisim upgrade``: exit status, formats, encodings, files that cannot be read or written."""

import contextlib
import json
import os
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import nkisim.upgrade
from fresh_process import COMMANDS, forked
from nkisim.cli import commands
from nkisim.rewriting import SourceError, SourceText, write_source

OLD = 'import nki.language as nl\nt = nl.ndarray((1, 4), dtype=nl.float32, buffer="sbuf")\n'
NEW = OLD.replace('"sbuf"', "nl.sbuf")
LEFT = "import nki.language as nl\nnl.loop_reduce(1, 2, 3)\n"
CLEAN = "import os\n"
CHANGED = {"-": "psum_fmax", "+": "psum_bank_fmax"}


@pytest.fixture
def upgrade(tmp_path, monkeypatch):
    """Runs the command in an empty folder; returns exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = CliRunner().invoke(
            commands, ["upgrade", *map(str, arguments)], standalone_mode=False
        )
        if done.exception is not None and hasattr(done.exception, "format_message"):
            return done.exception.exit_code, done.stdout, done.exception.format_message()
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout, done.stderr

    return run


@pytest.mark.parametrize(
    ("text", "option", "status", "after"),
    [
        (OLD, (), 0, OLD),
        (OLD, ("--diff",), 0, OLD),
        (OLD, ("--check",), 1, OLD),
        (OLD, ("--write",), 0, NEW),
        (LEFT, (), 0, LEFT),
        (LEFT, ("--check",), 1, LEFT),
        (LEFT, ("--write",), 1, LEFT),
        (CLEAN, ("--check",), 0, CLEAN),
        ("import nki\nx = (\n", ("--write",), 1, "import nki\nx = (\n"),
    ],
)
def test_exit_status_and_files(upgrade, tmp_path, text, option, status, after):
    path = tmp_path / "k.py"
    path.write_text(text)
    assert upgrade("k.py", *option)[0] == status
    assert path.read_text() == after
    assert os.listdir(tmp_path) == ["k.py"]


@pytest.mark.parametrize("text", ["{}\n\x0c\nz = 1\n", "{}"], ids=["form feed", "no last newline"])
def test_a_diff_keeps_unusual_line_ends(upgrade, tmp_path, text):
    head, end = "import nki.language as nl\n", "\\ No newline at end of file\n" * (text == "{}")
    (tmp_path / "k.py").write_text(head + text.format("x = nl.tile_size.psum_fmax"))
    _, diff, _ = upgrade("k.py", "--from", "0.3", "--to", "0.4", "--diff")
    before, after = (f"{sign}x = nl.tile_size.{name}\n{end}" for sign, name in CHANGED.items())
    rest = "" if end else " \x0c\n z = 1\n"
    assert diff.partition("@@\n")[2] == f" {head}{before}{after}{rest}"


def test_text_diff_and_json(upgrade, tmp_path):
    (tmp_path / "k.py").write_text(OLD + "nl.loop_reduce(1, 2, 3)\n")
    _, out, err = upgrade("k.py")
    assert "k.py:2: MG-314 the buffer is nl.sbuf" in out
    assert "k.py:3: MG-127 to do: nl.loop_reduce was removed" in out
    assert err == "1 file read, 1 would change (1 rewrite), 1 finding left\n"
    assert (
        "+t = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.sbuf)" in upgrade("k.py", "--diff")[1]
    )
    data = json.loads(upgrade("k.py", "--format", "json")[1])
    assert data["to"] == "0.3.0"
    assert [c["rule"] for c in data["files"][0]["changes"]] == ["MG-314"]
    assert [f["rule"] for f in data["files"][0]["findings"]] == ["MG-127"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.py",), "'missing.py' does not exist"),
        ((".", "--to", "0.8"), "--to: got '0.8', accepted: 0.3.0, 0.4.0, 0.5.0, 0.6.0, 0.7.0"),
        ((".", "--from", "0.5", "--to", "0.4"), "--from 0.5 is newer than --to 0.4.0"),
        ((".", "--from", "0.4"), "--from 0.4 is newer than --to 0.3.0"),
        ((".", "--from", "0.9"), "'0.9' is not one of"),
        ((".", "--write", "--check"), "exclude each other"),
        ((".", "--verify", "--target", "trn9"), "trn9"),
        ((".", "--shapes", "x=f32[4,4]"), "--shapes are arguments for --verify"),
        ((".", "--verify", "--shapes", "x=f99[4]"), "f99"),
    ],
)
def test_mistakes_on_the_command_line(upgrade, arguments, message):
    status, _, err = upgrade(*arguments)
    assert status == 2
    assert message in err


def test_versions_have_two_or_three_numbers(upgrade, tmp_path):
    (tmp_path / "k.py").write_text("import nki.language as nl\nfor k in nl.affine_range(4): pass\n")
    for since, target in (("0.5", "0.6"), ("0.5.0", "0.6.0"), ("0.3.0", "0.6")):
        status, out, _ = upgrade("k.py", "--from", since, "--to", target)
        assert status == 0
        assert "k.py:2: MG-603" in out
    assert upgrade("k.py", "--from", "0.3", "--to", "0.5")[1] == ""


@pytest.mark.parametrize(
    "data",
    [
        ("# -*- coding: latin-1 -*-\n" + OLD + "# é\n").encode("latin-1"),
        b"\xef\xbb\xbf" + (OLD + "# é\n").encode(),
        (OLD + "# é ∑ 漢\nx = 'ü'\n").encode(),
        OLD.replace("\n", "\r\n").encode(),
        OLD.rstrip("\n").encode(),
    ],
)
def test_encodings_marks_and_line_endings_stay(upgrade, tmp_path, data):
    path = tmp_path / "k.py"
    path.write_bytes(data)
    assert upgrade("k.py", "--write")[0] == 0
    assert path.read_bytes() == data.replace(b'"sbuf"', b"nl.sbuf")


@pytest.mark.parametrize("data", [b"# \xff\nimport nki\n", b"# coding: nothing\nimport nki\n"])
def test_a_file_that_cannot_be_decoded_is_reported(upgrade, tmp_path, data):
    path = tmp_path / "k.py"
    path.write_bytes(data)
    (tmp_path / "other.py").write_text(OLD)
    status, _, err = upgrade(".", "--write")
    assert status == 1
    assert "k.py: cannot be read" in err
    assert path.read_bytes() == data
    assert (tmp_path / "other.py").read_text() == NEW


def test_a_file_that_cannot_be_opened_is_reported(upgrade, tmp_path, monkeypatch):
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(OLD)
    (tmp_path / "gone.py").symlink_to(tmp_path / "missing.py")
    read = Path.read_bytes

    def refused(path):  # root may read everything
        if path.name == "b.py":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    status, _, err = upgrade(".", "--write")
    monkeypatch.undo()
    assert status == 1
    assert "b.py: cannot be read: Permission denied" in err
    assert [(tmp_path / f"{name}.py").read_text() for name in "abc"] == [NEW, OLD, NEW]


def test_an_error_in_one_file_does_not_stop_the_others(upgrade, tmp_path):
    deep = OLD + "x = " + " + ".join(["1"] * 1000) + "\n"
    (tmp_path / "a.py").write_text(deep)
    (tmp_path / "b.py").write_text(OLD)
    status, _, err = upgrade(".", "--write")
    assert status == 1
    assert "a.py: " in err
    assert "a.py: too deeply nested" in err
    assert err.endswith(
        "2 files read, 1 changed (1 rewrite), 0 findings left; 1 file not processed\n"
    )
    assert (tmp_path / "a.py").read_text() == deep
    assert (tmp_path / "b.py").read_text() == NEW


def test_a_failing_rule_does_not_stop_the_others(upgrade, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(OLD + "# odd\n")
    (tmp_path / "b.py").write_text(OLD)
    process = nkisim.upgrade.upgrade_text

    def failing(text, *arguments, **options):
        if "odd" in text:
            raise KeyError("odd")
        return process(text, *arguments, **options)

    monkeypatch.setattr(nkisim.upgrade, "upgrade_text", failing)
    status, _, err = upgrade(".", "--write")
    assert status == 1
    assert "a.py: cannot be processed: KeyError: 'odd'" in err
    assert (tmp_path / "b.py").read_text() == NEW


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_a_character_that_the_encoding_lacks_is_not_lost(upgrade, tmp_path, encoding):
    text = f"# coding: {encoding}\n" + OLD + "name = 'é'  # ü\n"
    path = tmp_path / "k.py"
    path.write_bytes(text.encode(encoding))
    assert upgrade("k.py", "--write")[0] == 0
    assert path.read_bytes() == text.replace('"sbuf"', "nl.sbuf").encode(encoding)


ON_A_TERMINAL = """
import os, runpy, sys
os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY), 2)
runpy.run_module("nkisim", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_many_files_show_progress_on_a_terminal(tmp_path):
    import pty

    for number in range(60):
        (tmp_path / f"k{number}.py").write_text(OLD)
    leader, terminal = pty.openpty()
    shown = b""

    def read():
        nonlocal shown
        with contextlib.suppress(OSError):  # the terminal is closed
            while part := os.read(leader, 4096):
                shown += part

    reader = threading.Thread(target=read)
    reader.start()
    command = [os.ttyname(terminal), "upgrade", str(tmp_path), "--write"]
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    try:
        done = forked(COMMANDS, ON_A_TERMINAL, arguments=command, env=env)
    finally:
        os.close(terminal)
        reader.join()
        os.close(leader)
    assert done.returncode == 0
    assert b"upgrade" in shown
    assert b"100%" in shown
    assert b"60 files read, 60 changed (60 rewrites), 0 findings left" in shown
    assert (tmp_path / "k59.py").read_text() == NEW


def test_a_folder_that_cannot_be_written_loses_nothing(upgrade, tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(OLD)

    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    status, _, err = upgrade("k.py", "--write")
    assert status == 1
    assert "k.py: cannot be written, nothing was changed: no permission to write" in err
    assert (tmp_path / "k.py").read_text() == OLD


def test_an_interrupted_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "k.py"
    path.write_text(OLD)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SourceError, match="No space"):
        write_source(path, SourceText(NEW))
    assert path.read_text() == OLD
    assert os.listdir(tmp_path) == ["k.py"]


def test_links_and_access_rights_stay(upgrade, tmp_path):
    path = tmp_path / "k.py"
    path.write_text(OLD)
    path.chmod(0o750)
    (tmp_path / "link.py").symlink_to(path)
    assert upgrade("link.py", "--write")[0] == 0
    assert (tmp_path / "link.py").is_symlink()
    assert path.read_text() == NEW
    assert path.stat().st_mode & 0o777 == 0o750


def test_folders_are_searched_without_hidden_ones(upgrade, tmp_path):
    for name in ("a.py", "in/b.py", ".venv/c.py", "in/.d.py", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OLD)
    assert upgrade(".", "--write")[2].startswith("2 files read, 2 changed (2 rewrites)")
    assert (tmp_path / ".venv/c.py").read_text() == OLD


def test_a_big_folder_has_a_summary(upgrade, tmp_path):
    for number in range(300):
        (tmp_path / f"f{number}.py").write_text(CLEAN)
    (tmp_path / "k.py").write_text(OLD)
    assert upgrade(".")[2] == "301 files read, 1 would change (1 rewrite), 0 findings left\n"


def test_what_is_left_to_do_comes_first_by_rule(upgrade, tmp_path):
    """In front of any number of changes; then what is to be reviewed."""
    beta = OLD + "nisa.tensor_reduce(dst=a, op=nl.add, data=b, axis=1)\n"
    for name in "ab":
        text = beta + "nl.loop_reduce(1, 2, 3)\nnl.mod(t, 2)\n"
        (tmp_path / f"{name}.py").write_text("import nki.isa as nisa\n" + text)
    rows = upgrade(".")[1].splitlines()
    assert [row.split(" ")[0].rstrip(":") for row in rows if row[0] != " "] == [
        *("MG-127", "a.py:5", "b.py:5", "MG-342", "a.py:6", "b.py:6"),
        *("MG-306", "a.py:4", "b.py:4", "a.py:3", "b.py:3"),
    ]
    assert rows[0] == "MG-127 removed functions of nki.language: 2 to do"
    assert rows[6].endswith("2 to review")
    diff = upgrade(".", "--diff")[1].splitlines()
    assert diff[: len(rows) - 2] == rows[:-2]


def test_code_that_runs_is_done(upgrade, tmp_path):
    (tmp_path / "k.py").write_text("import nki.language as nl\nfor k in nl.affine_range(4): pass\n")
    status, out, err = upgrade("k.py", "--to", "0.6", "--check")
    assert (status, out) == (0, "")
    assert "1 older form that 0.6.0 takes: not changed; --from RELEASE" in err
    assert upgrade("k.py", "--to", "0.6", "--from", "0.5", "--check")[0] == 1


NOTEBOOK = {"cells": [{"cell_type": "code", "source": OLD.splitlines()}], "nbformat": 4}


def test_a_notebook_is_not_done(upgrade, tmp_path):
    """Its JSON is a Python expression; its code is in strings."""
    path = tmp_path / "k.ipynb"
    path.write_text(json.dumps(NOTEBOOK))
    before = path.read_bytes()
    status, _, err = upgrade("k.ipynb", "--write")
    assert status == 1
    assert "k.ipynb: is a notebook" in err
    assert "1 file not processed" in err
    status, _, err = upgrade(".", "--write")
    assert status == 0
    assert "k.ipynb: skipped: it is a notebook" in err
    assert path.read_bytes() == before
    path.write_text(json.dumps({"cells": []}))
    assert "skipped" not in upgrade(".")[2]


def test_links_out_of_a_folder_are_skipped(upgrade, tmp_path):
    for name in ("in/a.py", "out/b.py", "out/folder/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(OLD)
    (tmp_path / "in/link.py").symlink_to(tmp_path / "out/b.py")
    (tmp_path / "in/inner.py").symlink_to(tmp_path / "in/a.py")
    (tmp_path / "in/folder").symlink_to(tmp_path / "out/folder")
    status, _, err = upgrade("in", "--write")
    assert status == 0
    assert f"in/link.py: skipped: it is a link to {tmp_path / 'out/b.py'}" in err
    assert f"in/folder: skipped: it is a link to {tmp_path / 'out/folder'}" in err
    assert "inner.py" not in err
    assert (tmp_path / "in/a.py").read_text() == NEW
    assert (tmp_path / "out/b.py").read_text() == OLD
    assert (tmp_path / "out/folder/c.py").read_text() == OLD
    skipped = json.loads(upgrade("in", "--format", "json")[1])["skipped"]
    assert [entry["path"] for entry in skipped] == ["in/folder", "in/link.py"]
