"""The enums of ``nki.isa``, with the values of NKI 0.3.0."""

from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = [
    "dge_mode",
    "dma_engine",
    "engine",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]


class _Choice(Enum):
    """An enum whose members hash by identity: they are part of every instruction's plan key."""

    __hash__ = object.__hash__


class dependency(_Choice):
    """Effect of an edge between two instructions, from NKI 0.7.0 on."""

    runtime = "runtime"
    schedule = "schedule"


class dge_mode(_Choice):
    """Generator of the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class dma_engine(_Choice):
    """DMA engine that moves the data of a ``sendrecv``."""

    dma = 1
    gpsimd_dma = 2


class engine(_Choice):
    """The engines of a NeuronCore."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0


class matmul_perf_mode(_Choice):
    """Performance mode of the Tensor engine."""

    none = "none"
    double_row = "double_row"


class nc_version(_Choice):
    """NeuronCore generation; ordered, since kernels compare it."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other: Any) -> bool:
        return self.value < other.value if isinstance(other, nc_version) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self.value <= other.value if isinstance(other, nc_version) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self.value > other.value if isinstance(other, nc_version) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self.value >= other.value if isinstance(other, nc_version) else NotImplemented


class oob_mode(_Choice):
    """Effect of a data-dependent access out of bounds."""

    error = 0
    skip = 1


class reduce_cmd(_Choice):
    """Command for the accumulator registers of an engine."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
