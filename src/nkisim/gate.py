"""A process's own ledger: what all its kernels found, for code that nobody may modify.

With NKISIM_REPORT in the environment, or after ``open_ledger``, every run is entered, and a file is
written when the process ends. Processes that it starts leave what they found in a folder; the one
that came first puts all of it together.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path

from nkisim.diagnostics import Place, Report
from nkisim.diagnostics.formats import format_of, rendered
from nkisim.diagnostics.ledger import Ledger

__all__ = ["REPORT_VARIABLE", "close_ledger", "enter", "open_if_asked", "open_ledger"]

REPORT_VARIABLE = "NKISIM_REPORT"
_PARTS_VARIABLE = "NKISIM_REPORT_PARTS"


class _Gate:
    """The ledger of this process, once there is one.

    Attributes:
        ledger: What was entered; None while nobody asks.
        parts: Folder for what the processes that this one starts find; None in those.
        file: Where the report goes; empty for a ledger that is only read.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.ledger: Ledger | None = None
        self.parts: Path | None = None
        self.file = ""


_GATE = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_GATE.forget)


def enter(name: str, place: Place, report: Report) -> None:
    """Add a run to the ledger of this process, if one is kept."""
    open_if_asked()
    if _GATE.ledger is not None:
        with _GATE.lock:
            _GATE.ledger.enter(name, place, report)


def open_if_asked() -> None:
    """Keep a ledger if the environment asks for one: early, so that children find it kept."""
    if _GATE.ledger is None and (REPORT_VARIABLE in os.environ or _PARTS_VARIABLE in os.environ):
        open_ledger(os.environ.get(REPORT_VARIABLE, ""))


def open_ledger(file: str = "") -> None:
    """Keep a ledger from now on, and write it to ``file`` when the process ends.

    Raises:
        ValueError: The suffix of ``file`` names no format.
    """
    if file:
        format_of(file)
    with _GATE.lock:
        if _GATE.ledger is not None:
            return
        _GATE.ledger = Ledger()
        if _PARTS_VARIABLE not in os.environ:
            _GATE.parts = Path(tempfile.mkdtemp(prefix="nkisim-report-"))
            os.environ[_PARTS_VARIABLE] = str(_GATE.parts)
            _GATE.file = os.path.abspath(file) if file else ""
    atexit.register(close_ledger)


def close_ledger() -> Ledger | None:
    """Write what was found, and return it; None where no ledger is kept."""
    with _GATE.lock:
        ledger, parts, file = _GATE.ledger, _GATE.parts, _GATE.file
        _GATE.forget()
    if ledger is None:
        return None
    atexit.unregister(close_ledger)
    if parts is None:
        _leave_part(ledger)
        return ledger
    for part in sorted(parts.glob("*.json")):
        ledger.merge(Ledger.from_dict(json.loads(part.read_text(encoding="utf-8"))))
    shutil.rmtree(parts, ignore_errors=True)
    if os.environ.get(_PARTS_VARIABLE) == str(parts):
        del os.environ[_PARTS_VARIABLE]
    if file:
        _write(Path(file), rendered(ledger, format_of(file)))
    return ledger


def _leave_part(ledger: Ledger) -> None:
    folder = Path(os.environ.get(_PARTS_VARIABLE, ""))
    if ledger.kernels and folder.is_dir():
        _write(folder / f"{os.getpid()}-{id(ledger)}.json", ledger.to_json())


def _write(file: Path, text: str) -> None:
    """Write a file in one step, so that nobody reads the half of it."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
