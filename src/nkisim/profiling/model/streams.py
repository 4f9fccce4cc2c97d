"""Operands as streams of elements: how many, how far apart in a partition, and how wide."""

from __future__ import annotations

from nkisim.machine import Event
from nkisim.memory import NkiTensor
from nkisim.memory.region import is_on_chip
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.cost import Cost

WIDE_STRIDE = 16
"""Bytes from one element to the next above which a port runs at half its rate.

The Tensor engine and Scalar are at half their rate from there on, by published timings.
"""


def elements(event: Event, cost: Cost | None) -> float:
    """Return the elements per partition that a formula counts."""
    value = event.arguments.get(cost.over) if cost is not None and cost.over else None
    if isinstance(value, NkiTensor):
        return float(value.free_size)
    tensors = [t for _, t in (*event.reads, *event.writes) if is_on_chip(t.buffer)]
    return float(max((t.free_size for t in tensors), default=1))


def streamed(event: Event) -> list[NkiTensor]:
    """Return the tiles that an instruction streams; columns are constants of a partition."""
    declared = INSTRUCTIONS[event.instruction].operands
    return [
        tensor
        for name, tensor in (*event.reads, *event.writes)
        if name in declared and not (declared[name].column and tensor.free_size == 1)
    ]


def inner_stride(tensor: NkiTensor) -> int:
    """Return the bytes from one element in a partition to the next."""
    free = zip(tensor.shape[1:], tensor.form.strides[1:], strict=True)
    inner = [abs(stride) for extent, stride in free if extent > 1]
    return inner[-1] if inner else tensor.itemsize


def stride_factor(tensors: list[NkiTensor]) -> float:
    """Return 2 if an operand's elements in a partition lie more than 16 bytes apart."""
    return 2.0 if any(inner_stride(tensor) > WIDE_STRIDE for tensor in tensors) else 1.0


def scalar_stride_factor(tensor: NkiTensor) -> float:
    """Return the cycles per element of Scalar, by the bytes from one element to the next.

    Published timings of copies: full rate up to 8 bytes, half from 16 on, and 11 % more for each 4
    bytes between 64 and 96.
    """
    stride = inner_stride(tensor)
    if stride <= 16:
        return 1.0 + max(0.0, stride - 8) / 8
    return 2.0 * (1 + 0.11 * max(0, min(stride, 96) - 64) / 4)


def contiguous(tensors: list[NkiTensor]) -> bool:
    """Return whether the elements of every operand in a partition are next to each other."""
    return all(inner_stride(tensor) == tensor.itemsize for tensor in tensors)


def narrow(tensors: list[NkiTensor]) -> bool:
    """Return whether every operand is a float of at most two bytes."""
    return all(t.dtype.kind == "float" and t.dtype.itemsize <= 2 for t in tensors)


def all_bf16(tensors: list[NkiTensor]) -> bool:
    """Return whether every operand is bfloat16."""
    return all(t.dtype == "bfloat16" for t in tensors)
