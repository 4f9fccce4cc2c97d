"""The short way through a call: one function for what small instructions do time and again.

Most calls of a kernel compute one function of what they read, on a core that nobody watches, with
operands that were written and do not overlap the result. For such a call everything but the
arithmetic is bookkeeping, so it is written out once per plan, as straight code. What does not fit
goes the general way; results and findings are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from nkisim.diagnostics import Rule
from nkisim.dtypes import BFLOAT16_SMALL, UNSIGNED, bfloat16, takes_bfloat16
from nkisim.machine.lending import copied, make_lender
from nkisim.machine.transfer import Convert, make_narrower, make_widener, unconverted
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec.call import Call
from nkisim.spec.instruction import Instruction, Shortcut

__all__ = ["Quick", "make_quick"]

Quick = Callable[..., bool]
"""Executes a call, from the core and the arguments, or answers False: it must go the other way."""


def make_quick(
    instruction: Instruction,
    call: Call,
    result: str,
    inexact: Rule,
    shortcut: Shortcut | None,
    *,
    at_once: bool,
) -> Quick | None:
    """Return the short way through calls that compute one result, or None.

    Args:
        instruction: What is called.
        call: A call of the signature.
        result: Name of the operand that is written.
        inexact: The rule for integers that float32 cannot hold.
        shortcut: The faster way through such a call on stored elements, or None.
        at_once: Whether without it the whole tile is computed at once.
    """
    function = None if instruction.function is None else instruction.function(call)
    if instruction.operands[result].role == "sum":
        return None if function is None else _make_sum(instruction, call, result, function)
    function = function if at_once else None
    if function is None and shortcut is None:
        return None
    arithmetic = instruction.arithmetic(call)
    viewed = any(operand.as_view for operand in instruction.operands.values())
    if arithmetic not in ("fp32", "copy") or (viewed and arithmetic == "fp32"):
        return None
    converts = arithmetic == "fp32"
    dst = call[result]
    as_stored = converts and _computes_as_stored(instruction, call, dst, function)
    scope: dict[str, Any] = {"__name__": __name__, "_function": function}
    checks, notes, arguments = [], [], []
    stored = {name: name for name in instruction.parameters}
    stored[result] = f"{result}.array"
    for name in instruction.parameters:
        if name not in instruction.operands or name == result:
            continue
        value = call[name]
        if not isinstance(value, NkiTensor):
            if type(value) not in (float, int, type(None)):
                return None
            if value is not None:
                arguments.append(name)
                stored[name] = f"_float32({name})"
            continue
        widen: Convert = unconverted
        if converts and not as_stored:
            widen = make_widener(value, name, instruction.name, inexact=inexact)
        scope[f"_widen_{name}"] = widen
        if not value.trusted:
            checks.append(f"    {name}.check_bounds()\n")
        checks.append(
            f"    _storage = {name}.storage\n"
            "    if not _storage.complete or (\n"
            f"        _storage is _to and {name} is not {result}\n"
            f"        and {name}.form.region != {result}.form.region\n"
            "    ):\n        return False\n"
        )
        notes.append(f"    {name}.life.last_use = _clock\n")
        if value.buffer is MemoryRegion.psum:
            notes.append(f"    {name}.storage.psum.read({name}.form.region)\n")
        stored[name] = f"{name}.array"
        array = f"{name}._array if {name}._array is not None else {name}.array"
        if not converts:
            array = _bits(value, name, scope)
        elif value.ndim != 2:
            array = f"{name}.array.reshape{(value.shape[0], value.free_size)}"
        arguments.append(f"({array})" if widen is unconverted else f"_widen_{name}({array})")
    narrow: Convert = unconverted
    if converts and not as_stored:
        narrow = make_narrower(dst, result, instruction.name, inexact=inexact)
    scope["_narrow"] = narrow
    given = "".join(f"{argument}, " for argument in arguments)
    shaped = "" if dst.ndim == 2 else f".reshape({dst.shape})"
    if instruction.on_bytes:
        (read,) = (n for n in instruction.operands if n != result)
        compute = (
            f"_function({read}.storage.data, {read}.form.start, _to.data, {result}.form.start)"
        )
        if not dst.trusted:
            checks.append(f"    {result}.check_bounds()\n")
    elif not converts:
        compute = f"_function({given}out={_bits(dst, result, scope)})"
        if function is copied:
            scope["_lend"] = make_lender(call["src"], dst)
            if scope["_lend"] is not None:
                compute = f"_lend(src, {result}) or {compute}"
    elif narrow is unconverted and dst.ndim == 2:
        into = f"{result}._array if {result}._array is not None else {result}.array"
        compute = f"_function({given}out={into})"
    else:
        compute = f"{result}.array[...] = _narrow(_function({given}out=None)){shaped}"
    # One pass over stored elements is worth more than a conversion, NumPy in float32 worth more.
    widened = any(scope.get(f"_widen_{name}", unconverted) is not unconverted for name in stored)
    narrowed = narrow is not unconverted
    if shortcut is not None and (function is None or as_stored or widened or narrowed):
        scope |= {"_suits": shortcut.suits, "_short": shortcut.compute, "_float32": np.float32}
        if function is None:
            checks.append("    if _core.values and not _suits():\n        return False\n")
        compute = (
            ("if True:\n" if function is None else "if _suits():\n")
            + f"            (_found,) = _short(_core, ({', '.join(stored.values())},))\n"
            "            if _found is not None:\n"
            f"                {result}.array[...] = _narrow(_found){shaped}"
            + ("" if function is None else f"\n        else:\n            {compute}")
        )
    psum = dst.buffer is MemoryRegion.psum
    source = (
        f"def quick(_core, {', '.join(instruction.parameters)}):\n"
        f"    _to = {result}.storage\n{''.join(checks)}"
        f"    _core.clock = _clock = _core.clock + 1\n{''.join(notes)}"
        "    if _to.room is not None:\n        _to.own()\n"
        f"    _life = {result}.life\n    _life.last_use = _clock\n"
        "    if _life.first_use < 0:\n        _life.first_use = _clock\n"
        f"    if _core.values:\n        {compute}\n"
        + ("" if dst.trusted else f"    else:\n        {result}.check_bounds()\n")
        + f"    if not _to.complete:\n        {_marked(result)}\n"
        "    _to.version += 1\n"
        + (f"    _to.psum.write({result}.owner, {result}.form.region)\n" if psum else "")
        + "    return True\n"
    )
    exec(_compiled(source), scope)
    made: Quick = scope["quick"]
    return made


def _computes_as_stored(
    instruction: Instruction, call: Call, dst: NkiTensor, function: Callable[..., Any] | None
) -> bool:
    """Tell whether a function on a small tile may have bfloat16 elements as they are."""
    if dst.size >= BFLOAT16_SMALL or not isinstance(function, np.ufunc):
        return False
    operands = [call[name] for name in instruction.operands]
    return takes_bfloat16(function) and all(
        isinstance(x, NkiTensor) and x.origin.storage_dtype(x.dtype) == bfloat16.numpy
        for x in operands
    )


def _make_sum(
    instruction: Instruction, call: Call, result: str, function: Callable[..., bool]
) -> Quick:
    """Return the short way through calls that begin a sum, or go on with the one before."""
    read = [n for n in instruction.parameters if isinstance(call[n], NkiTensor) and n != result]
    incomplete = " or ".join(f"not {name}.storage.complete" for name in read)
    source = (
        f"def quick(_core, {', '.join(instruction.parameters)}):\n"
        f"    if _core.fast or {incomplete}:\n        return False\n"
        f"    _to, _owner, _region = {result}.storage, {result}.owner, {result}.form.region\n"
        "    _state = _to.psum\n"
        "    _goes_on = _state.goes_on(_owner, _region)\n"
        "    if accumulate is False:\n"
        "        _add = False\n"
        "        if _state.unread(_owner, _region):\n            return False\n"
        "    elif _goes_on and _to.complete and (accumulate is True or accumulate is None):\n"
        "        _add = True\n"
        "    elif accumulate is None and _state.opened(_owner, _region) is False:\n"
        "        _add = False\n"
        "    else:\n        return False\n"
        f"    if _core.values and not _function({result}, {', '.join(read)}, _add):\n"
        "        return False\n"
        "    _core.clock = _clock = _core.clock + 1\n"
        + "".join(f"    {name}.life.last_use = _clock\n" for name in (result, *read))
        + "    _to.version += 1\n"
        "    if not _goes_on:\n"
        f"        if {result}.life.first_use < 0:\n            {result}.life.first_use = _clock\n"
        f"        if not _to.complete:\n            {_marked(result)}\n"
        "        _state.open(_owner, _region)\n"
        "    return True\n"
    )
    scope: dict[str, Any] = {"__name__": __name__, "_function": function}
    exec(_compiled(source), scope)
    made: Quick = scope["quick"]
    return made


def _bits(tensor: NkiTensor, name: str, scope: dict[str, Any]) -> str:
    """Return the expression for a tensor's elements as integers, as quick as for its layout."""
    if not tensor.trusted:
        return f"{name}.bits"
    scope |= {
        "_ndarray": np.ndarray,
        f"_shape_{name}": tensor.shape,
        f"_kind_{name}": UNSIGNED[tensor.itemsize],
        f"_strides_{name}": tensor.strides,
    }
    where = f"{name}.storage.data, {name}.form.start, _strides_{name}"
    return f"_ndarray(_shape_{name}, _kind_{name}, {where})"


def _marked(result: str) -> str:
    """Return the statement that notes a result as written, in the storage ``_to``."""
    return f"_to.mark_written({result}.form.start, {result}.form.runs or {result}.runs)"


@lru_cache(maxsize=1024)
def _compiled(source: str) -> CodeType:
    """Return the code of a short way; plans differ in what they compute more than in how."""
    return compile(source, __file__, "exec")
