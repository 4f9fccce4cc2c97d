#!/usr/bin/env python
"""Take the pictures of reports in docs/pictures: the kernels of the pages, reported as they say.

The picture of predicted scaling is drawn by scaling_pictures.py, without a browser.

    python tools/gen_pictures.py [FOLDER]     default: docs/pictures

Needs a Chromium, which CHROMIUM names or the path has; without one the pictures stay as they are
and a line says so. Each picture holds the hash of the report that it shows, so that a test finds
pictures of an older report.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HIGHEST = 1240, 1500
"""Pixels; what is further down in a report is not in its picture."""
KEY = b"Report"
_HEIGHT = (
    "<script>addEventListener('load', () => document.title = document.body.scrollHeight)</script>"
)


@dataclass(frozen=True)
class Picture:
    """One picture of a report.

    Attributes:
        name: Its file.
        page: The page with the kernel, below docs.
        block: Name of the file in the first line of the kernel's code block.
        file: Name of the file in the report.
        command: Arguments of ``nkisim`` that write ``report.html``.
    """

    name: str
    page: str
    block: str
    file: str
    command: str

    def source(self) -> str:
        """Return the code of the page, up to the end of its last function."""
        text = (ROOT / "docs" / self.page).read_text(encoding="utf-8")
        found = re.search(
            rf"^```python\n# {self.block}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
        )
        assert found is not None, f"{self.page} has no block that begins with # {self.block}"
        functions = [s for s in ast.parse(found[1]).body if isinstance(s, ast.FunctionDef)]
        return "".join(found[1].splitlines(keepends=True)[: functions[-1].end_lineno])

    def report(self) -> str:
        """Return the report, an HTML page."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            (folder / self.file).write_text(self.source(), encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-m", "nkisim", *shlex.split(self.command)],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            path = folder / "report.html"
            assert path.exists(), done.stderr
            # Tooltips name whole paths.
            return path.read_text(encoding="utf-8").replace(f"{folder}{os.sep}", "")


PICTURES = (
    Picture(
        "finding-and-memory.png",
        "start/run-a-kernel.md",
        "row_sums.py",
        "row_sums.py",
        "check row_sums.py --target gen3 --shapes x=f32[128,3000] "
        "--format html --output report.html",
    ),
    Picture(
        "first-mistakes.png",
        "start/fix-a-kernel.md",
        "first_mistakes.py",
        "normalise.py",
        "check normalise.py --shapes x=f32[300,512] --format html --output report.html",
    ),
    Picture(
        "profile-report.png",
        "guides/profiling.md",
        "matmul.py",
        "matmul.py",
        "profile matmul.py --shapes 'a=bf16[512,256] b=bf16[512,1024]' --html report.html",
    ),
)


def main(folder: Path = ROOT / "docs" / "pictures") -> None:
    """Draw the picture of scaling, and take every picture whose report has changed."""
    import scaling_pictures

    scaling_pictures.main(folder)
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("docs/pictures stay as they are: no Chromium on the path")
        return
    for picture in PICTURES:
        path, report = folder / picture.name, picture.report()
        if not path.exists() or shown(path) != digest(report):
            path.write_bytes(labelled(photograph(browser, report), digest(report)))
            print(path)


def digest(report: str) -> str:
    """Return the hash of a report."""
    return hashlib.sha256(report.encode()).hexdigest()


def shown(path: Path) -> str:
    """Return the hash of the report that a picture shows, empty if it holds none."""
    found = re.search(rb"tEXt" + KEY + rb"\0([0-9a-f]{64})", path.read_bytes())
    return found[1].decode() if found else ""


def labelled(picture: bytes, text: str) -> bytes:
    """Return a PNG file with a text behind its header, which is 33 bytes long."""
    data = b"tEXt" + KEY + b"\0" + text.encode()
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    return picture[:33] + chunk + picture[33:]


def photograph(browser: str, report: str) -> bytes:
    """Return a picture of a page from its top."""
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "report.html", Path(folder) / "report.png"
        page.write_text(report.replace("</head>", f"{_HEIGHT}</head>", 1), encoding="utf-8")
        dom = _browse(browser, folder, 900, "--dump-dom", page.as_uri())
        height = re.search(r"<title>(\d+)</title>", dom)
        assert height is not None, "the height of the page is not in its title"
        page.write_text(report, encoding="utf-8")
        _browse(
            browser, folder, min(int(height[1]), HIGHEST), f"--screenshot={picture}", page.as_uri()
        )
        return picture.read_bytes()


def _browse(browser: str, folder: str, height: int, *arguments: str) -> str:
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--virtual-time-budget=10000",
            f"--window-size={WIDTH},{height}",
            f"--user-data-dir={folder}/profile",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
