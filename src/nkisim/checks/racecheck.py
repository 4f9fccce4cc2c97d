"""Races on one core: accesses to the same bytes without a guaranteed order.

The compiler orders instructions with a dependency that it can see. It cannot see overlap between
two tensors placed at one address, nor overlap through data-dependent addresses; and the iterations
of an unordered loop have no order. Edges that a kernel adds with ``depends_on`` give an order; they
come after the accesses, so in versions with handles the findings wait for the end of the run.
Accesses of two cores are checked in ``machine.sharing``, also in simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from nkisim.checks.history import History, Site, Turn, bits_of, is_indirect
from nkisim.diagnostics import declare, flag, user_place
from nkisim.machine import Core, Effect, Step
from nkisim.memory import Lifetime, NkiTensor, is_hbm

ALIASED_READ = declare(
    "R001",
    "aliased-read",
    "error",
    "A tensor is read where another tensor at an overlapping address was written last.",
    "no dependency is tracked between two tensors, so the read may come before the write",
    detector="races",
    silent=True,
)
CARRIED = declare(
    "R003",
    "carried-dependency",
    "warning",
    "An iteration of nl.affine_range reads what another iteration wrote.",
    "the iterations may run in any order; 0.3.0 unrolls them in order, other releases need not",
    detector="races",
)
INDEXED_DEPENDENCY = declare(
    "R004",
    "indexed-dependency",
    "warning",
    "HBM is read that a DMA wrote by index.",
    "the compiler may miss a dependency through data-dependent addresses",
    detector="races",
    on_values=True,
)
PERHAPS_DEPENDENT = declare(
    "M041",
    "perhaps-dependent",
    "note",
    "An HBM tensor is read after a DMA wrote elsewhere in it by index.",
    "with other indices the two would depend on each other, which the compiler may miss",
    detector="races",
    on_values=True,
)
UNORDERED_SCATTERS = declare(
    "R018",
    "unordered-scatters",
    "warning",
    "DMA writes by index write different values to the same address, with no read in between.",
    "their order is not specified, not even among the rows of one transfer",
    detector="races",
    on_values=True,
)

Report = Callable[[], object]
"""Flags a finding."""


class Races:
    """Compares every access with the last write of the same bytes."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._scattered: set[Lifetime] = set()
        self._scatters: list[tuple[Effect, int, object]] = []
        self._waiting: list[tuple[Core, int, Site, Report]] = []

    def read(self, step: Step, effect: Effect) -> None:
        """Compare a read with the last write there."""
        tensor = effect.tensor
        life = tensor.life
        turns = self._history.turns(step.core)
        scattered = life in self._scattered
        if not (turns or life.address is not None or scattered):
            return
        sites = self._history.sites(effect)
        if life.address is not None:
            for site in sites:
                if life not in site.owners and not 0 <= life.first_use < site.clock:
                    self._report(step, site, _alias(step, effect, site))
        for site in sites if turns else ():
            turn = _other_turn(site.turns, turns)
            if turn is not None:
                _report_carried(step, effect, site)
                break
        if scattered:
            self._check_scattered(step, effect, sites)

    def _report(self, step: Step, site: Site, report: Report) -> None:
        """Report two accesses without an order, once no edge can order them any more."""
        if step.core.handles:
            self._waiting.append((step.core, step.core.clock, site, report))
        else:
            report()

    def finish(self) -> None:
        """Report the accesses that no edge has ordered."""
        for core, clock, site, report in self._waiting:
            same = site.core == ("" if core.member is None else core.member.label)
            if not (same and core.waits(clock, site.clock)):
                report()
        self._waiting.clear()

    def _check_scattered(self, step: Step, effect: Effect, sites: list[Site]) -> None:
        member = step.core.member
        epoch = 0 if member is None else member.synchronised
        met = [site for site in sites if site.indirect]
        if not met and not _is_ordered(step):
            _report_perhaps(step, effect)
        for site in met:
            if site.epoch == epoch and not (site.ordered and _is_ordered(step)):
                self._report(step, site, _indexed(step, effect, site))
                break

    def before(self, step: Step) -> None:
        """Copy the elements of earlier writes that an indexed write may overwrite."""
        self._scatters.clear()
        if not step.core.values:
            return
        for effect in step.writes:
            if effect.rows is None or not effect.rows.size or not is_hbm(effect.tensor.buffer):
                continue
            for number in self._history.touched(effect).unread():
                site = self._history.site(number)
                if site.indirect and not (site.ordered and _is_ordered(step)):
                    self._scatters.append((effect, number, bits_of(effect.tensor)))
                    break

    def written(self, step: Step, number: int) -> None:
        """Note the writes of an instruction; the stamps are still those from before."""
        for effect, first, before in self._scatters:
            stamps = effect.tensor._storage.shadow.of_elements(*effect.tensor.region)
            same = (stamps == first).all(axis=-1)
            if (same & (bits_of(effect.tensor) != before)).any():
                site = self._history.site(first)
                self._report(step, site, _scatters(step, effect, site))
        self._scatters.clear()
        for effect in step.writes:
            if is_hbm(effect.tensor.buffer) and is_indirect(effect):
                self._scattered.add(effect.tensor.life)
                if effect.rows is not None and step.core.values:
                    _check_repeated(step, effect, effect.rows)


