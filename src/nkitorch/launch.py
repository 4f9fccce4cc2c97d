"""Calls of kernels on torch tensors: one operator, ``nkitorch::call``, eagerly and in graphs.

The operator is functional: it returns new results and new values of the written arguments, which
are then copied into the arguments. So torch itself bumps versions, records graphs and rewrites
writes for its compiler.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nkisim
from nkisim.api import Kernel
from nkisim.diagnostics import user_stacklevel
from nkisim.dtypes import DType
from nkisim.machine import CORE
from nkisim.objects import rebuilt
from nkisim.outlining import ArraySpec
from nkisim.runs.host import argument_names
from nkisim.runs.signatures import key_of
from nkitorch.bodies import note_write
from nkitorch.interop import is_traced, library, profiler_is_on
from nkitorch.memory import is_neuron, to_host, to_neuron

CHECK_VARIABLE = "NKISIM_TORCH_CHECK"
_CHECKS = ("off", "first", "always")
_NEAREST = {"float8_e4m3": "float8_e4m3fn", "tfloat32": "float32"}
"""Formats that torch lacks, with the one in which results arrive."""


class _Slot:
    """The place of a tensor among the arguments of a call."""

    def __init__(self, number: int) -> None:
        self.number = number


class Call:
    """A kernel with arguments of fixed shapes, dtypes and constants.

    Attributes:
        number: Its number in the table of calls, by which graphs refer to it.
        kernel: The kernel, without bound arguments.
        outline: What a call returns and writes.
        written: Places of the written arguments among the tensors.
        count: How often it has run.
    """

    def __init__(
        self,
        number: int,
        kernel: Kernel,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
    ) -> None:
        self.number, self.kernel, self.count = number, kernel, 0
        self._forms = [(tuple(map(int, t.shape)), t.dtype) for t in tensors]
        self._places: dict[str, int] = {}
        self.outline = nkisim.outline(kernel)(*args, **kwargs)
        names = argument_names(kernel.parameters, len(args))
        self._args = [rebuilt(v, self._slot, n) for n, v in zip(names, args, strict=True)]
        self._kwargs = {name: rebuilt(v, self._slot, name) for name, v in kwargs.items()}
        self.written = [self._places[name] for name in self.outline.written]
        self._checked = False

    def _slot(self, name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return _Slot(self._places.setdefault(name, len(self._places)))

    @cached_property
    def new(self) -> list[ArraySpec]:
        """The results that are no arguments."""
        return [spec for spec in _leaves(self.outline.results, ArraySpec) if not spec.argument]

    def filled(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with these tensors."""

        def fill(_: str, value: Any) -> Any:
            return tensors[value.number] if isinstance(value, _Slot) else value

        return [rebuilt(v, fill) for v in self._args], {
            name: rebuilt(v, fill) for name, v in self._kwargs.items()
        }

    def assembled(self, tensors: Sequence[Tensor], new: Sequence[Tensor]) -> Any:
        """Return the kernel's return value: new results, and arguments where it returns them."""
        rest = iter(new)

        def place(_: str, part: Any) -> Any:
            if not isinstance(part, ArraySpec):
                return part
            return tensors[self._places[part.argument]] if part.argument else next(rest)

        return rebuilt(self.outline.results, place)

    def run(self, hosts: list[Tensor]) -> list[Tensor]:
        """Run the kernel on CPU tensors; return new results, then new values of written ones."""
        mode = os.environ.get(CHECK_VARIABLE, "") or "first"
        if mode not in _CHECKS:
            raise ValueError(f"{CHECK_VARIABLE}: got {mode!r}, accepted: {', '.join(_CHECKS)}")
        if mode == "always" or (mode == "first" and not self._checked):
            self._checked = True
            self._check([host.clone() for host in hosts])
        for place in self.written:
            hosts[place] = hosts[place].clone()
        args, kwargs = self.filled(hosts)
        with self._profiled():
            results = nkisim.simulate(self.kernel)(*args, **kwargs)
        self.count += 1
        specs = _leaves(self.outline.results, ArraySpec)
        found = zip(specs, _leaves(results, Tensor), strict=True)
        return [result for spec, result in found if not spec.argument] + [
            hosts[place] for place in self.written
        ]

    def _check(self, hosts: list[Tensor]) -> None:
        args, kwargs = self.filled(hosts)
        for finding in nkisim.check(self.kernel)(*args, **kwargs).findings:
            if finding.severity in ("error", "warning"):
                warnings.warn(
                    f"{self.kernel.__name__}: {finding}",
                    nkisim.NkiFindingWarning,
                    stacklevel=user_stacklevel(),
                )

    @cached_property
    def prediction(self) -> nkisim.Profile | None:
        """The predicted device time; None if the kernel has none."""
        args, kwargs = self.filled([torch.empty(s, dtype=d) for s, d in self._forms])
        try:
            return nkisim.profile(self.kernel, advice=False)(*args, **kwargs)
        except (nkisim.ProfileError, ValueError):
            return None

    def _profiled(self) -> AbstractContextManager[Any]:
        if not profiler_is_on():
            return nullcontext()
        found = self.prediction
        time = f"{found.latency_us:.1f} us on {found.target}" if found else "no predicted time"
        return torch.profiler.record_function(f"nki::{self.kernel.__name__} [{time}]")


