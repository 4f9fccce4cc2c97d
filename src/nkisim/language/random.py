"""Random numbers on tiles; the generators themselves are not simulated yet."""

from __future__ import annotations

from typing import Any

from nkisim.isa import dropout as isa_dropout
from nkisim.isa import rng, set_rng_seed
from nkisim.language.tiles import fresh, need_tile, result_dtype
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec.signatures import checked_call

__all__ = ["dropout", "rand", "random_seed"]


@checked_call("nl.dropout")
def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` with elements zeroed at random with probability ``rate``."""
    tile = need_tile("dropout", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    isa_dropout(out, tile, rate)
    return out


@checked_call("nl.rand")
def rand(
    shape: Any, dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of uniform random numbers between 0 and 1."""
    out = current_core("nl.rand").memory.allocate(shape, dtype, buffer, name, where="nl.rand")
    rng(out)
    return out


@checked_call("nl.random_seed")
def random_seed(seed: Any) -> None:
    """Seed the random numbers of ``rand`` with a 1x1 tile."""
    set_rng_seed(seed)
