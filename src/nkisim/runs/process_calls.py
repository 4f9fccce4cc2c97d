"""Counts of the kernel calls of a process, from which their device times are predicted at its end.

A call is one of a kernel with arguments of fixed shapes, dtypes and constants. Only the shapes and
dtypes of its arrays are held.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

from nkisim.objects import rebuilt
from nkisim.options import SimOptions
from nkisim.runs.signatures import array_form, key_of, without_values


@dataclass(slots=True)
class CountedCall:
    """A call, and how often a process has made it.

    Attributes:
        kernel: The kernel.
        options: The settings of its runs.
        args, kwargs: The arguments; arrays are zeros without memory of their own.
        count: The number of calls.
    """

    kernel: Any
    options: SimOptions
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    count: int = 0


class _State:
    """Whether calls are counted, and the calls of the process by key."""

    lock = threading.Lock()
    counting = False
    calls: ClassVar[dict[Any, CountedCall]] = {}


def count_calls() -> None:
    """Count the calls of this process from now on; a second call changes nothing."""
    _State.counting = True


def counted_calls() -> list[CountedCall]:
    """Return the counted calls, and count no more."""
    with _State.lock:
        found = list(_State.calls.values())
        _State.counting = False
        _State.calls.clear()
    return found


def note_call(
    kernel: Any, options: SimOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Count a call, if calls are counted."""
    if not _State.counting:
        return
    try:
        key: Any = kernel, options, key_of(args), key_of(kwargs)
        hash(key)
    except TypeError:  # an argument or an option is no key: calls with equal arrays count as equal
        key = kernel, tuple(_forms([*args, *kwargs.values()]))
    with _State.lock:
        call = _State.calls.get(key)
        if call is None:
            given = [rebuilt(arg, without_values) for arg in args]
            named = {name: rebuilt(arg, without_values, name) for name, arg in kwargs.items()}
            call = _State.calls[key] = CountedCall(kernel, options, tuple(given), named)
        call.count += 1


def _forms(arguments: list[Any]) -> list[Any]:
    found: list[Any] = []

    def note(_: str, part: Any) -> Any:
        found.append(array_form(part))
        return part

    rebuilt(arguments, note)
    return found
