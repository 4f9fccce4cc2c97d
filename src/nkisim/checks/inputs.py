"""Input coverage: inputs that a kernel does not read, or reads without their tail.

An input that the kernel's source uses may belong to a path that was not taken, as C does when beta
is 0. An input is reported as unread only if the source uses nothing of it but its shape. It is not
reported if no input is read, since a kernel that only generates its output needs some tensor
argument.

A tail is the remainder after equal steps along one dimension, where the kernel reads the input in a
loop whose number of iterations comes from ``//`` without rounding up.

A forgotten index is a loop with as many iterations as the input has blocks along a dimension, which
reads the same block in each of them.

Kernels may legitimately read a part of an input, such as a triangle, the blocks of a mask or
indexed rows, so other partial reads are not reported.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection
from functools import cache, lru_cache
from typing import Any

import numpy as np

from nkisim.diagnostics import Place, declare, flag, loops_around
from nkisim.machine import Effect
from nkisim.memory import Lifetime, NkiTensor
from nkisim.memory.written_map import Marks
from nkisim.source import definition_of, names_in, with_parameters

UNREAD_INPUT = declare(
    "W005",
    "unread-input",
    "An input is never read, or blocks of it are left out along a dimension: the last step, or all "
    "but one in a loop over them.",
    "results do not depend on what the caller passed",
    severity="warning",
    detector="lostwork",
)
DROPPED_TAIL = declare(
    "S070",
    "dropped-tail",
    "The tail of an input is never read: the extent is not a multiple of the tile, and the "
    "number of tiles was rounded down.",
    "the last elements do not enter the result",
    severity="warning",
    detector="lostwork",
)

_MOST_STARTS = 1 << 16
_MOST_BLOCKS = 1 << 10


class _Input:
    """The elements of one argument that were read.

    Attributes:
        read: Mask of these elements.
        starts: First bytes of the views that were read; None when there are too many, or when the
            addresses are data-dependent.
        loops: First bytes of the views that were read, by the value of the variable of each loop
            around the reads; None for a loop with too many.
    """

    __slots__ = ("loops", "read", "starts")

    def __init__(self, nbytes: int) -> None:
        self.read = Marks(nbytes)
        self.starts: set[int] | None = set()
        self.loops: dict[tuple[str, int], dict[int, set[int]] | None] = {}


class InputCoverage:
    """Records the elements of the arguments that are read."""

    def __init__(self) -> None:
        self._inputs: dict[Lifetime, _Input] = {}
        self._splits = False

    def read(self, effect: Effect, core: Any) -> None:
        """Note a read on a core."""
        tensor = effect.tensor
        if not tensor.origin.is_argument or not tensor.size:
            return
        found = self._inputs.get(tensor.life)
        if found is None:
            found = self._inputs[tensor.life] = _Input(tensor._storage.data.size)
        if not effect.plain:
            found.starts = None
        elif found.starts is not None:
            found.starts.add(tensor.start)
            found.read.add(tensor.start, tensor.runs)
            _note_loops(found, tensor.start)
            # A kernel that splits its work by core, and runs on one, reads a part.
            self._splits |= core.num_programs == 1 and "program_id" in core.asked
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
        unused = cache(lambda: _unused_parameters(kernel) if self._inputs else ())
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
                if found.read.missing(tensor.region) is None:
                    continue
                if name in in_steps() and _check_tail(
                    name, tensor, found.read, found.starts, place
                ):
                    continue
                if not self._splits:
                    _check_blocks(name, tensor, found, place)


def _note_loops(found: _Input, start: int) -> None:
    """Record the values of the loops around a read."""
    for file, line, _, value in loops_around():
        values = found.loops.setdefault((file, line), {})
        if values is not None:
            starts = values.setdefault(value, set())
            starts.add(start)
            if len(values) > _MOST_BLOCKS or len(starts) > _MOST_BLOCKS:
                found.loops[file, line] = None


def _unused_parameters(kernel: Callable[..., Any]) -> Collection[str]:
    """Return the parameters of which a kernel's source uses at most shape and type."""
    definition = definition_of(with_parameters(kernel))
    if definition is None or isinstance(definition[1], ast.ClassDef):
        return ()
    return _unused_in(definition[1])


