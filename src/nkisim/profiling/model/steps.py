"""Elementwise steps that one ``activation`` can do: scale and bias, a function, a sum."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from nkisim.machine import Event
from nkisim.memory import NkiTensor
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.ops import as_op


class Term(NamedTuple):
    """One operator of a ``tensor_scalar`` with its second input.

    Attributes:
        operator: ``"add"``, ``"subtract"`` or ``"multiply"``.
        argument: Parameter of the second input.
        number: The second input; None for one value per partition.
    """

    operator: str
    argument: str
    number: float | None


class Step(NamedTuple):
    """What an instruction computes.

    Attributes:
        kind: ``"affine"``, a ``tensor_scalar``; ``"function"``, an ``activation``; ``"square"``, a
            ``tensor_tensor`` of a tile with itself; ``"sum"``, a ``tensor_reduce`` of all columns.
        reads: Name of the parameter for the tile that the instruction reads.
        terms: Operators and operands of an ``"affine"`` step, in order; else empty.
        function: Name of the activation function of a ``"function"`` step, else "".
        plain: Whether the step is an ``activation`` without scale and bias.
        reduces: Whether the step is an ``activation`` with a reduction.
    """

    kind: Literal["affine", "function", "square", "sum"]
    reads: str
    terms: tuple[Term, ...] = ()
    function: str = ""
    plain: bool = False
    reduces: bool = False


def step_of(event: Event) -> Step | None:
    """Return the step that an instruction does, None for one that no activation can do."""
    found = _STEPS.get(event.instruction)
    return None if found is None else found(event.arguments)


def _name(op: Any) -> str:
    found = as_op(op)
    return "" if found is None else found.name


def _affine(arguments: Any) -> Step | None:
    if arguments["dst"].dtype.kind != "float" or arguments["data"].dtype.kind != "float":
        return None
    terms = []
    for i in (0, 1):
        operator, operand = _name(arguments[f"op{i}"]), arguments[f"operand{i}"]
        if not operator and i:
            continue
        swapped = operator == "subtract" and arguments[f"reverse{i}"]
        if operator not in ("add", "subtract", "multiply") or swapped:
            return None
        if isinstance(operand, (int, float, np.number)):
            terms.append(Term(operator, f"operand{i}", float(operand)))
        elif isinstance(operand, NkiTensor):
            terms.append(Term(operator, f"operand{i}", None))
        else:  # known at run time
            return None
    return Step("affine", "data", tuple(terms))


def _function(arguments: Any) -> Step | None:
    scale, command = arguments["scale"], arguments.get("reduce_cmd", ReduceCmd.reset_reduce)
    unscaled = not isinstance(scale, NkiTensor) and scale == 1
    return Step(
        "function",
        "data",
        function=_name(arguments["op"]),
        plain=unscaled and arguments["bias"] is None,
        reduces=command is not ReduceCmd.idle or arguments["reduce_res"] is not None,
    )


def _square(arguments: Any) -> Step | None:
    floats = arguments["dst"].dtype.kind == "float" and arguments["data1"].dtype.kind == "float"
    return Step("square", "data1") if floats and _name(arguments["op"]) == "multiply" else None


def _sum(arguments: Any) -> Step | None:
    whole = arguments["dst"].free_size == 1 and arguments["data"].dtype.kind == "float"
    adds = _name(arguments["op"]) == "add" and not arguments["negate"]
    return Step("sum", "data") if whole and adds else None


_STEPS = {
    "activation": _function,
    "activation_reduce": _function,
    "tensor_reduce": _sum,
    "tensor_scalar": _affine,
    "tensor_tensor": _square,
}
