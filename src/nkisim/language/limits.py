"""``nl.tile_size``: sizes of the target, read at each access."""

from __future__ import annotations

from collections.abc import Callable

from nkisim import versions
from nkisim.arch import Generation, resolve_target
from nkisim.machine import CORE

__all__ = ["tile_size"]


def _target() -> Generation:
    core = CORE.get()
    return resolve_target() if core is None else core.generation


_NEWER: dict[str, tuple[str, Callable[[Generation], int]]] = {
    "sbuf_size_bytes": ("0.4.0", lambda g: g.sbuf_bytes * g.partitions),
    "sbuf_fmax": ("0.4.0", lambda g: g.sbuf_usable_bytes // 4),
    "sbuf_fmax_bytes": ("0.4.0", lambda g: g.sbuf_usable_bytes),
    "psum_bank_fmax": ("0.4.0", lambda g: g.psum_free_max),
    "psum_bank_fmax_bytes": ("0.4.0", lambda g: g.psum_bank_bytes),
    "psum_num_banks": ("0.5.0", lambda g: g.psum_banks),
}
"""Sizes that later NKI versions added: the first version, and the value.

Bytes and float32 elements of SBUF in all partitions (``size``) and of one (``fmax``), of one PSUM
bank in one partition, and the number of banks.
"""


def _newer_sizes() -> set[str]:
    """Return the names of added sizes that the version in force has."""
    order = versions.VERSIONS.index
    return {n for n, (since, _) in _NEWER.items() if order(since) <= order(versions.in_force())}


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

    def __getattr__(cls, name: str) -> int:
        if name in _newer_sizes():
            return _NEWER[name][1](_target())
        known = f"; NKI {_NEWER[name][0]} added it" if name in _NEWER else ""
        raise AttributeError(
            f"nl.tile_size has no {name!r} in NKI {versions.in_force()}{known}", name=name, obj=cls
        )

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *_newer_sizes()})


class tile_size(metaclass=_TileSize):
    """Sizes of the target's tiles and memories."""
