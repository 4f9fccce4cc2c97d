"""HTML page of a ledger."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from nkisim.diagnostics.html import body
from nkisim.diagnostics.ledger import Ledger
from nkisim.diagnostics.report import counted

__all__ = ["ledger_page"]


def ledger_page(ledger: Ledger) -> str:
    """Return a ledger as a complete HTML page."""
    memory = [
        replace(picture, kernel=kernel.name)
        for kernel in ledger.kernels.values()
        for picture in kernel.memory
    ]
    inner = body("nkisim check", ledger.summary(), ledger.remarks(), ledger.findings, memory)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>nkisim: {escape(counted(ledger.findings))}</title></head>"
        f'<body style="margin: 20px">{inner}</body></html>\n'
    )
