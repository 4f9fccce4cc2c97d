"""The operator ``torch.ops.trnrand.sample``: a draw in graphs of ``torch.compile`` and export.

It reads and writes the state of the generator, so graphs draw at run time and in order. Sizes may
be dynamic. Rejection loops are inside the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from trnrand._calls.signatures import LAWS, Law, device_of
from trnrand._library import no_kernel
from trnrand.defaults import get_default_generator
from trnrand.generator import Generator

_MOST_POSITIVE = (1 << 63) - 1

# Options that are separate arguments of the operator.
_APART = ("dtype", "device", "out")


def traced(law: Law, args: Any, generator: Any, options: dict[str, Any]) -> Tensor:
    """Return the result of the operator; torch.compile traces this function."""
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
    shape = law.shape(args, options)
    size = shape if law.result_shape is None else law.size(args) or ()
    result: Tensor = torch.ops.trnrand.sample(
        drawn_from._state,
        law.name,
        ",".join(layout),
        numbers,
        integers,
        tensors,
        list(size),
        list(shape),
        law.dtype(args, options),
        torch.device(device_of(drawn_from, options)),
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
    """Call the function of this name with the arguments that ``traced`` flattened."""
    law = LAWS[function]
    if law.kind is None:
        no_kernel(law.name)
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
    where = (tuple(size),) if law.result_shape is None else tuple(size)
    generator = Generator.over(state, device)
    result = law.function(*leading, *where, generator=generator, device=device, **options)
    return result.contiguous()


def _fake_sample(*given: Any) -> Tensor:
    shape, dtype, device = given[-3:]
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
