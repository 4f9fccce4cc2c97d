"""Pages in a headless Chromium: what they become and what the browser says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def found() -> str | None:
    """The Chromium of this machine: what CHROMIUM names, else what the path has."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def needs_browser(test):
    """Mark a slow test that opens a page; it is skipped where there is no Chromium."""
    skip = pytest.mark.skipif(found() is None, reason="needs a Chromium on the machine")
    return pytest.mark.slow(pytest.mark.browser(skip(test)))


class Seen(NamedTuple):
    """A page after its scripts ran.

    Attributes:
        dom: The document as it then was.
        console: What was written to the console.
        asked: The addresses that the page asked for, itself not included. What the browser asks
            on its own account is not among them.
    """

    dom: str
    console: list[str]
    asked: set[str]


def browse(
    address: str, user: Path, *, size: tuple[int, int] = (1200, 900), dark: bool = False
) -> Seen:
    """Open a page that may ask this machine alone for anything, and read it."""
    user.mkdir(parents=True, exist_ok=True)
    log = user / "net.json"
    scheme = "--blink-settings=preferredColorScheme=0" if dark else "--log-level=0"
    done = _chromium(user, size, scheme, f"--log-net-log={log}", "--dump-dom", address)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(done.stdout, console, _asked_by(address, log.read_text(errors="replace")))


def _asked_by(address: str, log: str) -> set[str]:
    """The addresses in a log of the network whose requests began on the page's origin."""
    parts = urlsplit(address)
    origins = {f"{parts.scheme}://{parts.netloc}"} if parts.netloc else {"file://", "null"}
    found = re.findall(r'"initiator":"([^"]*)"[^\n]*?"url":"([^"]*)"', log)
    return {url for initiator, url in found if initiator in origins}


def _chromium(
    user: Path, size: tuple[int, int], *arguments: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [
            str(found()),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            f"--window-size={size[0]},{size[1]}",
            f"--user-data-dir={user}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
