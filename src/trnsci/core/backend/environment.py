"""Boolean environment variables, read at each use.

``1``, ``true``, ``yes`` and ``on`` mean on; ``0``, ``false``, ``no``, ``off`` and the empty string
mean off, in upper or lower case. A variable that is not set is off; any other value raises.
"""

from __future__ import annotations

import os

from trnsci.core.errors import FlagError

__all__ = ["UMBRELLA", "Switch", "flag_value", "library_switch"]

UMBRELLA = "TRNSCI"

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})


def flag_value(name: str, value: str) -> bool:
    """Return whether ``value`` switches the variable ``name`` on.

    Raises:
        FlagError: The value is not accepted.
    """
    word = value.strip().lower()
    if word in _ON:
        return True
    if word in _OFF:
        return False
    raise FlagError(
        f"{name}: got {value!r}, accepted: 1, true, yes, on; or 0, false, no, off, empty"
    )


class Switch:
    """A library's variable, and the variable of the suite that applies if it is not set.

    Attributes:
        name: The library's variable; it takes precedence if set, even to the empty string.
        umbrella: The variable that applies otherwise.
    """

    def __init__(self, name: str, umbrella: str) -> None:
        self.name = name
        self.umbrella = umbrella

    def is_on(self) -> bool:
        """Return whether the switch is currently on."""
        for name in (self.name, self.umbrella):
            value = os.environ.get(name)
            if value is not None:
                return flag_value(name, value)
        return False


def library_switch(library: str, what: str) -> Switch:
    """Return the switch ``<LIBRARY>_<WHAT>`` with the umbrella ``TRNSCI_<WHAT>``."""
    return Switch(f"{library.upper()}_{what}", f"{UMBRELLA}_{what}")
