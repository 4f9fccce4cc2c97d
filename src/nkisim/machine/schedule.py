"""Several cores in one process: one runs at a time, and who runs next is decided here.

Every core has a thread, but only the one that holds the turn moves. By default a core keeps the
turn until it waits for another or ends, and the next in order follows; with a seed the turn changes
hands at random between instructions. Either way the order is the same in every run. When nobody can
move, that is reported at once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from nkisim.diagnostics import Place, Rule, flag, user_place

__all__ = ["Schedule", "Stopped"]


class Stopped(BaseException):
    """Unwinds a core whose run ended because of another; never reaches the user."""


@dataclass
class _Waiting:
    """What a core waits for, and where."""

    ready: Callable[[], bool]
    what: str
    rule: Rule
    place: Place


@dataclass
class _Task:
    label: str
    body: Callable[[], Any]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    waiting: _Waiting | None = None
    finished: bool = False
    result: Any = None
    error: BaseException | None = None

    def can_move(self) -> bool:
        return not self.finished and (self.waiting is None or self.waiting.ready())


class Schedule:
    """Runs tasks as cooperating threads, deterministically."""

    def __init__(self, seed: int | None = None) -> None:
        self._tasks: list[_Task] = []
        self._random = None if seed is None else random.Random(seed)
        self._ended = threading.Semaphore(0)
        self._stopping = False
        self._first_error: BaseException | None = None

    def run(self, bodies: list[tuple[str, Callable[[], Any]]]) -> list[Any]:
        """Run the labelled bodies to their end and return their results; the first error wins."""
        self._tasks = [_Task(label, body) for label, body in bodies]
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
            # Interrupted from outside, the cores stop at their next instruction.
            self._stopping = self._stopping or (self._first_error is None and not self._all_ended())
        for thread in threads:
            thread.join()
        if self._first_error is not None:
            raise self._first_error
        return [task.result for task in self._tasks]

    def wait(self, index: int, ready: Callable[[], bool], what: str, rule: Rule) -> None:
        """Let others run until ``ready`` answers True; ``rule`` is broken if it never can."""
        if ready():
            return
        task = self._tasks[index]
        task.waiting = _Waiting(ready, what, rule, user_place())
        self._pass_turn(task)
        task.waiting = None

    def tick(self, index: int) -> None:
        """Note that a core begins an instruction: it may have to stop, or to let another run."""
        if self._stopping:
            raise Stopped
        if self._random is not None and self._random.random() < 0.5:
            self._pass_turn(self._tasks[index])

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
        following = self._next()
        if following is None:
            self._ended.release()
        else:
            following.turn.release()

    def _pass_turn(self, task: _Task) -> None:
        following = self._next(after=task)
        if following is not task:
            assert following is not None
            following.turn.release()
            task.turn.acquire()
        if self._stopping:
            raise Stopped

    def _next(self, after: _Task | None = None) -> _Task | None:
        """Return who runs next; None when all have ended."""
        alive = [task for task in self._tasks if not task.finished]
        if not alive:
            return None
        if self._stopping:
            return next(task for task in alive if task is not after or len(alive) == 1)
        movable = [task for task in alive if task.can_move()]
        if not movable:
            self._stop_deadlocked(alive)
            return after if after is not None else alive[0]
        if self._random is not None:
            return self._random.choice(movable)
        if after is not None:
            position = self._tasks.index(after)
            movable.sort(key=lambda task: self._tasks.index(task) <= position)
        return movable[0]

    def _stop_deadlocked(self, stuck: list[_Task]) -> None:
        """Report that nobody can move, with everybody's place, and end the run."""
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
                place=waits[0].place,
            )
        except BaseException as error:
            if self._first_error is None:
                self._first_error = error
        else:
            if self._first_error is None:
                self._first_error = Stopped()
