"""The NKI versions that nkisim supports: their public names and signatures, and the one in force.

One file per version holds its names, parameters and defaults as the documentation of its release
has them; ``tools/gen_signatures.py`` writes them. The meaning of a name in a version is declared
with the instruction or the function, as changes from a version on.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, TypeVar

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0")
"""The known versions, oldest first."""

NKI_VARIABLE = "NKISIM_NKI"

FRONTEND_VARIABLE = "NKI_COMPILER_FRONTEND"
"""Variable of NKI 0.7.0: ``custom`` keeps the language of 0.6.0 under the names of 0.7.0."""

_TRACING = {"": True, "tracer": True, "custom": False, "parser": False}
"""Whether Python traces a kernel, by value of the variable; NKI documents ``custom`` only."""

_TRACED = VERSIONS[VERSIONS.index("0.7.0") :]
"""Versions whose compiler executes a kernel's Python code."""

_RUNNING: ContextVar[str | None] = ContextVar("nkisim_version", default=None)
"""The version by which the kernel of this context is judged; None outside a kernel."""

JIT_CONFIGS = {"0.7.0": ("compile_config", "specialization_config")}
"""Configurations that ``nki.jit`` takes as keyword arguments, by first version."""

T = TypeVar("T")


def resolve(text: str, argument: str = "nki") -> str:
    """Return a version in the form of ``VERSIONS``: ``"0.6"`` is ``"0.6.0"``."""
    for version in VERSIONS:
        if text in (version, version.removesuffix(".0")):
            return version
    accepted = ", ".join(VERSIONS)
    raise ValueError(f"{argument}: got {text!r}, accepted: {accepted}, also without the last .0")


def chosen(asked: str | None = None) -> str:
    """Return the version for a call that is made now.

    That is ``asked``, else the value of NKISIM_NKI, else the version of an installed ``nki``, else
    the oldest version.
    """
    if asked is not None:
        return resolve(asked)
    variable = os.environ.get(NKI_VARIABLE)
    if variable:
        return resolve(variable, NKI_VARIABLE)
    return _installed() or VERSIONS[0]


def in_force() -> str:
    """Return the version by which the running kernel is judged; outside a kernel, ``chosen()``."""
    return _RUNNING.get() or chosen()


def since(version: str) -> bool:
    """Return whether the version in force is this one or a later one."""
    return VERSIONS.index(in_force()) >= VERSIONS.index(version)


def language() -> str:
    """Return the version in force, or 0.6.0 if NKI_COMPILER_FRONTEND selects the older language.

    Raises:
        ValueError: NKI_COMPILER_FRONTEND has an unknown value.
    """
    version = in_force()
    if version not in _TRACED:
        return version
    value = os.environ.get(FRONTEND_VARIABLE, "")
    if value not in _TRACING:
        accepted = ", ".join(filter(None, _TRACING))
        raise ValueError(f"{FRONTEND_VARIABLE}: got {value!r}, accepted: {accepted}")
    return version if _TRACING[value] else "0.6.0"


def is_traced() -> bool:
    """Return whether Python executes the kernels of the language in force (from 0.7.0 on)."""
    return language() in _TRACED


@contextmanager
def judged_by(version: str) -> Iterator[None]:
    """Put a version in force while a kernel runs or its source is checked."""
    token = _RUNNING.set(version)
    try:
        yield
    finally:
        _RUNNING.reset(token)


@functools.cache
def _installed() -> str | None:
    """Return the newest known version that is not newer than the installed ``nki``."""
    if PathFinder.find_spec("nki") is None:
        return None
    from importlib import metadata  # brings 40 modules, most of them of e-mail

    try:
        numbers = re.match(r"(\d+)\.(\d+)", metadata.version("nki"))
    except metadata.PackageNotFoundError:
        return None
    if numbers is None:
        return None
    installed = (int(numbers[1]), int(numbers[2]))
    older = [v for v in VERSIONS if tuple(map(int, v.split(".")))[:2] <= installed]
    return older[-1] if older else None  # 0.0.1 is an empty placeholder


def at(version: str, first: T, changes: Mapping[str, T]) -> T:
    """Return the value that holds in a version: ``first``, or the last change up to it."""
    for known in VERSIONS[: VERSIONS.index(version) + 1]:
        first = changes.get(known, first)
    return first


@functools.cache
def names_of(version: str) -> dict[str, dict[str, Any]]:
    """Return the public names of a version by module: functions, classes and other names."""
    text = (Path(__file__).parent / f"{version}.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def parameters(version: str, module: str, name: str) -> str | None:
    """Return the parameters of a function in a version, with defaults; None without it."""
    found: str | None = names_of(version)[module]["functions"].get(name)
    return found


def dropped(version: str, module: str, name: str) -> set[str]:
    """Return the parameters that a function has in an earlier version and not in this one."""
    earlier = VERSIONS[: VERSIONS.index(version)]
    before = {p for v in earlier for p in parameter_names(v, module, name)}
    return before - {*parameter_names(version, module, name)}


@functools.cache
def parameter_names(version: str, module: str, name: str) -> tuple[str, ...]:
    """Return the names of the parameters of a function in a version; none without it."""
    text = parameters(version, module, name) or ""
    (statement,) = ast.parse(f"def f({text}): pass").body
    assert isinstance(statement, ast.FunctionDef)
    given = statement.args
    return tuple(p.arg for p in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def members(version: str, module: str, name: str) -> set[str]:
    """Return methods and attributes that the documentation of a version lists for a class."""
    content = names_of(version)[module]["classes"].get(name, {"methods": (), "attributes": ()})
    return {*content["methods"], *content["attributes"]}


def has(version: str, module: str, name: str) -> bool:
    """Return whether a module has a name in a version, as far as the documentation lists it."""
    content = names_of(version)[module]
    return name in content["functions"] or name in content["classes"] or name in content["names"]


def found_in(version: str) -> str:
    """Return the advice for a name or an argument that only another version has."""
    return f"NKI {version} has it; nki={version!r} or {NKI_VARIABLE}={version} selects that version"


@functools.cache
def differs(module: str, name: str) -> bool:
    """Return whether a name is missing in some versions, or a function has other parameters."""
    there = {has(version, module, name) for version in VERSIONS}
    return len(there) > 1 or len({parameters(v, module, name) for v in VERSIONS}) > 1
