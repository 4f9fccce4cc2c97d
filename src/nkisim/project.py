"""The table ``[tool.nkisim]`` of a project's ``pyproject.toml``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from nkisim.versions import resolve


class SettingsError(ValueError):
    """``[tool.nkisim]`` has an unknown key or an invalid value."""


class ProjectSettings(NamedTuple):
    """The settings of a project; options of a command override them.

    Attributes:
        only, ignore: Rules to include, and rules to exclude.
        per_file_ignores: Rules to exclude in files that match a pattern.
        target: Generations, as ``--target`` takes them.
        fail_on: ``"error"`` or ``"warning"``.
        strict: Whether ``nkisim run`` and ``pytest --nkisim`` are strict.
        max_instructions: As ``--max-instructions``.
        require_run: As ``--require-run``.
        nki: As ``--nki``; NKISIM_NKI overrides it.
    """

    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    target: str = ""
    fail_on: str = "error"
    strict: bool = False
    max_instructions: int = 0
    require_run: bool = False
    nki: str = ""


def project_settings(folder: Path) -> ProjectSettings:
    """Return the ``[tool.nkisim]`` of the nearest ``pyproject.toml``, from a folder upwards.

    Raises:
        SettingsError: It has an unknown key or an invalid value.
    """
    for home in (folder, *folder.parents):
        file = home / "pyproject.toml"
        if not file.is_file():
            continue
        import tomllib  # most folders have no such file

        try:
            with file.open("rb") as stream:
                table = tomllib.load(stream).get("tool", {}).get("nkisim")
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{file}: {error}") from None
        if table is not None:
            return _settings(file, table)
    return ProjectSettings()


def _settings(file: Path, table: dict[str, Any]) -> ProjectSettings:
    read: dict[str, Callable[[Any], Any]] = {
        "only": _names,
        "ignore": _names,
        "per-file-ignores": _by_pattern,
        "target": lambda v: ",".join(_names(v)) if isinstance(v, list) else _of(str, v),
        "fail-on": _severity,
        "strict": lambda v: _of(bool, v),
        "max-instructions": lambda v: _of(int, v),
        "require-run": lambda v: _of(bool, v),
        "nki": lambda v: resolve(_of(str, v)),
    }
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key not in read:
            raise SettingsError(
                f"{file}: [tool.nkisim] has no key {key!r}; accepted: {', '.join(read)}"
            )
        try:
            found[key.replace("-", "_")] = read[key](value)
        except ValueError as error:
            raise SettingsError(f"{file}: [tool.nkisim] {key}: {error}") from None
    return ProjectSettings(**found)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"got {value!r}, accepted: a value of type {kind.__name__}")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"got {value!r}, accepted: a list of strings")
    return tuple(value)


def _by_pattern(value: Any) -> dict[str, tuple[str, ...]]:
    return {pattern: _names(ids) for pattern, ids in _of(dict, value).items()}


def _severity(value: Any) -> str:
    if value not in ("error", "warning"):
        raise ValueError(f"got {value!r}, accepted: 'error' or 'warning'")
    return str(value)
