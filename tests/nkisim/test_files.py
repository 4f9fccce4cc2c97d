"""Files of users are written whole or not at all; pipes are written as they are."""

import os
import stat
import subprocess
import sys

import pytest

from nkisim.files import write_text, write_whole


def fail(stream):
    """Write a part and fail, as a full disk does."""
    stream.write(b"half")
    raise OSError("No space left on device")


@pytest.mark.parametrize("before", [None, "old"])
def test_a_failed_write_leaves_what_was_there(tmp_path, before):
    file = tmp_path / "report.html"
    if before is not None:
        file.write_text(before)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, fail)
    assert os.listdir(tmp_path) == ([] if before is None else ["report.html"])
    assert before is None or file.read_text() == before


@pytest.mark.parametrize(
    ("path", "message"), [("missing/t.json", "does not exist"), (".", "it is a folder")]
)
def test_a_path_that_cannot_be_written_is_refused(tmp_path, path, message):
    with pytest.raises(OSError, match=message):
        write_text(tmp_path / path, "text")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write everything")
def test_a_file_without_permission_is_unchanged(tmp_path):
    file = tmp_path / "t.json"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(PermissionError, match="no permission"):
        write_text(file, "new")
    assert file.read_text() == "old"


def test_a_device_is_written_in_place():
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_keeps_its_target_and_a_file_its_mode(tmp_path):
    file, link = tmp_path / "report.json", tmp_path / "latest.json"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_text(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="the system has no /dev/stdout")
def test_standard_output_can_be_written_when_it_is_a_pipe():
    code = "from nkisim.files import write_text; write_text('/dev/stdout', 'text')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "text", "")
