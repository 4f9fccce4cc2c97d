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
    """Return the constants of ``copies`` independent tournaments, (slots, 3, slots) in float32.

    The first table is the permutation P of the slots. The second is P with the rows of every pair
    exchanged: for a round in which slot p has cosine c_p and sine s_p, opposite in the two slots of
    a pair, J P is ``c * first + s * second``. The third alternates 1 and -1 on its diagonal.
    """
    slots = order * copies
    moves = np.kron(np.eye(copies), np.eye(order)[:, slot_permutation(order)])
    exchanged = moves[np.arange(slots) ^ 1]
    signs = np.diag(np.tile([1.0, -1.0], slots // 2))
    return np.stack([moves, exchanged, signs], axis=1).astype(np.float32)
