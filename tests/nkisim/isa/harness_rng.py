"""What the tests of random numbers share: kernels that draw, and seeds and states to draw from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.isa import rand_set_state, rng, set_rng_seed
from oracles import generators as oracle

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
# Generation, engine, and words of state in a lane of it.
STREAMS = [
    ("gen2", VECTOR, 1),
    ("gen3", VECTOR, 1),
    ("gen3", GPSIMD, 6),
    ("gen4", GPSIMD, 6),
    ("gen4", VECTOR, 24),
]
WITH_STATE = STREAMS[2:]
# Chance for a good generator to fail; seeds are fixed, so a test fails always or never.
RARE = 1e-6
SIGMAS = 6  # the chance to be further off is 2e-9

each_stream = pytest.mark.parametrize(("target", "engine", "words"), STREAMS)
each_state = pytest.mark.parametrize(("target", "engine", "words"), WITH_STATE)


def run(body: Callable[..., Any], *arrays: Any, target: str = "gen4", **options: Any) -> Any:
    """The report of a kernel that loads the arrays, runs ``body`` and stores the tiles it returns.

    Findings about the source are left out: the kernel is a closure, which a compiler would refuse.
    """

    def kernel(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        outputs = []
        for tile in body(*[nl.load(array) for array in inputs]):
            if tile.buffer == nl.psum:
                staged = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=staged, src=tile)
                tile = staged
            out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            outputs.append(out)
        return tuple(outputs)

    if options:
        return nkisim.simulate(kernel, target=target, **options)(arrays)
    report = nkisim.check(kernel, ignore=("M050",), target=target)(arrays)
    report.findings = [f for f in report.findings if f.rule.id[0] != "L"]
    return report


def results(body: Callable[..., Any], *arrays: Any, target: str = "gen4") -> list[np.ndarray]:
    """The tiles that ``body`` returns, from a run without findings."""
    report = run(body, *arrays, target=target)
    assert not report.findings, str(report)
    return list(report.outputs)


def new(shape: tuple[int, ...], dtype: str = "uint32", buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def seed_array(seed: int) -> np.ndarray:
    return np.array([[seed]], np.uint32)


def states(words: int, lanes: int = 128) -> np.ndarray:
    """Random states."""
    bits = np.random.default_rng(0).integers(0, 2**32, (lanes, words), dtype=np.uint64)
    return bits.astype(np.uint32)


def numbers(
    target: str, engine: Any, words: int, count: int, seed: int = 7, dtype: str = "uint32"
) -> np.ndarray:
    """Numbers of all lanes of a seeded engine; the seed is a word, or makes a state."""
    by_word = engine is VECTOR
    state = np.array(oracle.seed_words(seed, 128 * words), np.uint32).reshape(128, words)
    given_seed = seed_array(seed) if by_word else state

    def body(seeds):
        dst = new((128, count), dtype)
        if by_word:
            set_rng_seed(seeds)
        else:
            rand_set_state(seeds, engine=engine)
        rng(dst, engine=engine)
        return [dst]

    return results(body, given_seed, target=target)[0]


def assert_uniform(cells: np.ndarray, size: int) -> None:
    """Cells 0 to ``size`` - 1 are equally likely, and not suspiciously even."""
    statistic = oracle.chi_square(np.bincount(cells.ravel(), minlength=size).tolist())
    tail = oracle.chi_square_tail(statistic, size - 1)
    assert RARE < tail < 1 - RARE, f"chi-square {statistic:.1f}, tail {tail:.3g}"
