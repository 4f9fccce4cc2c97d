"""The order in which Jacobi's method meets all pairs: a round-robin tournament.

Slots 2i and 2i + 1 are a pair. Between two rounds everybody but slot 0 moves on by one place, which
is one constant permutation of the slots: a kernel folds it into its rotations, and every round is
the same program. After ``order - 1`` rounds all pairs have met once and everybody is back.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["packed_tables", "slot_permutation", "sweep_bound"]


def slot_permutation(order: int) -> list[int]:
    """Return, for every slot of the next round, the slot of this round that moves there.

    Args:
        order: Number of slots, even.
    """
    half = order // 2
    top, bottom = list(range(0, order, 2)), list(range(1, order, 2))
    if half > 1:
        top, bottom = [top[0], bottom[0], *top[1:-1]], [*bottom[1:], top[-1]]
    return [slot for pair in zip(top, bottom, strict=True) for slot in pair]


def sweep_bound(order: int) -> int:
    """Return how many sweeps bring every matrix of an order to rounding errors, at most 10.

    Random matrices need about ``log2(order) + 1``; those with few distinct eigenvalues three more.
    """
    return 10 if order > 32 else 3 + max(1, math.ceil(math.log2(max(order, 2))))


def packed_tables(order: int, copies: int) -> np.ndarray:
    """Return the constants of ``copies`` tournaments side by side, (slots, 4, slots) in float32.

    The first table has 1 and -1 by turns on its diagonal, the second 1 where two slots are a pair.
    The third is the permutation P of the slots. The fourth is twice that of rotated pairs: J P is
    ``c * third + s / 2 * fourth`` for a round with cosines c and sines s.
    """
    slots = order * copies
    signs = np.diag(np.tile([1.0, -1.0], slots // 2))
    pairs = np.kron(np.eye(slots // 2), [[0.0, 1.0], [1.0, 0.0]])
    moves = np.kron(np.eye(copies), np.eye(order)[:, slot_permutation(order)])
    return np.stack([signs, pairs, moves, 2 * signs @ pairs @ moves], axis=1).astype(np.float32)
