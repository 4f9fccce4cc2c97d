"""Plans of distributed calls: bytes, messages, memory and a lower bound, without a process group.

Received bytes are counted by one convention. A broadcast counts once at each receiver, and not at
its root. An all-gather counts the parts of the others, a reduce-scatter the own part once for each
other rank, an all-to-all the parts from others. An all-reduce of n bytes over p ranks counts
2 n (p - 1) / p, rounded up. A reduction counts its bytes at the root, once for each other rank.

Messages are those of the rank with most of them. A broadcast or a reduction is one message, an
all-reduce 2 (p - 1); an all-gather and an all-to-all have one from each other rank that sends
something, a reduce-scatter one for each rank with a part, at most p - 1. ``recording.Recorder``
counts by this convention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from trnsci.core.distributed.agreement import SIGNATURE_BYTES
from trnsci.core.distributed.predictions import Link, Prediction, Step, all_reduced, predicted

__all__ = ["AGREEMENT", "Communication", "LowerBound", "Step", "agreement_step", "all_reduced"]


@dataclass(frozen=True)
class LowerBound:
    """Bytes that some rank must communicate, whatever the algorithm.

    Attributes:
        bytes: The bound.
        name: Where it is proven, and for which class of algorithms.
    """

    bytes: int
    name: str


@dataclass(frozen=True)
class Communication:
    """The communication of one call.

    Attributes:
        function: Name of the function.
        problem: Shapes, dtype and chosen algorithm, as text.
        mesh: Number of ranks along each mesh dimension. Ranks are numbered by rows.
        steps: Parts of the call, in order.
        held: ``held(rank)`` returns the peak bytes of live tensors of a rank: operands, result and
            buffers. The peak is that of a recording on meta tensors, or an upper bound where
            memory depends on values.
        lower_bound: A lower bound of the bytes; None where none is known.
        backward: Parts of the gradient of all operands, in order.
    """

    function: str
    problem: str
    mesh: tuple[int, ...]
    steps: tuple[Step, ...]
    held: Callable[[int], int] = field(compare=False, repr=False)
    lower_bound: LowerBound | None = None
    backward: tuple[Step, ...] = ()

    @cached_property
    def peak_bytes(self) -> tuple[int, ...]:
        """Peak bytes of live tensors of each rank; computed in milliseconds per rank."""
        return tuple(map(self.held, range(self.ranks)))

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return prod(self.mesh)

    def received(self, rank: int, *, backward: bool = False) -> int:
        """Return the bytes that a rank receives in the call, or in its gradient."""
        return sum(step.received[rank] for step in (self.backward if backward else self.steps))

    @property
    def most_received(self) -> int:
        """Bytes that the rank with most of them receives, without the agreement on arguments."""
        return max(
            sum(step.received[rank] for step in self.steps if step.what != AGREEMENT)
            for rank in range(self.ranks)
        )

    @property
    def total(self) -> int:
        """Bytes that all ranks together receive in the call."""
        return sum(map(self.received, range(self.ranks)))

    @property
    def ratio(self) -> float | None:
        """Ratio of ``most_received`` to the lower bound; None without a bound above 0."""
        if self.lower_bound is None or self.lower_bound.bytes <= 0:
            return None
        return self.most_received / self.lower_bound.bytes

    def predicted(self, link: Link | None = None, **options: Any) -> Prediction:
        """Return the predicted time of each step; options are those of ``predictions.predicted``.

        Raises:
            FlagError: An option is invalid, or there are more ranks than an UltraServer has and no
                link.
        """
        return predicted(self._title, self.steps, self.ranks, link, **options)

    @property
    def _title(self) -> str:
        mesh = " x ".join(map(str, self.mesh))
        return f"{self.function} on {mesh} ranks: {self.problem}"

    def __str__(self) -> str:
        lines = [self._title]
        lines.append(f"{'step':<16}{'what':<30}{'bytes received at most':>24}{'messages':>10}")
        lines += [_row(step) for step in self.steps]
        most = max(map(self.received, range(self.ranks)))
        lines.append(f"{'in all':<46}{most:>24,}{sum(s.messages for s in self.steps):>10}")
        if self.lower_bound is not None:
            ratio = "" if self.ratio is None else f", ratio {self.ratio:.2f}"
            lines.append(
                f"lower bound {self.lower_bound.bytes:,} bytes ({self.lower_bound.name}){ratio}"
            )
        if self.backward:
            most = max(self.received(rank, backward=True) for rank in range(self.ranks))
            lines.append(f"backward {most:,} bytes received at most in {len(self.backward)} steps")
        return "\n".join(lines)


AGREEMENT = "arguments of the call"
"""What the step exchanges in which ranks compare their arguments."""


def agreement_step(mesh: tuple[int, ...]) -> Step:
    """Return the exchange of signatures at the start of a call, by a mesh of all ranks."""
    ranks = prod(mesh)
    return Step("all_gather", AGREEMENT, (SIGNATURE_BYTES * (ranks - 1),) * ranks, ranks - 1)


def _row(step: Step) -> str:
    return f"{step.kind:<16}{step.what:<30}{max(step.received):>24,}{step.messages:>10}"
