"""Names of published releases, for code written for them: ``from trnfft.nki import set_multicore``.

They are not in ``trnfft.nki.__all__``. ``INSTEAD`` has their replacements.
"""

from trnfft.nki.multicore import get_multicore, multi_core_fft, set_multicore

__all__ = ["get_multicore", "multi_core_fft", "set_multicore"]

INSTEAD = {
    "get_multicore": "nothing: the switch has no effect",
    "multi_core_fft": "trnfft.fft, or trnfft.ifft",
    "set_multicore": "nothing: one launch computes a whole batch and chooses its own cores",
}
"""The replacement of each name."""
