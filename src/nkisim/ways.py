"""Functions of torch and NumPy that take several instructions, or a decision: ``ways.toml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple


class Way(NamedTuple):
    """What replaces a function that NKI does not have.

    Attributes:
        code: Statements; empty where the words are enough.
        note: What they compute, and what is left to decide.
    """

    code: str
    note: str

    @property
    def text(self) -> str:
        """The code and the note in one line."""
        code = "; ".join(self.code.splitlines())
        return f"use {code}: {self.note}" if code else self.note


@cache
def ways() -> dict[str, Way]:
    """Return, by the name of a function, what replaces it."""
    import tomllib  # few commands need the file

    with Path(__file__).with_suffix(".toml").open("rb") as stream:
        read = tomllib.load(stream)["way"]
    found = [(way["names"].split(), Way(way.get("code", ""), way["note"])) for way in read]
    return {name: way for names, way in found for name in names}


def undecided(name: str) -> str:
    """Return what to do and to decide for a name with no certain call; empty for other names."""
    way = ways().get(name)
    return "" if way is None else way.text
