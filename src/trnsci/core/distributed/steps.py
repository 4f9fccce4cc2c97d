"""Steps of distributed calls: collectives and computations, with their bytes and operations."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Step", "all_reduced", "messages_between"]


@dataclass(frozen=True)
class Step:
    """One part of a distributed call: a collective, or a computation.

    Attributes:
        kind: ``"broadcast"``, ``"all_gather"``, ``"reduce_scatter"``, ``"all_reduce"``,
            ``"all_to_all"``, ``"reduce"``, or ``"compute"``.
        what: The operand or the computation.
        received: Bytes that each rank receives.
        messages: Messages that a rank waits for, one after another.
        flops: Floating-point operations of each rank.
        hbm_bytes: Bytes that each rank's computation reads and writes at least: its operands and
            its result, once.
        overlapped: Whether it runs while the next computation does.
        launches: Kernels that each rank's computation launches, one after another.
    """

    kind: str
    what: str
    received: tuple[int, ...]
    messages: int = 0
    flops: tuple[int, ...] = ()
    hbm_bytes: tuple[int, ...] = ()
    overlapped: bool = False
    launches: int = 1


def all_reduced(count: int, ranks: int) -> int:
    """Return the bytes that each rank receives in an all-reduce of ``count`` bytes."""
    return -(-2 * count * (ranks - 1) // ranks)


def messages_between(senders: int, receivers: int) -> int:
    """Return the messages of the rank that receives most, if the first ranks send to the first."""
    return senders if receivers > senders else max(0, senders - 1)
