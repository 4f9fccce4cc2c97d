"""Recordings of distributed calls: what one rank receives and holds, without a process group.

``record`` runs a public function as one rank of a mesh, on meta tensors. Its collectives write
nothing; the ``Recorder`` counts them by the convention of ``plans``. A dispatch mode measures the
peak of live bytes: the operands, and all storages that torch allocates during the call. Workspace
inside of one operation of torch is not included.

The peak is measured in a second run on new operands if the first one imported modules, as
operations of torch do: exceptions in these imports hold the frames of the call, and so its tensors,
until the garbage collector runs.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from trnsci.core.distributed.layout import even_sizes
from trnsci.core.distributed.predictions import all_reduced
from trnsci.core.distributed.transport import Transport, VirtualMesh, VirtualTensor
from trnsci.core.interop import dispatch_mode, without_modes


@dataclass(frozen=True)
class Collective:
    """One collective of one rank.

    Attributes:
        kind: As of a ``Step``.
        received: Bytes that the rank receives.
        messages: Messages that it waits for, one after another.
        members: Ranks of the group.
    """

    kind: str
    received: int
    messages: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class Recording:
    """What one rank does in a call.

    Attributes:
        forward: Collectives of the call without gradients.
        backward: Collectives of the gradients, and those of the call that only they need.
        peak_bytes: Bytes of live tensors in the call without gradients, at most.
    """

    forward: tuple[Collective, ...]
    backward: tuple[Collective, ...]
    peak_bytes: int


class Recorder(Transport):
    """A transport that counts what one rank receives.

    Args:
        log: Collectives so far; the groups of one mesh share it.
        rank: This rank within the group.
        members: Ranks of the group.
        meet: ``meet(value)`` returns the values that all ranks of the group pass to a collective,
            for tensors with values. By default, all ranks pass the same value.
    """

    def __init__(
        self,
        log: list[Collective],
        rank: int,
        members: tuple[int, ...],
        meet: Callable[[Any], Sequence[Any]] | None = None,
    ) -> None:
        super().__init__(None)
        self.log, self._rank, self._members = log, rank, members
        self._meet = meet or (lambda value: [value] * len(members))

    @property
    def rank(self) -> int:
        """This rank within the group."""
        return self._rank

    @property
    def size(self) -> int:
        """Number of ranks of the group."""
        return len(self._members)

    @property
    def members(self) -> Sequence[int]:
        """Ranks of the group."""
        return self._members

    @property
    def device(self) -> torch.device:
        """The device of compared arguments, which have values."""
        return torch.device("cpu")

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """Count a broadcast: its bytes at each receiver."""
        self._count("broadcast", 0 if self.rank == root else _bytes(tensor), 1)
        self._write([tensor], tensor, lambda given: [given[root]])

    def reduce(self, total: Tensor, root: int) -> None:
        """Count a reduction: its bytes at the root, once for each other rank."""
        self._count("reduce", (self.size - 1) * _bytes(total) * (self.rank == root), 1)
        self._write([total], total, lambda given: [sum(given) if self.rank == root else total])

    def all_gather(self, parts: list[Tensor], own: Tensor) -> None:
        """Count an all-gather: the parts of the others."""
        others = [part for at, part in enumerate(parts) if at != self.rank and part.numel()]
        self._count("all_gather", sum(map(_bytes, others)), len(others))
        self._write(parts, own, lambda given: given)

    def reduce_scatter(self, total: Tensor, addends: list[Tensor]) -> None:
        """Count a reduce-scatter: the own part, once for each other rank."""
        filled = sum(bool(addend.numel()) for addend in addends)
        messages = min(filled, self.size - 1)
        self._count("reduce_scatter", (self.size - 1) * _bytes(total), messages)
        self._write([total], addends, lambda given: [sum(each[self.rank] for each in given)])

    def all_reduce(self, total: Tensor) -> None:
        """Count an all-reduce: two passes through a ring."""
        self._count("all_reduce", all_reduced(_bytes(total), self.size), 2 * (self.size - 1))
        self._write([total], total, lambda given: [sum(given)])

    def all_to_all(self, found: Tensor, rows: Tensor, received: list[int], sent: list[int]) -> None:
        """Count an all-to-all: the rows from others, one message from each that sends some."""
        row = prod(found.shape[1:]) * found.element_size()
        others = [n for at, n in enumerate(received) if at != self.rank and n * row]
        self._count("all_to_all", sum(others) * row, len(others))

        def rows_for_this_rank(given: Sequence[Any]) -> list[Tensor]:
            return [torch.cat([torch.split(x, counts)[self.rank] for x, counts in given])]

        self._write([found], (rows, sent), rows_for_this_rank)

    def _count(self, kind: str, received: int, messages: int) -> None:
        self.log.append(Collective(kind, received, messages, self._members))

    def _write(
        self, places: list[Tensor], own: Any, found: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> None:
        """Write tensors that have values."""
        if places and not places[0].is_meta:
            with without_modes():
                given = self._meet(_copied(own))
                for place, value in zip(places, found(given), strict=True):
                    place.copy_(value)


def virtual_mesh(
    shape: Sequence[int],
    rank: int,
    meet: Callable[[tuple[int, ...]], Any] = lambda members: None,
) -> VirtualMesh:
    """Return a mesh as one rank sees it.

    Args:
        shape: Number of ranks along each dimension.
        rank: The rank.
        meet: Returns the ``meet`` of a ``Recorder`` for the ranks of a group.
    """
    log: list[Collective] = []
    every = torch.arange(prod(shape)).reshape(tuple(shape))
    at = (every == rank).nonzero()[0].tolist()
    groups = []
    for dim, place in enumerate(at):
        members = tuple(every.movedim(dim, -1)[*at[:dim], *at[dim + 1 :]].tolist())
        groups.append(Recorder(log, place, members, meet(members)))
    world = tuple(range(prod(shape)))
    return VirtualMesh(tuple(shape), rank, tuple(groups), Recorder(log, rank, world, meet(world)))


def operand(
    mesh: VirtualMesh,
    shape: Sequence[int],
    placements: Sequence[Any],
    dtype: torch.dtype,
) -> Any:
    """Return a tensor on a virtual mesh, whose part is a new meta tensor; it is as a DTensor."""
    local = list(shape)
    for group, placement in zip(mesh.groups, placements, strict=True):
        if placement.is_shard():
            local[placement.dim] = even_sizes(shape[placement.dim], group.size)[group.rank]
    part = torch.empty(local, dtype=dtype, device="meta")
    return VirtualTensor.made(part, mesh, placements, shape)


Problem = Callable[[], tuple[Sequence[Any], Callable[..., Any]]]
"""Returns new operands, and a function ``call(*operands, check=...)``."""


def record(mesh: VirtualMesh, problem: Problem) -> Recording:
    """Return what the rank of a virtual mesh does in a call, and in the gradient of its operands.

    Args:
        mesh: The mesh.
        problem: Returns operands and call. Floating-point and complex operands require gradients.
            The call returns tensors; the gradient of each of their elements is 1.
    """
    log = mesh.world.log
    peak = peak_of(problem)
    operands, call = problem()
    log.clear()
    with torch.no_grad():
        call(*operands, check=True)
    forward = tuple(log)
    log.clear()
    leaves = [x.requires_grad_() for x in map(_part, operands) if _is_inexact(x)]
    found = [x for x in map(_part, call(*operands, check=True)) if x.requires_grad]
    if found:
        torch.autograd.grad(found, leaves, [torch.ones_like(x) for x in found], allow_unused=True)
    for each in forward:
        log.remove(each)
    return Recording(forward, tuple(log), peak)


def peak_of(problem: Problem) -> int:
    """Return the peak bytes of live tensors of a call without gradients and checks."""
    for _ in range(2):
        modules = len(sys.modules)
        operands, call = problem()
        with torch.no_grad(), _live([_part(x) for x in operands]) as live:
            call(*operands, check=False)
        if len(sys.modules) == modules:  # no import held tensors, see above
            break
    return int(live.peak)


def peaks(
    shape: Sequence[int],
    given: Sequence[tuple[Sequence[int], Sequence[Any], torch.dtype]],
    call: Callable[..., Any],
) -> Callable[[int], int]:
    """Return ``peak(rank)``, the peak bytes of live tensors of a call with DTensors as operands.

    Args:
        shape: Number of ranks along each mesh dimension.
        given: Shape, placements and dtype of each operand.
        call: A function ``call(*operands, check=...)``.
    """

    def held(rank: int) -> int:
        mesh = virtual_mesh(shape, rank)
        return peak_of(lambda: ([operand(mesh, *each) for each in given], call))

    return held


def _part(x: Tensor) -> Tensor:
    return x.to_local() if isinstance(x, VirtualTensor) else x


def _is_inexact(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(each) if isinstance(each, Tensor) else each for each in value]


class _Live:
    """A mode that counts the bytes of live tensors: those it is given, and those made in it."""

    def __init__(self, holding: Sequence[Tensor]) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()
        for tensor in holding:
            self._count(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (list, tuple)) else (found,):
            if isinstance(each, Tensor):
                self._count(each)
        return found

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            weakref.finalize(storage, self._freed, key, size).atexit = False
            self.live += size
            self.peak = max(self.peak, self.live)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


def _live(holding: Sequence[Tensor]) -> Any:
    # The method comes from another base, because torch imports its compiler, which takes 2 s, for
    # modes that define it themselves.
    return type("Live", (_Live, dispatch_mode()), {})(holding)
