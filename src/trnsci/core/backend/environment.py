"""Environment variables of the libraries, read at each use.

A ``Switch`` is boolean: ``1``, ``true``, ``yes`` and ``on`` mean on; ``0``, ``false``, ``no``,
``off`` and the empty string mean off. A ``Requirement`` has three levels: ``0`` or the empty
string, ``1``, and ``all``. Upper and lower case are the same. A variable that is not set is off;
any other value raises.
"""

from __future__ import annotations

import os

from trnsci.core.errors import FlagError

__all__ = [
    "UMBRELLA",
    "Requirement",
    "Switch",
    "Variable",
    "flag_value",
    "library_requirement",
    "library_switch",
]

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


class Variable:
    """A library's variable, and the variable of the suite that applies if it is not set.

    Attributes:
        name: The library's variable; it takes precedence if set, even to the empty string.
        umbrella: The variable that applies otherwise.
    """

    def __init__(self, name: str, umbrella: str) -> None:
        self.name = name
        self.umbrella = umbrella

    def _set(self) -> str:
        """Return the name of the variable that is set, or the empty string."""
        if self.name in os.environ:
            return self.name
        return self.umbrella if self.umbrella in os.environ else ""


class Switch(Variable):
    """A boolean variable."""

    def is_on(self) -> bool:
        """Return whether the switch is currently on."""
        name = self._set()
        return bool(name) and flag_value(name, os.environ[name])


class Requirement(Variable):
    """A variable that makes calls raise instead of computing on torch.

    With ``1``, calls raise that have a kernel and would not run it; with ``all``, calls of
    functions without a kernel raise too.
    """

    def level(self) -> str:
        """Return ``""``, ``"1"`` or ``"all"``.

        Raises:
            FlagError: The value is not accepted.
        """
        name = self._set()
        if not name:
            return ""
        value = os.environ[name]
        word = value.strip().lower()
        if word in ("", "0"):
            return ""
        if word in ("1", "all"):
            return word
        raise FlagError(f"{name}: got {value!r}, accepted: 1, all; or 0, empty")

    def is_on(self) -> bool:
        """Return whether calls that have a kernel must run it."""
        return self.level() != ""


def library_switch(library: str, what: str) -> Switch:
    """Return the switch ``<LIBRARY>_<WHAT>`` with the umbrella ``TRNSCI_<WHAT>``."""
    return Switch(f"{library.upper()}_{what}", f"{UMBRELLA}_{what}")


def library_requirement(library: str) -> Requirement:
    """Return the requirement ``<LIBRARY>_REQUIRE_NKI`` with the umbrella ``TRNSCI_REQUIRE_NKI``."""
    return Requirement(f"{library.upper()}_REQUIRE_NKI", f"{UMBRELLA}_REQUIRE_NKI")
