"""The cores and ranks of one run, and their shared state: HBM, mailboxes, the schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nkisim.diagnostics import Rule, declare, flag, user_line
from nkisim.machine.schedule import Schedule

DIVERGING = declare(
    "C006",
    "diverging-cores",
    "The two cores come to a synchronisation at different lines, in branches on program_id.",
    "the instruction streams of the cores do not correspond, which the back end refuses",
)


class Cluster:
    """Shared state of the cores of a run.

    Attributes:
        schedule: The scheduler of the cores.
        ranks: Number of ranks.
        cores: Number of cores per rank.
        counters: Number of synchronisations of each member, by kind.
        mail: Messages between members.
        lines: File and line of each synchronisation of a rank, as the first core reached it.
    """

    def __init__(self, ranks: int, cores: int, seed: int | None) -> None:
        self.schedule = Schedule(seed, sharers=cores)
        self.ranks = ranks
        self.cores = cores
        self.counters: dict[Any, int] = {}
        self.mail: dict[Any, Any] = {}
        self.lines: dict[Any, tuple[str, int]] = {}


class Member:
    """One core of a cluster.

    Attributes:
        rank: Rank that the core belongs to.
        core: Number of the core in its rank.
        index: Position in the schedule.
        synchronised: Number of synchronisations with the other core of its rank.
        tick: Function that tells the schedule that the core begins an instruction. Its argument is
            whether the instruction accesses shared memory.
    """

    def __init__(self, cluster: Cluster, rank: int, core: int) -> None:
        self.cluster = cluster
        self.rank = rank
        self.core = core
        self.index = rank * cluster.cores + core
        self.synchronised = 0
        self._guards: list[Any] = []
        self.tick = partial(cluster.schedule.tick, self.index)

    @property
    def label(self) -> str:
        """The core's name in messages."""
        if self.cluster.ranks == 1:
            return f"core {self.core}"
        if self.cluster.cores == 1:
            return f"rank {self.rank}"
        return f"rank {self.rank} core {self.core}"

    def wait(self, ready: Callable[[], bool], what: str, rule: Rule) -> None:
        """Wait until ``ready`` returns True; a deadlock is reported under ``rule``."""
        self.cluster.schedule.wait(self.index, ready, what, rule)

    def count(self, kind: Any) -> int:
        """Increment this core's counter of ``kind`` and return it."""
        key = (self.rank, self.core, kind)
        self.cluster.counters[key] = self.cluster.counters.get(key, 0) + 1
        return self.cluster.counters[key]

    def record_sync(self, instruction: str, number: int) -> None:
        """Record that both cores of the rank synchronise; flag calls at different lines."""
        here, key = user_line(), (self.rank, instruction, number)
        there = self.cluster.lines.setdefault(key, here)
        if there != here:
            flag(
                DIVERGING,
                f"{self.label} comes to {instruction} number {number} at another line than the "
                "other core",
                instruction=instruction,
                seen=f"{here[0]}:{here[1]} here, {there[0]}:{there[1]} on the other core",
                allowed="one line for both cores",
                fix=f"call {instruction} outside of the branch, and vary offsets only",
                notes=(f"the other core comes to it at {there[0]}:{there[1]}",),
                data={"who": self.label},
            )

    def synchronise(self, guarded: Any = None) -> None:
        """Record a synchronisation that orders the storage ``guarded``; None is all memory."""
        self.synchronised += 1
        self._guards.append(guarded)

    def guards(self, numbers: range) -> list[Any]:
        """Return the storages that the synchronisations with these numbers ordered."""
        return self._guards[numbers.start : numbers.stop]

    def notify(self) -> None:
        """Wake the cores that wait for a counter or a message of this core."""
        self.cluster.schedule.notify(self.index)

    def counted(self, rank: int, core: int, kind: Any) -> int:
        """Return another core's counter of ``kind``."""
        return self.cluster.counters.get((rank, core, kind), 0)
