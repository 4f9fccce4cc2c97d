"""The kinds of tensors that transforms take and give, and the dtypes they are computed in.

A transform is computed on a native tensor of float32, float64 or their complex twins. What comes in
is brought into that form, and what goes out has the kind of what came in: a ``ComplexTensor`` for a
``ComplexTensor``, a native complex tensor for a native one, and a ``ComplexTensor`` for a real one.

On a device without complex numbers no native complex tensor is made: kernels take and give parts,
and what torch has to compute it computes on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from trnfft._complex.arguments import has_complex
from trnfft._paths.precision import level
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.errors import DerivativeError, DTypeError, ShapeError

__all__ = [
    "Opened",
    "Spectrum",
    "closed",
    "closed_real",
    "opened",
    "opened_real",
    "rounded_native",
    "stored",
]

Spectrum: TypeAlias = Tensor | ComplexTensor
Out = TypeVar("Out", Tensor, ComplexTensor, Spectrum)

# The dtypes of transforms, and whether they are complex.
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
# The dtype of the parts of a result, by that of the input.
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
    """An input in the form that transforms are computed on.

    Attributes:
        x: The native tensor; a ComplexTensor of float32 parts where the device has nothing else.
        split: Whether a complex result is to be a ``ComplexTensor``.
        part: The dtype that the parts of the result are rounded to, None if they have it already.
        home: The device that the result goes back to, None if it is there already.
    """

    x: Any
    split: bool
    part: torch.dtype | None
    home: torch.device | None = None


def opened(function: str, input: Spectrum, name: str = "input", on_torch: bool = False) -> Opened:
    """Return an input of any kind in the form that transforms are computed on.

    Args:
        function: Whose argument it is.
        input: What was given.
        name: The argument.
        on_torch: Whether torch computes in any case, for want of a kernel.

    Raises:
        DTypeError: It is neither a tensor nor a ComplexTensor.
    """
    if not isinstance(input, (Tensor, ComplexTensor)):
        raise DTypeError(
            f"{function}: {name} must be a torch.Tensor or a ComplexTensor, "
            f"got {type(input).__name__}"
        )
    home, rounded = None, None
    double = level() == "double"
    if (on_torch or double) and not has_complex(input.device):
        home, input = input.device, input.cpu()  # such a device has no float64 either
    x: Any = input
    if isinstance(input, ComplexTensor):
        x, rounded = _held(input)
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
    """Return what is held, in a dtype that transforms have, and the one to round to."""
    if input.is_native:
        return input.to_torch_complex(), None
    part = input.part_dtype
    rounded = None if part in (torch.float32, torch.float64) else part
    # Here, and not after joining: bfloat16 has no complex dtype.
    wide = input if rounded is None else input.to(torch.float32)
    return (wide.to_torch_complex() if wide.is_native else wide), rounded


def opened_real(
    function: str, input: Spectrum, name: str = "input", on_torch: bool = False
) -> Opened:
    """Return a real input in the form that transforms are computed on.

    Raises:
        DTypeError: It is complex, or not a tensor.
    """
    found = opened(function, input, name, on_torch)
    if isinstance(input, ComplexTensor) or not found.split:
        kind = "a ComplexTensor" if isinstance(input, ComplexTensor) else str(input.dtype)
        raise DTypeError(f"{function}: {name} must be real, got {kind}")
    return found


def closed(result: Spectrum, like: Opened) -> Spectrum:
    """Return a complex result in the kind and with the dtype that the input asks for."""
    if isinstance(result, Tensor) and not like.split:
        return rounded_native(result, like)
    made = ComplexTensor(result)
    if like.part is not None:
        made = made.to(like.part)
    return made if like.home is None else made.to(like.home)


def rounded_native(result: Tensor, like: Opened) -> Tensor:
    """Return a complex result as a native tensor; bfloat16 parts, which have none, as complex64."""
    if like.part is None:
        return result
    return result.to(_COMPLEX.get(like.part, torch.complex64))


def closed_real(result: Tensor, like: Opened) -> Tensor:
    """Return a real result with the dtype that the input asks for."""
    if like.part is not None:
        result = result.to(like.part)
    return result if like.home is None else result.to(like.home)


def stored(function: str, result: Spectrum, out: Out) -> Out:
    """Return ``out``, into which ``result`` was written.

    Raises:
        ShapeError: The two differ in shape.
        DTypeError: ``out`` is no tensor, or of another dtype.
        RuntimeError: Autograd tracks one of them.
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
    """Return a tensor of any other dtype in one that transforms have, and the one to round to."""
    wide = _WIDE.get(x.dtype)
    if wide is None:  # integers and booleans, which torch promotes so
        return x.to(torch.promote_types(torch.get_default_dtype(), torch.float32)), None
    return x.to(wide), _PART.get(x.dtype, x.dtype)
