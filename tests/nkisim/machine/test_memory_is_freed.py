"""Nothing of a run outlives it: neither tiles, nor what an exception left behind."""

import gc

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.machine import CORE
from nkisim.memory import Storage


@pytest.fixture(scope="module", autouse=True)
def _only_new_objects():
    """Hide what other tests keep, perhaps millions of objects, as after the collection of tests."""
    gc.collect()
    gc.freeze()


def living_storages():
    gc.collect()
    # Not isinstance, which would wake lazy objects of other libraries.
    return sum(type(found) is Storage for found in gc.get_objects())


def varied(x):
    tile = nl.load(x)
    out_tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=out_tile, data=tile, op0=nl.right_shift, operand0=1)
    nisa.tensor_tensor(dst=out_tile, data1=out_tile, data2=tile[:, :], op=nl.add)
    turned = nl.transpose(nl.copy(tile, dtype=nl.float32))
    assert turned.shape == x.shape[::-1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, out_tile)
    return out


def test_a_finished_run_leaves_no_storage():
    before = living_storages()
    result = nkisim.simulate(varied)(np.ones((8, 8), np.int32))
    assert living_storages() == before
    # The result lives on by itself.
    np.testing.assert_array_equal(result, np.ones((8, 8)))


def test_a_run_that_raised_leaves_no_storage_and_no_core():
    def fails(x):
        varied(x)
        raise RuntimeError("stop")

    before = living_storages()
    with pytest.raises(RuntimeError, match="stop"):
        nkisim.simulate(fails)(np.ones((8, 8), np.int32))
    assert CORE.get() is None
    assert living_storages() == before


def test_dead_tiles_are_freed_while_the_kernel_runs():
    seen = []

    def loop(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(20):
            tile = nl.load(x)
            nl.store(out, tile)
            seen.append(living_storages())
        return out

    nkisim.simulate(loop)(np.ones((4, 4), np.float32))
    assert seen[-1] == seen[1]


@pytest.mark.parametrize(("cores", "ranks"), [(None, 1), (2, 1), (None, 2), (2, 2)])
def test_a_finished_run_waits_for_no_collector(cores, ranks):
    def kernel(x):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if nl.num_programs() == 2:
            nisa.core_barrier(out, (0, 1))
        for part in (0, 1) if nl.num_programs() == 1 else (nl.program_id(0),):
            nl.store(out[part], tile)
        return out

    launched = kernel if cores is None else nkisim.jit(kernel)[cores]
    simulation = nkisim.simulate(launched, ranks=ranks)
    arguments = [np.ones((8, 8), np.float32)] if ranks == 1 else [[np.ones((8, 8), np.float32)] * 2]
    simulation(*arguments)
    before = living_storages()
    gc.disable()
    try:
        simulation(*arguments)
        assert sum(type(found) is Storage for found in gc.get_objects()) == before
    finally:
        gc.enable()
