"""Communication plans of distributed contractions, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import torch

from trnsci.core.arguments import data_type, integers, several
from trnsci.core.distributed.layout import dims_of, placements_of
from trnsci.core.distributed.plans import Communication, Step, agreement_step
from trnsci.core.distributed.recording import peaks
from trnsci.core.distributed.schedule import Mesh, Schedule, schedule
from trnsci.core.errors import FlagError
from trntensor._planning.program import make_program
from trntensor._planning.subscripts import Equation, parse, sizes_of
from trntensor.distributed.contraction import einsum

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement


def plan(
    function: str,
    subscripts: str,
    *shapes: Sequence[int],
    mesh: int | Sequence[int],
    in_placements: Sequence[Sequence[Placement]] | None = None,
    placements: Sequence[Placement] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Communication:
    """Return the communication of a call; it needs no process group.

    The memory in the plan assumes precision ``"fast"`` and no memory limit.

    Args:
        function: ``"einsum"``.
        subscripts: As for ``trntensor.einsum``.
        *shapes: Shapes of the operands.
        mesh: Number of ranks, or of ranks along each mesh dimension.
        in_placements: Placements of each operand; None for operands that are split along their
            first dimension, and on two mesh dimensions along their first two.
        placements: Placements of the result, as in the call.
        dtype: Dtype of the operands.

    Raises:
        FlagError: The function, the subscripts, the mesh or placements are invalid.
        ShapeError: The shapes do not match the subscripts or each other.
    """
    if function != "einsum":
        raise FlagError(f"plan: function must be einsum, got {function!r}")
    grid = tuple(several("plan", "mesh", mesh, 1, FlagError))
    if len(grid) not in (1, 2):
        raise FlagError(f"plan: mesh must have 1 or 2 dimensions, got {grid}")
    if not isinstance(subscripts, str):
        raise FlagError(f"plan: subscripts must be a string, got {type(subscripts).__name__}")
    data_type("plan", "dtype", dtype)
    sizes = tuple(integers("plan", f"shapes[{at}]", shape) for at, shape in enumerate(shapes))
    equation = parse("plan", subscripts, tuple(map(len, sizes)))
    sizes_of("plan", equation, sizes)
    if in_placements is None:
        given = tuple(
            tuple(at if at < len(shape) else None for at in range(len(grid))) for shape in sizes
        )
    elif not isinstance(in_placements, Sequence) or len(in_placements) != len(sizes):
        raise FlagError(
            f"plan: in_placements must have one entry for each of {len(sizes)} operands, got "
            f"{in_placements!r}"
        )
    else:
        given = tuple(
            dims_of("plan", f"in_placements[{at}]", each, len(shape), len(grid))
            for at, (each, shape) in enumerate(zip(in_placements, sizes, strict=True))
        )
    wanted = None
    if placements is not None:
        wanted = dims_of("plan", "placements", placements, len(equation.output), len(grid))
    there = Mesh(grid, dtype.itemsize)
    chosen = schedule(equation.inputs, equation.output, sizes, there, given, wanted)
    before, after = chosen.collectives
    operands = [
        (shape, placements_of(split), dtype) for shape, split in zip(sizes, given, strict=True)
    ]
    call = partial(einsum, subscripts, placements=placements)
    return Communication(
        function="trntensor.distributed.einsum",
        problem=f"{subscripts} of {', '.join(map(str, sizes))} in {dtype}, {_splits(chosen)}",
        mesh=grid,
        steps=(agreement_step(grid), *before, _computed(equation, chosen), *after),
        held=peaks(grid, operands, call),
        backward=chosen.backward,
    )


def _computed(equation: Equation, chosen: Schedule) -> Step:
    """Return the local contractions."""

    @cache
    def flops(shapes: tuple[tuple[int, ...], ...]) -> int:
        return make_program("plan", equation, shapes, chosen.mesh.itemsize).flops

    ranks = chosen.mesh.coordinates
    counts = tuple(flops(chosen.contracted_shapes(at)) for at in ranks)
    touched = tuple(map(chosen.touched, ranks))
    return Step("compute", "contraction", (0,) * len(ranks), 0, counts, touched)


def _splits(chosen: Schedule) -> str:
    found = [
        f"index {label} over {ranks} ranks" if label else f"the same on {ranks} ranks"
        for label, ranks in zip(chosen.by, chosen.mesh.shape, strict=True)
        if ranks > 1
    ]
    return ", ".join(found) or "one rank"
