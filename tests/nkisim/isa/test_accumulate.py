"""Chains of reductions: which lanes they keep, however wide their tiles are."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from tiles import loaded, stored


def summed(x, first, second):
    """The sum of both parts of a tile, by two instructions on the registers of one engine."""
    tile = loaded(x)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    for columns, command in ((first, "reset_reduce"), (second, "reduce")):
        part = tile[:, columns]
        out = nl.ndarray(part.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=out,
            op=nl.copy,
            data=part,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd[command],
        )
    return stored(total)


@pytest.mark.parametrize("split", [1, 4, 7])
def test_a_chain_goes_on_with_tiles_of_another_width(split):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    report = nkisim.check(summed)(x, slice(0, split), slice(split, 8))
    assert not report.codes & {"R006", "R007", "R008", "R009"}, str(report)
    np.testing.assert_array_equal(report.outputs, x.sum(axis=1, keepdims=True))
