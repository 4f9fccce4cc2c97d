"""Calls of programs: the arguments that one was recorded for, with values drawn for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.dtypes import DTYPES
from nkisim.program.data import Program
from nkisim.program.values import ProgramError, decoded


def arguments_without_values(program: Program) -> tuple[Any, ...]:
    """Return the arguments of a program by position; arrays repeat one element.

    Raises:
        ProgramError: It was recorded for several ranks, or for arguments that are no plain values.
    """
    tapes = list(program.tapes.values())
    given = tapes[0]["given"] if tapes else []
    if any(tape["given"] != given for tape in tapes) or len(given) > len(program.parameters):
        raise ProgramError(f"{program.kernel} needs arguments: it was recorded for other ones")
    return tuple(map(_argument, given))


def _argument(given: Any) -> Any:
    if type(given) is list and given[0] == "tensor":
        _, shape, dtype = given
        return np.broadcast_to(np.ones((), DTYPES[dtype].numpy), shape)
    return decoded(given, {}, {})
