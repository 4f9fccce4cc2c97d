"""Deterministic cooperative scheduler of the cores of a run.

Every core has a thread, but only one runs at a time. By default the cores advance at equal pace,
one instruction each in turn. The order of instructions on private memory is not observable, so a
core runs until an instruction that accesses shared memory, and only then yields to cores that are
behind. A switch takes microseconds; most instructions need none.

With a seed the cores switch at random at such instructions instead. In both modes the order is the
same in every run. A deadlock is reported at once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from nkisim.diagnostics import Place, Rule, flag, user_place


class Stopped(BaseException):
    """Unwinds a core after another core has ended the run; never reaches the user."""


@dataclass
class _Waiting:
    """The condition that a core waits for, and its place in the code."""

    ready: Callable[[], bool]
    what: str
    rule: Rule
    place: Place


def _closed_lock() -> threading.Lock:
    """Return an acquired lock, to wait on; twice as fast as a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class _Task:
    """One core.

    Attributes:
        index: Position in the schedule.
        label: Name in messages.
        row: Number of the group of cores with which it shares memory.
        time: Logical time: number of instructions begun, advanced by waits.
        turn: Lock that is released to let this core run.
    """

    index: int
    label: str
    row: int
    body: Callable[[], Any]
    time: int = 0
    turn: threading.Lock = field(default_factory=_closed_lock)
    waiting: _Waiting | None = None
    finished: bool = False
    result: Any = None

    def precedes(self, other: _Task) -> bool:
        """Return whether this core's next instruction comes before the next one of ``other``."""
        return self.time < other.time or (self.time == other.time and self.index < other.index)


class Schedule:
    """Runs tasks as cooperating threads, deterministically.

    Args:
        seed: Seed of a random order; None for cores that advance at equal pace.
        sharers: Number of consecutive cores that share memory; None for all.
    """

    def __init__(self, seed: int | None = None, sharers: int | None = None) -> None:
        self._tasks: list[_Task] = []
        self._rows: list[list[_Task]] = []
        self._sharers = sharers
        self._random = None if seed is None else random.Random(seed)
        self._ended = _closed_lock()
        self._stopping = False
        self._first_error: BaseException | None = None

    def run(self, bodies: list[tuple[str, Callable[[], Any]]]) -> list[Any]:
        """Run the labelled bodies to their end and return their results; raise the first error."""
        width = self._sharers or len(bodies)
        self._tasks = [_Task(i, label, i // width, body) for i, (label, body) in enumerate(bodies)]
        self._rows = [self._tasks[i : i + width] for i in range(0, len(bodies), width)]
        threads = [
            threading.Thread(
                target=copy_context().run,
                args=(self._thread, task),
                name=f"nkisim {task.label}",
                daemon=True,
            )
            for task in self._tasks
        ]
        for thread in threads:
            thread.start()
        first = self._next()
        assert first is not None
        first.turn.release()
        try:
            self._ended.acquire()
        finally:
            # After an interrupt the cores stop at their next instruction.
            self._stopping = self._stopping or (self._first_error is None and not self._all_ended())
        for thread in threads:
            thread.join()
        results = [task.result for task in self._tasks]
        # Breaks the reference cycle with the cores, so that their memory is freed at once.
        self._tasks, self._rows = [], []
        if self._first_error is not None:
            raise self._first_error
        return results

    def wait(self, index: int, ready: Callable[[], bool], what: str, rule: Rule) -> None:
        """Let others run until ``ready`` returns True; a deadlock is reported under ``rule``."""
        task = self._tasks[index]
        self._wake(task)
        if ready():
            return
        task.waiting = _Waiting(ready, what, rule, user_place())
        try:
            self._pass_turn(task)
        finally:
            task.waiting = None  # also when Stopped is raised

    def tick(self, index: int, shared: bool = True) -> None:
        """Report that a core begins an instruction; it may be stopped or yield to another core.

        ``shared``: whether the instruction accesses memory shared with other cores.
        """
        if self._stopping:
            raise Stopped
        task = self._tasks[index]
        task.time += 1
        row = self._rows[task.row]
        if not shared or len(row) == 1:
            return
        if self._random is not None:
            if self._random.random() < 0.5:
                self._pass_turn(task)
            return
        following = task
        for other in row:
            if other.waiting is None and not other.finished and other.precedes(following):
                following = other
        if following is not task:
            self._hand_over(task, following)

    def notify(self, index: int) -> None:
        """Wake the cores whose condition now holds; they continue at the time of this core."""
        self._wake(self._tasks[index])

    def _all_ended(self) -> bool:
        return all(task.finished for task in self._tasks)

    def _thread(self, task: _Task) -> None:
        task.turn.acquire()
        try:
            if not self._stopping:
                task.result = task.body()
        except Stopped:
            pass
        except BaseException as error:
            if self._first_error is None:
                self._first_error = error
            self._stopping = True
        task.finished = True
        following = self._next(after=task)
        if following is None:
            self._ended.release()
        else:
            following.turn.release()

    def _pass_turn(self, task: _Task) -> None:
        following = self._next(after=task)
        assert following is not None
        if following is not task:
            self._hand_over(task, following)
        elif self._stopping:
            raise Stopped

    def _hand_over(self, task: _Task, following: _Task) -> None:
        """Let another core run, and block until this one is scheduled again."""
        following.turn.release()
        task.turn.acquire()
        if self._stopping:
            raise Stopped

    def _wake(self, by: _Task | None) -> None:
        """Wake the tasks whose condition holds, at the time of ``by``."""
        for task in self._tasks:
            if task.waiting is not None and task.waiting.ready():
                task.waiting = None
                if by is not None:
                    task.time = max(task.time, by.time)

    def _next(self, after: _Task | None = None) -> _Task | None:
        """Return the task that runs next; None when all have ended."""
        alive = [task for task in self._tasks if not task.finished]
        if not alive:
            return None
        if self._stopping:
            return next(task for task in alive if task is not after or len(alive) == 1)
        self._wake(after)
        movable = [task for task in alive if task.waiting is None]
        if not movable:
            self._stop_deadlocked(alive)
            return after if after in alive else alive[0]
        # Cores without shared memory may run in any order.
        row = 0 if after is None else after.row
        if self._random is not None:
            return self._random.choice([task for task in movable if task.row == row] or movable)
        rows = len(self._rows)
        return min(movable, key=lambda task: ((task.row - row) % rows, task.time, task.index))

    def _stop_deadlocked(self, stuck: list[_Task]) -> None:
        """Report a deadlock, with the place of every core, and end the run."""
        self._stopping = True
        waits = [task.waiting for task in stuck if task.waiting is not None]
        lines = [
            f"{task.label} waits for {task.waiting.what} at {task.waiting.place}"
            for task in stuck
            if task.waiting is not None
        ]
        lines += [f"{task.label} has ended" for task in self._tasks if task.finished]
        try:
            flag(
                waits[0].rule,
                f"{stuck[0].label} waits for {waits[0].what}, which cannot happen any more",
                operand=stuck[0].label,
                seen="; ".join(lines),
                fix="let every core reach the same synchronisation, in the same order",
                notes=tuple(lines),
                data={"who": stuck[0].label},
                place=waits[0].place,
            )
        except BaseException as error:
            if self._first_error is None:
                self._first_error = error
        else:
            if self._first_error is None:
                self._first_error = Stopped()