def _check_repeated(step: Step, effect: Effect, rows: np.ndarray) -> None:
    """Flag a scatter that writes different rows to one destination row."""
    if len(step.reads) != 1 or not step.reads[0].plain:
        return
    given = step.reads[0].tensor
    if given.size != len(rows) * (effect.tensor.size // effect.tensor.shape[0]):
        return  # some were out of bounds
    order = np.argsort(rows, kind="stable")
    again = np.flatnonzero(np.diff(rows[order]) == 0)
    if not again.size:
        return
    bits = bits_of(given).reshape(len(rows), -1)
    for i in again:
        first, second = sorted((int(order[i]), int(order[i + 1])))
        if (bits[first] != bits[second]).any():
            flag(
                UNORDERED_SCATTERS,
                f"{step.instruction} writes rows {first} and {second} of its source to row "
                f"{int(rows[first])} of {_called(effect.tensor, effect.operand)}",
                instruction=step.instruction,
                operand=effect.operand,
                seen=f"index {int(rows[first])} at {first} and at {second}, with different values",
                allowed="indices that differ, or equal values",
                fix="combine rows of one index first, or use nisa.dma_compute to add them",
            )
            return


def _is_ordered(step: Step) -> bool:
    return bool(step.core.no_reorder_depth)


def _other_turn(theirs: tuple[Turn, ...], mine: tuple[Turn, ...]) -> Turn | None:
    """Return the iteration of a write if its loop is running and in another iteration now."""
    now = dict(mine)
    for turn in theirs:
        if turn.loop in now and now[turn.loop] != turn.value:
            return turn
    return None


def _called(tensor: NkiTensor, operand: str) -> str:
    return f"`{tensor.life.name}`" if tensor.life.name else operand


def _both(step: Step, effect: Effect, site: Site, does: str = "reads") -> tuple[str, ...]:
    """Return a line for each of the two accesses."""
    here = f"{step.instruction} at {user_place()} on the {step.engine.name} engine"
    return f"written by {site}", f"{does:7} by {here}: {effect.tensor.describe()}"


def _alias(step: Step, effect: Effect, site: Site) -> Report:
    life = effect.tensor.life
    return partial(
        flag,
        ALIASED_READ,
        f"{step.instruction} reads {_called(effect.tensor, effect.operand)} at address "
        f"{life.address}, where {site.instruction} wrote another tensor last",
        instruction=step.instruction,
        operand=effect.operand,
        seen=f"address {life.address} of {life.shape}, last written by {site}",
        allowed="bytes that were written through the same tensor",
        fix="use one tensor, or a view of it, for both accesses" + _or_edge(step),
        notes=_both(step, effect, site),
        place=user_place(),
    )


def _report_carried(step: Step, effect: Effect, site: Site) -> None:
    flag(
        CARRIED,
        f"{step.instruction} reads {_called(effect.tensor, effect.operand)}, which another "
        "iteration of nl.affine_range wrote",
        instruction=step.instruction,
        operand=effect.operand,
        seen=f"written by {site}",
        allowed="what this iteration wrote, or what was written before the loop",
        fix="use nl.sequential_range or range, or give each iteration its own tile",
        notes=_both(step, effect, site),
    )


def _indexed(step: Step, effect: Effect, site: Site) -> Report:
    return partial(
        flag,
        INDEXED_DEPENDENCY,
        f"{step.instruction} reads {_called(effect.tensor, effect.operand)}, part of which "
        f"{site.instruction} wrote by index",
        instruction=step.instruction,
        operand=effect.operand,
        seen=f"written by {site}",
        fix="put both into a `with nl.no_reorder():` block" + _or_edge(step),
        notes=_both(step, effect, site),
        place=user_place(),
    )


def _report_perhaps(step: Step, effect: Effect) -> None:
    flag(
        PERHAPS_DEPENDENT,
        f"{step.instruction} reads {_called(effect.tensor, effect.operand)} after writes by index; "
        "with these indices they do not overlap",
        instruction=step.instruction,
        operand=effect.operand,
        seen=effect.tensor.describe(),
        fix="put both into a `with nl.no_reorder():` block if other indices may overlap",
    )


def _scatters(step: Step, effect: Effect, site: Site) -> Report:
    return partial(
        flag,
        UNORDERED_SCATTERS,
        f"{step.instruction} writes rows of {_called(effect.tensor, effect.operand)} by index that "
        f"{site.instruction} wrote by index with other values",
        instruction=step.instruction,
        operand=effect.operand,
        seen=f"first written by {site}",
        fix="scatter once, or put both into a `with nl.no_reorder():` block" + _or_edge(step),
        notes=_both(step, effect, site, "written"),
        place=user_place(),
    )


def _or_edge(step: Step) -> str:
    """Return how an edge orders two accesses, in versions with handles."""
    return ", or order them with depends_on of the later one" if step.core.handles else ""
