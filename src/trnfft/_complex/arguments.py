"""Dtypes and devices with native complex tensors, and argument checks of ComplexTensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import DTypeError, ShapeError

NATIVE = {torch.float32: torch.complex64, torch.float64: torch.complex128}
PART = {complex_dtype: dtype for dtype, complex_dtype in NATIVE.items()}
HALVES = (torch.float16, torch.bfloat16)
# Devices on which torch has complex dtypes; a NeuronCore has none.
COMPLEX_DEVICES = ("cpu", "cuda", "meta", "xpu")


def has_complex(device: torch.device) -> bool:
    """Return whether torch has complex dtypes on a device."""
    return device.type in COMPLEX_DEVICES


def check_parts(real: Tensor, imag: Tensor) -> None:
    """Raise unless ``real`` and ``imag`` can be the parts of one complex tensor."""
    if not isinstance(imag, Tensor):
        raise DTypeError(f"ComplexTensor: imag must be a tensor, got {type(imag).__name__}")
    if real.shape != imag.shape:
        raise ShapeError(
            f"ComplexTensor: real and imag must have one shape, got {tuple(real.shape)} and "
            f"{tuple(imag.shape)}"
        )
    if real.dtype != imag.dtype or real.is_complex():
        raise DTypeError(
            "ComplexTensor: real and imag must have one real dtype, got "
            f"{real.dtype} and {imag.dtype}"
        )
    if real.device != imag.device:
        raise ShapeError(
            f"ComplexTensor: real and imag must be on one device, got {real.device} and "
            f"{imag.device}"
        )


def interleaved(real: Tensor, imag: Tensor) -> Tensor | None:
    """Return a complex view if the parts are interleaved in one storage, else None."""
    if real.is_contiguous() or real.dtype not in NATIVE or torch.compiler.is_compiling():
        return None
    if real.requires_grad or imag.requires_grad:
        return None
    strides = real.stride()
    if strides != imag.stride() or any(stride % 2 for stride in strides):
        return None
    start = real.storage_offset()
    same_storage = real.untyped_storage().data_ptr() == imag.untyped_storage().data_ptr()
    if not same_storage or start % 2 or imag.storage_offset() != start + 1:
        return None
    return torch.view_as_complex(real.as_strided((*real.shape, 2), (*strides, 1), start))


def keeps_native(value: Any) -> bool:
    """Return whether a native tensor stays native after ``to`` with this argument."""
    if isinstance(value, Tensor):
        return False
    if isinstance(value, torch.dtype):
        return value in NATIVE
    if isinstance(value, (str, torch.device)):
        return has_complex(torch.device(value))
    return True


def check_product(a: torch.Size, b: torch.Size) -> None:
    """Raise unless the shapes are valid for a matrix product."""
    shapes = f"got {tuple(a)} and {tuple(b)}"
    if not a or not b:
        raise ShapeError(f"complex_matmul: a and b must have at least one dimension, {shapes}")
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ShapeError(
            f"complex_matmul: a and b must agree in the contracted dimension, {shapes}"
        )
    batches = zip(reversed(a[:-2]), reversed(b[:-2]), strict=False)
    if any(x != y and 1 not in (x, y) for x, y in batches):
        raise ShapeError(f"complex_matmul: the batches of a and b must broadcast, {shapes}")
