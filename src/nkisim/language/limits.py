"""``nl.tile_size``: sizes of the target, read at each access."""

from __future__ import annotations

from nkisim.arch import Generation, resolve_target
from nkisim.machine import CORE

__all__ = ["tile_size"]


def _target() -> Generation:
    core = CORE.get()
    return resolve_target() if core is None else core.generation


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


class tile_size(metaclass=_TileSize):
    """Sizes of the target's tiles and memories."""
