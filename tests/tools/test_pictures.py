"""Pictures of reports on the pages: of the kernels there, and of today's reports."""

import re
import struct
import zlib
from pathlib import Path

import pytest

from browser import needs_browser
from nkisim.cli.group import commands
from scripts import loaded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    return loaded(ROOT / "tools/gen_pictures.py")


def test_every_picture_of_a_report_is_generated_and_shown(tool):
    made = {picture.name for picture in tool.PICTURES}
    assert made == {path.name for path in (ROOT / "docs/pictures").glob("*.png")}
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*/*.md"))
    assert made <= set(
        re.findall(r"pictures/([\w-]+\.png)", pages + (ROOT / "README.md").read_text())
    )
    for picture in tool.PICTURES:
        assert picture.command.split()[0] in commands.list_commands(None)
        compile(picture.source(), picture.file, "exec")


def test_a_picture_keeps_the_hash_of_its_report(tool, tmp_path):
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + bytes(13) + bytes(4)
    path = tmp_path / "a.png"
    path.write_bytes(head + b"rest")
    assert tool.shown(path) == ""
    path.write_bytes(tool.labelled(head + b"rest", tool.digest("page")))
    data = path.read_bytes()
    assert data[:33] == head
    assert data.endswith(b"rest")
    assert tool.shown(path) == tool.digest("page") != tool.digest("another page")
    (size,) = struct.unpack(">I", data[33:37])
    assert struct.unpack(">I", data[41 + size : 45 + size]) == (zlib.crc32(data[37 : 41 + size]),)


# With the browser's mark: who cannot take a picture is not asked for a new one.
@needs_browser
@pytest.mark.slow
def test_the_pictures_show_the_reports_of_today(tool):
    for picture in tool.PICTURES:
        shown = tool.shown(ROOT / "docs/pictures" / picture.name)
        assert shown == tool.digest(picture.report()), f"run `make docs`: {picture.name} is old"
