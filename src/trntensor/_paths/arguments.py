"""Parsing of the call forms of a contraction, and validation of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import DeviceError, DTypeError, ShapeError
from trntensor._planning.subscripts import from_sublists, pointed


def read_arguments(
    function: str, subscripts: Any, operands: Sequence[Any]
) -> tuple[str, Sequence[Any]]:
    """Return subscripts and operands of any call form."""
    if isinstance(subscripts, str):
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = operands[0]
        return subscripts, operands
    return from_sublists(function, (subscripts, *operands))


def check_operands(function: str, text: str, tensors: Sequence[Any]) -> None:
    """Raise unless the operands are tensors of one dtype on one device."""
    if not tensors:
        raise ShapeError(pointed(f"{function}: there must be at least one operand, got none", text))
    first = tensors[0]
    for number, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            kind = type(x).__name__
            message = f"{function}: operand {number} must be a torch.Tensor, got {kind}"
            raise DTypeError(pointed(message, text, _term(text, number)))
        if x.dtype is not first.dtype:
            message = (
                f"{function}: operands must have one dtype, got {first.dtype} in operand 0 and "
                f"{x.dtype} in operand {number}"
            )
            raise DTypeError(pointed(message, text, _term(text, number)))
        if x.device != first.device:
            message = (
                f"{function}: operands must have one device, got {first.device} in operand 0 and "
                f"{x.device} in operand {number}"
            )
            raise DeviceError(pointed(message, text, _term(text, number)))
    if first.dtype is torch.bool and len(tensors) > 1:
        message = (
            f"{function}: operands must be numbers, got torch.bool: torch has no products of it; "
            f"cast them, or pass dtype"
        )
        raise DTypeError(pointed(message, text))


def _term(text: str, number: int) -> list[int]:
    """Return the position of an operand's term in the subscripts."""
    terms = text.partition("->")[0].split(",")
    if number >= len(terms):
        return []
    start = sum(len(term) + 1 for term in terms[:number])
    return [start + i for i, sign in enumerate(terms[number]) if sign != " "]
