"""Twins about random numbers: seeds, states, ranges and drop probabilities."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2_3, GEN3_UP, GEN4, f32, twin
from tiles import stored


@twin(f32(128, 64), fixed=(f32(128, 64),))
def bad_D038(x):
    tile = nl.load(x)
    seed = nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf)
    nisa.set_rng_seed(seed)
    kept = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dropout(dst=kept, data=tile, prob=10.0)  # here
    return stored(kept)


def good_D038(x):
    tile = nl.load(x)
    seed = nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf)
    nisa.set_rng_seed(seed)
    kept = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dropout(dst=kept, data=tile, prob=0.1)
    return stored(kept)


@twin(
    f32(128, 64),
    np.full((128, 1), 10.0, np.float32),
    fixed=(f32(128, 64), np.full((128, 1), 0.1, np.float32)),
)
def bad_D038_column(x, prob):
    tile, rates = nl.load(x), nl.load(prob)
    nisa.set_rng_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))
    nisa.dropout(dst=tile, data=tile, prob=rates)  # here
    return stored(tile)


def good_D038_column(x, prob):
    tile, rates = nl.load(x), nl.load(prob)
    nisa.set_rng_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))
    nisa.dropout(dst=tile, data=tile, prob=rates)
    return stored(tile)


@twin(np.ones((128, 64), np.int32))
def bad_D038_type(counts):
    tile = nl.load(counts)
    rates = nl.full((128, 1), 0.5, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))
    nisa.dropout(dst=tile, data=tile, prob=rates)  # here
    return stored(tile)


def good_D038_type(counts):
    tile = nl.load(counts)
    rates = nl.full((128, 1), 0.5, dtype=nl.float32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))
    nisa.dropout(dst=tile, data=tile, prob=rates)
    return stored(tile)


@twin(np.array([[42]], np.uint32))
def bad_D039(seed):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise)  # here
    return stored(noise)


def good_D039(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise)
    return stored(noise)


@twin(np.arange(128, dtype=np.int32).reshape(128, 1), fixed=(np.array([[42]], np.int32),))
def bad_D039_seed(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))  # here
    nisa.rng(dst=noise)
    return stored(noise)


def good_D039_seed(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise)
    return stored(noise)


@twin(np.ones((128, 6), np.uint32), fixed=(np.ones((128, 24), np.uint32),), targets=GEN4)
def bad_D039_state(state):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.rand_set_state(nl.load(state), engine=nisa.engine.vector)  # here
    nisa.rand2(dst=noise, min=0.0, max=1.0)
    return stored(noise)


def good_D039_state(state):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.rand_set_state(nl.load(state), engine=nisa.engine.vector)
    nisa.rand2(dst=noise, min=0.0, max=1.0)
    return stored(noise)


@twin(np.array([[42]], np.uint32), targets=GEN4)
def bad_D039_range(seed):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rand2(dst=noise, min=1.0, max=-1.0)  # here
    return stored(noise)


def good_D039_range(seed):
    noise = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rand2(dst=noise, min=-1.0, max=1.0)
    return stored(noise)


@twin(np.array([[42]], np.uint32))
def bad_R012(seed):
    first = nl.load(seed)
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rng(dst=noise)  # here
    nisa.set_rng_seed(first)
    return stored(noise)


def good_R012(seed):
    first = nl.load(seed)
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(first)
    nisa.rng(dst=noise)
    return stored(noise)


@twin(np.array([[42]], np.uint32), targets=GEN3_UP)
def bad_R012_engine(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise, engine=nisa.engine.gpsimd)  # here
    return stored(noise)


def good_R012_engine(seed):
    noise = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.set_rng_seed(nl.load(seed))
    nisa.rng(dst=noise, engine=nisa.engine.vector)
    return stored(noise)


@twin(f32(64, 32), targets=GEN2_3)
def bad_A042(a):
    nl.random_seed(nl.full((1, 1), 42, nl.int32))  # here
    return stored(nl.add(nl.load(a), nl.rand((64, 32), nl.float32)))


def good_A042(a):
    nisa.set_rng_seed(nl.full((1, 1), 42, nl.int32))
    return stored(nl.add(nl.load(a), nl.rand((64, 32), nl.float32)))
