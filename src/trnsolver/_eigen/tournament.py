"""Round-robin ordering of the pairs in Jacobi's method.

Slots 2i and 2i + 1 are a pair. Between rounds all slots but 0 move by one place. This is a constant
permutation, which a kernel combines with its rotations, so that every round is the same program.
After ``order - 1`` rounds every pair has occurred once and the initial order is restored.
"""

from __future__ import annotations

import math

import numpy as np


def slot_permutation(order: int) -> list[int]:
    """Return the slot in this round of each slot of the next one; ``order`` is even."""
    half = order // 2
    top, bottom = list(range(0, order, 2)), list(range(1, order, 2))
    if half > 1:
        top, bottom = [top[0], bottom[0], *top[1:-1]], [*bottom[1:], top[-1]]
    return [slot for pair in zip(top, bottom, strict=True) for slot in pair]


def sweep_bound(order: int) -> int:
    """Return the number of sweeps (at most 10) after which any n x n matrix has converged.

    Random matrices need about ``log2(order) + 1``, those with few distinct eigenvalues three more.
    """
    return 10 if order > 32 else 3 + max(1, math.ceil(math.log2(max(order, 2))))


def packed_tables(order: int, copies: int) -> np.ndarray:
    """Return the constants of ``copies`` independent tournaments, (slots, 4, slots) in float32.

    The first table alternates 1 and -1 on its diagonal, the second is 1 where two slots are a pair.
    The third is the permutation P of the slots. The fourth is 2 (first) (second) P: J P is
    ``c * third + s / 2 * fourth`` for a round with cosines c and sines s.
    """
    slots = order * copies
    signs = np.diag(np.tile([1.0, -1.0], slots // 2))
    pairs = np.kron(np.eye(slots // 2), [[0.0, 1.0], [1.0, 0.0]])
    moves = np.kron(np.eye(copies), np.eye(order)[:, slot_permutation(order)])
    return np.stack([signs, pairs, moves, 2 * signs @ pairs @ moves], axis=1).astype(np.float32)
