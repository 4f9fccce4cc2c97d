"""Einstein summation over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnsci.core.distributed.agreement import agreement, checksum, gradients
from trnsci.core.distributed.groups import ranks_of_mesh
from trnsci.core.distributed.layout import (
    dims_of,
    is_dtensor,
    local_of,
    mesh_among,
    placements_of,
    with_local,
)
from trnsci.core.distributed.schedule import Mesh, Split, schedule
from trnsci.core.distributed.splits import contracted_part, moved
from trnsci.core.errors import DTypeError, FlagError
from trntensor._paths.arguments import check_operands, read_arguments
from trntensor._paths.precision import checked_precision
from trntensor._planning.subscripts import parse, sizes_of
from trntensor.contraction import einsum as local_einsum

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

_FUNCTION = "trntensor.distributed.einsum"


def einsum(
    subscripts: str | Tensor,
    *operands: Any,
    placements: Sequence[Placement] | None = None,
    check: bool = True,
    precision: str | None = None,
    memory_limit: int | None = None,
) -> DTensor:
    """Return a contraction of tensors on a mesh of one or two dimensions.

    Along each mesh dimension the computation is split by the index for which the busiest rank
    receives the fewest bytes; ``plan("einsum", ...)`` shows it. Ranks contract their parts with
    ``trntensor.einsum``. On any number of ranks, an element differs from the result of one rank by
    at most ``2 * (terms + ranks) * u`` times the contraction of the magnitudes, with u the unit
    roundoff of the dtype and ``terms`` the number of products that are summed. All ranks must
    compute gradients together.

    Args:
        subscripts: As for ``trntensor.einsum``.
        *operands: DTensors on one mesh, split or replicated along each of its dimensions, and
            tensors that are the same on every rank, which ``check`` compares by a checksum.
        placements: Placements of the result; None chooses the placements for which the fewest
            bytes are communicated.
        check: Whether ranks compare their arguments first.
        precision: As for ``trntensor.einsum``, for the contraction of each rank; the ranks' addends
            are added in the dtype of the operands.
        memory_limit: As for ``trntensor.einsum``, for the contraction of each rank.

    Raises:
        ShapeError: The shapes do not match the subscripts or each other, or a rank's part has
            another size than ``torch.chunk`` gives.
        DTypeError: No operand is a DTensor, or dtypes differ.
        FlagError: The subscripts, an option, a mesh or placements are invalid.
        DerivativeError: It is called in a transform of ``torch.func``, or in forward mode.
        BackendError: There is no process group, or the mesh does not contain this rank.
        RankError: Ranks gave different arguments, or a rank has ended.
    """
    arguments = _unpacked((subscripts, *operands))
    with agreement(_FUNCTION, *arguments, check=check) as describe:
        mesh = mesh_among(arguments)
        if mesh is None:
            kinds = ", ".join(type(x).__name__ for x in arguments) or "none"
            raise DTypeError(f"{_FUNCTION}: an operand must be a DTensor, got {kinds}")
        ranks = ranks_of_mesh(_FUNCTION, mesh)
        text, tensors = read_arguments(_FUNCTION, subscripts, operands)
        check_operands(_FUNCTION, text, tensors)
        if tensors[0].is_floating_point() and tensors[0].element_size() == 1:
            raise DTypeError(
                f"{_FUNCTION}: operands must have a dtype that ranks can exchange, got "
                f"{tensors[0].dtype}"
            )
        chosen_precision = checked_precision(_FUNCTION, precision)
        equation = parse(_FUNCTION, text, tuple(x.ndim for x in tensors))
        locals_, given = [], []
        for number, x in enumerate(tensors):
            local, split = _part_of(f"operand {number}", x, mesh)
            locals_.append(local)
            given.append(split)
        shapes = tuple(tuple(x.shape) for x in tensors)
        sizes_of(_FUNCTION, equation, shapes)
        wanted = None
        if placements is not None:
            wanted = dims_of(_FUNCTION, "placements", placements, len(equation.output), mesh.ndim)
        grid = Mesh(tuple(mesh.shape), tensors[0].element_size())
        plan = schedule(equation.inputs, equation.output, shapes, grid, tuple(given), wanted)
        splits = ", ".join(f"{s} {g}" for s, g in zip(shapes, given, strict=True))
        describe(
            f"{text!r} of {splits} in {tensors[0].dtype} to {wanted}, precision "
            f"{chosen_precision}, memory_limit {memory_limit}, {gradients(*tensors)}"
            + (f", {checksum(*tensors)}" if check else "")
        )
    locals_ = [contracted_part(x, number, plan, ranks) for number, x in enumerate(locals_)]
    found = local_einsum(equation.plain, *locals_, precision=precision, memory_limit=memory_limit)
    for move in plan.after:
        found = moved(found, move, plan.shape, ranks)
    if placements is None:
        placements = placements_of(plan.result)
    return with_local(found, mesh, placements, plan.shape)


# -- operands --------------------------------------------------------------------------------------


def _unpacked(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments of any call form, without subscripts that are text."""
    if len(arguments) == 2 and isinstance(arguments[1], (list, tuple)):
        arguments = arguments[1]
    return [x for x in arguments if not isinstance(x, str)]


def _part_of(name: str, x: Any, mesh: DeviceMesh) -> tuple[Tensor, Split]:
    """Return this rank's part of an operand, and its split."""
    if not is_dtensor(x):
        return x, (None,) * mesh.ndim
    if x.device_mesh != mesh:
        raise FlagError(
            f"{_FUNCTION}: all operands must be on one mesh, got {name} on {x.device_mesh} and "
            f"another one on {mesh}"
        )
    local = local_of(_FUNCTION, name, x)
    return local, dims_of(_FUNCTION, name, x.placements, x.ndim, mesh.ndim)
