"""How the call of a distribution reaches its sampler: at once, through an operator, or not at all.

``torch.compile`` and its relatives see one operator, ``torch.ops.trnrand.sample``, that reads and
writes the state of the generator: graphs draw when they run, in order, sizes may be dynamic, and
rejection loops are no concern of theirs. Tensors without values, on the meta device or under
FakeTensorMode, get a result without values; nothing is drawn and no generator moves. Modes that
change what torch's functions make, such as a default device, do not reach the samplers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeAlias, cast

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.compiler import is_compiling

from trnrand._ahead import drawn_ahead
from trnrand._dispatch import fill_stream, note_stream
from trnrand._laws import Kind
from trnrand._library import LIBRARY
from trnrand._transforms import beneath, is_transformed
from trnrand._words import has_triton
from trnrand.defaults import get_default_generator
from trnrand.errors import ParameterError
from trnrand.generator import Generator
from trnsci.core.explanation import Step, note, recording

__all__ = ["Shape", "broadcast_shape", "distribution", "untraced"]

_P = ParamSpec("_P")
Shape: TypeAlias = Sequence[int]

# torch shows neither in public; each costs some 50 ns.
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_without_function_modes = torch._C.DisableTorchFunction
_PROXY = torch._C._TorchDispatchModeKey.PROXY

_SEQUENCES = (list, tuple, torch.Size)
_MOST_POSITIVE = (1 << 63) - 1

# What the operator has arguments of its own for.
_APART = ("dtype", "device", "out")


@dataclass(frozen=True)
class _Law:
    """A function that draws.

    Attributes:
        function: As it was written.
        leading: How many positional arguments come before the size.
        shape: Function of leading arguments, of ``size``, empty where none is given, and of the
            options that returns the shape of the result; None where that is the size, or what the
            parameters broadcast to.
        dtype: Of the result, if none is asked for; None for that of the first argument, or int64.
        kind: The standard samples with a kernel that it is made of.
        standard: Whether it is those, in float32, where no option is given.
        has_dtype: Whether it takes one.
    """

    function: Callable[..., Tensor]
    leading: int
    shape: Callable[..., Shape] | None
    dtype: torch.dtype | None
    kind: Kind | None
    standard: bool
    has_dtype: bool

    @property
    def name(self) -> str:
        return self.function.__name__


_LAWS: dict[str, _Law] = {}


def distribution(
    *,
    leading: int = 0,
    shape: Callable[..., Shape] | None = None,
    dtype: torch.dtype | None = torch.float32,
    kind: Kind | None = None,
    standard: bool = False,
) -> Callable[[Callable[_P, Tensor]], Callable[_P, Tensor]]:
    """Return a decorator for functions that draw; its arguments are the attributes of ``_Law``."""

    def decorated(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
        takes_dtype = "dtype" in inspect.signature(function).parameters
        law = _Law(function, leading, shape, dtype, kind, standard, takes_dtype)
        _LAWS[law.name] = law
        elementwise = leading == 0 and shape is None

        @functools.wraps(function)
        def call(*args: Any, generator: Any = None, **options: Any) -> Tensor:
            if is_compiling():
                return _traced(law, args, generator, options)
            if is_transformed():
                return _transformed(law, call, args, generator, options)
            if _dispatch_modes() or _function_modes():
                return _watched(law, args, generator, options)
            if generator is None:
                generator = get_default_generator()
            if elementwise and type(generator) is Generator:
                found = None
                if generator.place == "cpu":
                    found = drawn_ahead(function, args, generator, options)
                if found is None and standard and not options:
                    found = _standard_samples(law, args, generator)
                if found is not None:
                    return found
            if _without_values(args, generator, options):
                return _shaped(law, args, generator, options)
            return function(*args, generator=generator, **options)

        return cast(Callable[_P, Tensor], call)

    return decorated


def _transformed(
    law: _Law,
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
        return law.function(*args, generator=generator, **options)  # which names the argument
    names, size = list(options), _size(law, args)

    def draw(values: Sequence[Any], front: tuple[int, ...]) -> Tensor:
        given = values[: len(args)] if not front else ((*front, *size),)
        rest = dict(zip(names, values[len(args) :], strict=True))
        return call(*given, generator=generator, **rest)

    elementwise = law.leading == 0 and law.shape is None
    batches = elementwise and size is not None and options.get("total") is None
    return beneath(law.name, generator, draw, [*args, *options.values()], batches)


def untraced(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """Return a function that torch.compile leaves alone: it ends the graph, and begins another."""
    # Made for torch's own use: unlike torch.compiler.disable it loads the compiler when called.
    apart = _disable_dynamo(function)

    @functools.wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> Tensor:
        return apart(*args, **options) if is_compiling() else function(*args, **options)

    return call


def _standard_samples(law: _Law, size: Sequence[Any], generator: Generator) -> Tensor | None:
    """Return the samples of a call that asks for no more than a size; None to go the long way."""
    assert law.kind is not None
    if len(size) == 1 and type(size[0]) in _SEQUENCES:
        size = size[0]
    count = 1
    for n in size:
        if type(n) is not int or n < 0:
            return None
        count *= n
    place = generator.place
    if not size or not count or place == "meta":
        return None
    if place == "cuda" and count < 1 << 31 and has_triton() and not LIBRARY.kernels_wanted():
        found = _triton_drawn()(law.kind, generator, size, count)
        if found is not None:
            return found
    try:
        out = torch.empty(size, dtype=torch.float32, device=generator.torch_device)
    except RuntimeError:  # which the long way names
        return None
    source = generator.reserve(law.name, count, out.device)
    fill_stream(law.kind, source, out if len(size) == 1 else out.view(-1))
    return out


@functools.cache
def _triton_drawn() -> Callable[..., Tensor | None]:
    from trnrand._triton import drawn

    return drawn


def _watched(law: _Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return the result of a call while modes of torch are on."""
    if torch._C._get_dispatch_mode(_PROXY) is not None:
        return _traced(law, args, generator, options)
    if detect_fake_mode() is None and not _without_values(args, generator, options):
        with _without_function_modes():
            return law.function(*args, generator=generator, **options)
    result = _shaped(law, args, generator, options)
    if recording():
        if law.kind is not None:
            note_stream(law.kind, result.numel(), result.dtype)
        else:
            note(Step(f"trnrand.{law.name}", "pytorch", "there is no kernel that draws it"))
    return result


