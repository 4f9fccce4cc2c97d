"""Fast path of a plan: computes results directly into their destination, without the body.

The path is chosen when the plan is made. It is the shortcut of the instruction, which computes on
stored elements and large tiles in blocks, or the function of the instruction, which can write into
the destination. Both give the bits of the body. Checks of values need results before rounding,
which only the body returns, so calls with such checks do not take the fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Rule
from nkisim.machine.accesses import prepare_read
from nkisim.machine.accumulation import begin_sum
from nkisim.machine.calls.transfer import (
    Convert,
    Store,
    is_small_bfloat16,
    keeps_float32,
    make_converter,
    make_narrower,
    store_results,
    unconverted,
)
from nkisim.machine.core import Core
from nkisim.memory import NkiTensor
from nkisim.spec.call import Call
from nkisim.spec.instruction import Instruction, Shortcut

_EXACT = 1 << 24
"""Integers up to this are exact in float32."""

_OF_BFLOAT16 = (np.add, np.subtract, np.multiply)
"""Operations that ml_dtypes does on bfloat16 as here: in float32, rounded once."""


class Fast(NamedTuple):
    """The fast path of the calls of one signature.

    Attributes:
        compute: Takes the core and the resolved arguments, and writes the results.
        interleaves: Whether some results are written before all operands are read.
    """

    compute: Callable[[Core, Sequence[Any]], None]
    interleaves: bool


class Function(NamedTuple):
    """The function of an instruction for the calls of one signature.

    Attributes:
        function: Takes the elements that the call reads, the mask of the elements of ``dst`` to add
            to if the call may add, and ``out``: the array for the result, or None.
        given: For each operand that the call reads: its place in the arguments, its name and its
            conversion. A number has neither name nor conversion. The conversion is None if the
            elements are taken as stored.
        into: Whether ``function`` writes into the destination; otherwise its result is rounded into
            it.
        converts_nothing: Whether operands and result are float32.
    """

    function: Callable[..., Any]
    given: tuple[tuple[int, str | None, Convert | None], ...]
    into: bool
    converts_nothing: bool


def make_function(
    instruction: Instruction, call: Call, result: str, *, inexact: Rule
) -> Function | None:
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
    return Function(function, tuple(given), into, stays and all(map(keeps_float32, tensors)))


def with_function(
    found: Function, instruction: str, sums: tuple[int, int] | None, result: Store
) -> Fast:
    """Return the path that calls the instruction's function.

    Args:
        found: The function.
        instruction: The instruction's name.
        sums: Places of the result and of ``accumulate`` in the arguments, if the result is a sum.
        result: The function that writes the result, with its place and record; see ``Store``.
    """
    function, given, into, _ = found
    to, store, note = result

    def compute(core: Core, tensors: Sequence[Any]) -> None:
        operands = []
        for index, name, convert in given:
            operand = tensors[index]
            if name is not None:
                operand = prepare_read(operand, instruction, name)
                if convert is not None:
                    operand = convert(operand)
            operands.append(operand)
        if sums is not None:
            index, accumulate = sums
            operands.append(begin_sum(core, tensors[index], tensors[accumulate], instruction))
        target = tensors[to]
        if into:  # NumPy buffers a result that overlaps an operand
            function(*operands, out=target._elements)
            note(target)
        else:
            store(target, function(*operands, out=None))

    return Fast(compute, interleaves=False)


def with_shortcut(
    shortcut: Shortcut,
    instruction: str,
    numbers: Sequence[tuple[int, Callable[[Any], Any]]],
    reads: Sequence[tuple[int, str]],
    results: Sequence[Store],
) -> Fast:
    """Return the path that computes on stored elements.

    Args:
        shortcut: The computation.
        instruction: The instruction's name.
        numbers: Places of numbers in the arguments, with their conversions.
        reads: Places and names of the operands that are read.
        results: The same for each result.
    """

    def compute(core: Core, tensors: Sequence[Any]) -> None:
        arguments = list(tensors)
        for index, convert in numbers:
            arguments[index] = convert(arguments[index])
        for index, operand in reads:
            arguments[index] = prepare_read(tensors[index], instruction, operand)
        for index, _, _ in results:
            arguments[index] = tensors[index]._elements
        store_results(results, tensors, shortcut(core, arguments))

    return Fast(compute, interleaves=True)
