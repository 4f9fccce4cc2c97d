"""Buffers of NKI, and ``nl.tile_size``: sizes of the target, read at each access."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nkisim import memory
from nkisim.arch import Generation, resolve_target
from nkisim.machine import CORE
from nkisim.memory import MemoryRegion
from nkisim.spec.signatures import checked_call
from nkisim.versions import VERSIONS, in_force

_AS_MATMUL = "NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE"


def _target() -> Generation:
    core = CORE.get()
    return resolve_target() if core is None else core.generation


class _Size(property):
    """A size of the target, read at each access, in the versions from ``first`` to ``last``."""

    def __init__(
        self, size: Callable[[Generation], int], first: str = VERSIONS[0], last: str = VERSIONS[-1]
    ) -> None:
        super().__init__()
        self._size = size
        self._there = VERSIONS[VERSIONS.index(first) : VERSIONS.index(last) + 1]

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, cls: Any, kind: type | None = None, /) -> int:  # type: ignore[override]
        if in_force() not in self._there:
            message = f"nl.tile_size.{self._name} does not exist in NKI {in_force()}"
            raise AttributeError(message, name=self._name, obj=cls)
        return self._size(_target())


def _free_banks(target: Generation) -> int:
    reserved = os.environ.get(_AS_MATMUL, "").lower() == "true" and target.number > 2
    return target.psum_banks - reserved


class _TileSize(type):
    """Metaclass with the sizes, so that they are read of the class itself."""

    pmax = _Size(lambda g: g.partitions)
    """Partitions of a tile."""
    psum_fmax = _Size(lambda g: g.psum_free_max)
    """Float32 elements of one PSUM bank in one partition."""
    gemm_stationary_fmax = _Size(lambda g: g.stationary_free_max)
    """Free size of a matmul's stationary operand."""
    gemm_moving_fmax = _Size(lambda g: g.psum_free_max)
    """Free size of a matmul's moving operand that every generation supports."""
    bn_stats_fmax = _Size(lambda g: g.bn_stats_free_max)
    """Free size of ``bn_stats``."""
    psum_min_align = _Size(lambda _: 4)
    """Byte alignment in PSUM."""
    sbuf_min_align = _Size(lambda _: 1)
    """Byte alignment in SBUF."""
    total_available_sbuf_size = _Size(lambda g: g.sbuf_usable_bytes)
    """Bytes per partition of SBUF that a kernel may use."""
    sbuf_size_bytes = _Size(lambda g: g.sbuf_bytes * g.partitions, "0.4.0")
    """Bytes of SBUF in all partitions."""
    sbuf_fmax = _Size(lambda g: g.sbuf_usable_bytes // 4, "0.4.0")
    """Float32 elements per partition of SBUF that a kernel may use."""
    sbuf_fmax_bytes = _Size(lambda g: g.sbuf_usable_bytes, "0.4.0")
    """Bytes per partition of SBUF that a kernel may use."""
    psum_bank_fmax = _Size(lambda g: g.psum_free_max, "0.4.0")
    """Float32 elements of one PSUM bank in one partition."""
    psum_bank_fmax_bytes = _Size(lambda g: g.psum_bank_bytes, "0.4.0")
    """Bytes of one PSUM bank in one partition."""
    psum_fmax_bytes = _Size(lambda g: g.psum_bank_bytes, "0.4.0", "0.4.0")
    """Bytes of one PSUM bank in one partition."""
    psum_num_banks = _Size(_free_banks, "0.4.0")
    """PSUM banks of a partition, less one if an environment variable reserves it."""


class tile_size(metaclass=_TileSize):
    """Sizes of the target's tiles and memories."""


sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
hbm = MemoryRegion.private_hbm

is_hbm = checked_call("nl.is_hbm")(memory.is_hbm)
is_on_chip = checked_call("nl.is_on_chip")(memory.is_on_chip)
is_psum = checked_call("nl.is_psum")(memory.is_psum)
is_sbuf = checked_call("nl.is_sbuf")(memory.is_sbuf)
