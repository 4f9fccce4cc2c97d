"""Sobol' points of 64 bits: against the definition and SciPy, and beside those of 32."""

import numpy as np
import pytest
import torch
from scipy import stats

from each_case import each_case
from oracles import lowdiscrepancy as oracle
from trnrand.qmc import SobolEngine, sobol
from trnrand.qmc._directions import joe_kuo

F64 = torch.float64
LEVELS = 10
METHODS = (False, "owen", "linear")
INDICES = (0, 1, 1023, 1024, 2**30, 2**33 + 5, 2**53 - 1, 2**63, 2**64 - 1)


def test_all_directions_are_those_of_scipy():
    """SciPy makes its own of polynomials and first numbers; ours continue a table of 30 each."""
    want = stats.qmc.Sobol(21201, scramble=False, bits=64)._sv
    assert np.array_equal(joe_kuo(21201, 64).T, want)
    assert np.array_equal(joe_kuo(7, 64), joe_kuo(21201, 64)[:, :7])


@each_case("dims", [1, 2, 10, 300])
@pytest.mark.filterwarnings("ignore:The balance properties")
def test_plain_points_are_those_of_scipy(dims):
    engine = stats.qmc.Sobol(dims, scramble=False, bits=64)
    got = sobol(500, dims, scramble=False, dtype=F64, bits=64)
    assert np.array_equal(got.numpy(), engine.random(500))


@each_case("index", INDICES)
@each_case("seed", [0, 2**64 - 1])
def test_points_follow_the_definition(index, seed):
    """float64 has the first 53 of 64 digits."""
    options = {"seed": seed, "dtype": F64, "start_index": index, "bits": 64}
    plain, nested, linear = (sobol(1, 4, scramble=m, **options)[0].tolist() for m in METHODS)
    for dim in range(4):
        word = oracle.sobol_word(index, dim, 64)
        assert plain[dim] * 2.0**53 == word >> 11
        assert nested[dim] * 2.0**53 == oracle.nested_scrambled(word, dim, seed, LEVELS, 64) >> 11
        assert linear[dim] * 2.0**53 == oracle.linear_scrambled(word, dim, seed, 64) >> 11


@each_case("method", METHODS)
@each_case("start", [0, 777, 2**30 - 3000])
def test_the_first_digits_are_those_of_32_bits(method, start):
    options = {"seed": 5, "scramble": method, "start_index": start, "dtype": F64}
    narrow, wide = (sobol(3000, 20, bits=bits, **options) for bits in (32, 64))
    assert torch.equal((wide * 2.0**32).floor(), narrow * 2.0**32)
    assert method is False or not torch.equal(wide, narrow)
    for dtype in (torch.float32, torch.bfloat16):
        options["dtype"] = dtype
        assert torch.equal(sobol(300, 20, bits=64, **options), sobol(300, 20, bits=32, **options))


@each_case("method", METHODS)
@each_case("start", [2**30 - 500, 2**40 - 3, 2**64 - 1000])
def test_a_later_start_gives_the_tail_of_a_longer_draw(method, start):
    engine = SobolEngine(3, method, seed=9, start_index=start, bits=64)
    whole = engine.draw(1000 if start > 2**63 else 1500, F64)
    assert torch.equal(engine.reset().skip(700).draw(300, F64), whole[700:1000])


@each_case("method", METHODS)
def test_intervals_hold_their_share_far_out(method):
    """2**12 points from a multiple of that on: one in each of as many intervals."""
    points = sobol(2**12, 5, 3, method, F64, start_index=2**12 * 987654321, bits=64)
    cells = (points * 2.0**12).long().sort(0).values
    assert (cells == torch.arange(2**12)[:, None]).all()


@pytest.mark.parametrize("method", ["owen", "linear"])
def test_the_last_digits_are_random(method):
    """Of the 21 digits after the first 32, which 32 bits do not have."""
    points = sobol(4096, 8, 11, method, F64, bits=64)
    last = (points * 2.0**53).long() & (2**21 - 1)
    uniform = stats.kstest((last.flatten().double() / 2**21).numpy(), "uniform")
    assert uniform.pvalue > 1e-4
