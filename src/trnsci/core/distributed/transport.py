"""Transports: the collectives of one group of ranks, as ``collectives`` calls them.

A ``Transport`` is a process group of ``torch.distributed``. A class derived from it replaces the
collectives: ``recording.Recorder`` counts them, and needs no process group. ``VirtualMesh`` and
``VirtualTensor`` stand for a ``DeviceMesh`` and a ``DTensor`` of such a transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trnsci.core.distributed.failures import finished
from trnsci.core.interop import without_modes


class Transport:
    """A process group of ``torch.distributed``; None for the default one.

    Tensors of collectives are contiguous. Parts may differ in size.
    """

    def __init__(self, group: Any) -> None:
        self.group = group

    @property
    def rank(self) -> int:
        """This rank within the group."""
        return dist.get_rank(self.group)

    @property
    def size(self) -> int:
        """Number of ranks of the group."""
        return dist.get_world_size(self.group)

    @property
    def members(self) -> Sequence[int]:
        """Ranks of the group, in the numbers of the default group."""
        return dist.get_process_group_ranks(self.group)

    @property
    def device(self) -> torch.device:
        """A device whose tensors the group communicates: the CPU where it can."""
        if "cpu:" in dist.get_backend_config(self.group):
            return torch.device("cpu")
        device = torch.accelerator.current_accelerator()
        assert device is not None
        return torch.device(device.type, torch.accelerator.current_device_index())

    def broadcast(self, tensor: Tensor, root: int) -> Any:
        """Start to write the root's tensor into those of the others; return the work or None."""
        return dist.broadcast(tensor, group=self.group, group_src=root, async_op=True)

    def reduce(self, total: Tensor, root: int) -> None:
        """Write the sum of the ranks' tensors into that of the root."""
        finished(dist.reduce(total, group=self.group, group_dst=root, async_op=True), total)

    def all_gather(self, parts: list[Tensor], own: Tensor) -> None:
        """Write the part of each rank into ``parts``."""
        if len({part.shape[0] for part in parts}) == 1:
            finished(dist.all_gather(parts, own, group=self.group, async_op=True), own)
            return
        parts[self.rank].copy_(own)  # gloo gathers equal parts only
        works = [self.broadcast(part, at) for at, part in enumerate(parts) if part.numel()]
        for work in works:
            finished(work, own)

    def reduce_scatter(self, total: Tensor, addends: list[Tensor]) -> None:
        """Write the sum of the ranks' addends for this rank into ``total``."""
        finished(dist.reduce_scatter(total, addends, group=self.group, async_op=True), total)

    def all_reduce(self, total: Tensor) -> None:
        """Write the sum of the ranks' tensors into each of them."""
        finished(dist.all_reduce(total, group=self.group, async_op=True), total)

    def all_to_all(self, found: Tensor, rows: Tensor, received: list[int], sent: list[int]) -> Any:
        """Start to write the rows that ranks send to this one; return the work or None."""
        return dist.all_to_all_single(found, rows, received, sent, group=self.group, async_op=True)


@dataclass(frozen=True, eq=False)
class VirtualMesh:
    """A mesh without process groups, as one rank sees it; it has the methods of a ``DeviceMesh``.

    Attributes:
        shape: Number of ranks along each dimension. Ranks are numbered by rows.
        rank: This rank.
        groups: The transport along each dimension.
        world: The transport of all ranks.
    """

    shape: tuple[int, ...]
    rank: int
    groups: tuple[Transport, ...]
    world: Any

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def mesh(self) -> Tensor:
        """Ranks at each place of the mesh."""
        return torch.arange(prod(self.shape)).reshape(self.shape)

    def size(self, dim: int | None = None) -> int:
        """Return the number of ranks, of all or along a dimension."""
        return prod(self.shape) if dim is None else self.shape[dim]

    def get_coordinate(self) -> tuple[int, ...]:
        """Return the place of this rank."""
        return list(product(*map(range, self.shape)))[self.rank]

    def get_local_rank(self, dim: int = 0) -> int:
        """Return the place of this rank along a dimension."""
        return self.groups[dim].rank

    def get_rank(self) -> int:
        """Return this rank."""
        return self.rank

    def get_group(self, dim: int = 0) -> Transport:
        """Return the transport along a dimension."""
        return self.groups[dim]


class VirtualTensor(Tensor):
    """A tensor on a virtual mesh: a meta tensor of the whole shape, with this rank's part."""

    device_mesh: VirtualMesh
    placements: tuple[Any, ...]
    local: Tensor

    @staticmethod
    def made(
        local: Tensor, mesh: VirtualMesh, placements: Sequence[Any], shape: Sequence[int]
    ) -> VirtualTensor:
        """Return the tensor of which ``local`` is this rank's part."""
        with without_modes():  # it is no memory of the call
            found = torch.empty(shape, dtype=local.dtype, device="meta").as_subclass(VirtualTensor)
        found.requires_grad_(local.requires_grad)
        found.local, found.device_mesh, found.placements = local, mesh, tuple(placements)
        return found

    def to_local(self) -> Tensor:
        """Return this rank's part."""
        return self.local
