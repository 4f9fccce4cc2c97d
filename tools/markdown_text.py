"""Markdown helpers: tables, code blocks, and function sources."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def source_of(function: Callable[..., Any]) -> str:
    """Return a function's source without its decorators."""
    text = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(text).body
    return "".join(text.splitlines(keepends=True)[definition.lineno - 1 :]).rstrip()


def module_file(function: Callable[..., Any]) -> str:
    """Return the file of a function, relative to the repository root."""
    source = sys.modules[function.__module__].__file__
    return str(Path(source or "").relative_to(ROOT))


def block(language: str, text: str) -> str:
    """Return a fenced block."""
    return f"```{language}\n{text}\n```"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, or a word if there are no rows."""
    lines = [cells(row) for row in rows]
    return "\n".join([cells(head), cells(["---"] * len(head)), *lines]) if lines else "None."


def cells(row: Sequence[str]) -> str:
    """Return one line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def join(parts: Iterable[str]) -> str:
    """Join the non-empty parts of a page."""
    return "\n\n".join(part for part in parts if part) + "\n"
