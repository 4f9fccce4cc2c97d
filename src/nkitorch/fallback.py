"""Operators of torch on the device "neuron", computed by torch's own CPU kernels.

One boxed kernel serves every operator that has no entry here. Views are made by torch's CPU kernel
on the tensor itself, so that they share its storage; everything else runs on CPU tensors that share
the memory of the operands.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nkitorch.interop import schema_of, with_cpu_kernel
from nkitorch.memory import is_neuron, to_host, to_neuron

aten = torch.ops.aten
_HOST = torch.device("cpu")
_TAKE_HOST_TENSORS = frozenset(
    f"aten::{name}"
    for name in (
        "index",
        "index_put",
        "index_put_",
        "_index_put_impl_",
        "_unsafe_index",
        "_unsafe_index_put",
        "_pack_padded_sequence",
    )
)
"""Operators whose indices or lengths may be on the CPU, as on other devices."""


class OperatorCounts:
    """Calls of operators other than kernels; each would cost the chip an execution.

    Attributes:
        calls: The number of calls since the process began.
    """

    calls = 0


class _Traits(NamedTuple):
    """What the schema of an operator says about its results.

    Attributes:
        is_view: Whether it only makes a view.
        written: Names of the arguments that it writes, with their positions.
    """

    is_view: bool
    written: tuple[tuple[int, str], ...]
    takes_host: bool


@cache
def _traits(op: Any) -> _Traits:
    schema = schema_of(op)
    aliases = [found.alias_info for found in schema.returns if found.alias_info is not None]
    is_view = any(not alias.is_write for alias in aliases)
    written = tuple(
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    return _Traits(is_view, written, schema.name in _TAKE_HOST_TENSORS)


def is_functional(op: Any) -> bool:
    """Return whether no result of an operator aliases an argument, and none is written."""
    traits = _traits(op)
    return not (traits.is_view or traits.written)


def computed_on_host(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute one operator with tensors of the device; the boxed kernel of the dispatcher."""
    traits = _traits(op)
    if traits.is_view:
        return with_cpu_kernel(op, args, kwargs)
    OperatorCounts.calls += 1
    hosts = _Hosts(op, traits.takes_host)
    host_args = [hosts.of(arg) for arg in args]
    host_kwargs = {name: hosts.of(arg) for name, arg in kwargs.items()}
    results = op(*host_args, **host_kwargs)
    for place, name in traits.written:
        if place < len(args):
            _follow(args[place], host_args[place])
        elif name in kwargs:
            _follow(kwargs[name], host_kwargs[name])
    return hosts.back(results)


class _Hosts:
    """CPU tensors for the operands of one call, and the way back for its results."""

    def __init__(self, op: Any, takes_host: bool) -> None:
        self._op = op
        self._takes_host = takes_host
        self._pairs: list[tuple[Tensor, Tensor]] = []

    def of(self, value: Any) -> Any:
        """Return an argument with CPU tensors and the CPU in place of those of the device."""
        if isinstance(value, Tensor):
            if value.device.type == "neuron":
                host = to_host(value)
                self._pairs.append((host, value))
                return host
            if value.dim() and not self._takes_host and value.device.type == "cpu":
                raise RuntimeError(
                    f"{self._op}: Expected all tensors to be on the same device, but found at "
                    "least two devices, neuron:0 and cpu!"
                )
            return value
        if isinstance(value, (list, tuple)):
            return [self.of(part) for part in value]
        if isinstance(value, torch.device) and value.type == "neuron":
            if value.index:
                raise RuntimeError(f"device: got {value}, accepted: neuron:0, the only one")
            return _HOST
        return value

    def back(self, value: Any) -> Any:
        """Return a result with tensors of the device in place of CPU tensors."""
        if isinstance(value, Tensor):
            for host, original in self._pairs:
                if value is host:
                    return original
            return to_neuron(value) if value.device.type == "cpu" else value
        if isinstance(value, (list, tuple)):
            return tuple(self.back(part) for part in value)
        return value


def _follow(original: Any, host: Any) -> None:
    """Give a written tensor the form of its CPU twin, which the operator may have resized."""
    if isinstance(original, (list, tuple)):
        for one, other in zip(original, host, strict=True):
            _follow(one, other)
    elif is_neuron(original):
        _follow_one(original, host)


def _follow_one(original: Tensor, host: Tensor) -> None:
    if original.numel() and host.untyped_storage().data_ptr() == original.data_ptr():
        if original.shape == host.shape and original.stride() == host.stride():
            return
        # The twin keeps the tensor alive, not its storage, which therefore has to stay its own.
        start = original.storage_offset() + host.storage_offset()
        _set(original, original.untyped_storage(), start, host)
    elif original.shape != host.shape or host.numel():
        _adopt(original, to_neuron(host))


