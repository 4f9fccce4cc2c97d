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

TILE = 4 * ROWS * COLUMNS

# Instructions per tile on the Vector, GpSimd and Scalar engines.
BLOCKS = {"philox": (172, 155, 0), "threefry": (155, 63, 0)}
LAWS = {"words": (0, 0, 0), "uniform": (1, 0, 1), "exponential": (20, 0, 0), "normal": (37, 0, 2)}


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
    per_tile = [a + b for a, b in zip(BLOCKS[engine], LAWS[law], strict=True)]
    used = engines_used(engine, law, 2 * TILE, generation)
    assert [used[name] for name in ("vector", "gpsimd", "scalar")] == [2 * n for n in per_tile]
    assert used["dma"] == 1 + 2  # the operand, and each tile's samples
    assert used.total() == 2 * sum(per_tile) + used["dma"]


@pytest.mark.parametrize("engine", ENGINES)
def test_small_requests_take_one_tile(engine):
    assert engines_used(engine, "words", 4, "gen2").total() == sum(BLOCKS[engine]) + 2


@each_case("law", LAWS)
@each_case("engine", ENGINES)
def test_two_tiles_fit_on_chip(engine, law):
    count = Count(kernel(engine, law), "gen2", operand(engine), TILE)
    assert 2 * count.sbuf_bytes <= 180_224  # usable on gen2, the smallest


@pytest.mark.parametrize("engine", ENGINES)
def test_only_samples_and_the_operand_pass_hbm(engine):
    place = operand(engine)
    count = Count(kernel(engine, "normal"), "gen3", place, TILE + 10)
    assert count.hbm_bytes == ROWS * place.nbytes + 4 * (TILE + 10)
