"""Conversion of inputs and results of transforms between tensor types and dtypes.

A transform is computed on a native tensor of float32, float64 or their complex dtypes; other inputs
are converted to one of these. A complex result is a native complex tensor if the input is one, and
a ``ComplexTensor`` if the input is real or a ``ComplexTensor``.

On a device without complex dtypes no native complex tensor is created: kernels take and return
parts, and torch computes on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from trnfft._complex.arguments import has_complex
from trnfft._library import LIBRARY
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.backend.precision import CHOSEN
from trnsci.core.errors import DerivativeError, DTypeError, ShapeError

Spectrum: TypeAlias = Tensor | ComplexTensor
Out = TypeVar("Out", Tensor, ComplexTensor, Spectrum)

# Dtypes that transforms are computed in, and whether they are complex.
_DIRECT = {
    torch.float32: False,
    torch.float64: False,
    torch.complex64: True,
    torch.complex128: True,
}
_WIDE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}
_DOUBLE = {
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
# Dtype of the parts of a result, by the dtype of the input.
_PART = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
_COMPLEX = {
    torch.float16: torch.complex32,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}


class Opened(NamedTuple):
    """An input converted to the form that transforms are computed on.

    Attributes:
        x: The native tensor; a ComplexTensor of float32 parts on a device without complex dtypes.
        split: Whether a complex result is returned as a ``ComplexTensor``.
        part: Dtype that the parts of the result are rounded to, None for no rounding.
        home: Device that the result is moved to, None for no move.
    """

    x: Any
    split: bool
    part: torch.dtype | None
    home: torch.device | None = None


def opened(function: str, input: Spectrum, name: str = "input", on_torch: bool = False) -> Opened:
    """Return an input of any type in the form that transforms are computed on.

    Args:
        function: Name of the public function, for errors.
        input: The input.
        name: Name of the argument, for errors.
        on_torch: Whether torch always computes, because there is no kernel.

    Raises:
        DTypeError: The input is neither a tensor nor a ComplexTensor.
    """
    native = isinstance(input, Tensor)
    if not native and not isinstance(input, ComplexTensor):
        raise DTypeError(
            f"{function}: {name} must be a torch.Tensor or a ComplexTensor, "
            f"got {type(input).__name__}"
        )
    home, rounded = None, None
    double = CHOSEN.used and LIBRARY.level() == "doublefloat"
    if (on_torch or double) and not has_complex(input.device):
        home, input = input.device, input.cpu()  # the device has no float64 either
    x: Any = input
    if not native:
        x, rounded = _held(x)
        split = True
    else:
        if x.dtype not in _DIRECT:
            x, rounded = _widened(x)
        split = not _DIRECT[x.dtype]
    if double and x.dtype in _DOUBLE:
        rounded = rounded or _PART.get(x.dtype, x.dtype)
        x = x.to(_DOUBLE[x.dtype])
    return Opened(x, split, rounded, home)


def _held(input: ComplexTensor) -> tuple[Spectrum, torch.dtype | None]:
    """Return the stored tensor in a dtype that transforms support, and the dtype to round to."""
    if input.is_native:
        return input.to_torch_complex(), None
    part = input.part_dtype
    rounded = None if part in (torch.float32, torch.float64) else part
    # Widen before joining: bfloat16 has no complex dtype.
    wide = input if rounded is None else input.to(torch.float32)
    return (wide.to_torch_complex() if wide.is_native else wide), rounded


def opened_real(
    function: str, input: Spectrum, name: str = "input", on_torch: bool = False
) -> Opened:
    """Return a real input in the form that transforms are computed on.

    Raises:
        DTypeError: The input is complex, or not a tensor.
    """
    found = opened(function, input, name, on_torch)
    if isinstance(input, ComplexTensor) or not found.split:
        kind = "a ComplexTensor" if isinstance(input, ComplexTensor) else str(input.dtype)
        raise DTypeError(f"{function}: {name} must be real, got {kind}")
    return found


def closed(result: Spectrum, like: Opened) -> Spectrum:
    """Return a complex result in the tensor type and dtype that correspond to the input."""
    if isinstance(result, Tensor) and not like.split:
        return rounded_native(result, like)
    made = result if isinstance(result, ComplexTensor) else ComplexTensor.of_native(result)
    if like.part is not None:
        made = made.to(like.part)
    return made if like.home is None else made.to(like.home)


def rounded_native(result: Tensor, like: Opened) -> Tensor:
    """Return a complex result as a native tensor; complex64 for bfloat16 parts."""
    if like.part is None:
        return result
    return result.to(_COMPLEX.get(like.part, torch.complex64))


def closed_real(result: Tensor, like: Opened) -> Tensor:
    """Return a real result in the dtype that corresponds to the input."""
    if like.part is not None:
        result = result.to(like.part)
    return result if like.home is None else result.to(like.home)


def stored(function: str, result: Spectrum, out: Out) -> Out:
    """Copy ``result`` into ``out`` and return ``out``.

    Raises:
        ShapeError: ``out`` has another shape.
        DTypeError: ``out`` is not a tensor, or has another dtype.
        RuntimeError: Autograd tracks ``result`` or ``out``.
    """
    if not isinstance(out, (Tensor, ComplexTensor)):
        raise DTypeError(f"{function}: out must be a tensor, got {type(out).__name__}")
    if out.dtype is not result.dtype:
        raise DTypeError(f"{function}: out must be {result.dtype}, got {out.dtype}")
    if out.shape != result.shape:
        raise ShapeError(
            f"{function}: out must have shape {tuple(result.shape)}, got {tuple(out.shape)}"
        )
    if torch.is_grad_enabled() and (out.requires_grad or result.requires_grad):
        raise DerivativeError(f"{function}: out cannot be differentiated; use torch.no_grad()")
    values: Any = result
    if isinstance(result, ComplexTensor) and not isinstance(out, ComplexTensor):
        values = result.to_torch_complex()
    out.copy_(values)
    return out


def _widened(x: Tensor) -> tuple[Tensor, torch.dtype | None]:
    """Return a tensor converted to a dtype that transforms support, and the dtype to round to."""
    wide = _WIDE.get(x.dtype)
    if wide is None:  # integers and booleans, promoted as in torch
        return x.to(torch.promote_types(torch.get_default_dtype(), torch.float32)), None
    return x.to(wide), _PART.get(x.dtype, x.dtype)
