"""Layouts: the part of a tensor that each rank holds.

A DTensor describes parts as ``torch.chunk`` makes them, on a mesh of any number of dimensions. A
``Layout`` describes consecutive rows of any sizes, along one dimension. Only this module converts
between DTensors and layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.distributed.transport import VirtualMesh, VirtualTensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement


@lru_cache(maxsize=1024)
def even_sizes(size: int, ranks: int) -> tuple[int, ...]:
    """Return the sizes of the parts that ``torch.chunk`` and ``Shard`` make; the last may be 0."""
    step = -(-size // ranks)
    return tuple(max(0, min(step, size - rank * step)) for rank in range(ranks))


def even_offsets(size: int, ranks: int) -> tuple[int, ...]:
    """Return the first element of each part of ``even_sizes``, and the end."""
    return (0, *accumulate(even_sizes(size, ranks)))


@dataclass(frozen=True)
class Layout:
    """A tensor whose parts along one dimension are on the ranks, in order.

    Attributes:
        shape: Shape of the whole tensor.
        dim: The dimension that is split.
        offsets: First element of each rank's part, and the end.

    Raises:
        ShapeError: The dimension does not exist, or the offsets do not cover it in order.
    """

    shape: tuple[int, ...]
    dim: int
    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check that the offsets fit the shape."""
        whole("Layout", "dim", self.dim, 0, len(self.shape) - 1, error=ShapeError)
        size = self.shape[self.dim]
        cuts = self.offsets
        if len(cuts) < 2 or (cuts[0], cuts[-1]) != (0, size) or list(cuts) != sorted(cuts):
            raise ShapeError(
                f"Layout: offsets must start with 0, not decrease and end with {size}, the size of "
                f"dimension {self.dim}, got {cuts}"
            )

    @classmethod
    def even(cls, shape: Sequence[int], dim: int, ranks: int) -> Layout:
        """Return the layout of ``torch.chunk`` and ``Shard``."""
        ranks = whole("Layout", "ranks", ranks, 1, error=FlagError)
        dim = whole("Layout", "dim", dim, 0, len(shape) - 1, error=ShapeError)
        return cls(tuple(shape), dim, even_offsets(shape[dim], ranks))

    @classmethod
    def by_weight(cls, shape: Sequence[int], dim: int, weights: Tensor, ranks: int) -> Layout:
        """Return the layout whose parts have about the same sum of weights.

        Args:
            shape: Shape of the whole tensor.
            dim: The dimension to split.
            weights: Non-negative weight of each element of the dimension, such as the entries of a
                row.
            ranks: Number of parts.
        """
        ranks = whole("Layout", "ranks", ranks, 1, error=FlagError)
        dim = whole("Layout", "dim", dim, 0, len(shape) - 1, error=ShapeError)
        if weights.shape != (shape[dim],):
            raise ShapeError(
                f"Layout: weights must have shape ({shape[dim]},), got {tuple(weights.shape)}"
            )
        work = torch.cumsum(weights.detach().cpu().to(torch.float64), 0)
        total = float(work[-1]) if work.numel() else 0.0
        goals = torch.arange(1, ranks, dtype=torch.float64) * (total / ranks)
        inner = torch.searchsorted(torch.cat([torch.zeros(1, dtype=torch.float64), work]), goals)
        return cls(tuple(shape), dim, (0, *inner.clamp(max=shape[dim]).tolist(), shape[dim]))

    @classmethod
    def of(cls, x: DTensor, mesh_dim: int = 0) -> Layout:
        """Return the layout of a DTensor along one dimension of its mesh.

        Raises:
            FlagError: The DTensor is not split along that mesh dimension.
        """
        dim = split_dims("Layout", "x", x)[mesh_dim]
        if dim is None:
            raise FlagError(
                f"Layout: x must be Shard along mesh dimension {mesh_dim}, got {x.placements}"
            )
        return cls.even(x.shape, dim, x.device_mesh.size(mesh_dim))

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size of each rank's part along the dimension."""
        return tuple(b - a for a, b in pairwise(self.offsets))

    @property
    def is_even(self) -> bool:
        """Whether the parts are those of ``torch.chunk``."""
        return self.offsets == even_offsets(self.shape[self.dim], self.ranks)

    def rows(self, rank: int) -> slice:
        """Return the part of a rank along the dimension."""
        return slice(self.offsets[rank], self.offsets[rank + 1])

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of a rank's part."""
        return tuple(
            self.sizes[rank] if at == self.dim else size for at, size in enumerate(self.shape)
        )

    def part(self, x: Tensor, rank: int) -> Tensor:
        """Return the part of a whole tensor that belongs to a rank, as a view."""
        return x.narrow(self.dim, self.offsets[rank], self.sizes[rank])

    def check(self, function: str, name: str, local: Tensor, rank: int) -> None:
        """Raise ``ShapeError`` unless a tensor has the shape of a rank's part."""
        if tuple(local.shape) != self.local_shape(rank):
            raise ShapeError(
                f"{function}: {name} must have shape {self.local_shape(rank)} on rank {rank} of "
                f"{self.ranks}, its part of {self.shape}, got {tuple(local.shape)}"
            )


