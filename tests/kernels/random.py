"""Twins about random numbers: seeds, states, ranges and drop probabilities."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2_3, GEN3_UP, GEN4, f32, twin
from tiles import stored


@twin(f32(128, 64), fixed=(f32(128, 64),))
def D038(x):
    tile = nl.load(x)
    seed = nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf)
    nisa.set_rng_seed(seed)
    kept = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dropout(dst=kept, data=tile, prob=10.0)  # bad here
    nisa.dropout(dst=kept, data=tile, prob=0.1)  # good
    return stored(kept)


@twin(
    f32(128, 64),
    np.full((128, 1), 10.0, np.float32),
    fixed=(f32(128, 64), np.full((128, 1), 0.1, np.float32)),
)
def D038_column(x, prob):
    tile, rates = nl.load(x), nl.load(prob)
    nisa.set_rng_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))
    nisa.dropout(dst=tile, data=tile, prob=rates)  # here
    return stored(tile)


@twin(np.ones((128, 64), np.int32))
def D038_type(counts):
    tile = nl.load(counts)
    rates = nl.full((128, 1), 0.5, dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    rates = nl.full((128, 1), 0.5, dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.set_rng_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))
    nisa.dropout(dst=tile, data=tile, prob=rates)  # here
    return stored(tile)


@twin(np.array([[42]], np.uint32))
def D039(seed):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)  # bad
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)  # good
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise)  # here
    return stored(noise)


@twin(np.arange(128, dtype=np.int32).reshape(128, 1), fixed=(np.array([[42]], np.int32),))
def D039_seed(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))  # here
    nisa.rng(dst=noise)
    return stored(noise)


@twin(np.ones((128, 6), np.uint32), fixed=(np.ones((128, 24), np.uint32),), targets=GEN4)
def D039_state(state):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.rand_set_state(nl.load(state), engine=nisa.engine.vector)  # here
    nisa.rand2(dst=noise, min=0.0, max=1.0)
    return stored(noise)


@twin(np.array([[42]], np.uint32), targets=GEN4)
def D039_range(seed):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rand2(dst=noise, min=1.0, max=-1.0)  # bad here
    nisa.rand2(dst=noise, min=-1.0, max=1.0)  # good
    return stored(noise)


@twin(np.array([[42]], np.uint32))
def R012(seed):
    first = nl.load(seed)
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(first)  # good
    nisa.rng(dst=noise)  # here
    nisa.set_rng_seed(first)  # bad
    return stored(noise)


@twin(np.array([[42]], np.uint32), targets=GEN3_UP)
def R012_engine(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise, engine=nisa.engine.gpsimd)  # bad here
    nisa.rng(dst=noise, engine=nisa.engine.vector)  # good
    return stored(noise)


@twin(f32(64, 32), targets=GEN2_3)
def A042(a):
    nl.random_seed(nl.full((1, 1), 42, nl.int32))  # bad here
    nisa.set_rng_seed(nl.full((1, 1), 42, nl.int32))  # good
    return stored(nl.add(nl.load(a), nl.rand((64, 32), nl.float32)))
