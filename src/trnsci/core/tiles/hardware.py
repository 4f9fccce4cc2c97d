"""Hardware parameters of the NeuronCore generations, for kernels and plans.

They are from the NKI 0.3.0 documentation and from published measurements; nothing is timed and
nothing is cached on disk.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from trnsci.core.errors import FlagError

TILE = 128
"""Partitions; also the maximum of stationary columns and of contraction rows of one product."""
BANK = 512
"""Float32 columns of one PSUM bank; also the maximum of moving columns of one product."""

ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of an element, by the dtypes that products accept."""

Generation = Literal["gen2", "gen3", "gen4"]

_VARIABLES = ("NKISIM_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE")


@dataclass(frozen=True)
class Core:
    """Model parameters of one NeuronCore generation.

    Attributes:
        sbuf_bytes: SBUF bytes per partition that a kernel may use.
        psum_banks: PSUM banks per partition.
        tensor_ghz, vector_ghz: Clocks.
        product_cycles: Cycles of a product beyond its moving columns.
        vector_cycles: Cycles of a Vector instruction beyond its elements.
        transpose_ns: Time of one 128 by 128 transpose by dtype: on the Tensor engine, but on gen2
            sixteen of 32 by 32 on the Vector engine, because its Tensor engine multiplies by the
            identity and spreads NaN and infinity.
        dma_bytes_per_ns: Total bandwidth of all DMA queues of the core.
        dma_ns: Minimum time of one DMA instruction.
        fast_vector: Whether the Vector engine reads two float32 elements per cycle.
        gather_ns: Time for which a gather of up to 128 rows occupies GpSimd.
    """

    sbuf_bytes: int
    tensor_ghz: float
    vector_ghz: float
    product_cycles: int
    vector_cycles: int
    transpose_ns: dict[str, float]
    dma_bytes_per_ns: float
    dma_ns: float = 860.0
    gather_ns: float = 1035.0
    psum_banks: int = 8
    transposes_on_tensor: bool = True
    fast_vector: bool = True


CORES: dict[str, Core] = {
    "gen2": Core(
        180_224,
        2.8,
        1.12,
        64,
        0,
        dict.fromkeys(ITEMSIZE, 16 * 64 / 1.12),
        272.0,
        gather_ns=1000.0,
        transposes_on_tensor=False,
        fast_vector=False,
    ),
    "gen3": Core(
        212_984, 2.4, 0.96, 8, 100, {"float32": 168.0, "bfloat16": 62.0, "float16": 62.0}, 368.0
    ),
    "gen4": Core(
        245_752, 2.4, 1.2, 8, 100, {"float32": 84.0, "bfloat16": 31.0, "float16": 31.0}, 528.0
    ),
}

SMALLEST_SBUF = min(core.sbuf_bytes for core in CORES.values())
"""SBUF bytes per partition that a kernel may use on every generation."""

DEFAULT_GENERATION: Generation = "gen3"
"""The generation of plans where none is stated: that of trn2, as for nkisim."""

_ALIASES = {"trn1": "gen2", "inf2": "gen2", "trn2": "gen3", "trn3": "gen4"}


def resolve_generation(name: str | None = None) -> Generation:
    """Return the generation called ``name``; None takes the environment's, or the default.

    The environment is read as nkisim reads it: NKISIM_TARGET, then
    NEURON_PLATFORM_TARGET_OVERRIDE.

    Raises:
        FlagError: The name, or the environment's, is not known.
    """
    return _stated(name) or DEFAULT_GENERATION


def generation_stated(name: str | None = None) -> bool:
    """Return whether ``name`` or the environment states a generation; if not, it may be any.

    Raises:
        FlagError: The name, or the environment's, is not known.
    """
    return _stated(name) is not None


def _stated(name: str | None) -> Generation | None:
    """Return the generation that the argument or the environment states, or None."""
    stated: list[tuple[str, str | None]] = [("generation", name)]
    stated += [(variable, os.environ.get(variable) or None) for variable in _VARIABLES]
    for origin, asked in stated:
        if asked is not None:
            lower = asked.lower() if isinstance(asked, str) else ""
            found = _ALIASES.get(lower, lower)
            if found not in CORES:
                accepted = ", ".join([*CORES, *_ALIASES])
                raise FlagError(f"{origin}: got {asked!r}, accepted: {accepted}")
            return found  # type: ignore[return-value]
    return None