def to_dtensor(local: Tensor, layout: Layout, mesh: DeviceMesh, name: str = "local") -> DTensor:
    """Return the DTensor of which the ranks of a 1-D mesh hold parts; gradients pass through.

    Raises:
        FlagError: The mesh has another number of dimensions or ranks than the layout.
        ShapeError: The parts are not those of ``torch.chunk``, or ``local`` is not this rank's.
    """
    from torch.distributed.tensor import Shard

    if mesh.ndim != 1 or mesh.size() != layout.ranks:
        raise FlagError(
            f"to_dtensor: mesh must have one dimension of {layout.ranks} ranks, got {mesh.shape}"
        )
    rank = mesh.get_local_rank()
    layout.check("to_dtensor", name, local, rank)
    if not layout.is_even:
        wanted = even_sizes(layout.shape[layout.dim], layout.ranks)
        raise ShapeError(
            f"to_dtensor: a DTensor of shape {layout.shape} has parts of {wanted} elements along "
            f"dimension {layout.dim}, got a layout of {layout.sizes}"
        )
    return with_local(local, mesh, (Shard(layout.dim),), layout.shape)


def from_dtensor(x: DTensor) -> tuple[Tensor, Layout]:
    """Return this rank's part of a DTensor on a 1-D mesh, and its layout; gradients pass through.

    Raises:
        FlagError: The mesh has several dimensions, or the DTensor is not split.
        ShapeError: The part is not the one of ``torch.chunk``.
    """
    if x.device_mesh.ndim != 1:
        raise FlagError(f"from_dtensor: the mesh must have one dimension, got {x.device_mesh}")
    return local_of("from_dtensor", "x", x), Layout.of(x)


def split_dims(function: str, name: str, x: Any) -> tuple[int | None, ...]:
    """Return the tensor dimension split along each mesh dimension; None where it is replicated.

    Raises:
        DTypeError: ``x`` is not a DTensor.
        FlagError: It is Partial, or a dimension is split along two mesh dimensions.
    """
    if not is_dtensor(x):
        raise DTypeError(
            f"{function}: {name} must be a DTensor, got {type(x).__name__}; distribute_tensor and "
            f"DTensor.from_local make one"
        )
    return dims_of(function, name, x.placements, x.ndim, x.device_mesh.ndim)


def dims_of(
    function: str, name: str, placements: Sequence[Placement], ndim: int, mesh_ndim: int
) -> tuple[int | None, ...]:
    """Return the tensor dimension that each placement splits, None for ``Replicate``.

    Raises:
        FlagError: There is not one Shard or Replicate for each mesh dimension, or they split a
            dimension that does not exist, or one dimension twice.
    """
    Placement, Replicate, Shard = _classes()[1:]
    listed = isinstance(placements, (list, tuple))
    if not listed or not all([isinstance(each, Placement) for each in placements]):
        raise FlagError(
            f"{function}: {name} must be a list or tuple of placements, got {placements!r}"
        )
    if len(placements) != mesh_ndim:
        raise FlagError(
            f"{function}: {name} must have one entry for each of {mesh_ndim} mesh dimensions, got "
            f"{tuple(placements)}"
        )
    found: list[int | None] = []
    for placement in placements:
        kind = type(placement)
        if kind is Replicate:
            found.append(None)
            continue
        if kind is not Shard:
            raise FlagError(
                f"{function}: {name} must be Shard or Replicate along every mesh dimension, got "
                f"{tuple(placements)}"
            )
        dim = placement.dim  # type: ignore[attr-defined]
        if not -ndim <= dim < ndim:
            raise FlagError(
                f"{function}: {name} must split dimensions of a tensor of {ndim} dimensions, got "
                f"{tuple(placements)}"
            )
        found.append(dim % ndim)
    split = [dim for dim in found if dim is not None]
    if len(split) > len(set(split)):
        raise FlagError(
            f"{function}: {name} must have every dimension split along one mesh dimension only, "
            f"got {tuple(placements)}"
        )
    return tuple(found)