def _without_values(args: Any, generator: Any, options: dict[str, Any]) -> bool:
    """Return whether a call has or makes tensors without values."""
    for value in (*args, *options.values()):
        if isinstance(value, Tensor) and (type(value) is FakeTensor or value.is_meta):
            return True
    device = options.get("device")
    if device is None and options.get("out") is None and isinstance(generator, Generator):
        device = generator.device
    return str(device).startswith("meta")


def _device(generator: Any, options: dict[str, Any]) -> Any:
    if options.get("device") is not None:
        return options["device"]
    if options.get("out") is not None:
        return options["out"].device
    return (get_default_generator() if generator is None else generator).device


def _shaped(law: _Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return a tensor like the result, which nothing was drawn for."""
    out = options.get("out")
    if out is not None:
        return cast(Tensor, out)
    shape, dtype = _shape(law, args, options), _dtype(law, args, options)
    device = _device(generator, options)
    for value in (*args, *options.values()):
        if type(value) is FakeTensor:
            return value.new_empty(shape, dtype=dtype, device=device)
    return torch.empty(shape, dtype=dtype, device=device)


def _size(law: _Law, args: Any) -> Any:
    """Return the size that positional arguments give, None where there is none."""
    size = args[law.leading :]
    if len(size) == 1 and isinstance(size[0], _SEQUENCES):
        return tuple(size[0])
    return size if len(size) else None


def _shape(law: _Law, args: Any, options: dict[str, Any]) -> Any:
    size = _size(law, args)
    if law.shape is not None:
        return law.shape(*args[: law.leading], size=size or (), **options)
    if options.get("out") is not None:
        return options["out"].shape
    if size is not None:
        return size
    tensors = [value.shape for value in options.values() if isinstance(value, Tensor)]
    return broadcast_shape(*tensors)


def broadcast_shape(*shapes: Shape) -> Shape:
    """Return what shapes broadcast to, in a way that torch.compile can follow."""
    return cast(Shape, torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def _dtype(law: _Law, args: Any, options: dict[str, Any]) -> torch.dtype:
    if options.get("dtype") is not None:
        return cast(torch.dtype, options["dtype"])
    if options.get("out") is not None:
        return cast(torch.dtype, options["out"].dtype)
    if law.dtype is not None:
        return law.dtype
    return args[0].dtype if isinstance(args[0], Tensor) else torch.int64


# -- the operator ----------------------------------------------------------------------------------


def _traced(law: _Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return the result of the operator; written so that torch.compile can follow it."""
    drawn_from = get_default_generator() if generator is None else generator
    layout: list[str] = []
    numbers: list[float] = []
    integers: list[int] = []
    tensors: list[Tensor] = []
    given = [(str(i), args[i]) for i in range(law.leading)]
    for name, value in given + list(options.items()):
        if name in _APART or value is None:
            continue
        if isinstance(value, Tensor):
            tensors.append(value.detach())
            layout.append(name + "=tensor")
        elif isinstance(value, bool):
            layout.append(name + ("=true" if value else "=false"))
        elif isinstance(value, float):
            numbers.append(value)
            layout.append(name + "=float")
        elif value > _MOST_POSITIVE:
            integers.append(value - (1 << 64))
            layout.append(name + "=unsigned")
        else:
            integers.append(value)
            layout.append(name + "=integer")
    shape = _shape(law, args, options)
    size = shape if law.shape is None else _size(law, args) or ()
    result: Tensor = torch.ops.trnrand.sample(
        drawn_from._state,
        law.name,
        ",".join(layout),
        numbers,
        integers,
        tensors,
        list(size),
        list(shape),
        _dtype(law, args, options),
        torch.device(_device(drawn_from, options)),
    )
    out = options.get("out")
    return result if out is None else cast(Tensor, out.copy_(result))


def _sample(
    state: Tensor,
    function: str,
    layout: str,
    numbers: Sequence[float],
    integers: Sequence[int],
    tensors: Sequence[Tensor],
    size: Sequence[int],
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Draw: call the function by its name, with the arguments that ``_traced`` took apart."""
    law = _LAWS[function]
    sources: dict[str, Any] = {
        "float": iter(numbers),
        "integer": iter(integers),
        "tensor": iter(tensors),
    }
    leading: list[Any] = []
    options: dict[str, Any] = {"dtype": dtype} if law.has_dtype else {}
    for entry in layout.split(",") if layout else ():
        name, _, kind = entry.partition("=")
        if kind in ("true", "false"):
            value: Any = kind == "true"
        elif kind == "unsigned":
            value = next(sources["integer"]) + (1 << 64)
        else:
            value = next(sources[kind])
        if name.isdigit():
            leading.append(value)
        else:
            options[name] = value
    where = (tuple(size),) if law.shape is None else tuple(size)
    generator = Generator.over(state, device)
    result = law.function(*leading, *where, generator=generator, device=device, **options)
    return result.contiguous()


def _fake_sample(
    state: Tensor,
    function: str,
    layout: str,
    numbers: Sequence[float],
    integers: Sequence[int],
    tensors: Sequence[Tensor],
    size: Sequence[int],
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=device)


_library: Any = torch.library
_OPERATORS = _library.Library("trnrand", "FRAGMENT")
_OPERATORS.define(
    "sample(Tensor(a!) state, str function, str layout, float[] numbers, SymInt[] integers, "
    "Tensor[] tensors, SymInt[] size, SymInt[] shape, ScalarType dtype, Device device) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)
_OPERATORS.impl("sample", _sample, "CompositeExplicitAutograd")
_library.register_fake("trnrand::sample", _fake_sample, lib=_OPERATORS)
