"""Process groups and mesh dimensions, validated before a collective uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from trnsci.core.errors import BackendError, FlagError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Ranks", "mesh_device", "ranks_of", "ranks_of_mesh"]


@dataclass(frozen=True)
class Ranks:
    """The ranks of one process group, in a call of one function.

    Attributes:
        function: Name of the function, for messages.
        group: The process group; None for the default one.
        rank: This rank within the group.
        size: Number of ranks of the group.
    """

    function: str
    group: Any
    rank: int
    size: int

    @property
    def others(self) -> int:
        """Number of other ranks."""
        return self.size - 1


def ranks_of(function: str, group: ProcessGroup | None = None) -> Ranks:
    """Return the ranks of a process group; None for the default one.

    Raises:
        BackendError: There is no process group, it was destroyed, or this rank is not in it.
    """
    _check_initialized(function)
    try:
        rank, size = dist.get_rank(group), dist.get_world_size(group)
    except (RuntimeError, ValueError, KeyError) as error:
        raise BackendError(
            f"{function}: group must be a process group that exists, but it was destroyed: {error}"
        ) from error
    if rank < 0:
        raise BackendError(
            f"{function}: group must contain the calling rank, got one without rank "
            f"{dist.get_rank()}"
        )
    return Ranks(function, group, rank, size)


def ranks_of_mesh(
    function: str, mesh: DeviceMesh, dims: Sequence[int] = (1, 2)
) -> tuple[Ranks, ...]:
    """Return the ranks along each dimension of a mesh, in order.

    Args:
        function: Name of the function, for messages.
        mesh: The mesh.
        dims: Accepted numbers of mesh dimensions.

    Raises:
        BackendError: There is no process group, it was destroyed, or this rank is not in the mesh.
        FlagError: The mesh has another number of dimensions.
    """
    _check_initialized(function)
    if mesh.ndim not in dims:
        accepted = " or ".join(map(str, dims))
        raise FlagError(f"{function}: the mesh must have {accepted} dimensions, got {mesh.ndim}")
    if mesh.get_coordinate() is None:
        raise BackendError(
            f"{function}: the mesh must contain the calling rank, got one without rank "
            f"{dist.get_rank()}"
        )
    groups = []
    for dim in range(mesh.ndim):
        try:
            groups.append(mesh.get_group(dim))
        except (RuntimeError, ValueError, KeyError, AssertionError) as error:
            raise BackendError(
                f"{function}: the mesh must have process groups that exist, but they were "
                f"destroyed: {error}"
            ) from error
    return tuple(ranks_of(function, group) for group in groups)


def mesh_device(mesh: DeviceMesh) -> torch.device:
    """Return the device on which this rank of a mesh communicates."""
    if mesh.device_type == "cpu":
        return torch.device("cpu")
    module = torch.get_device_module(mesh.device_type)
    return torch.device(mesh.device_type, module.current_device())


def _check_initialized(function: str) -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise BackendError(
            f"{function}: torch.distributed has no process group; call init_process_group in a "
            f"process that torchrun started"
        )
