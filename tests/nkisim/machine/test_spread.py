"""How far garbage reaches into a result, element by element, by the definition of each kind."""

import itertools

import numpy as np
import pytest

import nkisim.language as nl
from each_case import each_case
from nkisim.arch import GEN3
from nkisim.machine.calls.operands import Rows
from nkisim.machine.calls.provenance import _mark_rows, _reached
from nkisim.machine.calls.transfer import Partial, _scatter
from nkisim.machine.core import Garbage
from nkisim.memory import CoreMemory


def one_at(shape, at, number=3):
    origins = np.zeros(shape, np.uint8)
    origins[at] = number
    return origins


def reached(spread, operand, origins, shape):
    return _reached([Garbage(1, operand, origins)], spread, shape)


def marked(shape, where, number=3):
    """A result that holds garbage where ``where`` says so of the index."""
    wanted = np.zeros(shape, np.uint8)
    for at in itertools.product(*map(range, shape)):
        wanted[at] = number if where(at) else 0
    return wanted


PLACES = list(itertools.product(range(3), range(4)))


@each_case("at", PLACES)
def test_elements(at):
    origins = one_at((3, 4), at)
    np.testing.assert_array_equal(reached("elements", "data", origins, (3, 4)), origins)
    split = reached("elements", "data", origins, (3, 2, 2))
    np.testing.assert_array_equal(split, origins.reshape(3, 2, 2))
    # A result of another size has garbage in the whole row.
    narrow = reached("elements", "data", origins, (3, 1))
    np.testing.assert_array_equal(narrow, marked((3, 1), lambda i: i[0] == at[0]))


@each_case("shape", [(3, 4), (3, 1), (3, 2, 5)])
@each_case("at", PLACES)
def test_lanes(at, shape):
    found = reached("lanes", "data", one_at((3, 4), at), shape)
    np.testing.assert_array_equal(found, marked(shape, lambda i: i[0] == at[0]))


@each_case("at", PLACES)
def test_a_transpose(at):
    found = reached("transpose", "data", one_at((3, 4), at), (4, 3))
    np.testing.assert_array_equal(found, marked((4, 3), lambda i: i == at[::-1]))
    found = reached("transpose", "data", one_at((3, 2, 4), (at[0], 1, at[1])), (4, 2, 3))
    np.testing.assert_array_equal(found, marked((4, 2, 3), lambda i: i == (at[1], 1, at[0])))
    # Of a shape that is none of its transpose anything may come from it.
    np.testing.assert_array_equal(
        reached("transpose", "data", one_at((3, 4), at), (6, 2)), np.full((6, 2), 3)
    )


@each_case("at", PLACES)
def test_a_product(at):
    """Three rows are contracted: columns of one side are rows of the result."""
    left = reached("product", "stationary", one_at((3, 4), at), (4, 6))
    np.testing.assert_array_equal(left, marked((4, 6), lambda i: i[0] == at[1]))
    right = reached("product", "moving", one_at((3, 4), at), (6, 4))
    np.testing.assert_array_equal(right, marked((6, 4), lambda i: i[1] == at[1]))
    wide = reached("product", "moving", one_at((3, 2, 2), (at[0], *divmod(at[1], 2))), (6, 2, 2))
    np.testing.assert_array_equal(wide, marked((6, 2, 2), lambda i: 2 * i[1] + i[2] == at[1]))
    scale = reached("product", "stationary_scale", one_at((3, 4), at), (4, 6))
    np.testing.assert_array_equal(scale, np.full((4, 6), 3))


def test_what_a_sum_is_added_to_stays_where_it_is():
    origins = one_at((4, 6), (2, 5))
    np.testing.assert_array_equal(reached("product", "dst", origins, (4, 6)), origins)


def test_all():
    found = reached("all", "data", one_at((3, 4), (1, 2)), (3, 4))
    np.testing.assert_array_equal(found, np.full((3, 4), 3))
    np.testing.assert_array_equal(
        reached("all", "data", np.zeros((3, 4), np.uint8), (3, 4)), np.zeros((3, 4))
    )


def test_the_latest_of_several_is_kept():
    read = [Garbage(1, "data1", one_at((3, 4), (0, 0), n)) for n in (5, 9, 2)]
    read.append(Garbage(1, "data2", one_at((3, 4), (1, 1), 4)))
    found = _reached(read, "elements", (3, 4))
    assert (found[0, 0], found[1, 1], int(found.sum())) == (9, 4, 13)


def table_of(rows=5):
    return CoreMemory(GEN3, precise=True).allocate((rows, 2), nl.float32, nl.private_hbm)


@pytest.mark.parametrize(
    ("inside", "there"),
    [
        ((1, 1, 1), None),
        ((1, 0, 1), None),
        ((1, 1, 1), (1, 0, 1)),
        ((1, 1, 0), (0, 1, 1)),
        ((0, 0, 0), (1, 1, 1)),
    ],
)
def test_rows_by_index_hold_garbage_where_they_were_written(inside, there):
    """Rows that are out of bounds, or that the source does not have, keep what they were."""
    table = table_of()
    rows = Rows(table, np.array([4, 1, 3]), np.array(inside, bool))
    value = None
    if there is not None:
        where = np.repeat(np.array(there, bool)[:, None], 2, axis=1)
        value = Partial(np.zeros((3, 2), np.float32), where)
    _mark_rows(rows, np.uint8([[7, 7], [8, 0], [9, 9]]), value)
    wanted = np.zeros((5, 2), np.uint8)
    for i, (row, marks) in enumerate(zip((4, 1, 3), ((7, 7), (8, 0), (9, 9)), strict=True)):
        if inside[i] and (there is None or there[i]):
            wanted[row] = marks
    found = table._storage.garbage(table.region)
    np.testing.assert_array_equal(np.zeros((5, 2)) if found is None else found, wanted)


def test_pairs_of_rows_that_move_may_reach_everywhere():
    """Two rows of a partition are one column each of the result: twice as many as it has."""
    found = reached("product", "moving", one_at((3, 2, 4), (1, 1, 2)), (6, 4))
    np.testing.assert_array_equal(found, np.full((6, 4), 3))
    found = reached("product", "stationary", one_at((3, 2, 4), (1, 1, 2)), (4, 6))
    np.testing.assert_array_equal(found, np.full((4, 6), 3))


@pytest.mark.parametrize("complete", [True, False])
def test_a_scatter_leaves_out_what_is_not_there(complete):
    table = table_of()
    if complete:
        table._storage.mark_written(table.start, table.runs)
    table._elements[...] = 0
    rows = Rows(table, np.array([4, 1, 3]), np.array([True, True, False]))
    where = np.array([[True, True], [False, False], [True, True]])
    _scatter(rows, np.float32([[1, 2], [3, 4], [5, 6]]), where)
    assert table._elements.tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [1, 2]]
    _scatter(rows, np.float32([[1, 2], [3, 4], [5, 6]]), None)
    assert table._elements.tolist() == [[0, 0], [3, 4], [0, 0], [0, 0], [1, 2]]
