"""``nki.compiler``: options of the compiler, which change nothing in a simulation.

NKI documents them for the versions after 0.6.0. Here they are accepted, so that files that pass
them to ``nki.jit`` run; None stands for the compiler's own choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]


class AddressRotation(Enum):
    """Whether the compiler rotates the addresses of tiles; without effect here."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(kw_only=True)
class CompileConfig:
    """Options of the compiler's passes; without effect here."""

    address_rotation: AddressRotation = AddressRotation.AUTO
    barrier_check: bool | None = None
    dead_code_elim: bool | None = None
    nki_alloc_fallback: bool | None = None
    non_ssa_legalization: bool | None = None
    prefetch_auto: bool | None = None


@dataclass(kw_only=True)
class SpecializationConfig:
    """Options of the specialization of a kernel; without effect here."""

    allow_nested_config_override: bool | None = None
