"""Profiles that `nkisim profile --format json` has written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 3
"""Version of the JSON format; incremented when the meaning of a key changes."""

Plain = Mapping[str, Any]
"""A profile as plain data, with the keys of ``Profile.to_dict``."""


def is_saved(file: Path) -> bool:
    """Return whether a file has the name of a saved profile."""
    return file.suffix == ".json"


def saved_profiles(file: Path) -> list[Plain]:
    """Return the profiles of a file.

    Raises:
        ValueError: It has none, is no JSON, or is of another version of the format.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: no saved profile: {error}") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA or "profiles" not in data:
        raise ValueError(
            f"{file}: got schema {schema}, accepted: {SCHEMA}, that of this version's "
            "`nkisim profile --format json`"
        )
    if not data["profiles"]:
        raise ValueError(f"{file}: it has no profiles")
    found: list[Plain] = data["profiles"]
    return found
