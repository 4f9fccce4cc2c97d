"""Collectives of NKI 0.3.0 on lists of arrays, one per rank.

Everything is written from the definition: where does each element of each rank's result come from.
``groups`` are the lists of ranks that communicate; the order in a group is the order of the ranks
in gathers, scatters and rings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Groups = Sequence[Sequence[int]]


def group_of(rank: int, groups: Groups) -> list[int]:
    """The group that a rank is in."""
    (found,) = [list(group) for group in groups if rank in group]
    return found


def combined(parts: Sequence[np.ndarray], op: str) -> np.ndarray:
    """Sum, minimum or maximum of arrays, computed in float64 and rounded once into their type."""
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        other = part.astype(np.float64)
        if op == "add":
            total = total + other
        elif op == "minimum":
            total = np.where(other < total, other, total)
        elif op == "maximum":
            total = np.where(other > total, other, total)
        else:
            raise ValueError(op)
    return total.astype(parts[0].dtype)


def all_reduce(tensors: Sequence[np.ndarray], groups: Groups, op: str) -> list[np.ndarray]:
    """Every rank gets the combination of its group."""
    return [
        combined([tensors[peer] for peer in group_of(rank, groups)], op)
        for rank in range(len(tensors))
    ]


def all_gather(tensors: Sequence[np.ndarray], groups: Groups, dim: int) -> list[np.ndarray]:
    """Every rank gets the tensors of its group, one after the other along ``dim``."""
    results = []
    for rank, own in enumerate(tensors):
        group = group_of(rank, groups)
        extent = own.shape[dim]
        shape = list(own.shape)
        shape[dim] = extent * len(group)
        result = np.empty(shape, own.dtype)
        for position, peer in enumerate(group):
            place = [slice(None)] * own.ndim
            place[dim] = slice(position * extent, (position + 1) * extent)
            result[tuple(place)] = tensors[peer]
        results.append(result)
    return results


def reduce_scatter(tensors: Sequence[np.ndarray], groups: Groups, op: str) -> list[np.ndarray]:
    """The i-th rank of a group gets the i-th of as many equal slices of the combination."""
    results = []
    for rank, whole in enumerate(all_reduce(tensors, groups, op)):
        group = group_of(rank, groups)
        rows = whole.shape[0] // len(group)
        first = group.index(rank) * rows
        results.append(whole[first : first + rows])
    return results


def all_to_all(tensors: Sequence[np.ndarray], groups: Groups) -> list[np.ndarray]:
    """The j-th slice of the i-th rank's result is the i-th slice of the j-th rank's tensor."""
    results = []
    for rank, own in enumerate(tensors):
        group = group_of(rank, groups)
        rows = own.shape[0] // len(group)
        i = group.index(rank)
        result = np.empty_like(own)
        for j, peer in enumerate(group):
            result[j * rows : (j + 1) * rows] = tensors[peer][i * rows : (i + 1) * rows]
        results.append(result)
    return results


def all_to_all_v(
    tensors: Sequence[np.ndarray],
    old: Sequence[np.ndarray],
    groups: Groups,
    send_counts: np.ndarray,
    send_starts: np.ndarray,
    receive_starts: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Element by element: ``send_counts[r, s]`` elements of rank r from ``send_starts[r, s]`` to s.

    They land at ``receive_starts[s, r]`` of rank s, or one sender after the other in the order of
    the group. ``old`` are the destinations before.
    """
    results = []
    for rank in range(len(tensors)):
        flat = list(old[rank].reshape(-1))
        position = 0
        for peer in group_of(rank, groups):
            theirs = tensors[peer].reshape(-1)
            if receive_starts is not None:
                position = int(receive_starts[rank, peer])
            for k in range(int(send_counts[peer, rank])):
                flat[position] = theirs[int(send_starts[peer, rank]) + k]
                position += 1
        results.append(np.array(flat, old[rank].dtype).reshape(old[rank].shape))
    return results


def permute(
    tensors: Sequence[np.ndarray], old: Sequence[np.ndarray], pairs: Sequence[tuple[int, int]]
) -> list[np.ndarray]:
    """The target of each pair gets its source's tensor; other ranks keep what they had."""
    results = [array.copy() for array in old]
    for source, target in pairs:
        results[target] = tensors[source].copy()
    return results


def ring_step(tensors: Sequence[np.ndarray], groups: Groups) -> list[np.ndarray]:
    """Every rank gets the tensor of the rank before it in its group, the first that of the last."""
    results = []
    for rank in range(len(tensors)):
        group = group_of(rank, groups)
        results.append(tensors[group[group.index(rank) - 1]].copy())
    return results


def ring_owner(rank: int, step: int, group: Sequence[int]) -> int:
    """The rank whose data ``rank`` holds after ``step`` steps around its ring."""
    holders = list(group)  # holders[i]: whose data position i holds
    for _ in range(step):
        holders = [holders[-1], *holders[:-1]]
    return holders[list(group).index(rank)]


def all_to_slots(
    tensors: Sequence[np.ndarray],
    old: Sequence[np.ndarray],
    groups: Groups,
    send_counts: np.ndarray,
    send_starts: np.ndarray,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """As ``all_to_all_v``, but each sender has a slot of equal size in every destination.

    Returns the destinations, and for each rank the number of elements that it gets from each rank
    of its group.
    """
    results, received = [], []
    for rank in range(len(tensors)):
        group = group_of(rank, groups)
        flat = list(old[rank].reshape(-1))
        slot = len(flat) // len(group)
        for i, peer in enumerate(group):
            theirs = tensors[peer].reshape(-1)
            for k in range(int(send_counts[peer, rank])):
                flat[i * slot + k] = theirs[int(send_starts[peer, rank]) + k]
        results.append(np.array(flat, old[rank].dtype).reshape(old[rank].shape))
        received.append(np.array([send_counts[peer, rank] for peer in group], np.uint32))
    return results, received
