"""What the kernels execute, move and occupy, as their documentation says."""

from __future__ import annotations

from collections import Counter

import pytest

import nkisim
from each_case import each_case
from pairwise import pairwise
from trnrand._kernels.samples import COLUMNS, ROWS

from ...trnblas.kernels.harness_products import Count
from .harness_random import ENGINES, GENERATIONS, kernel, operand

TILE = {engine: 4 * ROWS * columns for engine, columns in COLUMNS.items()}

# Instructions per launch and per tile on the Vector, GpSimd, Scalar and Tensor engines: Philox has
# 12 terms of both constants, and 19 products.
ONCE = {"philox": (24, 1, 0, 0), "threefry": (0, 0, 0, 0)}
BLOCKS = {"philox": (96, 22, 19, 12 * 19), "threefry": (155, 63, 0, 0)}
LAWS = {
    "words": (0, 0, 0, 0),
    "uniform": (1, 0, 1, 0),
    "exponential": (19, 0, 1, 0),
    "normal": (31, 0, 5, 0),
}


def engines_used(engine, law, count, generation):
    used = Counter()
    simulation = nkisim.simulate(
        kernel(engine, law),
        strictness="strict",
        target=generation,
        values=False,
        watchers=(lambda event: used.update([str(event.engine).removeprefix("engine.")]),),
    )
    simulation(operand(engine), count)
    return used


@each_case(("law", "generation", "engine"), pairwise(list(LAWS), GENERATIONS, ENGINES))
def test_instructions_per_tile(engine, law, generation):
    parts = zip(ONCE[engine], BLOCKS[engine], LAWS[law], strict=True)
    expected = [once + 2 * (block + sample) for once, block, sample in parts]
    used = engines_used(engine, law, 2 * TILE[engine], generation)
    assert [used[name] for name in ("vector", "gpsimd", "scalar", "tensor")] == expected
    assert used["dma"] == 1 + 2  # the operand, and each tile's samples
    assert used.total() == sum(expected) + used["dma"]


@pytest.mark.parametrize("engine", ENGINES)
def test_small_requests_take_one_tile(engine):
    expected = sum(ONCE[engine]) + sum(BLOCKS[engine]) + 2
    assert engines_used(engine, "words", 4, "gen2").total() == expected


@each_case("law", LAWS)
@each_case("engine", ENGINES)
def test_two_tiles_fit_on_chip(engine, law):
    count = Count(kernel(engine, law), "gen2", operand(engine), TILE[engine])
    assert 2 * count.sbuf_bytes <= 180_224  # usable on gen2, the smallest


@pytest.mark.parametrize("engine", ENGINES)
def test_only_samples_and_the_operand_pass_hbm(engine):
    place = operand(engine)
    count = Count(kernel(engine, "normal"), "gen3", place, TILE[engine] + 10)
    assert count.hbm_bytes == ROWS * place.nbytes + 4 * (TILE[engine] + 10)
