"""memset writes one constant, in the tile's own format, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim.isa as nisa
from comparing import assert_same_bits
from drawn import examples
from oracles import elementwise as oracle

from .harness import FLOATS, INTEGERS, Problem, run

# Halfway cases, the ends of the narrow formats, infinities, and an integer.
NUMBERS = [0.0, -0.0, 1.0, -1.5, 1 + 2.0**-8, 1 + 2.0**-11, 1 / 3]
NUMBERS += [248.0, 65519.0, 3.4028235e38, -np.inf, np.inf, 3]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("engine", ["unknown", "vector", "gpsimd"])
@examples(10)
@given(data=st.data())
def test_memset_rounds_a_number_into_a_float_tile(dtype, engine, data):
    problem = Problem(data)
    dst = problem.write(dtype, problem.free_shape(), problem.start(), "patterns")
    value = problem.choose(NUMBERS)

    def instruction(dst):
        nisa.memset(dst, value=value, engine=getattr(nisa.engine, engine))

    got = run(instruction, {"dst": dst})["dst"]
    assert_same_bits(got, oracle.narrow(np.full(got.shape, value, np.float32), dst.dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@examples(12)
@given(data=st.data())
def test_memset_of_an_integer_tile_is_exact(dtype, data):
    problem = Problem(data)
    dst = problem.write(dtype, problem.free_shape(), problem.start())
    info = np.iinfo(dst.dtype)
    value = problem.choose([0, 1, 100, int(info.max), int(info.min), int(info.max) - 1])

    def instruction(dst):
        nisa.memset(dst=dst, value=value)

    got = run(instruction, {"dst": dst})["dst"]
    assert_same_bits(got, np.full(got.shape, value, dst.dtype))


@examples(20)
@given(data=st.data())
def test_memset_fills_psum(data):
    problem = Problem(data)
    dtype = problem.choose(["float32", "bfloat16"])
    dst = problem.write(dtype, problem.free_shape(), problem.start(), buffer="psum")

    def instruction(dst):
        nisa.memset(dst=dst, value=0.1)

    got = run(instruction, {"dst": dst})["dst"]
    assert_same_bits(got, oracle.narrow(np.full(got.shape, 0.1, np.float32), dst.dtype))
