"""Calls share a plan only when every check and conversion of one is right for the other."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl


def run(operand):
    """Add ``operand``, a number or a function that makes a column, to a tile of ones."""

    def kernel(x):
        tile = nl.load(x)
        column = operand() if callable(operand) else operand
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return nkisim.simulate(kernel)(np.ones((4, 8), np.float32))


def column(seen):
    def make():
        tile = nl.ndarray((4, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=2.0)
        seen.append(tile.layout)
        return tile

    return make


def test_an_integer_is_not_taken_for_a_tensor_whose_layout_has_that_number():
    layouts = []
    assert (run(column(layouts)) == 3).all()
    # Both orders: the plan of either must not serve the other.
    assert (run(layouts[0]) == 1 + layouts[0]).all()
    assert (run(column(layouts)) == 3).all()


@pytest.mark.parametrize("first", [1, 1.0, np.float32(1)])
@pytest.mark.parametrize("second", [2, 2.5, np.float32(3)])
def test_numbers_of_every_kind_keep_their_value(first, second):
    assert (run(first) == 1 + first).all()
    assert (run(second) == 1 + second).all()
