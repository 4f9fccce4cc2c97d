"""Results that are overwritten before they are read.

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
from nkisim.checks.lostwork import LostWork
from nkisim.diagnostics import declare, flag
from nkisim.machine import Effect, Step
from nkisim.memory import Lifetime, NkiTensor, is_hbm

OVERWRITTEN_OUTPUT = declare(
    "M007",
    "overwritten-output",
    "warning",
    "An element of an output is written twice with different values and not read in between.",
    "the final value depends on the order; overlapping tiles are a common cause",
    on_values=True,
    detector="lostwork",
)
OVERWRITTEN_STORE = declare(
    "W002",
    "overwritten-store",
    "warning",
    "A result or a load is overwritten before anything reads it.",
    "the first write is wasted, or the second has the wrong destination",
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
            shadow = effect.tensor.storage.shadow
            stamps = shadow.of_elements(*effect.tensor.region)
            for first in numbers:
                sites = self._history.site(first), self._history.site(number)
                if effect.tensor.size < sites[0].size or sites[0].core != sites[1].core:
                    continue
                if not _is_lost(effect.tensor, stamps, shadow.marks, first):
                    continue
                where = (stamps == first).all(axis=-1)
                old = before[where].view(effect.tensor.array.dtype)  # -0.0 is 0.0
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
        values = before.view(tensor.array.dtype)[at], tensor.array[at]
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
            called = f"`{loss.life.name}`" if loss.life.name else f"the {loss.life.shape} tensor"
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