_NUMBERS: dict[Any, int] = {}
CALLS: dict[int, Call] = {}
"""The table of calls by number."""
_COUNTER = itertools.count()


def launch(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel: the front end of all kernels while torch is loaded.

    A call without tensors, such as one on NumPy arrays alone, is a simulation as without torch.

    Raises:
        RuntimeError: The tensors are on different devices.
    """
    whole = kernel.arguments(args, kwargs)
    if CORE.get() is not None:  # inside another kernel
        return kernel.function(*whole[0], **whole[1])
    arrays: list[np.ndarray] = []
    tensors: list[Tensor] = []
    collected = rebuilt(whole, lambda _, part: _collect(part, tensors, arrays))
    devices = {tensor.device.type for tensor in tensors}
    if not devices or not devices <= {"cpu", "neuron", "meta"}:
        return nkisim.simulate(kernel)(*args, **kwargs)
    if arrays:
        tensors = []
        collected = rebuilt(collected, lambda _, part: _as_tensor(part, tensors))
    if len(devices) > 1:
        raise RuntimeError(
            f"kernel {kernel.__name__}: expected all tensors on one device, got tensors on "
            f"{' and '.join(sorted(devices))}; move them with .to({max(devices)!r})"
        )
    try:
        number, is_known = _number(kernel, collected[0], collected[1], tensors)
    except Exception as error:
        if is_traced():  # torch.compile(fullgraph=True) replaces the exception by one of its own
            text = f"kernel {kernel.__name__} cannot be compiled: {error}"
            warnings.warn(text, nkisim.NkiFindingWarning, stacklevel=user_stacklevel())
        raise
    call = CALLS[number]
    found = torch.ops.nkitorch.call(tensors, kernel.__name__, number)
    new = len(found) - len(call.written)
    for place, value in zip(call.written, found[new:], strict=True):
        note_write(kernel.__name__, tensors[place])
        tensors[place].copy_(value)
    if not is_known and not is_traced():
        del CALLS[number]
    return call.assembled(tensors, found[:new])


def _collect(part: Any, tensors: list[Tensor], arrays: list[np.ndarray]) -> Any:
    """Append a tensor or an array to its list; return the part, a symbolic number as its value."""
    part = _SYMBOLIC[type(part)](part) if type(part) in _SYMBOLIC else part
    if isinstance(part, Tensor):
        tensors.append(part)
    elif isinstance(part, np.ndarray):
        arrays.append(part)
    return part


def _as_tensor(part: Any, tensors: list[Tensor]) -> Any:
    """Append a tensor, or an array as one, to ``tensors``, and return it."""
    if isinstance(part, np.ndarray):
        part = torch.from_numpy(part)
    if isinstance(part, Tensor):
        tensors.append(part)
    return part


_SYMBOLIC: dict[type, Callable[[Any], Any]] = {
    torch.SymBool: bool,
    torch.SymFloat: float,
    torch.SymInt: int,
}
"""Numbers that a graph leaves open, and what fixes them: a kernel is compiled for its constants."""


def _number(
    kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]
) -> tuple[int, bool]:
    """Return the number of a call, and whether later calls of the same signature share it."""
    try:
        key = kernel, key_of(args), key_of(kwargs)
        number = _NUMBERS.get(key)
    except TypeError:  # an argument that may change
        key, number = None, None
    if number is None:
        number = next(_COUNTER)
        whole = dataclasses.replace(kernel, bound=((), {}))
        CALLS[number] = Call(number, whole, args, kwargs, tensors)
        if key is not None:
            _NUMBERS[key] = number
    return number, key is not None


def _leaves(value: Any, kind: type) -> list[Any]:
    """Return the parts of a tree that are of a type, in its order."""
    found: list[Any] = []
    rebuilt(value, lambda _, part: found.append(part) if isinstance(part, kind) else part)
    return found


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return the dtype in which torch receives an NKI format."""
    name = _NEAREST.get(dtype, str(dtype))
    found: torch.dtype = getattr(torch, name, None) or getattr(torch, str(dtype.numpy))
    return found


# -- the operator ----------------------------------------------------------------------------------

_LIBRARY = library("nkitorch", "DEF")


def _run(tensors: list[Tensor], kernel: str, number: int) -> list[Tensor]:
    hosts = [to_host(t) if is_neuron(t) else t.detach() for t in tensors]
    found = CALLS[number].run(hosts)
    return [to_neuron(t) for t in found] if is_neuron(tensors[0]) else found


def _fake(tensors: list[Tensor], kernel: str, number: int) -> list[Tensor]:
    call, first = CALLS[number], tensors[0]
    new = [first.new_empty(spec.shape, dtype=torch_dtype(spec.dtype)) for spec in call.new]
    return [*new, *(tensors[place].clone() for place in call.written)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[0])
    ctx.kernel = inputs[1]


def _backward(ctx: Any, grads: list[Tensor]) -> Any:
    return torch.ops.nkitorch.no_backward(list(ctx.saved_tensors), ctx.kernel), None, None


def _no_backward(tensors: list[Tensor], kernel: str) -> list[Tensor]:
    raise NotImplementedError(
        f"kernel {kernel} has no backward: make it an operator with nki_op and give that one "
        "register_autograd, or call it in the forward of a torch.autograd.Function"
    )


def _no_vmap(info: Any, in_dims: Any, tensors: Any, kernel: str, number: int) -> Any:
    raise NotImplementedError(
        f"kernel {kernel} has no rule for vmap: make it an operator with nki_op and give that one "
        "register_vmap, or loop over the batch"
    )


_LIBRARY.define("call(Tensor[] tensors, str kernel, int number) -> Tensor[]")
_LIBRARY.define("no_backward(Tensor[] tensors, str kernel) -> Tensor[]")
for _device in ("CPU", "PrivateUse1"):
    _LIBRARY.impl("call", _run, _device)
    _LIBRARY.impl("no_backward", _no_backward, _device)
torch.library.register_fake("nkitorch::call", _fake, lib=_LIBRARY)
torch.library.register_fake(
    "nkitorch::no_backward",
    lambda tensors, kernel: [torch.empty_like(tensor) for tensor in tensors],
    lib=_LIBRARY,
)
torch.library.register_autograd("nkitorch::call", _backward, setup_context=_keep, lib=_LIBRARY)
torch.library.register_vmap("nkitorch::call", _no_vmap, lib=_LIBRARY)
