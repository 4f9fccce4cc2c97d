"""Unused work: results never read or overwritten before they are, tensors never returned.

A tile is unused when no element of it is read after its last write, and no other write of the same
line was ever read: the last iteration of a loop often prefetches for a next one that does not come.
The opposite, a loop that adds to a new tile in each iteration of which only the last is read, is
reported too: the sum starts anew in each iteration. Writes inside a loop with a single iteration
are not reported. The check can miss unused work.

Values are compared, so writing the same bytes twice is not a finding; neither is filling a tensor
first, with zeros or with copies of one number, or copying it first and then writing parts of it.
Products that add to a tile are judged by ``memory.psum``. Masked and indexed writes keep the
elements they do not select, so they do not count as overwriting. A write is lost only if none of it
was read, and on chip only if all of it is overwritten. Writes of two cores are compared in
``machine.sharing``.

If any result of a line is read, others of the line may be lost: a loop often prefetches too much.
But a line in a loop that loses every result in a tile except the last one is reported: an index is
missing, or an accumulation starts anew in each iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nkisim.checks.history import History, Site, bits_of
from nkisim.diagnostics import Rule, declare, flag, loops_around
from nkisim.machine import Effect, Step
from nkisim.memory import Lifetime, MemoryRegion, NkiTensor, is_hbm

UNREAD_LOAD = declare(
    "W003",
    "unread-load",
    "A tile is loaded from HBM and never read.",
    "the transfer is wasted, and often a later instruction uses the wrong tile",
    severity="warning",
    detector="lostwork",
)
UNREAD_RESULT = declare(
    "W004",
    "unread-result",
    "A tile is computed and never read, stored or returned, or only in the last iteration.",
    "the work is wasted, and often a later instruction uses the wrong operand",
    severity="warning",
    detector="lostwork",
)
LOST_OUTPUT = declare(
    "W006",
    "lost-output",
    "A tensor in shared HBM is written and neither read nor returned.",
    "the caller does not get the result",
    severity="warning",
    detector="lostwork",
)


@dataclass(slots=True)
class _Write:
    """The last write of one or several tiles by one instruction; ``used`` once one is read."""

    site: Site
    loads: bool
    used: bool = False


@dataclass(slots=True)
class _Tiles:
    """The tiles that one line has written.

    Attributes:
        last: The last of them.
        count: Number of changes from one tile to another, plus 1.
        reads: Number of writes that were read.
        last_read: The last tile that was read.
        adds: Whether the line reads the tile that it writes, as a sum does.
    """

    last: _Pending
    count: int = 1
    reads: int = 0
    last_read: Lifetime | None = None
    adds: bool = False


class _Pending(NamedTuple):
    """A tile that nothing has read since its last write."""

    life: Lifetime
    write: _Write
    operand: str


class LostWork:
    """Records which tiles are read after they were written."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._pending: dict[Lifetime, _Pending] = {}
        self._useful: set[tuple[str, int, str]] = set()
        self._turns: dict[tuple[str, int, str], dict[tuple[str, int], int | None]] = {}
        self._tiles: dict[tuple[str, int, str], _Tiles] = {}

    def is_useful(self, site: Site) -> bool:
        """Return whether any write of the same line was ever read."""
        return site.key in self._useful

    def read(self, effect: Effect) -> None:
        """Note a read."""
        self._use(effect.tensor.life)

    def used(self, site: Site) -> None:
        """Note that the result of a write was read, through any tensor."""
        for owner in site.owners:
            self._use(owner)

    def _use(self, life: Lifetime) -> None:
        found = self._pending.pop(life, None)
        if found is not None:
            found.write.used = True
            key = found.write.site.key
            self._useful.add(key)
            tiles = self._tiles[key]
            tiles.reads += 1
            tiles.last_read = life

    def written(self, step: Step, number: int) -> None:
        """Note the writes of an instruction."""
        site = self._history.site(number)
        if not site.works:
            for effect in step.writes:
                self._pending.pop(effect.tensor.life, None)
            return
        if site.key not in self._useful:
            self._note_turns(site)
        loads = any(is_hbm(effect.tensor.buffer) for effect in step.reads)
        write = _Write(site, loads)
        for effect in step.writes:
            life = effect.tensor.life
            pending = self._pending[life] = _Pending(life, write, effect.operand)
            tiles = self._tiles.get(site.key)
            if tiles is None:
                adds = any(read.tensor.life is life for read in step.reads)
                self._tiles[site.key] = _Tiles(pending, adds=adds)
                continue
            tiles.count += tiles.last.life is not life
            tiles.last = pending

    def _note_turns(self, site: Site) -> None:
        """Set the entries of loops that have reached a second iteration to None."""
        around = {(file, line): value for file, line, _, value in loops_around()}
        seen = self._turns.setdefault(site.key, {})
        for loop, value in around.items():
            if seen.setdefault(loop, value) != value:
                seen[loop] = None

    def in_a_loop(self, site: Site) -> bool:
        """Return whether a line was in a loop with several iterations before it was first read."""
        return None in self._turns.get(site.key, {}).values()

    def finish(self, returned: Collection[NkiTensor], arguments: Collection[NkiTensor]) -> None:
        """Flag results never read in a completed run."""
        for tensor in (*returned, *arguments):
            self._use(tensor.life)
        reported: set[tuple[str, int, str]] = set()
        for life, write, operand in self._pending.values():
            key = write.site.key
            if write.used or key in self._useful or key in reported:
                continue
            if any(value is not None for value in self._turns.get(write.site.key, {}).values()):
                continue
            if life.region is MemoryRegion.shared_hbm and not returned:
                continue  # L060 says it
            reported.add(key)
            _report(life, write, operand)
        for tiles in self._tiles.values():
            if (
                tiles.adds
                and tiles.count > 1
                and tiles.reads == 1
                and tiles.last_read is tiles.last.life
            ):
                self._report_last(tiles)

    def _report_last(self, tiles: _Tiles) -> None:
        """Flag a line of a loop of whose tiles only the last is read."""
        life, write, operand = tiles.last
        site = write.site
        if not self.in_a_loop(site) or len(site.owners) > 1 or is_hbm(life.region):
            return
        flag(
            UNREAD_RESULT,
            f"{site.instruction} writes {tiles.count} tiles in a loop, of which only the last is "
            "read",
            instruction=site.instruction,
            operand=operand,
            seen=f"{life.dtype} {life.shape} in {life.region.value}, allocated in the loop",
            fix="allocate and fill the tile before the loop",
            notes=(f"{operand}   made at {life.line[0]}:{life.line[1]}, last written by {site}",),
            place=site.place,
        )


