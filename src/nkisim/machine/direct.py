"""The function of an instruction, called on elements without the layers of its body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Rule
from nkisim.machine.transfer import (
    Convert,
    is_small_bfloat16,
    keeps_float32,
    make_converter,
    make_narrower,
    unconverted,
)
from nkisim.memory import NkiTensor
from nkisim.spec.call import Call
from nkisim.spec.instruction import Instruction

__all__ = ["Direct", "make_direct"]

_EXACT = 1 << 24
"""Integers up to this are exact in float32."""

_OF_BFLOAT16 = (np.add, np.subtract, np.multiply)
"""Operations that ml_dtypes does on bfloat16 as here: in float32, rounded once."""


class Direct(NamedTuple):
    """The function of an instruction for the calls of one signature.

    Attributes:
        function: Takes the elements that the call reads, the elements that a sum is added to, if
            the result is one, and ``out``, the array for the result, or None.
        given: The operands that the call reads, each with its name and its conversion; both are
            None for numbers, and the conversion for elements that are taken as they are stored.
        into: Whether it writes into the destination; otherwise its result has to be rounded.
        converts_nothing: Whether operands and result are float32.
    """

    function: Callable[..., Any]
    given: tuple[tuple[int, str | None, Convert | None], ...]
    into: bool
    converts_nothing: bool


def make_direct(
    instruction: Instruction, call: Call, result: str, *, inexact: Rule
) -> Direct | None:
    """Return the instruction's function for a call in float32, or None if there is none.

    Args:
        instruction: The instruction.
        call: A call of the signature.
        result: Name of the operand that is written.
        inexact: The rule for integers that float32 cannot hold.
    """
    function = None if instruction.function is None else instruction.function(call)
    if function is None:
        return None
    dst: NkiTensor = call[result]
    tensors: list[NkiTensor] = []
    given: list[tuple[int, str | None, Convert | None]] = []
    for index, name in enumerate(instruction.parameters):
        value, operand = call[name], instruction.operands.get(name)
        if operand is None or name == result or value is None:
            continue
        if isinstance(value, NkiTensor):
            tensors.append(value)
            convert = make_converter(value, operand, name, instruction.name, inexact=inexact)
            given.append((index, name, None if convert is unconverted else convert))
        elif type(value) is float or (type(value) is int and abs(value) <= _EXACT):
            given.append((index, None, None))
        else:
            return None
    stays = make_narrower(dst, result, instruction.name, inexact=inexact) is unconverted
    into = stays and dst.ndim == 2
    if (
        function in _OF_BFLOAT16
        and len(tensors) == len(given)
        and all(map(is_small_bfloat16, (dst, *tensors)))
    ):
        given, into = [(index, name, None) for index, name, _ in given], True
    return Direct(function, tuple(given), into, stays and all(map(keeps_float32, tensors)))
