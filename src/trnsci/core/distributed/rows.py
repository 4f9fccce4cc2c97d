"""Matrices and vectors of which each rank holds consecutive rows: DTensors, or plain parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci.core.arguments import floating
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import is_dtensor, local_of, split_dims, with_local
from trnsci.core.errors import DerivativeError, DTypeError, FlagError, OperandError
from trnsci.core.interop import forward_level, transform_level

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def part_of(
    ranks: Ranks, name: str, x: Any, rows: int | None = None, order: int | None = None
) -> tuple[Tensor, DeviceMesh | None]:
    """Return this rank's rows of a DTensor, and its mesh; a plain tensor is the rows itself.

    Args:
        ranks: The ranks of the call.
        name: The argument, for messages.
        x: A DTensor that is Shard(0) on a mesh of these ranks, or this rank's rows.
        rows: Number of rows that this rank must have; None for any.
        order: Number of rows that all ranks must have; None for any.

    Raises:
        DTypeError: x is neither a DTensor nor a plain strided tensor.
        FlagError: The DTensor is not Shard(0), or its mesh has other ranks.
        OperandError: The number of rows is not that of the matrix.
        ShapeError: The part of a DTensor is not that of ``torch.chunk``.
    """
    function, mesh = ranks.function, None
    if is_dtensor(x):
        mesh = x.device_mesh
        (of_mesh,) = ranks_of_mesh(function, mesh, (1,))
        there, here = (each.transport.members for each in (of_mesh, ranks))
        if there != here:
            raise FlagError(
                f"{function}: {name} must be on a mesh of the ranks {here}, got {there}"
            )
        if split_dims(function, name, x) != (0,):
            raise FlagError(
                f"{function}: {name} must be Shard(0) along the mesh, got {tuple(x.placements)}"
            )
        if order is not None and x.shape[0] != order:
            raise OperandError(
                f"{function}: {name} must have {order} rows, got shape {tuple(x.shape)}"
            )
        part = local_of(function, name, x)
    else:
        plain = isinstance(x, Tensor) and type(x) in (Tensor, torch.nn.Parameter)
        if not plain or x.layout is not torch.strided:
            kind = x.layout if plain else type(x).__name__
            raise DTypeError(
                f"{function}: {name} must be a DTensor, or a strided tensor of this rank's rows, "
                f"got {kind}"
            )
        part = x
    floating(function, name, part)
    if part.ndim == 0 or (rows is not None and part.shape[0] != rows):
        wanted = "rows" if rows is None else f"the {rows} rows of the matrix"
        raise OperandError(
            f"{function}: {name} must have {wanted} on rank {ranks.rank} of {ranks.size}, got "
            f"shape {tuple(part.shape)}"
        )
    return part, mesh


def on_mesh(local: Tensor, rows: int, mesh: DeviceMesh | None) -> Tensor:
    """Return this rank's rows as a DTensor with a number of rows; as they are without a mesh."""
    if mesh is None:
        return local
    from torch.distributed.tensor import Shard

    return with_local(local, mesh, (Shard(0),), (rows, *local.shape[1:]))


def reverse_mode_only(function: str) -> None:
    """Raise ``DerivativeError`` inside of forward mode and of transforms of ``torch.func``."""
    if forward_level() >= 0 or transform_level() is not None:
        raise DerivativeError(
            f"{function}: ranks have gradients by backward() and torch.autograd.grad only, not "
            f"forward mode and torch.func"
        )
