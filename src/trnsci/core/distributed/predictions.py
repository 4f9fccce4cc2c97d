"""Steps of distributed calls with their bytes and operations, and their predicted times.

A step that communicates takes ``bytes / bandwidth + messages * latency``. ``bytes`` is the maximum
that one rank receives; ``messages`` counts messages in sequence, as in a ring. A step that computes
takes the time of its launches, plus the larger of two times: its operations at the rate of the
Tensor engine, and its bytes at the bandwidth of HBM. This is a lower bound for every kernel. A
communication that overlaps the next computation counts with its first message, and with the time
by which it is longer than the computation.

Of the figures of an UltraServer these are documented: chips, cores per chip, NeuronLink's rate per
chip, clocks, DMA rates. These are assumed: half of NeuronLink's rate is for receiving, the ranks of
a chip share it evenly and communicate at the same time, no bytes pass through other chips, ranks of
one chip are not closer than others, and a message takes 2 us (1 to 2 us are documented within one
node, and 15 us between nodes). A launch on the device takes 9.4 us, as measured on gen3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from trnsci.core.errors import FlagError
from trnsci.core.tiles.hardware import CORES, Generation


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


_LAUNCH = 9.4e-6
_MESSAGE = 2e-6
_CYCLES = {"float32": 4, "bfloat16": 1}
"""Cycles of the Tensor engine for one row of products, by dtype."""


@dataclass(frozen=True)
class Link:
    """The connection of one rank with the others.

    Attributes:
        bandwidth: Bytes that a rank receives in a second.
        latency: Seconds of one message.

    Raises:
        FlagError: The bandwidth is not positive, or the latency is negative.
    """

    bandwidth: float
    latency: float

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.bandwidth > 0 or not (self.latency >= 0 and isfinite(self.latency)):
            raise FlagError(
                f"Link: bandwidth must be positive and latency not negative, got {self.bandwidth} "
                f"and {self.latency}"
            )

    def seconds(self, received: int, messages: int) -> float:
        """Return the time of a step."""
        return received / self.bandwidth + messages * self.latency


@dataclass(frozen=True)
class UltraServer:
    """Chips that NeuronLink connects.

    Attributes:
        name: Name in messages.
        generation: Generation of the cores.
        chips: Number of chips.
        neuronlink: Bytes per second of one chip, of both directions together.
    """

    name: str
    generation: Generation
    chips: int
    neuronlink: float

    def ranks(self, lnc: int) -> int:
        """Return the number of ranks: cores, or pairs of them if ``lnc`` is 2."""
        return self.chips * 8 // lnc

    def link(self, lnc: int) -> Link:
        """Return the link of one rank."""
        return Link(self.neuronlink / 2 * lnc / 8, _MESSAGE)


ULTRASERVERS = {
    "trn2": UltraServer("Trn2 UltraServer", "gen3", 64, 1.28e12),
    "trn3": UltraServer("Trn3 UltraServer", "gen4", 144, 2.56e12),
}
"""UltraServers by platform; that of trn3 is the one of the second generation."""


@dataclass(frozen=True)
class Timed:
    """A step with its predicted time.

    Attributes:
        step: The step.
        seconds: Its time.
        hidden: Seconds of it that pass while the next computation runs.
    """

    step: Step
    seconds: float
    hidden: float = 0.0


@dataclass(frozen=True)
class Prediction:
    """Predicted time of a distributed call.

    Attributes:
        title: The call, as text.
        setting: The ranks and the link, as text.
        parts: The steps with their times.
    """

    title: str
    setting: str
    parts: tuple[Timed, ...]

    @property
    def seconds(self) -> float:
        """Time of the call."""
        return sum(part.seconds - part.hidden for part in self.parts)

    @property
    def computing(self) -> float:
        """Time of the computations."""
        return sum(part.seconds for part in self.parts if part.step.kind == "compute")

    def __str__(self) -> str:
        lines = [self.title, self.setting, f"{'step':<48}{'us':>12}{'hidden us':>12}"]
        for part in self.parts:
            name = f"{part.step.kind} {part.step.what}"
            lines.append(f"{name:<48}{part.seconds * 1e6:>12,.1f}{part.hidden * 1e6:>12,.1f}")
        lines.append(f"{'in all':<48}{self.seconds * 1e6:>12,.1f}")
        return "\n".join(lines)


def predicted(
    title: str,
    steps: Sequence[Step],
    ranks: int,
    link: Link | None = None,
    *,
    server: Literal["trn2", "trn3"] = "trn2",
    lnc: Literal[1, 2] = 2,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> Prediction:
    """Return the predicted time of each step of a call.

    Args:
        title: The call, as text.
        steps: Its steps.
        ranks: Number of ranks.
        link: The link of one rank; None for that within one UltraServer.
        server: Platform of the ranks.
        lnc: Cores of one rank: 1, or 2 that are one logical core.
        dtype: Dtype of products on the Tensor engine.

    Raises:
        FlagError: An option is invalid, or there are more ranks than an UltraServer has and no
            link.
    """
    if server not in ULTRASERVERS:
        raise FlagError(f"predicted: server must be trn2 or trn3, got {server!r}")
    if lnc not in (1, 2):
        raise FlagError(f"predicted: lnc must be 1 or 2, got {lnc!r}")
    if dtype not in _CYCLES:
        raise FlagError(f"predicted: dtype must be float32 or bfloat16, got {dtype!r}")
    there = ULTRASERVERS[server]
    rank = "one core" if lnc == 1 else "two cores"
    if link is None:
        if ranks > there.ranks(lnc):
            raise FlagError(
                f"predicted: link must be given for more ranks than the {there.ranks(lnc)} of a "
                f"{there.name}, a rank being {rank}, got {ranks} ranks"
            )
        link, where = there.link(lnc), f"within one {there.name}, assumed link"
    else:
        where = f"{server}, given link"
    core = CORES[there.generation]
    rate = lnc * 2 * 128 * 128 * core.tensor_ghz * 1e9 / _CYCLES[dtype]
    hbm = lnc * core.dma_bytes_per_ns * 1e9
    setting = (
        f"{where}: a rank is {rank}, receives {link.bandwidth / 1e9:,.0f} GB/s, "
        f"{link.latency * 1e6:g} us per message"
    )
    return Prediction(title, setting, tuple(_parts(steps, link, rate, hbm)))


def _parts(steps: Sequence[Step], link: Link, rate: float, hbm: float) -> Iterator[Timed]:
    waiting: list[Timed] = []  # those that overlap the next computation
    for step in steps:
        timed = Timed(step, _seconds(step, link, rate, hbm))
        if step.overlapped:
            waiting.append(timed)
            continue
        yield from _hidden(waiting, timed.seconds if step.kind == "compute" else 0.0)
        waiting.clear()
        yield timed
    yield from _hidden(waiting, 0.0)


def _hidden(waiting: Sequence[Timed], computing: float) -> Iterator[Timed]:
    """Yield steps that follow each other while a computation runs; each hides its share of it."""
    whole = sum(part.seconds for part in waiting)
    for part in waiting:
        later = part.seconds * (1 - 1 / max(part.step.messages, 1))  # without the first message
        share = computing * part.seconds / whole if whole else 0.0
        yield Timed(part.step, part.seconds, min(later, share))


def _seconds(step: Step, link: Link, rate: float, hbm: float) -> float:
    if step.kind != "compute":
        return link.seconds(max(step.received), step.messages)
    flops, moved = max(step.flops, default=0), max(step.hbm_bytes, default=0)
    return step.launches * _LAUNCH + max(flops / rate, moved / hbm)
