"""Input coverage: inputs that a kernel does not read, or reads without their tail.

An input that the kernel's source uses may belong to a path that was not taken, as C does when beta
is 0. An input is reported as unread only if the source uses nothing of it but its shape. It is not
reported if no input is read, since a kernel that only generates its output needs some tensor
argument.

A tail is the remainder after equal steps along one dimension, where the kernel reads the input in a
loop whose number of iterations comes from ``//`` without rounding up. Kernels may legitimately read
a part of an input, such as a triangle, the blocks of a mask or indexed rows, so other partial reads
are not reported.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np

from nkisim.checks.langcheck.source import definition_of
from nkisim.diagnostics import Place, declare, flag
from nkisim.machine import Effect
from nkisim.memory import Lifetime, NkiTensor
from nkisim.memory.written_map import Marks

__all__ = ["InputCoverage"]

UNREAD_INPUT = declare(
    "W005",
    "unread-input",
    "warning",
    "An input is never read, or the last steps along a dimension are left out.",
    "results do not depend on what the caller passed",
    detector="lostwork",
)
DROPPED_TAIL = declare(
    "S070",
    "dropped-tail",
    "warning",
    "The tail of an input is never read: the extent is not a multiple of the tile, and the "
    "number of tiles was rounded down.",
    "the last elements do not enter the result",
    detector="lostwork",
)

_MOST_STARTS = 1 << 16


class _Input:
    """The elements of one argument that were read.

    Attributes:
        read: Mask of these elements.
        starts: First bytes of the views that were read; None when there are too many, or when the
            addresses are data-dependent.
    """

    __slots__ = ("read", "starts")

    def __init__(self, nbytes: int) -> None:
        self.read = Marks(nbytes)
        self.starts: set[int] | None = set()


class InputCoverage:
    """Records the elements of the arguments that are read."""

    def __init__(self) -> None:
        self._inputs: dict[Lifetime, _Input] = {}

    def read(self, effect: Effect) -> None:
        """Note a read."""
        tensor = effect.tensor
        if not tensor.origin.is_argument or not tensor.size:
            return
        found = self._inputs.get(tensor.life)
        if found is None:
            found = self._inputs[tensor.life] = _Input(tensor.storage.data.size)
        if not effect.plain:
            found.starts = None
        elif found.starts is not None:
            found.starts.add(tensor.start)
            found.read.add(tensor.start, tensor.runs)
            if len(found.starts) > _MOST_STARTS:
                found.starts = None

    def finish(
        self,
        arguments: Collection[tuple[str, NkiTensor]],
        kernel: Callable[..., Any],
        place: Place,
    ) -> None:
        """Flag unread arguments and tails of a kernel, which is defined at ``place``."""
        # The source is analysed only where something was not read, which is rare.
        unused = cache(lambda: _unused_parameters(kernel) if self._inputs else set())
        in_steps = cache(lambda: _read_in_steps(kernel))
        for name, tensor in arguments:
            if tensor.life.first_use >= 0 or not tensor.size:
                continue
            found = self._inputs.get(tensor.life)
            if found is None and name in unused():
                flag(
                    UNREAD_INPUT,
                    f"argument {name} is never read",
                    operand=name,
                    seen=tensor.describe(),
                    fix="use it, or drop the parameter",
                    place=place,
                )
            elif found is not None and found.starts is not None:
                missing = found.read.missing(tensor.region)
                if missing is not None and name in in_steps():
                    _check_tail(name, tensor, missing, found.starts, place)


def _unused_parameters(kernel: Callable[..., Any]) -> set[str]:
    """Return the parameters of which a kernel's source uses at most shape and type."""
    definition = definition_of(inspect.unwrap(kernel))
    if definition is None or isinstance(definition[1], ast.ClassDef):
        return set()
    node = definition[1]
    names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    described = {
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and part.attr in ("dtype", "ndim", "shape", "size")
    }
    return names - {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part not in described
    }


def _read_in_steps(kernel: Callable[..., Any]) -> set[str]:
    """Return the names in loops whose number of iterations is a division rounded down."""
    definition = definition_of(inspect.unwrap(kernel))
    if definition is None:
        return set()
    nodes = list(ast.walk(definition[1]))
    counts = {
        target.id
        for assign in nodes
        if isinstance(assign, ast.Assign) and _has_floor(assign.value)
        for target in assign.targets
        if isinstance(target, ast.Name)
    }
    found: set[str] = set()
    for loop in nodes:
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call):
            header = [part for argument in loop.iter.args for part in ast.walk(argument)]
            counted = any(isinstance(n, ast.Name) and n.id in counts for n in header)
            if counted or any(map(_has_floor, loop.iter.args)):
                inside = (part for statement in loop.body for part in ast.walk(statement))
                found |= {part.id for part in inside if isinstance(part, ast.Name)}
    return found


def _has_floor(node: ast.AST) -> bool:
    """Return whether an expression divides and rounds down.

    ``-(-n // t)`` and ``(n + t - 1) // t`` round up. A product on the left is not an extent of an
    input and does not count.
    """
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.FloorDiv)
        and isinstance(part.left, (ast.Name, ast.Attribute, ast.Subscript))
        for part in ast.walk(node)
    )


def _check_tail(
    name: str, tensor: NkiTensor, missing: np.ndarray, starts: set[int], place: Place
) -> None:
    """Flag an input that is read in equal steps from its beginning, but not to its end."""
    axes = [axis for axis in range(missing.ndim) if not _is_uniform(missing, axis)]
    if len(axes) != 1:
        return
    axis = axes[0]
    line = np.moveaxis(missing, axis, 0).reshape(missing.shape[axis], -1)[:, 0]
    end, extent = int(line.argmax()), len(line)
    if not end or not line[end:].all():
        return
    stride = tensor.strides[axis]
    positions = sorted({start // stride % extent for start in starts})
    step = positions[1] - positions[0] if len(positions) > 1 else 0
    if step < 2 or positions != list(range(0, end, step)) or end % step:
        return
    tail = extent - end
    if tail == extent % step:
        rule, why = DROPPED_TAIL, f"{extent} is not a multiple of the step {step}"
        fix = "round the number of tiles up and slice the last one, or assert divisibility"
    elif tail % step == 0 and tail <= step:
        rule, why = UNREAD_INPUT, f"the last step of {step} is left out"
        fix = "let the loop run to the end"
    else:
        return
    flag(
        rule,
        f"the last {tail} of {extent} elements of argument {name} along dimension {axis} are never "
        f"read: {why}",
        operand=name,
        seen=f"{name} {tensor.shape}, read up to {end} along dimension {axis} in steps of {step}",
        fix=fix,
        place=place,
    )


def _is_uniform(missing: np.ndarray, axis: int) -> bool:
    """Return whether all slices across an axis are equal."""
    first = missing.take([0], axis)
    return bool((missing == first).all())
