"""Transforms that torch computes from arguments that nobody looked at.

To look at arguments takes as long as a short transform. So torch gets them as they are, while no
kernel and no other precision is wanted, and for the inputs in the tables below, of which it makes
what is to be made of them. Arguments that torch refuses go the way that looks, whose errors name
them; so does every other input. On a CPU what stands in for torch gets them: a descriptor that is
kept, whose bits are torch's, and where there is no MKL SciPy for one vector.

A CUDA device begins a transform in ten microseconds, of which Python is to take no more than a
twentieth. Hence all that is asked is asked in one frame, in which a result is also wrapped, without
a question: it is complex64 or complex128. And the frame is written twice: for a length ``n``, and
for several lengths ``s``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from trnfft._eager import device_transform, host_transform
from trnfft._library import LIBRARY
from trnfft._precision import MODE, level
from trnfft._vectors import vector_transform
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.environment import ENVIRON, STORED
from trnsci.core.standing import Standing

__all__ = ["COMPLEX", "FOLLOWING", "HALVED", "REAL", "direct_along", "direct_over"]

F = TypeVar("F", bound=Callable[..., Any])

# By dtype of the input, whether the result is wrapped; for a ComplexTensor by the class.
COMPLEX: Mapping[Any, bool] = {
    torch.complex64: False,
    torch.complex128: False,
    ComplexTensor: True,
}
"""Complex results of complex input: of real input torch may leave a conjugation for later."""
HALVED: Mapping[Any, bool] = {torch.float32: True, torch.float64: True}
"""Complex results of real input."""
FOLLOWING: Mapping[Any, bool] = {**HALVED, **COMPLEX}
"""Complex results of the kind of the input."""
REAL: Mapping[Any, bool] = dict.fromkeys(FOLLOWING, False)
"""Real results."""

# What torch raises for arguments that it refuses, and what looking into a table does.
_REFUSED = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)

_OWN, _UMBRELLA = LIBRARY.use_simulator.own, LIBRARY.use_simulator.other
_new = object.__new__


def _is_plain() -> bool:
    return LIBRARY.is_at_rest() and not MODE.scoped and level() != "double"


_PLAIN = Standing(_is_plain)


def _as_given() -> bool:
    """Return whether torch computes, in the dtype of the input; ``_PLAIN`` mostly knows it."""
    return not LIBRARY.kernels_wanted() and level() != "double"


def direct_along(function: Callable[..., Tensor], wrapped: Mapping[Any, bool]) -> Callable[[F], F]:
    """Return what lets torch begin a transform along one dimension.

    Args:
        function: Torch's function.
        wrapped: The inputs that it takes, and whether their results are wrapped.
    """

    def decorated(checked: Any) -> Any:
        default = checked.__defaults__[1]
        on_host = host_transform(checked.__name__, function)
        on_device = device_transform(checked.__name__, function)
        of_vector = vector_transform(checked.__name__, function)

        @wraps(checked)
        def transform(
            input: Any, n: Any = None, dim: Any = default, norm: Any = None, *, out: Any = None
        ) -> Any:
            if out is None and (
                (
                    _PLAIN.answer
                    and _OWN not in STORED
                    and _UMBRELLA not in STORED
                    and os.environ is ENVIRON
                )
                or _as_given()
            ):
                try:
                    if type(input) is Tensor:
                        wrap, x = wrapped[input.dtype], input
                    else:
                        wrap, x = wrapped[type(input)], input._native
                    if not x.is_cpu:
                        compute = on_device if x.is_cuda else function
                    elif x.ndim == 1:
                        compute = of_vector
                    else:
                        compute = on_host
                    if n is None and dim is default and norm is None:
                        result = compute(x)  # to read the defaults again takes torch longer
                    else:
                        result = compute(x, n, dim, norm)
                    if not wrap:
                        return result
                    made = _new(ComplexTensor)
                    made._native, made._parts = result, None
                    return made
                except _REFUSED:
                    pass
            return checked(input, n, dim, norm, out=out)

        return transform

    return decorated


def direct_over(function: Callable[..., Tensor], wrapped: Mapping[Any, bool]) -> Callable[[F], F]:
    """Return what lets torch begin a transform along several dimensions.

    Args:
        function: Torch's function.
        wrapped: The inputs that it takes, and whether their results are wrapped.
    """

    def decorated(checked: Any) -> Any:
        default = checked.__defaults__[1]
        on_host = host_transform(checked.__name__, function)
        on_device = device_transform(checked.__name__, function)

        @wraps(checked)
        def transform(
            input: Any, s: Any = None, dim: Any = default, norm: Any = None, *, out: Any = None
        ) -> Any:
            if out is None and (
                (
                    _PLAIN.answer
                    and _OWN not in STORED
                    and _UMBRELLA not in STORED
                    and os.environ is ENVIRON
                )
                or _as_given()
            ):
                try:
                    if type(input) is Tensor:
                        wrap, x = wrapped[input.dtype], input
                    else:
                        wrap, x = wrapped[type(input)], input._native
                    compute = on_host if x.is_cpu else on_device if x.is_cuda else function
                    if s is None and dim is default and norm is None:
                        result = compute(x)
                    else:
                        result = compute(x, s, dim, norm)
                    if not wrap:
                        return result
                    made = _new(ComplexTensor)
                    made._native, made._parts = result, None
                    return made
                except _REFUSED:
                    pass
            return checked(input, s, dim, norm, out=out)

        return transform

    return decorated
