"""The ledger of a process: the findings of all its kernels, for code that cannot be modified.

With NKISIM_REPORT in the environment, or after ``open_ledger``, every run is recorded, and a report
is written when the process ends. Child processes write their findings to a folder; the parent
process merges them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from nkisim.diagnostics import Place, Report
from nkisim.diagnostics.formats import format_of, rendered
from nkisim.diagnostics.ledger import Ledger
from nkisim.files import write_text

REPORT_VARIABLE = "NKISIM_REPORT"
_PARTS_VARIABLE = "NKISIM_REPORT_PARTS"


class _State:
    """The state of the process's ledger.

    Attributes:
        ledger: The recorded runs; None while no ledger is open.
        parts: Folder for the findings of child processes; None in a child.
        file: File for the report; empty for a ledger that is only read.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.ledger: Ledger | None = None
        self.parts: Path | None = None
        self.file = ""


_STATE = _State()
_UNRECORDED: ContextVar[bool] = ContextVar("unrecorded", default=False)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_STATE.forget)


def enter(name: str, place: Place, report: Report) -> None:
    """Add a run to the ledger of this process, if one is open."""
    open_if_asked()
    if _STATE.ledger is not None and not _UNRECORDED.get():
        with _STATE.lock:
            _STATE.ledger.enter(name, place, report)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Context manager that omits runs from the ledger; nkisim runs kernels itself in it."""
    token = _UNRECORDED.set(True)
    try:
        yield
    finally:
        _UNRECORDED.reset(token)


def open_if_asked() -> None:
    """Open a ledger if NKISIM_REPORT is set; called early, so that child processes inherit it."""
    if _STATE.ledger is None and (REPORT_VARIABLE in os.environ or _PARTS_VARIABLE in os.environ):
        open_ledger(os.environ.get(REPORT_VARIABLE, ""))


def open_ledger(file: str = "") -> None:
    """Record all runs from now on, and write the ledger to ``file`` when the process ends.

    Raises:
        ValueError: The suffix of ``file`` names no format.
    """
    if file:
        format_of(file)
    with _STATE.lock:
        if _STATE.ledger is not None:
            return
        _STATE.ledger = Ledger()
        if _PARTS_VARIABLE not in os.environ:
            import tempfile

            _STATE.parts = Path(tempfile.mkdtemp(prefix="nkisim-report-"))
            os.environ[_PARTS_VARIABLE] = str(_STATE.parts)
            _STATE.file = os.path.abspath(file) if file else ""
    atexit.register(close_ledger)


def close_ledger() -> Ledger | None:
    """Write the ledger and return it; None if no ledger is open."""
    with _STATE.lock:
        ledger, parts, file = _STATE.ledger, _STATE.parts, _STATE.file
        _STATE.forget()
    if ledger is None:
        return None
    atexit.unregister(close_ledger)
    if parts is None:
        _leave_part(ledger)
        return ledger
    for part in sorted(parts.glob("*.json")):
        ledger.merge(Ledger.from_dict(json.loads(part.read_text(encoding="utf-8"))))
    import shutil

    shutil.rmtree(parts, ignore_errors=True)
    if os.environ.get(_PARTS_VARIABLE) == str(parts):
        del os.environ[_PARTS_VARIABLE]
    if file:
        write_text(file, rendered(ledger, format_of(file)))
    return ledger


def _leave_part(ledger: Ledger) -> None:
    folder = Path(os.environ.get(_PARTS_VARIABLE, ""))
    if ledger.kernels and folder.is_dir():
        write_text(folder / f"{os.getpid()}-{id(ledger)}.json", ledger.to_json())
