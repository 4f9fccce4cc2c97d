"""Transforms by torch, or in its place by what is kept: a descriptor of MKL, a plan of cuFFT.

Which of them computes makes no difference to a result, so all that torch is to transform on a CPU
or a CUDA device passes here. A transform leaves torch only where nobody watches it: gradients,
``vmap``, compilation, tracing, modes and autocast have to see torch's function. It also stays there
for lengths that cut or pad, for other dimensions than the last ones, and for strided input.

To ask for all of that takes two microseconds, and to find what is kept another one. A call like the
last one is therefore recognised by one question, which torch answers for the code that it compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from trnfft._descriptors import MAY_KEEP, kept_for, long_kept_for
from trnfft._device_plans import MAY_PLAN, place_of, planned_for
from trnfft._kept import LONGEST, Form, Kept
from trnsci.core.eager import settled
from trnsci.core.shortcuts import never, recogniser

__all__ = ["device_transform", "forget", "host_transform"]

# The transforms that can be kept; those of rank 0 are over all dimensions.
_FORMS = {
    "fft": Form("fft", True, None, 1),
    "ifft": Form("ifft", False, None, 1),
    "rfft": Form("rfft", True, 1, 1),
    "irfft": Form("irfft", False, 0, 1),
    "fft2": Form("fftn", True, None, 2),
    "ifft2": Form("ifftn", False, None, 2),
    "rfft2": Form("rfftn", True, 1, 2),
    "fftn": Form("fftn", True, None, 0),
    "ifftn": Form("ifftn", False, None, 0),
    "rfftn": Form("rfftn", True, 1, 0),
    "irfft2": Form("irfftn", False, 0, 2),
    "irfftn": Form("irfftn", False, 0, 0),
}
_HOST_FORMS = {
    **_FORMS,
    "hfft": Form("hfft", True, 0, 1),
    "ihfft": Form("ihfft", False, 1, 1),
}
_USUAL = {"n": None, "2": (-2, -1), "t": -1}
_NORMS = {None: None, "backward": None, "ortho": "ortho", "forward": "forward"}

# Of each transform the last call that something kept computed: its arguments, what recognises its
# input, what computes it.
_NONE: tuple[Any, Any, Any, Any, Any] = object(), None, None, never, None
_LATEST: list[list[tuple[Any, Any, Any, Any, Any]]] = []

# torch does not show these in public.
_function_modes = torch._C._len_torch_function_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_threads = torch.get_num_threads


def host_transform(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the transform ``name`` of CPU tensors that are of no subclass.

    Args:
        name: The transform, with the arguments of ``torch.fft``; left out where they are defaults.
        function: What computes it by torch.
    """
    return _transform(name, function, False) if MAY_KEEP else function


def device_transform(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the transform ``name`` of CUDA tensors that are of no subclass.

    Args:
        name: The transform, with the arguments of ``torch.fft``; left out where they are defaults.
        function: What computes it by torch.
    """
    return _transform(name, function, True) if MAY_PLAN else function


def forget() -> None:
    """Forget all transforms, and free what is kept for them."""
    for latest in _LATEST:
        latest[0] = _NONE
    kept_for.cache_clear()
    long_kept_for.cache_clear()
    planned_for.cache_clear()


def _transform(
    name: str, function: Callable[..., Tensor], on_device: bool
) -> Callable[..., Tensor]:
    """Return a transform by what is kept, on a CUDA device or a CPU, else by a function."""
    forms = _FORMS if on_device else _HOST_FORMS
    if name not in forms:
        return function
    form, usual = forms[name], _USUAL[name[-1]]
    given = _given_one if usual == -1 else _given_several
    of_complex = form.halved != 1
    look_up: Callable[..., Kept] = planned_for if on_device else kept_for
    latest = [_NONE]
    _LATEST.append(latest)

    def transform(x: Tensor, n: Any = None, dim: Any = usual, norm: Any = None) -> Tensor:
        # In one frame: each question takes a percent of a short transform.
        default = n is None and dim is usual and norm is None
        if is_dynamo_compiling() or _function_modes():  # would see the questions below
            return function(x) if default else function(x, n, dim, norm)
        known_n, known_dim, known_norm, recognises, of = latest[0]
        if (
            n is known_n
            and dim is known_dim
            and norm is known_norm
            and recognises(x)
            and not _dispatch_modes()
            and forward_ad._current_level < 0
        ):
            result = of(x)
            if result is not None:
                return result
        if (
            x.is_contiguous()
            and not (x.requires_grad and torch.is_grad_enabled())
            and not (of_complex and x.is_conj())
            and not x.is_neg()
            and settled()
        ):
            asked = form if default and form.rank else given(form, x, n, dim, norm)
            place = None if asked is None else place_of(x) if on_device else _threads()
            if place is not None:
                long = not on_device and x.ndim == 1 and x.numel() > LONGEST
                kept = (long_kept_for if long else look_up)(asked, x.dtype, x.shape, place)
                prepared = kept.prepared
                if prepared is not None:
                    result = prepared.of(x)
                    if result is not None:
                        # A list would be recognised though its entries have changed.
                        if not (isinstance(n, list) or isinstance(dim, list)):
                            if not kept.recognises(x):
                                kept.recognises = recogniser(x)
                            latest[0] = n, dim, norm, kept.recognises, prepared.of
                        return result
                elif kept.open:
                    result = kept.attempt(x)
                    if result is not None:
                        return result
        return function(x) if default else function(x, n, dim, norm)

    return transform


def _given_one(form: Form, x: Tensor, n: Any, dim: Any, norm: Any) -> Form | None:
    """Return the form of a transform along one dimension, None where it has none."""
    ndim = x.ndim
    if type(dim) is not int or ndim == 0 or dim not in (-1, ndim - 1):
        return None
    if n is not None:
        last = x.shape[-1]
        if type(n) is not int or last != (n // 2 + 1 if form.halved == 0 else n):
            return None
        if form.halved != 0 or n == 2 * (last - 1):
            n = None
    return _formed(form, 1, n, norm)


def _given_several(form: Form, x: Tensor, s: Any, dim: Any, norm: Any) -> Form | None:
    """Return the form of a transform along several dimensions, None where it has none."""
    ndim = x.ndim
    if dim is not None:
        if not _whole(dim):
            return None
        rank = len(dim)
        if [d if d >= 0 else d + ndim for d in dim] != [*range(ndim - rank, ndim)]:
            return None
    elif form.rank:
        return None  # torch refuses it where the default is two
    else:
        rank = ndim if s is None else -1
    if s is not None:
        if not _whole(s):
            return None
        rank = len(s) if rank < 0 else rank
        points: tuple[int, ...] = x.shape[ndim - rank :]
        if form.halved == 0 and points:
            points = (*points[:-1], 2 * (points[-1] - 1))
        if (*s,) != points:
            return None
    return _formed(form, rank, None, norm)


def _whole(given: Any) -> bool:
    """Return whether these are several plain integers."""
    return isinstance(given, (tuple, list)) and all(type(entry) is int for entry in given)


def _formed(form: Form, rank: int, n: int | None, norm: Any) -> Form | None:
    if norm is not None and (type(norm) is not str or norm not in _NORMS):
        return None
    return _made(form.name, rank, n, _NORMS[norm])


@lru_cache(maxsize=256)
def _made(name: str, rank: int, n: int | None, norm: str | None) -> Form:
    return _HOST_FORMS[name]._replace(rank=rank, n=n, norm=norm)
