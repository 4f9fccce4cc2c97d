"""HTML pages: the frame of every page, and the page of a ledger."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from nkisim.diagnostics.html import body
from nkisim.diagnostics.ledger import Ledger
from nkisim.diagnostics.report import counted

_FRAME = """
:root { color-scheme: light dark; }
body { margin: 20px; background: #fff; }
@media (prefers-color-scheme: dark) { body { background: #12181f; } }
@media (max-width: 700px) { body { margin: 12px; } }
"""


def ledger_page(ledger: Ledger) -> str:
    """Return a ledger as a complete HTML page."""
    memory = [
        replace(picture, kernel=ledger.label(kernel))
        for kernel in ledger.kernels.values()
        for picture in kernel.memory
    ]
    checked = [f"{file}: {', '.join(names)}" for file, names in ledger.by_file().items()]
    notes = checked + ledger.ran() + ledger.remarks()
    inner = body("nkisim check", ledger.summary(), notes, ledger.findings, memory)
    return document(f"nkisim: {counted(ledger.findings)}", inner)


def document(title: str, body: str) -> str:
    """Return a complete HTML page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_FRAME}</style></head>"
        f"<body>{body}</body></html>\n"
    )
