"""Calls that do not fit a signature, and what to say about them."""

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

__all__ = ["Removed", "call_text", "checked_call", "reject_call"]

Removed = Mapping[str, tuple[Rule, str]]
"""Keywords that earlier releases had: the rule they break and the remedy."""

F = TypeVar("F", bound=Callable[..., Any])

_MASK: Removed = {"mask": (rules.REMOVED_MASK, "slice every operand to the valid extent")}


def call_text(name: str, signature: inspect.Signature) -> str:
    """Return how a call is written: the parameters and their defaults, without annotations."""
    parts = []
    for p in signature.parameters.values():
        value = str(p.default) if isinstance(p.default, Enum) else repr(p.default)
        parts.append(p.name if p.default is p.empty else f"{p.name}={value}")
    return f"{name}({', '.join(parts)})"


def reject_call(
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    removed: Removed,
    error: TypeError,
    tiles: Collection[str] = (),
    misfit: Rule | None = None,
) -> NoReturn:
    """Explain a call that does not fit: a removed keyword, a missing destination, or a slip.

    ``tiles`` names the parameters that are tensors and nothing else.
    """
    accepted = list(signature.parameters)
    written = call_text(name, signature)
    for keyword in kwargs:
        if keyword in accepted:
            continue
        if keyword in removed:
            rule, remedy = removed[keyword]
            message = f"{name} has no argument {keyword}= in NKI 0.3.0"
        else:
            rule, message = rules.BAD_CALL, f"{name} has no argument {keyword}="
            meant = argument_meant(keyword, [p for p in accepted if p not in kwargs])
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
    missing = [
        p.name
        for i, p in enumerate(signature.parameters.values())
        if p.default is p.empty and p.name not in kwargs and i >= len(args)
    ]
    # Without its destination a call of Beta 1 ends one tile short, or begins with something else.
    begins_with_tile = bool(args) and hasattr(args[0], "dtype")
    shifted = bool(tiles) and (
        "dst" in missing or (bool(args) and not begins_with_tile) or set(missing) <= set(tiles)
    )
    if "dst" in tiles and missing and shifted and args + tuple(kwargs):
        flag(
            rules.NO_DESTINATION,
            f"{name} is called without {', '.join(missing)}: instructions return nothing, dst "
            f"comes first",
            instruction=name,
            operand="dst",
            seen=f"{len(args)} positional arguments",
            allowed=f"{written}",
            fix="allocate dst with nl.ndarray and pass it as the first argument",
            error=NkiCallError,
        )
    flag(
        misfit or rules.BAD_CALL,
        f"{name}: {error}",
        instruction=name,
        seen=f"{len(args)} positional arguments and {sorted(kwargs)}",
        allowed=f"{written}",
        fix=f"call {written}",
        error=NkiCallError,
    )
    raise AssertionError("unreachable: A025 always raises")


def checked_call(
    name: str, removed: Removed | None = None, *, misfit: Rule | None = None
) -> Callable[[F], F]:
    """Decorate a function so that calls which do not fit its signature raise with the remedy.

    ``misfit`` is the rule that a call with missing arguments breaks, if it has one of its own.
    """
    known = dict(_MASK) | dict(removed or {})

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                try:
                    signature.bind(*args, **kwargs)
                except TypeError:
                    reject_call(name, signature, args, kwargs, known, error, misfit=misfit)
                raise

        return call  # type: ignore[return-value]

    return decorate
