"""The tournament meets every pair once, and everybody comes home."""

import numpy as np
import pytest

from each_case import each_case
from trnsolver._eigen.tournament import packed_tables, slot_permutation, sweep_bound


@each_case("order", [2, 4, 6, 8, 16, 66, 128])
def test_every_pair_meets_once_in_a_sweep(order):
    slots, moves = list(range(order)), slot_permutation(order)
    met = []
    for _ in range(order - 1):
        met += [frozenset(slots[i : i + 2]) for i in range(0, order, 2)]
        slots = [slots[k] for k in moves]
    assert len(set(met)) == len(met) == order * (order - 1) // 2
    assert slots == list(range(order))


def test_published_permutation():
    assert slot_permutation(8) == [0, 3, 1, 5, 2, 7, 4, 6]


@pytest.mark.parametrize(("order", "copies"), [(2, 1), (6, 1), (4, 3)])
def test_tables_make_rotations_and_moves(order, copies):
    slots = order * copies
    moves, exchanged, signs = packed_tables(order, copies).transpose(1, 0, 2)
    angles = np.repeat(np.random.default_rng(order).uniform(-0.7, 0.7, slots // 2), 2)
    sines = np.sin(angles) * np.tile([1, -1], slots // 2)
    got = np.cos(angles)[:, None] * moves + sines[:, None] * exchanged
    rotation = np.zeros((slots, slots))
    for i in range(0, slots, 2):
        c, s = np.cos(angles[i]), np.sin(angles[i])
        rotation[i : i + 2, i : i + 2] = [[c, s], [-s, c]]
    places = np.concatenate([order * k + np.array(slot_permutation(order)) for k in range(copies)])
    np.testing.assert_allclose(got, rotation[:, places], rtol=0, atol=1e-7)
    assert np.array_equal(np.diag(signs), np.tile([1, -1], slots // 2))


def test_no_order_needs_more_than_ten_sweeps():
    assert max(sweep_bound(n) for n in range(1, 2049)) == 10
