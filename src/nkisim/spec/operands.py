"""Operands: the tensor arguments, their memories, and their form in an instruction's body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from nkisim.diagnostics import Rule
from nkisim.memory import MemoryRegion

SBUF = (MemoryRegion.sbuf,)
PSUM = (MemoryRegion.psum,)
ON_CHIP = SBUF + PSUM
HBM = (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)

Role = Literal["in", "out", "sum", "named"]


class Operand(NamedTuple):
    """Requirements of an instruction for one tensor argument.

    Attributes:
        role: Read, written, accumulated into according to ``accumulate``, or only named.
        buffers: Memories it may be in.
        optional: True when None is accepted.
        scalar: True when a number is accepted in place of a tile.
        column: True when a tile must have one element per partition.
        flat: True when the body takes the tensor's own shape instead of (partitions, elements).
        any_start: True when it may start at any partition, because the instruction has its own rule
            for that.
        many: True when the argument is a list of tensors.
        gathers: True when its rows may be selected by an index tile.
        as_view: True when the body takes the view in addition to its elements.
        masked: True when the set of written elements depends on values.
        chosen: True when values determine which elements of the operand the results contain; the
            body reports those elements.
        decides: True when its elements are addresses, leave the core or stay in an engine, so that
            garbage among them is an error immediately.
        part: Returns the elements that a call accesses, as a mask of the tensor's shape; None when
            it accesses all.
        buffer_rule: Rule that is broken when the operand is in a memory that ``buffers`` does not
            have; None is the rule for all operands.
    """

    role: Role
    buffers: tuple[MemoryRegion, ...]
    optional: bool = False
    scalar: bool = False
    column: bool = False
    flat: bool = False
    any_start: bool = False
    many: bool = False
    gathers: bool = False
    as_view: bool = False
    masked: bool = False
    chosen: bool = False
    decides: bool = False
    part: Callable[[Any], np.ndarray | None] | None = None
    buffer_rule: Rule | None = None

    @property
    def reads(self) -> bool:
        """True when the instruction reads the operand."""
        return self.role == "in"

    @property
    def writes(self) -> bool:
        """True when the instruction writes the operand."""
        return self.role == "out" or self.role == "sum"


def In(*buffers: tuple[MemoryRegion, ...], **options: Any) -> Operand:
    """Describe an operand that is read."""
    return Operand("in", _join(buffers), **options)


def Out(*buffers: tuple[MemoryRegion, ...], **options: Any) -> Operand:
    """Describe an operand that is written."""
    return Operand("out", _join(buffers), **options)


def Sum(*buffers: tuple[MemoryRegion, ...], **options: Any) -> Operand:
    """Describe a destination in PSUM to which matmuls may add."""
    return Operand("sum", _join(buffers), **options)


def Named(*buffers: tuple[MemoryRegion, ...], **options: Any) -> Operand:
    """Describe an operand that is neither read nor written."""
    return Operand("named", _join(buffers), **options)


def Column(*buffers: tuple[MemoryRegion, ...], **options: Any) -> Operand:
    """Describe an operand with one value per partition, or a number for all of them."""
    return Operand("in", _join(buffers), column=True, scalar=True, **options)


def _join(buffers: tuple[tuple[MemoryRegion, ...], ...]) -> tuple[MemoryRegion, ...]:
    return tuple(region for group in buffers for region in group)
