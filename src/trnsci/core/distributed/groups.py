"""Process groups and mesh dimensions, validated before a collective uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from trnsci.core.distributed.transport import Transport, VirtualMesh
from trnsci.core.errors import BackendError, FlagError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True)
class Ranks:
    """The ranks of one group, in a call of one function.

    Attributes:
        function: Name of the function, for messages.
        transport: The collectives of the group.
        rank: This rank within the group.
        size: Number of ranks of the group.
    """

    function: str
    transport: Transport
    rank: int
    size: int

    @property
    def others(self) -> int:
        """Number of other ranks."""
        return self.size - 1


def ranks_of(function: str, group: ProcessGroup | Transport | None = None) -> Ranks:
    """Return the ranks of a process group or a transport; None for the default group.

    Raises:
        BackendError: There is no process group, it was destroyed, or this rank is not in it.
    """
    if isinstance(group, Transport):
        return Ranks(function, group, group.rank, group.size)
    _check_initialized(function)
    if group is not None and not _is_group(group):
        raise BackendError(
            f"{function}: group must be a ProcessGroup or None, got {type(group).__name__}"
        )
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
    return Ranks(function, Transport(group), rank, size)


def ranks_of_mesh(
    function: str, mesh: DeviceMesh | VirtualMesh, dims: Sequence[int] | None = (1, 2)
) -> tuple[Ranks, ...]:
    """Return the ranks along each dimension of a mesh, in order.

    Args:
        function: Name of the function, for messages.
        mesh: The mesh.
        dims: Accepted numbers of mesh dimensions; None for any.

    Raises:
        BackendError: There is no process group, it was destroyed, or this rank is not in the mesh.
        FlagError: The mesh has another number of dimensions.
    """
    if not isinstance(mesh, VirtualMesh):
        _check_initialized(function)
    if dims is not None and mesh.ndim not in dims:
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


def comparing_ranks(
    function: str,
    mesh: DeviceMesh | VirtualMesh | None = None,
    group: ProcessGroup | Transport | None = None,
) -> tuple[Ranks, ...]:
    """Return the groups in which ranks compare the arguments of a call, one after another.

    The default group is returned if the mesh or ``group`` has all of its ranks, and if both are
    None, as on a rank whose operands are no DTensors. Then one exchange covers all of these ranks.
    For a smaller mesh, the result has one group for each mesh dimension.

    Args:
        function: Name of the function, for messages.
        mesh: The mesh of the operands; None without one.
        group: The group of a call without a mesh; None for the default one.

    Raises:
        BackendError: There is no process group, it was destroyed, or this rank is not in it.
    """
    if isinstance(mesh, VirtualMesh):
        return (ranks_of(function, mesh.world),)
    if isinstance(group, Transport):
        return (ranks_of(function, group),)
    every = ranks_of(function)
    if mesh is None:
        if not _is_group(group):
            return (every,)
        ranks = ranks_of(function, group)
        return (every if ranks.size == every.size else ranks,)
    if mesh.size() == every.size:
        return (every,)
    return ranks_of_mesh(function, mesh, None)


def _is_group(group: Any) -> bool:
    """Return whether ``new_group`` made it; on ranks outside of a group it returns a constant."""
    return isinstance(group, dist.ProcessGroup) or group is dist.GroupMember.NON_GROUP_MEMBER


def _check_initialized(function: str) -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise BackendError(
            f"{function}: torch.distributed has no process group; call init_process_group in a "
            f"process that torchrun started"
        )
