"""Errors for calls that do not match a signature."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, NoReturn, TypeVar

from nkisim.diagnostics import NkiCallError, Rule, flag
from nkisim.intents import argument_meant
from nkisim.spec import rules

__all__ = ["Removed", "call_text", "checked_call", "open_function", "reject_call"]

Removed = Mapping[str, tuple[Rule, str]]
"""Keywords of earlier releases: the violated rule and the fix."""

Refuse = Callable[[Mapping[str, Any], tuple[Any, ...], Mapping[str, Any]], NoReturn]
"""Callback that reports a call that does not match; same arguments as ``reject_call``."""

F = TypeVar("F", bound=Callable[..., Any])

_MASK: Removed = {"mask": (rules.REMOVED_MASK, "slice every operand to the valid extent")}


def call_text(name: str, signature: inspect.Signature) -> str:
    """Return the text of a call: the parameters and their defaults, without annotations."""
    parts = []
    for p in signature.parameters.values():
        value = str(p.default) if isinstance(p.default, Enum) else repr(p.default)
        parts.append(p.name if p.default is p.empty else f"{p.name}={value}")
    return f"{name}({', '.join(parts)})"


class _Missing:
    """Sentinel for an argument that was not given."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()
"""Sentinel default of required parameters, in functions that accept any arguments."""


def open_function(
    name: str, signature: inspect.Signature, call: Callable[..., Any], refuse: Refuse
) -> Callable[..., Any]:
    """Return a function with a given signature that also receives calls that do not match it.

    It binds its arguments and passes them to ``call`` by position. Python rejects a call that does
    not match before the function runs, and ``Signature.bind`` takes longer than a small
    instruction. So required parameters have a sentinel default, and surplus or unknown arguments
    are accepted and rejected here. Only an argument that is given twice is rejected by Python.

    Args:
        name: Its name.
        signature: Of parameters that can be given by position and by name.
        call: Implementation; takes an argument for every parameter.
        refuse: Called with the arguments by name, the surplus ones, and those of unknown names.
    """
    parameters = signature.parameters.values()
    listed = ", ".join(f"{p.name}=_default_{p.name}" for p in parameters)
    lacking = "".join(f" or {p.name} is _MISSING" for p in parameters if p.default is p.empty)
    named = ", ".join(f"{p.name!r}: {p.name}" for p in parameters)
    source = (
        f"def {name}({listed}{', ' if listed else ''}*_more, **_unknown):\n"
        f"    if _more or _unknown{lacking}:\n"
        f"        _refuse({{{named}}}, _more, _unknown)\n"
        f"    return _call({', '.join(signature.parameters)})\n"
    )
    scope = {
        f"_default_{p.name}": MISSING if p.default is p.empty else p.default for p in parameters
    }
    scope |= {"_MISSING": MISSING, "_refuse": refuse, "_call": call}
    # private: a function of a given signature can only be made from source text; exec and compile
    # are builtins of every Python.
    exec(compile(source, __file__, "exec"), scope)
    made: Callable[..., Any] = scope[name]
    return made


def reject_call(
    name: str,
    signature: inspect.Signature,
    given: Mapping[str, Any],
    more: tuple[Any, ...],
    unknown: Mapping[str, Any],
    removed: Removed,
    tiles: Collection[str] = (),
    misfit: Rule | None = None,
) -> NoReturn:
    """Report a call that does not match: a removed keyword, a missing destination, or a typo.

    Args:
        name: Name of the called function.
        signature: Its signature.
        given: The arguments by parameter; MISSING, or the default, for those that were not given.
        more: Arguments beyond the last parameter.
        unknown: Arguments with unknown names.
        removed: Keywords of earlier releases.
        tiles: The parameters that must be tensors.
        misfit: The rule that missing arguments violate, if it is not the general one.
    """
    accepted = list(signature.parameters)
    written = call_text(name, signature)
    defaults = {p.name: p.default for p in signature.parameters.values()}
    passed = [p for p, x in given.items() if x is not MISSING and x is not defaults[p]]
    for keyword in unknown:
        if keyword in removed:
            rule, remedy = removed[keyword]
            message = f"{name} has no argument {keyword}= in NKI 0.3.0"
        else:
            rule, message = rules.BAD_CALL, f"{name} has no argument {keyword}="
            meant = argument_meant(keyword, [p for p in accepted if p not in passed])
            near = [meant] if meant else difflib.get_close_matches(keyword, accepted, 1)
            remedy = f"did you mean {near[0]}=? " if near else ""
            if keyword.startswith("transpose") and name == "nc_matmul":
                remedy = "transpose the operand first, with nisa.nc_transpose. "
            remedy += f"The signature is {written}"
        flag(
            rule,
            message,
            instruction=name,
            operand=keyword,
            seen=keyword,
            allowed=", ".join(accepted),
            fix=remedy,
            error=NkiCallError,
        )
    missing = [p for p, x in given.items() if x is MISSING]
    without = f"is called without {', '.join(missing)}"
    # Without its destination a call of Beta 1 ends one tile short, or begins with something else.
    first = given[accepted[0]] if accepted else MISSING
    shifted = first is MISSING or not hasattr(first, "dtype") or set(missing) <= set(tiles)
    if "dst" in tiles and missing and passed and shifted:
        flag(
            rules.NO_DESTINATION,
            f"{name} {without}: instructions return nothing, dst comes first",
            instruction=name,
            operand="dst",
            seen=", ".join(passed),
            allowed=f"{written}",
            fix="allocate dst with nl.ndarray and pass it as the first argument",
            error=NkiCallError,
        )
    many = f"takes {len(accepted)} arguments, not {len(accepted) + len(more)}"
    flag(
        misfit or rules.BAD_CALL,
        f"{name} {without if missing else many}",
        instruction=name,
        seen=", ".join(passed) or "no arguments",
        allowed=f"{written}",
        fix=f"call {written}",
        error=NkiCallError,
    )
    raise AssertionError("unreachable: A025 always raises")


def checked_call(
    name: str, removed: Removed | None = None, *, misfit: Rule | None = None
) -> Callable[[F], F]:
    """Decorate a function so that calls that do not match its signature raise with the fix.

    ``misfit`` is the rule that a call with missing arguments violates, if not the general one.
    """
    known = dict(_MASK) | dict(removed or {})

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        def refuse(given: Any, more: Any, unknown: Any) -> NoReturn:
            reject_call(name, signature, given, more, unknown, known, misfit=misfit)

        call = open_function(function.__name__, signature, function, refuse)
        return functools.wraps(function)(call)  # type: ignore[return-value]

    return decorate
