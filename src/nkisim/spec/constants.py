"""Kinds of the arguments that are constants: enum members, flags, numbers and tuples."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from nkisim.spec import rules
from nkisim.spec.call import Call
from nkisim.spec.constraints import not_constant


class _Kind(NamedTuple):
    says: str
    accepts: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    if isinstance(value, (int, np.integer)):
        return -(2**31) <= int(value) < 2**32
    if isinstance(value, (float, np.floating)):
        return float(value).is_integer() and abs(float(value)) < 2**32
    # Registers and the indices of dynamic loops.
    return hasattr(type(value), "__index__") and not isinstance(value, np.ndarray)


def _is_flag(value: Any) -> bool:
    return isinstance(value, (float, np.bool_, np.floating)) or _is_integer(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


def _sequence_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(accepts, value))


_FLAG = _Kind("True or False", _is_flag)
_INTEGER = _Kind("an integer of 32 bits", _is_integer)
_INTEGERS = _Kind("a tuple of integers", _sequence_of(_is_integer))
_AXES = _Kind(
    "an integer or a tuple of integers",
    lambda value: _is_integer(value) or _sequence_of(_is_integer)(value),
)
_NUMBER = _Kind("a number", _is_number)
_NUMBERS = _Kind("a list of numbers", _sequence_of(_is_number))

_KINDS = {
    "accumulate": _FLAG,
    "axes": _INTEGERS,
    "axis": _AXES,
    "channel_multiplier": _INTEGER,
    "is_moving_onezero": _FLAG,
    "is_stationary_onezero": _FLAG,
    "is_transpose": _FLAG,
    "keepdims": _FLAG,
    "negate": _FLAG,
    "num_elem_per_idx": _INTEGER,
    "num_valid_indices": _INTEGER,
    "offset": _INTEGER,
    "on_false_value": _NUMBER,
    "pipe_id": _INTEGER,
    "range_start": _INTEGER,
    "recv_from_rank": _INTEGER,
    "reduce_res_negate": _FLAG,
    "reverse0": _FLAG,
    "reverse1": _FLAG,
    "reverse_pred": _FLAG,
    "scales": _NUMBERS,
    "send_to_rank": _INTEGER,
    "tile_position": _INTEGERS,
    "tile_size": _INTEGERS,
    "unique_indices": _FLAG,
}


def check_constants(call: Call) -> None:
    """Check the kinds of flags, numbers and tuples."""
    for name in call.values:
        if name not in call.instruction.operands:
            check_constant(call, name)


def check_constant(call: Call, name: str) -> None:
    """Check the kind of one argument that is not an operand."""
    kind = _KINDS.get(name)
    if kind is None or kind.accepts(value := call[name]):
        return
    default = call.instruction.signature.parameters[name].default
    if value is None and (default is None or default is False or default == ()):
        return
    not_constant(call, name, kind.says)


def check_enums(call: Call) -> None:
    """Check the arguments whose default is an enum member, and convert names and raw integers."""
    for name, parameter in call.instruction.signature.parameters.items():
        default, value = parameter.default, call.values[name]
        if not isinstance(default, Enum) or isinstance(value, type(default)):
            continue
        kind = type(default)
        member = _enum_member(kind, value)
        choices = ", ".join(f"nisa.{kind.__name__}.{m.name}" for m in kind)
        if member is None:
            call.fail_call(
                rules.ENUM_KIND,
                f"{name} must be a member of nisa.{kind.__name__}, got {value!r}",
                operand=name,
                seen=repr(value),
                allowed=choices,
                fix=f"pass a member of nisa.{kind.__name__}",
            )
            continue
        call.normalise(name, member)
        if not isinstance(value, str):
            meant = f"{kind.__name__}.{member.name}"
            call.fail(
                rules.INTEGER_ENUM,
                f"{name} is the integer {value}, which stands for nisa.{meant}",
                operand=name,
                seen=value,
                allowed=choices,
                fix=f"write nisa.{meant}",
                data={"member": meant},
            )


def _enum_member(kind: type[Enum], value: object) -> Enum | None:
    """Return the enum member with a string as name or a raw integer as value, or None."""
    if isinstance(value, str):
        return kind.__members__.get(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return next((m for m in kind if m.value == value), None)
    return None
