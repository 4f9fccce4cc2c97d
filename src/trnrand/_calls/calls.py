"""Dispatch of a call of a distribution: traced, below a transform, without values, or drawn.

- Traced by ``torch.compile`` or export, a call is one operator.
- Inside the transforms of ``torch.func``, the arguments are unwrapped, the call is repeated without
  transforms, and its result is wrapped.
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

from trnrand._calls.arguments import parsed_size
from trnrand._calls.graph_operator import traced
from trnrand._calls.requests import Request
from trnrand._calls.signatures import LAWS, Law, Shape, broadcast_shape
from trnrand._calls.transforms import beneath
from trnrand._kernels.definitions import Kind
from trnrand._library import no_kernel
from trnrand._paths.samples import note_stream
from trnrand.defaults import get_default_generator
from trnrand.errors import FlagError
from trnrand.generator import Generator
from trnsci.core.backend.explanation import recording
from trnsci.core.interop import (
    dispatch_modes,
    fake_mode,
    is_fake,
    transform_level,
    without_function_modes,
)

__all__ = ["Shape", "broadcast_shape", "distribution", "reparameterized"]

_P = ParamSpec("_P")


def distribution(
    sample: Callable[[Request], Tensor] | None = None,
    *,
    pathwise: Callable[..., Tensor] | None = None,
    leading: int = 0,
    shape: Callable[..., Shape] | None = None,
    dtype: torch.dtype | None = torch.float32,
    kind: Kind | None = None,
    name: str | None = None,
) -> Callable[[Callable[_P, Tensor | Request]], Callable[_P, Tensor]]:
    """Return a decorator for functions that draw.

    Args:
        sample: Function that returns the samples of a request; the decorated function returns the
            request. None if the decorated function returns samples itself.
        pathwise: Differentiable samples of a request, for ``trnrand.rsample``.
        leading: Number of positional arguments before the size.
        shape: Attribute ``result_shape`` of ``Law``.
        dtype: Attribute ``default_dtype`` of ``Law``.
        kind: Kind of standard samples that the distribution is computed from.
        name: Name of the public function; None is the name of the decorated function.
    """

    def decorated(function: Callable[_P, Tensor | Request]) -> Callable[_P, Tensor]:
        called, draw = name or function.__name__, cast(Callable[..., Tensor], function)
        signature = inspect.signature(function)
        prepare = cast(Callable[..., Request], function)
        if sample is not None:
            draw = _composed(sample, prepare)
        law = Law(
            called,
            draw,
            leading,
            shape,
            dtype,
            kind,
            "dtype" in signature.parameters,
            None if sample is None else prepare,
            pathwise,
        )
        LAWS[called] = law
        elementwise = law.elementwise

        @functools.wraps(function)
        def call(*args: Any, generator: Any = None, device: Any = None, **options: Any) -> Tensor:
            if is_compiling():
                return traced(law, args, generator, {**options, "device": device})
            if transform_level() is not None:
                given = {**options, "device": device}
                return _transformed(law, call, args, generator, given)
            fake = False
            if dispatch_modes():
                if _proxy_tracing():
                    return traced(law, args, generator, {**options, "device": device})
                fake = fake_mode() is not None
            if generator is None:
                generator = get_default_generator()
            with without_function_modes():
                if elementwise and not fake and isinstance(generator, Generator):
                    samples = generator.prefetch.drawn(
                        called, draw, args, generator, device, options
                    )
                    if samples is not None:
                        return samples
                if device is None and options.get("out") is None:
                    device = getattr(generator, "device", None)
                if fake or _without_values(args, device, options):
                    return _shaped(law, args, generator, {**options, "device": device})
                if kind is None:
                    no_kernel(called)
                return draw(*args, generator=generator, device=device, **options)

        call.__annotations__ = {**function.__annotations__, "return": "Tensor"}
        shown = cast(Any, call)
        shown.__signature__ = signature.replace(return_annotation="Tensor")
        return cast(Callable[_P, Tensor], call)

    return decorated


def _composed(
    sample: Callable[[Request], Tensor], prepare: Callable[..., Request]
) -> Callable[..., Tensor]:
    """Return the function that prepares a request and draws its samples."""

    def draw(*args: Any, **options: Any) -> Tensor:
        return sample(prepare(*args, **options))

    return draw


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
        raise FlagError(f"{law.name}: out must be None inside the transforms of torch.func")
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


def _without_values(args: Any, device: Any, options: dict[str, Any]) -> bool:
    """Return whether an argument or the result of a call is a tensor without values."""
    for value in (*args, *options.values()):
        if isinstance(value, Tensor) and (value.is_meta or is_fake(value)):
            return True
    return str(device).startswith("meta")


def _shaped(law: Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return a tensor like the result without drawing, and record the path for ``explain``."""
    if recording():
        parsed_size(law.name, args[law.leading :])
    result: Tensor | None = options.get("out")
    if result is None:
        shape, dtype = law.shape(args, options), law.dtype(args, options)
        fakes = [value for value in (*args, *options.values()) if is_fake(value)]
        make = fakes[0].new_empty if fakes else torch.empty
        result = make(shape, dtype=dtype, device=options["device"])
    if recording():
        if law.kind is not None:
            engine = generator.engine if isinstance(generator, Generator) else "philox"
            note_stream(law.kind, engine, result.numel(), result.dtype)
        else:
            no_kernel(law.name)
    return result


def reparameterized(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """Return the function that draws as ``function`` does, with gradients, by its pathwise rule.

    It has the same arguments without ``out``. torch.compile does not trace it: it breaks the graph.
    """
    name = function.__name__
    law, whole = LAWS[name], inspect.signature(function)
    signature = whole.replace(parameters=[p for p in whole.parameters.values() if p.name != "out"])
    prepare, pathwise = law.prepare, law.pathwise
    assert prepare is not None and pathwise is not None

    def draw(*args: Any, **options: Any) -> Tensor:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        plain = {key: _detached(value) for key, value in options.items()}
        request = prepare(*map(_detached, args), **plain)
        live = (bound.arguments[key] for key in request.parameters)
        return pathwise(request, *live).to(request.dtype)

    def call(*args: _P.args, **options: _P.kwargs) -> Tensor:
        if is_compiling():
            # ``disable`` loads torch's compiler, so it is not called at import.
            disable: Any = torch.compiler.disable
            return cast(Tensor, disable(draw)(*args, **options))
        return draw(*args, **options)

    named = cast(Any, functools.wraps(function)(call))
    named.__signature__ = signature
    named.__doc__ = f"Return samples of ``trnrand.{name}``, differentiable by its parameters."
    return cast(Callable[_P, Tensor], named)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
