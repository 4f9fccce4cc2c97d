"""Settings of a check: the selected rules, and the table ``[tool.nkisim]`` of a project's file."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from nkisim.arch import GENERATIONS
from nkisim.diagnostics import CHECKED, RULES, Finding, Rule
from nkisim.filecheck.arguments import Shapes
from nkisim.versions import resolve

_HOMES = ("isa", "language", "collectives", "api")
_ADVICE = "profiling.advice"


def all_rules() -> Mapping[str, Rule]:
    """Return every rule by id, with the advice of profiles."""
    _declare(*_HOMES, _ADVICE)
    return RULES


def _declare(*homes: str) -> None:
    """Import modules of nkisim with all that they use: each module declares its own rules."""
    for home in homes:
        import_module(f"nkisim.{home}")


@dataclass(frozen=True)
class Selection:
    """A selection of rules.

    Attributes:
        only: Ids or prefixes of ids; empty selects all.
        ignore: Ids or prefixes to exclude.
        per_file: Ids or prefixes to exclude in files that match a pattern.
    """

    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _declare(*_HOMES)
        for name in (*self.only, *self.ignore, *(n for ids in self.per_file.values() for n in ids)):
            if not any(rule.startswith(name) for rule in CHECKED):
                raise ValueError(
                    f"{name!r} is no rule of checks and no family of them; `nkisim rules` lists"
                )

    def wants(self, finding: Finding) -> bool:
        """Return whether a finding is selected."""
        rule = finding.rule.id
        if rule not in CHECKED:  # messages about the check itself
            return True
        if rule not in self.rules:
            return False
        return not any(
            _begins(rule, ids) for pattern, ids in self.per_file.items() if _fits(finding, pattern)
        )

    @cached_property
    def rules(self) -> frozenset[str]:
        """The rules that are selected in any file."""
        chosen = (rule for rule in CHECKED if not self.only or _begins(rule, self.only))
        return frozenset(rule for rule in chosen if not _begins(rule, self.ignore))


def _begins(rule: str, names: Iterable[str]) -> bool:
    return any(rule.startswith(name) for name in names)


def _fits(finding: Finding, pattern: str) -> bool:
    file = Path(finding.file)
    return fnmatch.fnmatch(file.as_posix(), pattern) or file.match(pattern)


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Settings of a check.

    Attributes:
        shapes: Arguments by parameter name.
        targets: Generations to run on.
        selection: Selected rules.
        max_instructions: Number of instructions after which a run is aborted.
        max_seconds: Seconds after which a run is aborted.
        require_run: Whether a kernel that is only read is an error.
        source_only: Whether files are only read, and none is imported.
    """

    shapes: Shapes = field(default_factory=dict)
    targets: tuple[str, ...] = tuple(generation.name for generation in GENERATIONS)
    selection: Selection = field(default_factory=Selection)
    max_instructions: int = 2_000_000
    max_seconds: float = 600.0
    require_run: bool = False
    source_only: bool = False


class SettingsError(ValueError):
    """``[tool.nkisim]`` has an unknown key or an invalid value."""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
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
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
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
