"""How far garbage reaches into a result, element by element, by the definition of each kind."""

import itertools

import numpy as np
import pytest

from nkisim.machine.core import Garbage
from nkisim.machine.spread import _reached


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


@pytest.mark.parametrize("at", PLACES)
def test_elements(at):
    origins = one_at((3, 4), at)
    np.testing.assert_array_equal(reached("elements", "data", origins, (3, 4)), origins)
    split = reached("elements", "data", origins, (3, 2, 2))
    np.testing.assert_array_equal(split, origins.reshape(3, 2, 2))
    # A result of another size has garbage in the whole row.
    narrow = reached("elements", "data", origins, (3, 1))
    np.testing.assert_array_equal(narrow, marked((3, 1), lambda i: i[0] == at[0]))


@pytest.mark.parametrize("shape", [(3, 4), (3, 1), (3, 2, 5)])
@pytest.mark.parametrize("at", PLACES)
def test_lanes(at, shape):
    found = reached("lanes", "data", one_at((3, 4), at), shape)
    np.testing.assert_array_equal(found, marked(shape, lambda i: i[0] == at[0]))


@pytest.mark.parametrize("at", PLACES)
def test_a_transpose(at):
    found = reached("transpose", "data", one_at((3, 4), at), (4, 3))
    np.testing.assert_array_equal(found, marked((4, 3), lambda i: i == at[::-1]))
    found = reached("transpose", "data", one_at((3, 2, 4), (at[0], 1, at[1])), (4, 2, 3))
    np.testing.assert_array_equal(found, marked((4, 2, 3), lambda i: i == (at[1], 1, at[0])))
    # Of a shape that is none of its transpose anything may come from it.
    np.testing.assert_array_equal(
        reached("transpose", "data", one_at((3, 4), at), (6, 2)), np.full((6, 2), 3)
    )


@pytest.mark.parametrize("at", PLACES)
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
