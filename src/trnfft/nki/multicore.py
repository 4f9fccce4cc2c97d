"""The switch of published releases for several cores.

One launch computes a whole batch and chooses its own cores, so the switch changes neither results
nor launches.
"""

from __future__ import annotations

from trnfft._paths.kinds import Spectrum
from trnfft.transforms import fft, ifft
from trnsci.core.backend.environment import library_switch
from trnsci.core.errors import FlagError

_VARIABLE = library_switch("trnfft", "MULTICORE")


class _Chosen:
    """The setting of ``set_multicore``; None selects the setting of the environment."""

    enabled: bool | None = None
    cores = 0


def set_multicore(enabled: bool, num_cores: int = 0) -> None:
    """Store the switch, and the number of cores; 0 means all.

    Raises:
        FlagError: ``num_cores`` is negative.
    """
    if num_cores < 0:
        raise FlagError(f"set_multicore: num_cores must not be negative, got {num_cores}")
    _Chosen.enabled, _Chosen.cores = bool(enabled), num_cores


def get_multicore() -> bool:
    """Return the switch."""
    if _Chosen.enabled is None:
        if _VARIABLE.error is not None:
            raise _VARIABLE.error
        return _VARIABLE.value
    return _Chosen.enabled


def multi_core_fft(x: Spectrum, inverse: bool = False) -> Spectrum:
    """Return ``fft`` or ``ifft`` along the last dimension."""
    return ifft(x) if inverse else fft(x)
