"""Environment variables of the libraries, read once, when a library is imported.

A switch is boolean: ``1``, ``true``, ``yes`` and ``on`` mean on; ``0``, ``false``, ``no``, ``off``
and the empty string mean off. A requirement has three levels: ``0`` or the empty string, ``1``, and
``all``. Upper and lower case are the same. A variable that is not set is off. Any other value is an
error of the first call, not of the import: an import that fails cannot be handled by the caller.
"""

from __future__ import annotations

import os
from typing import Generic, Literal, TypeVar

from trnsci.core.errors import FlagError

UMBRELLA = "TRNSCI"
Level = Literal["", "1", "all"]

T = TypeVar("T")

_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
}
_LEVELS: dict[str, Level] = {"": "", "0": "", "1": "1", "all": "all"}


class Variable(Generic[T]):
    """The value of a library's variable, or of the suite's variable if that is not set.

    Args:
        name: The library's variable; it takes precedence if set, even to the empty string.
        umbrella: The variable of the suite.
        values: The accepted words with their values; that of the empty string applies if neither
            variable is set.
        accepted: The accepted words, for the error.

    Attributes:
        name: The library's variable.
        value: The value, or that of the empty string if the variable has an unknown one.
        error: The error of an unknown value, or None.
    """

    def __init__(self, name: str, umbrella: str, values: dict[str, T], accepted: str) -> None:
        self.name = name
        self.error: FlagError | None = None
        chosen = name if name in os.environ else umbrella
        text = os.environ.get(chosen, "")
        word = text.strip().lower()
        if word not in values:
            self.error = FlagError(f"{chosen}: got {text!r}, accepted: {accepted}")
            word = ""
        self.value = values[word]


def library_switch(library: str, what: str) -> Variable[bool]:
    """Return the switch ``<LIBRARY>_<WHAT>`` with the umbrella ``TRNSCI_<WHAT>``."""
    accepted = "1, true, yes, on; or 0, false, no, off, empty"
    return Variable(f"{library.upper()}_{what}", f"{UMBRELLA}_{what}", _FLAGS, accepted)


def library_requirement(library: str) -> Variable[Level]:
    """Return the requirement ``<LIBRARY>_REQUIRE_NKI`` with the umbrella ``TRNSCI_REQUIRE_NKI``.

    With ``1``, calls raise that have a kernel and would not run it; with ``all``, calls of
    functions without a kernel raise too.
    """
    name = "REQUIRE_NKI"
    names = f"{library.upper()}_{name}", f"{UMBRELLA}_{name}"
    return Variable(*names, _LEVELS, "1, all; or 0, empty")
