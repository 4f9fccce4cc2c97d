"""Whether products of a matrix and its own transpose come out symmetric on a CUDA device.

Both triangles are computed by one kernel. Where it adds up the products of an element in the order
in which it adds up those of the mirrored one, both have the same bits, and to copy a triangle to
the other, a launch more, would change nothing. Which kernel that is cuBLAS decides by the sizes,
strides, alignment and precision of a call. So a random matrix is multiplied for each of these
before the copy is left out for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling as _traced

from trnsci.core.shortcuts import never, recogniser

__all__ = ["comes_symmetric", "is_known"]

_MOST_ELEMENTS = 1 << 24  # of a matrix that is worth a trial
_MOST_KNOWN = 4096
_ALIGNMENT = 128

# What recognises matrices whose product comes symmetric; False for the others.
_known: dict[Hashable, Callable[[Tensor], bool] | Literal[False]] = {}
# The last product that came symmetric: what recognises its matrix, and the rest of its key.
_NONE: tuple[Callable[[Tensor], bool], Any, int, str, int] = never, None, 0, "", 0
_latest = [_NONE]

# How torch multiplies float32, and with which library: both may change between calls.
_precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)
_library: Any = getattr(torch._C, "_get_blas_preferred_backend", None)
# Which torch does not show in public either.
_dispatch_modes = torch._C._len_torch_dispatch_stack
# Of shorter types torch has more such settings.
_DTYPES = frozenset(
    {torch.float32, torch.float64} if _precision is not None and _library is not None else ()
)


def is_known(A: Tensor, kind: Hashable) -> bool:
    """Return whether the last product that came symmetric was one like this.

    To find that out takes a third of the time of all questions. A matrix that others watch, or that
    leaves something for later, is never known.
    """
    if _traced() or forward_ad._current_level >= 0 or _dispatch_modes():
        return False
    recognises, known_kind, start, rounding, library = _latest[0]
    # In one frame: after a wait for the device a frame takes Python a microsecond.
    return (
        kind == known_kind
        and recognises(A)
        and A.data_ptr() % _ALIGNMENT == start
        and _precision("cuda", "matmul") == rounding
        and int(_library()) == library
    )


def comes_symmetric(A: Tensor, kind: Hashable, multiply: Callable[[Tensor], Tensor]) -> bool:
    """Return whether ``multiply(A)`` has equal triangles, which depends on how ``A`` lies only.

    Args:
        A: A matrix.
        kind: Equal for functions that compute alike.
        multiply: Computes a product of a matrix and its transpose.
    """
    dtype = A.dtype
    if dtype not in _DTYPES or not 0 < A.numel() <= _MOST_ELEMENTS or A.is_neg():
        return False  # a trial has no matrix whose signs are to be turned
    start, rounding = A.data_ptr() % _ALIGNMENT, _precision("cuda", "matmul")
    library = int(_library())
    key = (kind, dtype, A.get_device(), A.shape, A.stride(), start, rounding, library)
    recognises = _known.get(key)
    if recognises is None:
        if A.is_cuda and torch.cuda.is_current_stream_capturing():
            return False  # a trial waits for the device, which a graph cannot
        if len(_known) == _MOST_KNOWN:
            _known.clear()
        recognises = _known[key] = recogniser(A) if _try(A, multiply) else False
    if recognises is False:
        return False
    _latest[0] = recognises, kind, start, rounding, library
    return True


def _try(like: Tensor, multiply: Callable[[Tensor], Tensor]) -> bool:
    """Multiply a random matrix that lies in memory as another does, and compare the triangles."""
    extents = zip(like.shape, like.stride(), strict=True)
    last = sum((extent - 1) * stride for extent, stride in extents)
    generator = torch.Generator(like.device).manual_seed(0)
    room = like.new_empty(last + 1 + _ALIGNMENT)  # an allocation is aligned by more than that
    room.normal_(generator=generator)
    start = like.data_ptr() % _ALIGNMENT // like.element_size()
    shifted = room.as_strided(like.shape, like.stride(), start)
    product = multiply(shifted)
    return torch.equal(product, product.mT)
