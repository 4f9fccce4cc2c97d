"""Files of users are written whole or not at all; pipes are written as they are."""

import os
import subprocess
import sys

import pytest

from nkisim.files import write_text, write_whole


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "report.json"
    write_text(file, "old")

    def fail(stream):
        stream.write(b"ne")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        write_whole(file, fail)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


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