def _adopt(original: Tensor, other: Tensor) -> None:
    """Make ``original`` use the storage, shape and strides of ``other``."""
    _set(original, other.untyped_storage(), other.storage_offset(), other)


def _set(tensor: Tensor, storage: Any, start: Any, form: Tensor) -> Tensor:
    """Make ``tensor`` use a storage from an element on, with the shape and strides of ``form``."""
    args = tensor, storage, start, form.shape, form.stride()
    found: Tensor = with_cpu_kernel(aten.set_.source_Storage_storage_offset, args, {})
    return found


def _resize(tensor: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    host = torch.empty(size, dtype=tensor.dtype, memory_format=memory_format or _CONTIGUOUS)
    if host.numel() * host.element_size() <= tensor.untyped_storage().nbytes():
        return _set(tensor, tensor.untyped_storage(), tensor.storage_offset(), host)
    kept = min(host.numel(), tensor.numel())
    if kept and tensor.is_contiguous():
        host.view(-1)[:kept] = to_host(tensor).view(-1)[:kept]
    _adopt(tensor, to_neuron(host))
    return tensor


_CONTIGUOUS = torch.contiguous_format


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    hosts = [to_host(t) if is_neuron(t) else t for t in (source, target)]
    hosts[1].copy_(hosts[0])
    return target


def _convolution_backward(
    grad: Tensor,
    inputs: Tensor,
    weight: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    sizes = [weight.shape[1] * groups if transposed else weight.shape[0]] if mask[2] else None
    form = stride, padding, dilation, transposed, output_padding, groups, mask
    return computed_on_host(aten.convolution_backward.default, grad, inputs, weight, sizes, *form)


def _fused_lstm_cell(
    gates: Tensor, hidden: Tensor, cell: Tensor, bias: Any = None, hidden_bias: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The LSTM cell that torch selects off the CPU; the workspace holds the activated gates."""
    total = gates + hidden if bias is None else gates + hidden + bias + hidden_bias
    i, f, g, o = total.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cell + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def _fused_lstm_cell_backward(
    grad_h: Any, grad_c: Any, cell: Tensor, new: Tensor, workspace: Tensor, has_bias: bool
) -> Any:
    if grad_h is None and grad_c is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    tanh = new.tanh()
    grad = torch.zeros_like(new) if grad_c is None else grad_c
    grad_o = torch.zeros_like(new)
    if grad_h is not None:
        grad = grad + grad_h * o * (1 - tanh * tanh)
        grad_o = grad_h * tanh * o * (1 - o)
    parts = grad * g * i * (1 - i), grad * cell * f * (1 - f), grad * i * (1 - g * g), grad_o
    gates = torch.cat(parts, 1)
    return gates, grad * f, gates.sum(0) if has_bias else None


def _fused_gru_cell(
    gates: Tensor, hidden: Tensor, state: Tensor, bias: Any = None, hidden_bias: Any = None
) -> tuple[Tensor, Tensor]:
    """The GRU cell that torch selects off the CPU; the workspace holds r, z, n, h and h's part."""
    if bias is not None:
        gates, hidden = gates + bias, hidden + hidden_bias
    (ir, iz, inner), (hr, hz, hn) = gates.chunk(3, 1), hidden.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (inner + r * hn).tanh()
    return n + z * (state - n), torch.cat([r, z, n, state, hn], 1)


def _fused_gru_cell_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> Any:
    r, z, n, state, hn = workspace.chunk(5, 1)
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_z = grad * (state - n) * z * (1 - z)
    grad_r = grad_n * hn * r * (1 - r)
    gates = torch.cat([grad_r, grad_z, grad_n], 1)
    hidden = torch.cat([grad_r, grad_z, grad_n * r], 1)
    biases = (gates.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return gates, hidden, grad * z, *biases


OWN_KERNELS = {
    "_copy_from": _copy_from,
    "_copy_from_and_resize": _copy_from,
    "_thnn_fused_gru_cell": _fused_gru_cell,
    "_thnn_fused_gru_cell_backward": _fused_gru_cell_backward,
    "_thnn_fused_lstm_cell": _fused_lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _fused_lstm_cell_backward,
    "convolution_backward_overrideable": _convolution_backward,
    "convolution_overrideable": partial(computed_on_host, aten.convolution.default),
    "record_stream": lambda tensor, stream: None,
    "resize_": _resize,
}
"""Operators that torch itself leaves to a device, or that write no memory."""

VIEWS = ("set_.source_Storage_storage_offset", "set_.source_Tensor", "set_.source_Storage", "set_")
"""Operators without a view in their schema that change what a tensor refers to, not its memory."""
