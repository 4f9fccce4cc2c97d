"""Signatures of one function in each NKI version."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from nkisim import versions
from nkisim.spec import enums

_MODULES = ("nki.isa", "nki.collectives")


def home_of(name: str) -> tuple[str, str]:
    """Return module and name of a function from its name in messages, such as ``nl.load``."""
    if name.startswith("nl."):
        return "nki.language", name.removeprefix("nl.")
    newest = versions.VERSIONS[::-1]
    for module in _MODULES:
        if any(versions.has(version, module, name) for version in newest):
            return module, name
    return _MODULES[0], name


def signatures(name: str, declared: inspect.Signature) -> dict[str, inspect.Signature]:
    """Return the signature of a function in each version that has it.

    Args:
        name: Its name in messages.
        declared: All parameters that it has in any version. A version defines which of them exist,
            their order and their defaults.

    Functions that no version documents have the declared signature in all of them.
    """
    module, plain = home_of(name)
    found: dict[str, inspect.Signature] = {}
    made: dict[str, inspect.Signature] = {}
    for version in versions.VERSIONS:
        text = versions.parameters(version, module, plain)
        if text is not None:
            if text not in made:
                made[text] = _signature(text, declared)
            found[version] = made[text]
    return found or dict.fromkeys(versions.VERSIONS, declared)


def _signature(text: str, declared: inspect.Signature) -> inspect.Signature:
    """Return the signature that a version's text describes."""
    arguments = ast.parse(f"lambda {text}: 0", mode="eval").body.args  # type: ignore[attr-defined]
    required = [None] * (len(arguments.args) - len(arguments.defaults))
    by_position = zip(arguments.args, [*required, *arguments.defaults], strict=True)
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parameters = []
    for argument, value in (*by_position, *by_name):
        parameter = declared.parameters[argument.arg]
        default: Any = parameter.empty if value is None else _value(value, parameter.default)
        parameters.append(parameter.replace(default=default))
    same = tuple(parameters) == tuple(declared.parameters.values())
    return declared if same else inspect.Signature(parameters)


def _value(default: ast.expr, declared: Any) -> Any:
    """Return the value of a default: a literal, a member of an enum, or the declared object."""
    if isinstance(default, ast.Attribute) and isinstance(default.value, ast.Name):
        kind = getattr(enums, default.value.id, None)
        return declared if kind is None else kind[default.attr]
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return declared
    return declared if type(declared) is type(value) and declared == value else value
