"""Random numbers on tiles: rand, random_seed, dropout.

``nisa.rand2`` and ``nisa.rng`` draw the numbers; the device's stream is not reproduced.
"""

from __future__ import annotations

from typing import Any

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import uint32
from nkisim.isa import dma_copy, rand2, rng, set_rng_seed, tensor_scalar
from nkisim.isa import dropout as isa_dropout
from nkisim.language.tiles import converted, fresh, need_tile
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor, is_on_chip
from nkisim.spec import OPS
from nkisim.spec.signatures import checked_call

SEED_ENGINE = declare(
    "A042",
    "seed-engine",
    "nl.random_seed is used before gen4.",
    "generator and seed may be on different engines, and the seed then has no effect",
    severity="warning",
)

_TILE_ROWS = 128
_TILE_COLUMNS = 2048
"""Elements per partition of the staging tile of ``rand`` in HBM."""


@checked_call("nl.dropout")
def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` with elements zeroed with probability ``rate``; the others are not rescaled."""
    tile = need_tile("dropout", "x", x)
    out = fresh(tile.shape, tile.dtype)
    isa_dropout(out, tile, rate)
    return converted(out, dtype, "nl.dropout")  # nisa.dropout does not convert


@checked_call("nl.rand")
def rand(
    shape: Any, dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of uniform random numbers in [0, 1), rounded to its type."""
    memory = current_core("nl.rand").memory
    out = memory.allocate(shape, dtype, buffer, name, where="nl.rand")
    if is_on_chip(out.buffer):
        _fill_uniform(out)
        return out
    columns = out.size // out.shape[0]
    rows = out.reshape((out.shape[0], columns))
    for r in range(0, rows.shape[0], _TILE_ROWS):
        for c in range(0, columns, _TILE_COLUMNS):
            part = rows[r : min(r + _TILE_ROWS, rows.shape[0]), c : min(c + _TILE_COLUMNS, columns)]
            tile = fresh(part.shape, out.dtype)
            _fill_uniform(tile)
            dma_copy(part, tile)
    return out


def _fill_uniform(tile: NkiTensor) -> None:
    """Fill a tile on chip with uniform numbers in [0, 1): multiples of 2^-24."""
    if current_core("nl.rand").generation.number >= 4:
        rand2(tile, 0.0, 1.0)
        return
    # 24 of the 32 bits, which are exact in float32.
    bits = fresh(tile.shape, uint32)
    rng(bits)
    tensor_scalar(bits, bits, OPS["right_shift"], 8)
    tensor_scalar(tile, bits, OPS["multiply"], 2.0**-24)


@checked_call("nl.random_seed")
def random_seed(seed: Any) -> None:
    """Seed the random numbers of ``rand`` with a 1x1 tile."""
    generation = current_core("nl.random_seed").generation
    if generation.number < 4:
        flag(
            SEED_ENGINE,
            f"nl.random_seed seeds the vector engine; on {generation} nl.rand may draw on another",
            instruction="nl.random_seed",
            operand="seed",
            seen=generation,
            allowed="gen4 or newer",
            fix="nisa.set_rng_seed with nisa.rng(engine=nisa.engine.vector), or a tensor from the "
            "host",
        )
    set_rng_seed(seed)
