"""The NeuronCore generation and silicon revision of the target."""

from __future__ import annotations

from nkisim.arch import resolve_target
from nkisim.machine import CORE
from nkisim.spec.enums import nc_version


def get_nc_version() -> nc_version:
    """Return the generation of the running kernel's target, or of the environment's."""
    core = CORE.get()
    generation = resolve_target() if core is None else core.generation
    return nc_version(generation.number)


def get_nc_sub_version() -> int:
    """Return the silicon revision of the target within its generation: 0, the first one."""
    return 0