def _report(life: Lifetime, write: _Write, operand: str) -> None:
    site = write.site
    called = life.called(f"the {life.dtype} {life.shape} tensor")
    rule: Rule
    if life.region is MemoryRegion.shared_hbm:
        rule, fix = LOST_OUTPUT, "return it, or use nl.private_hbm for internal data"
        message = f"{called} in shared HBM is written and neither read nor returned"
    elif write.loads and life.region is MemoryRegion.sbuf:
        rule, fix = UNREAD_LOAD, "use the tile, or remove the load"
        message = f"{site.instruction} loads {called}, which is never read"
    else:
        rule, fix = UNREAD_RESULT, "store the result or use it, or remove the instruction"
        message = f"{site.instruction} writes {called} in {life.region.value}, which nothing reads"
    flag(
        rule,
        message,
        instruction=site.instruction,
        operand=operand,
        seen=f"{life.dtype} {life.shape} in {life.region.value}, last written here",
        fix=fix,
        notes=(f"{operand}   made at {life.line[0]}:{life.line[1]}, last written by {site}",),
        place=site.place,
    )


OVERWRITTEN_OUTPUT = declare(
    "M007",
    "overwritten-output",
    "An element of an output is written twice with different values and not read in between.",
    "the final value depends on the order; overlapping tiles are a common cause",
    severity="warning",
    on_values=True,
    detector="lostwork",
)
OVERWRITTEN_STORE = declare(
    "W002",
    "overwritten-store",
    "A result or a load is overwritten before anything reads it.",
    "the first write is wasted, or the second has the wrong destination",
    severity="warning",
    on_values=True,
    detector="lostwork",
)


class _Threatened(NamedTuple):
    """An operand that is about to be written over unread results."""

    effect: Effect
    numbers: list[int]
    before: np.ndarray


@dataclass(slots=True)
class _Loss:
    """A write that was overwritten by another."""

    first: Site
    second: Site
    life: Lifetime
    elements: int
    element: tuple[int, ...]
    values: tuple[object, object]


