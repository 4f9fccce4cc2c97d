"""Names of ``nki.isa`` and ``nki.language`` in all NKI versions, for the reference pages."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from nkisim.versions import VERSIONS, judged_by

__all__ = ["found_in", "in_words", "names_and_versions"]


def names_and_versions(module: ModuleType) -> dict[str, list[str]]:
    """Return the public names of a module, each with the versions that have it."""
    found: dict[str, list[str]] = {}
    for version in VERSIONS:
        with judged_by(version):
            for name in module.__all__:
                found.setdefault(name, []).append(version)
    return found


def found_in(module: ModuleType, name: str, version: str) -> Any:
    """Return an object of a module in a version."""
    with judged_by(version):
        return getattr(module, name)


def in_words(versions: Sequence[str]) -> str:
    """Describe consecutive versions; empty for all of them."""
    first, last = versions[0], versions[-1]
    if len(versions) == len(VERSIONS):
        return ""
    if last == VERSIONS[-1]:
        return f"since NKI {first}"
    if first == VERSIONS[0]:
        return f"up to NKI {last}"
    return f"NKI {first}" if first == last else f"NKI {first} to {last}"
