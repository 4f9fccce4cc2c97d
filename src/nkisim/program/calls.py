"""The calls that programs are recorded for: cores, and arguments as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nkisim.dtypes import DTYPES
from nkisim.machine import Core
from nkisim.memory import NkiTensor
from nkisim.objects import parts_of
from nkisim.program.data import ProgramData
from nkisim.program.values import ProgramError, decoded, encoded


def tape_name(core: Core) -> str:
    """Return the name of a core's tape in a program."""
    return "0.0" if core.member is None else f"{core.member.rank}.{core.member.core}"


def leaves(value: Any) -> Iterator[Any]:
    """Yield the parts of arguments that have no parts, in order."""
    parts = parts_of(value)
    if not parts and type(value) not in (list, tuple, dict):
        yield value
    for _, part in parts:
        yield from leaves(part)


def described(value: Any) -> Any:
    """Return an argument as JSON: a tensor by shape and dtype, an object of the kernel's as "?"."""
    if isinstance(value, NkiTensor):
        return ["tensor", [*value.shape], str(value.dtype)]
    try:
        return encoded(value, lambda _: None)
    except ProgramError:
        return ["?"]


def arguments_without_values(program: ProgramData) -> tuple[Any, ...]:
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