class Overwritten:
    """Compares written elements with the unread elements they replace."""

    def __init__(self, history: History, lost: LostWork) -> None:
        self._history = history
        self._lost = lost
        self._threatened: list[_Threatened] = []
        self._losses: dict[tuple[object, ...], _Loss] = {}
        self._writes: Counter[tuple[object, Lifetime]] = Counter()
        self._lost_writes: dict[tuple[object, Lifetime], set[int]] = {}

    def before(self, step: Step) -> None:
        """Copy the unread elements that an instruction may overwrite."""
        self._threatened.clear()
        if not step.core.values:
            return
        for effect in step.writes:
            if not effect.plain or step.sums:
                continue
            numbers = [
                number
                for number in self._history.touched(effect).unread()
                if self._history.site(number).works and len(self._history.site(number).owners) == 1
            ]
            if numbers:
                self._threatened.append(_Threatened(effect, numbers, bits_of(effect.tensor)))

    def after(self, number: int) -> None:
        """Find the overwritten elements; the stamps are still those from before."""
        site = self._history.site(number)
        if site.works and len(site.owners) == 1:
            self._writes[site.key, site.owners[0]] += 1
        for effect, numbers, before in self._threatened:
            changed = before != bits_of(effect.tensor)
            if not changed.any():
                continue
            shadow = effect.tensor._storage.shadow
            stamps = shadow.of_elements(*effect.tensor.region)
            for first in numbers:
                sites = self._history.site(first), self._history.site(number)
                if effect.tensor.size < sites[0].size or sites[0].core != sites[1].core:
                    continue
                if not _is_lost(effect.tensor, stamps, shadow.marks, first):
                    continue
                where = (stamps == first).all(axis=-1)
                old = before[where].view(effect.tensor._elements.dtype)  # -0.0 is 0.0
                lost = where & changed
                if lost.any() and not _is_fill(old, sites[0]):
                    self._keep(effect.tensor, first, number, lost, before)
        self._threatened.clear()

    def _keep(
        self, tensor: NkiTensor, first: int, second: int, lost: np.ndarray, before: np.ndarray
    ) -> None:
        sites = self._history.site(first), self._history.site(second)
        life = tensor.life
        self._lost_writes.setdefault((sites[0].key, life), set()).add(first)
        found = self._losses.get((sites[0].key, sites[1].key))
        if found is not None:
            found.elements += int(lost.sum())
            return
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(lost)), lost.shape))
        values = before.view(tensor._elements.dtype)[at], tensor._elements[at]
        self._losses[sites[0].key, sites[1].key] = _Loss(*sites, life, int(lost.sum()), at, values)

    def _all_but_last(self, loss: _Loss) -> bool:
        """Return whether a line in a loop has lost all its results in a tile except the last."""
        key = loss.first.key, loss.life
        lost = len(self._lost_writes[key])
        return lost == self._writes[key] - 1 and self._lost.in_a_loop(loss.first)

    def finish(self, returned: Collection[NkiTensor]) -> None:
        """Flag the writes that were lost."""
        outputs = {tensor.life for tensor in returned}
        for loss in self._losses.values():
            output = loss.life in outputs
            useful = self._lost.is_useful(loss.first) and not self._all_but_last(loss)
            if not output and useful:
                continue
            called = loss.life.called(f"the {loss.life.shape} tensor")
            flag(
                OVERWRITTEN_OUTPUT if output else OVERWRITTEN_STORE,
                f"{loss.second.instruction} overwrites {loss.elements} elements of {called} in "
                f"{loss.life.region.value} that {loss.first.instruction} wrote and nothing has "
                "read",
                instruction=loss.second.instruction,
                operand="dst",
                seen=f"{loss.values[0]} becomes {loss.values[1]} at {loss.element} of the view",
                fix=_fix(loss, output, self._lost.in_a_loop(loss.first)),
                notes=(f"first   {loss.first}", f"second  {loss.second}"),
                place=loss.second.place,
            )


def _fix(loss: _Loss, output: bool, in_a_loop: bool) -> str:
    """Return the fix of a lost write."""
    if not output and loss.first.key == loss.second.key:
        return "use each result inside the loop, or give each a destination of its own"
    if output or loss.second.works:
        return "drop the first write, or correct the destination of one of them"
    before = "loop" if in_a_loop else loss.first.instruction
    return f"move the {loss.second.instruction} before the {before}, or drop the first write"


def _is_fill(old: np.ndarray, site: Site) -> bool:
    """Return whether a result is an initial value, as of a sum: zeros, or copies of one number."""
    same = not (old != old.flat[0]).any()
    return same and (site.moves or not old.flat[0])


def _is_lost(tensor: NkiTensor, stamps: np.ndarray, marks: np.ndarray, number: int) -> bool:
    """Return whether none of a write was read, and on chip also whether all of it is here."""
    if (marks == -number).any():
        return False
    if is_hbm(tensor.buffer):
        return True
    return np.count_nonzero(stamps == number) == np.count_nonzero(marks == number)
