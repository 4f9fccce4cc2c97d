"""Dispatch of a call of a distribution: traced, below a transform, without values, or drawn.

- Traced by ``torch.compile`` or export, a call is one operator.
- Inside the transforms of ``torch.func``, it is repeated below them.
- With tensors without values, on the meta device or under FakeTensorMode, the result has no values;
  nothing is drawn and no generator moves.
- All other calls draw: small ones from the prefetch buffers of the generator, the rest by the
  function of the distribution. Function modes of torch, such as a default device, are disabled.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, cast

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnrand._library import no_kernel
from trnrand._paths.dispatch import note_stream
from trnrand._paths.operator import register, traced
from trnrand._paths.signatures import Law, Shape, broadcast_shape, device_of
from trnrand._paths.transforms import beneath
from trnrand._sampling.laws import Kind
from trnrand.defaults import get_default_generator
from trnrand.errors import ParameterError
from trnrand.generator import Generator
from trnsci.core.backend.explanation import recording
from trnsci.core.interop import (
    dispatch_modes,
    fake_mode,
    is_fake,
    transform_level,
    without_function_modes,
)

__all__ = ["Shape", "broadcast_shape", "distribution", "untraced"]

_P = ParamSpec("_P")


def distribution(
    *,
    leading: int = 0,
    shape: Callable[..., Shape] | None = None,
    dtype: torch.dtype | None = torch.float32,
    kind: Kind | None = None,
    name: str | None = None,
) -> Callable[[Callable[_P, Tensor]], Callable[_P, Tensor]]:
    """Return a decorator for functions that draw; its arguments are attributes of ``Law``."""

    def decorated(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
        takes_dtype = "dtype" in inspect.signature(function).parameters
        law = Law(name or function.__name__, function, leading, shape, dtype, kind, takes_dtype)
        register(law)

        @functools.wraps(function)
        def call(*args: Any, generator: Any = None, **options: Any) -> Tensor:
            if is_compiling():
                return traced(law, args, generator, options)
            if transform_level() is not None:
                return _transformed(law, call, args, generator, options)
            if dispatch_modes() and _proxy_tracing():
                return traced(law, args, generator, options)
            if _without_values(args, generator, options):
                return _shaped(law, args, generator, options)
            return _drawn(law, args, generator, options)

        return cast(Callable[_P, Tensor], call)

    return decorated


def _proxy_tracing() -> bool:
    """Return whether ``make_fx`` or ``torch.export`` is recording operators."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode  # slow to import

    return get_proxy_mode() is not None


def _transformed(
    law: Law,
    call: Callable[..., Tensor],
    args: tuple[Any, ...],
    generator: Any,
    options: dict[str, Any],
) -> Tensor:
    """Return the result of a call inside a transform of ``torch.func``."""
    if generator is None:
        generator = get_default_generator()
    if options.get("out") is not None:
        raise ParameterError(f"{law.name}: out must be None inside the transforms of torch.func")
    if not isinstance(generator, Generator):
        return law.function(
            *args, generator=generator, **options
        )  # raises with the name of the argument
    names, size = list(options), law.size(args)

    def draw(values: Sequence[Any], front: tuple[int, ...]) -> Tensor:
        given = values[: len(args)] if not front else ((*front, *size),)
        rest = dict(zip(names, values[len(args) :], strict=True))
        return call(*given, generator=generator, **rest)

    batches = law.elementwise and size is not None and options.get("total") is None
    return beneath(law.name, generator, draw, [*args, *options.values()], batches)


def _without_values(args: Any, generator: Any, options: dict[str, Any]) -> bool:
    """Return whether an argument or the result of a call is a tensor without values."""
    if dispatch_modes() and fake_mode() is not None:
        return True
    for value in (*args, *options.values()):
        if isinstance(value, Tensor) and (value.is_meta or is_fake(value)):
            return True
    device = options.get("device")
    if device is None and options.get("out") is None and isinstance(generator, Generator):
        device = generator.device
    return str(device).startswith("meta")


def _shaped(law: Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return a tensor like the result without drawing, and record the path for ``explain``."""
    result: Tensor | None = options.get("out")
    if result is None:
        shape, dtype = law.shape(args, options), law.dtype(args, options)
        device = device_of(generator, options)
        fakes = [value for value in (*args, *options.values()) if is_fake(value)]
        make = fakes[0].new_empty if fakes else torch.empty
        result = make(shape, dtype=dtype, device=device)
    if recording():
        if law.kind is not None:
            note_stream(law.kind, result.numel(), result.dtype)
        else:
            no_kernel(law.name)
    return result


def _drawn(law: Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return the samples of a call, from the prefetch buffers if it is small."""
    if generator is None:
        generator = get_default_generator()
    if law.kind is None:
        no_kernel(law.name)
    with without_function_modes():
        if law.elementwise and isinstance(generator, Generator):
            samples = generator.prefetch.drawn(law.function, args, generator, options)
            if samples is not None:
                return samples
        return law.function(*args, generator=generator, **options)


def untraced(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """Return a function that torch.compile does not trace: it breaks the graph."""

    @functools.wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> Tensor:
        if is_compiling():
            # Not at import, since ``disable`` loads the compiler.
            disable: Any = torch.compiler.disable
            return cast(Tensor, disable(function)(*args, **options))
        return function(*args, **options)

    return call