@lru_cache(maxsize=64)
def _unused_in(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    parts = list(ast.walk(node))
    described = {
        part.value
        for part in parts
        if isinstance(part, ast.Attribute) and part.attr in ("dtype", "ndim", "shape", "size")
    }
    used = {part.id for part in parts if isinstance(part, ast.Name) and part not in described}
    return frozenset(names - used)


def _read_in_steps(kernel: Callable[..., Any]) -> set[str]:
    """Return the names that a kernel uses in loops of ``n // step`` iterations.

    Where the division rounds down, such a loop does not read the last elements of an argument.
    """
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
            counted = counts & names_in(*loop.iter.args)
            if counted or any(map(_has_floor, loop.iter.args)):
                found |= names_in(*loop.body)
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


def _missing_along(tensor: NkiTensor, read: Marks) -> tuple[int, np.ndarray] | None:
    """Return the one axis along which parts were not read, and a mask of its unread positions."""
    missing = read.missing(tensor.region)
    if missing is None:
        return None
    axes = [axis for axis in range(missing.ndim) if not _is_uniform(missing, axis)]
    if len(axes) != 1:
        return None
    axis = axes[0]
    return axis, np.moveaxis(missing, axis, 0).reshape(missing.shape[axis], -1)[:, 0]


def _check_tail(name: str, tensor: NkiTensor, read: Marks, starts: set[int], place: Place) -> bool:
    """Flag an input that is read in equal steps from its beginning, but not to its end."""
    found = _missing_along(tensor, read)
    if found is None:
        return False
    axis, line = found
    end, extent = int(line.argmax()), len(line)
    if not end or not line[end:].all():
        return False
    stride = tensor.form.strides[axis]
    positions = sorted({start // stride % extent for start in starts})
    step = positions[1] - positions[0] if len(positions) > 1 else 0
    if step < 2 or positions != list(range(0, end, step)) or end % step:
        return False
    tail = extent - end
    if tail == extent % step:
        rule, why = DROPPED_TAIL, f"{extent} is not a multiple of the step {step}"
        fix = "round the number of tiles up and slice the last one, or assert divisibility"
    elif tail % step == 0 and tail <= step:
        rule, why = UNREAD_INPUT, f"the last step of {step} is left out"
        fix = "let the loop run to the end"
    else:
        return False
    flag(
        rule,
        f"the last {tail} of {extent} elements of argument {name} along dimension {axis} are never "
        f"read: {why}",
        operand=name,
        seen=f"{name} {tensor.shape}, read up to {end} along dimension {axis} in steps of {step}",
        fix=fix,
        place=place,
    )
    return True


def _check_blocks(name: str, tensor: NkiTensor, found: _Input, place: Place) -> None:
    """Flag an input of which one block is read in each iteration of a loop over its blocks."""
    unread = _missing_along(tensor, found.read)
    if unread is None:
        return
    axis, line = unread
    extent, size = len(line), int(np.count_nonzero(~line))
    first = int((~line).argmax())
    whole = size > 0 and extent % size == 0 and first % size == 0
    if not whole or line[first : first + size].any():
        return
    count = extent // size
    loops = [
        at
        for at, values in found.loops.items()
        if values and len(values) == count and len(set(map(frozenset, values.values()))) == 1
    ]
    if not loops:
        return
    flag(
        UNREAD_INPUT,
        f"{count - 1} of {count} blocks of {size} elements of argument {name} along dimension "
        f"{axis} are never read: a loop with {count} iterations reads the same block in each",
        operand=name,
        seen=f"{name} {tensor.shape}, read from {first} to {first + size} along dimension {axis}",
        fix=f"use the loop's variable in the index along dimension {axis}",
        notes=tuple(f"loop    at {file}:{at}" for file, at in loops),
        place=place,
    )


def _is_uniform(missing: np.ndarray, axis: int) -> bool:
    """Return whether all slices across an axis are equal."""
    first = missing.take([0], axis)
    return bool((missing == first).all())
