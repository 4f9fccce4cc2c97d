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


def _added(first: str, last: str = VERSIONS[-1]) -> Callable[[Callable[[Any], int]], property]:
    """Return a decorator for a size that the versions from ``first`` to ``last`` have."""
    there = VERSIONS[VERSIONS.index(first) : VERSIONS.index(last) + 1]

    def decorate(size: Callable[[Any], int]) -> property:
        def get(cls: type) -> int:
            if in_force() not in there:
                message = f"nl.tile_size.{size.__name__} does not exist in NKI {in_force()}"
                raise AttributeError(message, name=size.__name__, obj=cls)
            return size(cls)

        return property(get, doc=size.__doc__)

    return decorate


class _TileSize(type):
    """Metaclass with the sizes as properties, so that each access reads the current target."""

    @property
    def pmax(cls) -> int:
        """Partitions of a tile."""
        return _target().partitions

    @property
    def psum_fmax(cls) -> int:
        """Float32 elements of one PSUM bank in one partition."""
        return _target().psum_free_max

    @property
    def gemm_stationary_fmax(cls) -> int:
        """Free size of a matmul's stationary operand."""
        return _target().stationary_free_max

    @property
    def gemm_moving_fmax(cls) -> int:
        """Free size of a matmul's moving operand that every generation supports."""
        return _target().psum_free_max

    @property
    def bn_stats_fmax(cls) -> int:
        """Free size of ``bn_stats``."""
        return _target().bn_stats_free_max

    @property
    def psum_min_align(cls) -> int:
        """Byte alignment in PSUM."""
        return 4

    @property
    def sbuf_min_align(cls) -> int:
        """Byte alignment in SBUF."""
        return 1

    @property
    def total_available_sbuf_size(cls) -> int:
        """Bytes per partition of SBUF that a kernel may use."""
        return _target().sbuf_usable_bytes

    @_added("0.4.0")
    def sbuf_size_bytes(cls) -> int:
        """Bytes of SBUF in all partitions."""
        return _target().sbuf_bytes * _target().partitions

    @_added("0.4.0")
    def sbuf_fmax(cls) -> int:
        """Float32 elements per partition of SBUF that a kernel may use."""
        return _target().sbuf_usable_bytes // 4

    @_added("0.4.0")
    def sbuf_fmax_bytes(cls) -> int:
        """Bytes per partition of SBUF that a kernel may use."""
        return _target().sbuf_usable_bytes

    @_added("0.4.0")
    def psum_bank_fmax(cls) -> int:
        """Float32 elements of one PSUM bank in one partition."""
        return _target().psum_free_max

    @_added("0.4.0")
    def psum_bank_fmax_bytes(cls) -> int:
        """Bytes of one PSUM bank in one partition."""
        return _target().psum_bank_bytes

    @_added("0.4.0", "0.4.0")
    def psum_fmax_bytes(cls) -> int:
        """Bytes of one PSUM bank in one partition."""
        return _target().psum_bank_bytes

    @_added("0.4.0")
    def psum_num_banks(cls) -> int:
        """PSUM banks of a partition, less one if an environment variable reserves it."""
        reserved = os.environ.get(_AS_MATMUL, "").lower() == "true" and _target().number > 2
        return _target().psum_banks - reserved


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
