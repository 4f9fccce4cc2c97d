"""The memories of a NeuronCore, by NKI's names."""

from __future__ import annotations

from enum import Enum


class MemoryRegion(Enum):
    """A memory that can hold a tensor."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    # Members are compared and hashed in every instruction's plan key; identity hashing is fastest.
    __hash__ = object.__hash__


def is_sbuf(buffer: MemoryRegion) -> bool:
    """Return whether ``buffer`` is the state buffer."""
    return buffer is MemoryRegion.sbuf


def is_psum(buffer: MemoryRegion) -> bool:
    """Return whether ``buffer`` is the partial-sum buffer."""
    return buffer is MemoryRegion.psum


def is_hbm(buffer: MemoryRegion) -> bool:
    """Return whether ``buffer`` is device memory, private or shared."""
    return buffer is MemoryRegion.private_hbm or buffer is MemoryRegion.shared_hbm


def is_on_chip(buffer: MemoryRegion) -> bool:
    """Return whether ``buffer`` is SBUF or PSUM."""
    return buffer is MemoryRegion.sbuf or buffer is MemoryRegion.psum