def placements_of(split: Sequence[int | None]) -> tuple[Placement, ...]:
    """Return the placements of a tensor whose dimensions are split as by ``dims_of``."""
    _, _, Replicate, Shard = _classes()
    return tuple(Replicate() if dim is None else Shard(dim) for dim in split)


def mesh_among(operands: Iterable[Any]) -> DeviceMesh | None:
    """Return the mesh of the first operand that is a DTensor; None if there is none."""
    return next((x.device_mesh for x in operands if is_dtensor(x)), None)


def is_dtensor(x: Any) -> TypeGuard[DTensor]:
    """Return whether x is a DTensor, which is imported for subclasses of ``Tensor`` only."""
    if not isinstance(x, Tensor) or type(x) in (Tensor, torch.nn.Parameter):
        return False
    if isinstance(x, VirtualTensor):
        return True
    return isinstance(x, _classes()[0])


@cache
def _classes() -> tuple[Any, Any, Any, Any]:
    """Return DTensor, Placement, Replicate and Shard, imported at the first call."""
    from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

    return DTensor, Placement, Replicate, Shard


def mesh_of(function: str, **operands: Any) -> DeviceMesh:
    """Return the mesh of the first operand that is a DTensor.

    Raises:
        DTypeError: None is a DTensor.
    """
    mesh = mesh_among(operands.values())
    if mesh is not None:
        return mesh
    given = ", ".join(type(x).__name__ for x in operands.values() if x is not None)
    kind = "a DTensor" if len(operands) == 1 else "DTensors"
    raise DTypeError(f"{function}: {' and '.join(operands)} must be {kind}, got {given or None}")


def local_of(function: str, name: str, x: Any, dims: Sequence[int | None] | None = None) -> Tensor:
    """Return this rank's part of a DTensor; gradients pass through.

    ``dims`` is the result of ``split_dims``, if the caller has computed it.

    Raises:
        DTypeError: ``x`` is not a DTensor.
        FlagError: Its placements are neither Shard nor Replicate.
        ShapeError: The part is not the one of ``torch.chunk``: ``DTensor.from_local`` accepts it,
            but DTensor computes wrong results from it.
    """
    dims = split_dims(function, name, x) if dims is None else dims
    mesh = x.device_mesh
    if torch.is_grad_enabled() and x.requires_grad and not isinstance(mesh, VirtualMesh):
        local: Tensor = _Local.apply(x)  # type: ignore[no-untyped-call]
    else:
        with torch.no_grad():
            local = x.to_local()
    wanted = list(x.shape)
    for mesh_dim, dim in enumerate(dims):
        if dim is not None:
            sizes = even_sizes(x.shape[dim], mesh.size(mesh_dim))
            wanted[dim] = sizes[mesh.get_local_rank(mesh_dim)]
    if list(local.shape) != wanted:
        raise ShapeError(
            f"{function}: {name} of shape {tuple(x.shape)} and placements {tuple(x.placements)} "
            f"must have the part of torch.chunk, {tuple(wanted)}, on rank "
            f"{mesh.get_rank()}, got {tuple(local.shape)}"
        )
    return local


class _Local(torch.autograd.Function):
    """``x.to_local()``, whose gradient has the strides of ``x``.

    ``to_local`` of torch 2.11 derives the strides from the part. Where they differ from those of
    ``x``, autograd gathers and copies the gradient; where they differ on some ranks only, ranks
    wait for each other without end.
    """

    @staticmethod
    def forward(ctx: Any, x: Any) -> Tensor:
        ctx.like = x.device_mesh, x.placements, x.shape, x.stride()
        local: Tensor = x.to_local()
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        mesh, placements, shape, stride = ctx.like
        return _classes()[0].from_local(
            gradients[0], mesh, placements, run_check=False, shape=shape, stride=stride
        )


def with_local(
    local: Tensor,
    mesh: DeviceMesh | VirtualMesh,
    placements: Sequence[Placement],
    shape: Sequence[int],
) -> Any:
    """Return the DTensor with this local part and global shape; gradients pass through."""
    if isinstance(mesh, VirtualMesh):
        return VirtualTensor.made(local, mesh, placements, shape)
    stride = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    return _classes()[0].from_local(
        local, mesh, tuple(placements), run_check=False, shape=torch.Size(shape), stride=stride
    )
