"""Members of tensors by NKI version, and checks of the arguments of view methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index as as_int
from typing import Any, NoReturn, TypeVar, cast

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.tensor.geometry import View
from nkisim.memory.tensor.refused import ByVersion
from nkisim.removed import BAD_CALL
from nkisim.versions import VERSIONS, at, members

M = TypeVar("M")


def documented(member: M, name: str = "") -> M:
    """Make a member of tensors exist only in the versions whose documentation lists it."""
    name = name or str(getattr(member, "__name__", ""))
    there = [v for v in VERSIONS if name in members(v, "nki.language", "NkiTensor")]
    return cast(M, ByVersion(name, dict.fromkeys(there, member)))


def changed(changes: Mapping[str, Callable[..., Any]]) -> Callable[[M], M]:
    """Return a decorator for a method of all versions; ``changes`` are its later definitions."""

    def decorate(first: Any) -> Any:
        for later in changes.values():
            later.__name__, later.__qualname__ = first.__name__, first.__qualname__
        return ByVersion(first.__name__, {v: at(v, first, changes) for v in VERSIONS})

    return decorate


def integer(view: View, method: str, name: str, value: Any) -> int:
    """Return an argument as an integer, or raise A025."""
    try:
        return as_int(value)
    except TypeError:
        refuse(view, method, f"{name} is {value!r}", "an integer", f"pass an integer for {name}")


def dimension(view: View, method: str, dim: Any, first: int = 0, last: int | None = None) -> int:
    """Return the number of a dimension between ``first`` and ``last``, or raise A025."""
    number = integer(view, method, "dim", dim)
    last = view.ndim - 1 if last is None else last
    if not first <= number <= last:
        why = f"dimension {number} of shape {view.shape}"
        refuse(view, method, why, f"{first} to {last}", "count dimensions from 0")
    return number


def refuse(view: View, method: str, why: str, allowed: str, fix: str) -> NoReturn:
    """Raise A025: a method cannot take its arguments."""
    flag(
        BAD_CALL,
        f"{method}() of tensor `{view.name}`: {why}, accepted: {allowed}",
        operand=view.name,
        seen=why,
        allowed=allowed,
        fix=fix,
    )
    raise AssertionError("unreachable: A025 always raises")


def rows_stay(view: View, method: str, why: str) -> NoReturn:
    """Raise S018: a method would change dimension 0, which is fixed."""
    flag(
        rules.RESHAPE_PARTITIONS,
        f"{method}() of {view.describe()}: {why}, but dimension 0 must stay",
        operand=view.name,
        seen=why,
        allowed="changes of the other dimensions",
        fix="allocate with the wanted shape, or move the data with a DMA or a transpose",
    )
    raise AssertionError("unreachable: S018 always raises")


def other_count(view: View, method: str, why: str) -> NoReturn:
    """Raise S017: a method would change the number of elements, or need a copy."""
    flag(
        rules.RESHAPE_COUNT,
        f"{method}() of tensor `{view.name}`: {why}",
        operand=view.name,
        seen=why,
        allowed="the same elements, without moving data",
        fix="write extents whose product is that of the old ones, of contiguous dimensions",
    )
    raise AssertionError("unreachable: S017 always raises")


def no_such_element(view: View, method: str, dim: int, name: str, position: int) -> NoReturn:
    """Raise S009: a position is negative."""
    extent = view.shape[dim]
    flag(
        rules.INDEX_OUT_OF_BOUNDS,
        f"{method}() of tensor `{view.name}`: {name} {position} in dimension {dim} of extent "
        f"{extent}",
        operand=view.name,
        seen=position,
        allowed=f"0 to {extent}",
        fix=f"count from the beginning: shape[{dim}] - {-position}",
    )
    raise AssertionError("unreachable: S009 always raises")
