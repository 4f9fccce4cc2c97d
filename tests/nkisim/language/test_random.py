"""Random numbers on tiles: bounds, seeds, buffers; the streams themselves are tested in isa."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case

TARGETS = ["gen2", "gen3", "gen4"]


def seeded(value):
    nl.random_seed(nl.full((1, 1), value, nl.int32))


def home(tensor):
    out = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.shared_hbm)
    if tensor.buffer == nl.psum:
        tile = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=tensor)
        tensor = tile
    nisa.dma_copy(dst=out, src=tensor)
    return out


@each_case("target", TARGETS)
@each_case("buffer", [nl.sbuf, nl.psum, nl.private_hbm])
def test_rand_fills_every_buffer_with_numbers_of_the_unit_interval(target, buffer):
    def kernel(x):
        seeded(7)
        return home(nl.rand((64, 96), nl.float32, buffer=buffer))

    drawn = nkisim.check(kernel, target=target)(np.ones((1, 1), np.float32)).outputs
    assert drawn.shape == (64, 96)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    # The mean of n uniform numbers has standard deviation 1/sqrt(12 n): six of them.
    assert abs(drawn.mean() - 0.5) < 6 / np.sqrt(12 * drawn.size)
    assert len(np.unique(drawn)) > 6000


@pytest.mark.parametrize("target", TARGETS)
def test_the_seed_decides_the_numbers(target):
    def kernel(x):
        drawn = []
        for seed in (1, 1, 2):
            seeded(seed)
            drawn.append(home(nl.rand((4, 8), nl.float32)))
        return tuple(drawn)

    first, again, other = nkisim.check(kernel, target=target)(np.ones((1, 1), np.float32)).outputs
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("target", TARGETS)
def test_seeding_before_gen4_is_a_warning(target):
    def kernel(x):
        seeded(1)
        return home(nl.rand((4, 8), nl.float32))

    codes = nkisim.check(kernel, target=target)(np.ones((1, 1), np.float32)).codes
    assert codes == (set() if target == "gen4" else {"A042"})


def test_dropout_zeroes_a_share_and_keeps_the_rest():
    def kernel(x):
        seeded(3)
        return home(nl.dropout(nl.load(x), 0.25)), home(nl.dropout(nl.load(x), 0.25, nl.bfloat16))

    x = np.full((128, 128), 3.0, np.float32)
    kept, narrow = nkisim.simulate(kernel)(x)
    assert set(np.unique(kept)) == {0.0, 3.0}
    # A binomial count of n elements has standard deviation sqrt(n p (1 - p)): six of them.
    assert abs((kept == 0).sum() - 4096) < 6 * np.sqrt(x.size * 0.25 * 0.75)
    assert str(narrow.dtype) == "bfloat16"
