"""Environment variables that are on or off, read at each use.

``1``, ``true``, ``yes`` and ``on`` mean on; ``0``, ``false``, ``no``, ``off`` and the empty string
mean off, in any case of letters. A variable that is not set is off; any other value raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from trnsci.core.errors import FlagError
from trnsci.core.tracing import constant_to_compile

__all__ = ["ENVIRON", "STORED", "UMBRELLA", "Switch", "flag_value", "library_switch"]

UMBRELLA = "TRNSCI"

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})

# os.environ encodes every name that it is asked for and raises inside for one that is not set:
# over a microsecond, in calls that last a few. The dictionary behind it answers in 40 ns; it is
# the one that every assignment to os.environ changes, and torch.compile can guard on it.
ENVIRON = os.environ
STORED: Mapping[Any, Any] = getattr(ENVIRON, "_data", ENVIRON)
_encoded: Callable[[str], Any] = getattr(ENVIRON, "encodekey", str)


@constant_to_compile
def flag_value(name: str, value: str | bytes) -> bool:
    """Return what ``value`` means for the variable ``name``.

    Raises:
        FlagError: The value is none of the accepted ones.
    """
    text = os.fsdecode(value)
    word = text.strip().lower()
    if word in _ON:
        return True
    if word in _OFF:
        return False
    raise FlagError(
        f"{name}: got {text!r}, accepted: 1, true, yes, on; or 0, false, no, off, empty"
    )


class Switch:
    """A variable, and a second one that decides where the first is not set.

    Attributes:
        name: The variable that wins where it is set, be it to the empty string.
        umbrella: The other one.
        own: The key of the first in ``STORED``.
        other: That of the other one.
    """

    def __init__(self, name: str, umbrella: str) -> None:
        self.name = name
        self.umbrella = umbrella
        self.own = _encoded(name)
        self.other = _encoded(umbrella)

    def is_on(self) -> bool:
        """Return whether the switch is on now."""
        if os.environ is ENVIRON:
            value = STORED.get(self.own)
            if value is not None:
                return flag_value(self.name, value)
            value = STORED.get(self.other)
            return value is not None and flag_value(self.umbrella, value)
        # Somebody put another mapping in the place of os.environ.
        for name in (self.name, self.umbrella):
            if name in os.environ:
                return flag_value(name, os.environ[name])
        return False


def library_switch(library: str, what: str) -> Switch:
    """Return the switch ``<LIBRARY>_<WHAT>``, behind which stands ``TRNSCI_<WHAT>``."""
    return Switch(f"{library.upper()}_{what}", f"{UMBRELLA}_{what}")
