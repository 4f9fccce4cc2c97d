"""The kinds of tensors that transforms take and give, and the dtypes they are computed in.

A transform is computed on a native tensor of float32, float64 or their complex twins. What comes in
is brought into that form, and what goes out has the kind of what came in: a ``ComplexTensor`` for a
``ComplexTensor``, a native complex tensor for a native one, and a ``ComplexTensor`` for a real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import torch
from torch import Tensor

from trnfft._precision import level
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.errors import DTypeError

__all__ = [
    "Opened",
    "Spectrum",
    "closed",
    "closed_real",
    "complex_of",
    "halved_of",
    "is_direct",
    "opened",
    "opened_real",
    "real_of",
    "rounded_native",
]

Spectrum: TypeAlias = Tensor | ComplexTensor

_DIRECT = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})
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
        x: The native tensor.
        split: Whether a complex result is to be a ``ComplexTensor``.
        part: The dtype that the parts of the result are rounded to, None if they have it already.
    """

    x: Tensor
    split: bool
    part: torch.dtype | None


def is_direct(input: Spectrum) -> TypeGuard[Tensor]:
    """Return whether an input is computed on as it is and has a result of its own dtype."""
    return type(input) is Tensor and input.dtype in _DIRECT and level() != "double"


def opened(function: str, input: Spectrum, name: str = "input") -> Opened:
    """Return an input of any kind in the form that transforms are computed on.

    Raises:
        DTypeError: It is neither a tensor nor a ComplexTensor.
    """
    if isinstance(input, ComplexTensor):
        part = input.dtype
        if part is torch.float32 or part is torch.float64:
            x, rounded = input.to_torch_complex(), None
        else:
            # Here, and not after joining: bfloat16 has no complex dtype.
            x, rounded = torch.complex(input.real.float(), input.imag.float()), part
        split = True
    elif isinstance(input, Tensor):
        x, rounded = input, None
        if x.dtype not in _DIRECT:
            x, rounded = _widened(x)
        split = not x.is_complex()
    else:
        raise DTypeError(
            f"{function}: {name} must be a torch.Tensor or a ComplexTensor, "
            f"got {type(input).__name__}"
        )
    if level() == "double" and x.dtype in _DOUBLE:
        rounded = rounded or _PART.get(x.dtype, x.dtype)
        x = x.to(_DOUBLE[x.dtype])
    return Opened(x, split, rounded)


def opened_real(function: str, input: Spectrum, name: str = "input") -> Opened:
    """Return a real input in the form that transforms are computed on.

    Raises:
        DTypeError: It is complex, or not a tensor.
    """
    found = opened(function, input, name)
    if found.x.is_complex():
        kind = "a ComplexTensor" if isinstance(input, ComplexTensor) else str(input.dtype)
        raise DTypeError(f"{function}: {name} must be real, got {kind}")
    return found


def closed(result: Tensor, like: Opened) -> Spectrum:
    """Return a complex result in the kind and with the dtype that the input asks for."""
    if like.part is not None:
        if like.split:
            return ComplexTensor(result.real.to(like.part), result.imag.to(like.part))
        return rounded_native(result, like)
    return ComplexTensor.from_torch_complex(result) if like.split else result


def rounded_native(result: Tensor, like: Opened) -> Tensor:
    """Return a complex result as a native tensor; bfloat16 parts, which have none, as complex64."""
    if like.part is None:
        return result
    return result.to(_COMPLEX.get(like.part, torch.complex64))


def closed_real(result: Tensor, like: Opened) -> Tensor:
    """Return a real result with the dtype that the input asks for."""
    return result if like.part is None else result.to(like.part)


def complex_of(
    function: str, input: Spectrum, compute: Callable[..., Tensor], *args: Any
) -> Spectrum:
    """Return ``compute(function, x, *args)``, complex, for an input of any kind.

    What needs no change of form, and that is most of what comes, takes the short way.
    """
    if is_direct(input):
        result = compute(function, input, *args)
        return result if input.is_complex() else ComplexTensor.from_torch_complex(result)
    held = opened(function, input)
    return closed(compute(function, held.x, *args), held)


def halved_of(
    function: str, input: Spectrum, compute: Callable[..., Tensor], *args: Any
) -> Spectrum:
    """Return ``compute(function, x, *args)``, complex, for a real input.

    Raises:
        DTypeError: It is complex.
    """
    if is_direct(input) and not input.is_complex():
        return ComplexTensor.from_torch_complex(compute(function, input, *args))
    held = opened_real(function, input)
    return closed(compute(function, held.x, *args), held)


def real_of(function: str, input: Spectrum, compute: Callable[..., Tensor], *args: Any) -> Tensor:
    """Return ``compute(function, x, *args)``, real, for an input of any kind."""
    if is_direct(input):
        return compute(function, input, *args)
    held = opened(function, input)
    return closed_real(compute(function, held.x, *args), held)


def _widened(x: Tensor) -> tuple[Tensor, torch.dtype | None]:
    """Return a tensor of any other dtype in one that transforms have, and the one to round to."""
    wide = _WIDE.get(x.dtype)
    if wide is None:  # integers and booleans, which torch promotes so
        return x.to(torch.promote_types(torch.get_default_dtype(), torch.float32)), None
    return x.to(wide), _PART.get(x.dtype, x.dtype)
