"""Numbers that stand for kinds of operands and for operations in calls of compiled code.

This module does not import numba.
"""

from __future__ import annotations

import itertools

__all__ = ["CODES", "COLUMN", "FULL", "HALF", "NOTHING", "OPERATIONS"]

HALF, FULL, COLUMN = 0, 1, 2
"""Kinds of operands: a bfloat16 tile, a float32 tile, one float32 per row."""

OPERATIONS = ("add", "subtract", "multiply", "maximum", "minimum")
"""Operations on two float32."""

NOTHING = 0
"""The code for no operation."""

CODES = {
    (name, exchanged): code
    for code, (exchanged, name) in enumerate(itertools.product((False, True), OPERATIONS), 1)
}
"""The code of each operation, and of each with its operands exchanged; they follow each other."""
