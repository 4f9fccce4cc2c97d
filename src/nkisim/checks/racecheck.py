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
from nkisim.diagnostics import Rule, declare, flag, user_place
from nkisim.machine import Core, Effect, Step
from nkisim.memory import Lifetime, is_hbm

ALIASED_READ = declare(
    "R001",
    "aliased-read",
    "A tensor is read where another tensor at an overlapping address was written last.",
    "no dependency is tracked between two tensors, so the read may come before the write",
    detector="races",
    silent=True,
)
CARRIED = declare(
    "R003",
    "carried-dependency",
    "An iteration of nl.affine_range reads what another iteration wrote.",
    "the iterations may run in any order; 0.3.0 unrolls them in order, other releases need not",
    severity="warning",
    detector="races",
)
INDEXED_DEPENDENCY = declare(
    "R004",
    "indexed-dependency",
    "HBM is read that a DMA wrote by index.",
    "the compiler may miss a dependency through data-dependent addresses",
    severity="warning",
    detector="races",
    on_values=True,
)
PERHAPS_DEPENDENT = declare(
    "M041",
    "perhaps-dependent",
    "An HBM tensor is read after a DMA wrote elsewhere in it by index.",
    "with other indices the two would depend on each other, which the compiler may miss",
    severity="note",
    detector="races",
    on_values=True,
)
UNORDERED_SCATTERS = declare(
    "R018",
    "unordered-scatters",
    "DMA writes by index write different values to the same address, with no read in between.",
    "their order is not specified, not even among the rows of one transfer",
    severity="warning",
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
            if _is_in_other_turn(site.turns, turns):
                _carried(step, effect, site)()
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
                f"{int(rows[first])} of {effect.tensor.life.called(effect.operand)}",
                instruction=step.instruction,
                operand=effect.operand,
                seen=f"index {int(rows[first])} at {first} and at {second}, with different values",
                allowed="indices that differ, or equal values",
                fix="combine rows of one index first, or use nisa.dma_compute to add them",
            )
            return


def _is_ordered(step: Step) -> bool:
    return bool(step.core.no_reorder_depth)


def _is_in_other_turn(theirs: tuple[Turn, ...], mine: tuple[Turn, ...]) -> bool:
    """Return whether a loop of a write is running, and in another iteration now."""
    now = dict(mine)
    return any(now.get(turn.loop, turn.value) != turn.value for turn in theirs)


def _race(
    rule: Rule,
    step: Step,
    effect: Effect,
    site: Site,
    does: str,
    *,
    fix: str,
    seen: str = "",
    allowed: str = "",
) -> Report:
    """Return the report of an access of bytes that another one wrote.

    Args:
        rule: The rule.
        step: The running instruction.
        effect: Its operand.
        site: The earlier write.
        does: What the instruction does with the operand, which ``{}`` stands for.
        fix: What to do.
        seen: What was found; the earlier write unless given.
        allowed: What would be in order.
    """
    here, life = user_place(), effect.tensor.life
    verb = "reads" if does.startswith("reads") else "written"
    by = f"{step.instruction} at {here} on the {step.engine.name} engine"
    return partial(
        flag,
        rule,
        f"{step.instruction} {does.format(life.called(effect.operand))}",
        instruction=step.instruction,
        operand=effect.operand,
        notes=(f"written by {site}", f"{verb:7} by {by}: {effect.tensor.describe()}"),
        place=here,
        seen=seen or f"written by {site}",
        allowed=allowed,
        fix=fix,
    )


def _alias(step: Step, effect: Effect, site: Site) -> Report:
    life = effect.tensor.life
    does = f"reads {{}} at address {life.address}, where {site.instruction} wrote another tensor"
    return _race(
        *(ALIASED_READ, step, effect, site, f"{does} last"),
        seen=f"address {life.address} of {life.shape}, last written by {site}",
        allowed="bytes that were written through the same tensor",
        fix="use one tensor, or a view of it, for both accesses" + _or_edge(step),
    )


def _carried(step: Step, effect: Effect, site: Site) -> Report:
    does = "reads {}, which another iteration of nl.affine_range wrote"
    return _race(
        *(CARRIED, step, effect, site, does),
        allowed="what this iteration wrote, or what was written before the loop",
        fix="use nl.sequential_range or range, or give each iteration its own tile",
    )


def _indexed(step: Step, effect: Effect, site: Site) -> Report:
    fix = "put both into a `with nl.no_reorder():` block" + _or_edge(step)
    does = f"reads {{}}, part of which {site.instruction} wrote by index"
    return _race(INDEXED_DEPENDENCY, step, effect, site, does, fix=fix)


def _report_perhaps(step: Step, effect: Effect) -> None:
    flag(
        PERHAPS_DEPENDENT,
        f"{step.instruction} reads {effect.tensor.life.called(effect.operand)} after writes by "
        "index; "
        "with these indices they do not overlap",
        instruction=step.instruction,
        operand=effect.operand,
        seen=effect.tensor.describe(),
        fix="put both into a `with nl.no_reorder():` block if other indices may overlap",
    )


def _scatters(step: Step, effect: Effect, site: Site) -> Report:
    fix = "scatter once, or put both into a `with nl.no_reorder():` block" + _or_edge(step)
    does = f"writes rows of {{}} by index that {site.instruction} wrote by index with other values"
    seen = f"first written by {site}"
    return _race(UNORDERED_SCATTERS, step, effect, site, does, seen=seen, fix=fix)


def _or_edge(step: Step) -> str:
    """Return how an edge orders two accesses, in versions with handles."""
    return ", or order them with depends_on of the later one" if step.core.handles else ""
