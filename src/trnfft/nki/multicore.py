"""Transforms over several cores.

A launch serves a whole batch, and which cores it occupies is the launch's business, so the switch
changes no result and no launch. It is kept for callers that set it.
"""

from __future__ import annotations

import os

from trnfft._paths.kinds import Spectrum
from trnfft.transforms import fft, ifft
from trnsci.core.backend.environment import flag_value
from trnsci.core.errors import FlagError

__all__ = ["get_multicore", "multi_core_fft", "set_multicore"]

VARIABLE = "TRNFFT_MULTICORE"


class _Chosen:
    """What ``set_multicore`` chose; None leaves it to the environment."""

    enabled: bool | None = None
    cores = 0


def set_multicore(enabled: bool, num_cores: int = 0) -> None:
    """Note whether transforms may occupy several cores, and how many; 0 is all.

    Raises:
        FlagError: ``num_cores`` is negative.
    """
    if num_cores < 0:
        raise FlagError(f"set_multicore: num_cores must not be negative, got {num_cores}")
    _Chosen.enabled, _Chosen.cores = bool(enabled), num_cores


def get_multicore() -> bool:
    """Return whether transforms may occupy several cores."""
    if _Chosen.enabled is None:
        return flag_value(VARIABLE, os.environ.get(VARIABLE, ""))
    return _Chosen.enabled


def multi_core_fft(x: Spectrum, inverse: bool = False) -> Spectrum:
    """Return ``fft`` or ``ifft`` along the last dimension; shapes are kept, also of one row."""
    return ifft(x) if inverse else fft(x)
