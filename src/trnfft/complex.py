"""``trnfft.complex_tensor`` by the name that other code imports it by."""

from __future__ import annotations

from trnfft.complex_tensor import ComplexTensor, complex_matmul

__all__ = ["ComplexTensor", "complex_matmul"]
