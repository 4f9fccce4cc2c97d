"""Alias of ``trnfft.complex_tensor``, for code that imports it by this name."""

from trnfft.complex_tensor import ComplexTensor, complex_matmul

__all__ = ["ComplexTensor", "complex_matmul"]
