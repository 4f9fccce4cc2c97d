"""Kernels of the tests."""

import nkisim
import nkisim.language as nl


@nkisim.jit
def twice(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out


@nkisim.jit
def bump(x, y):
    nl.store(y, nl.add(nl.load(x), nl.load(y)))
    return y


@nkisim.jit
def bump_silently(x, y):
    nl.store(y, nl.add(nl.load(x), nl.load(y)))
    return twice(x)


@nkisim.jit
def halves(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    half = x.shape[0] // nl.num_programs(0)
    rows = slice(core * half, (core + 1) * half)
    nl.store(out[rows], nl.multiply(nl.load(x[rows]), 2.0))
    return out


@nkisim.jit
def sum_and_square(pair):
    x, y = pair
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    square = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(total, nl.add(nl.load(x), nl.load(y)))
    nl.store(square, nl.multiply(nl.load(x), nl.load(x)))
    return total, square, x
