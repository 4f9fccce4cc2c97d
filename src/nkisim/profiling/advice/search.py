"""The search for advice: candidates of all rules, tried in the order of their estimated gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nkisim.profiling.advice.activations import activation_advice
from nkisim.profiling.advice.candidate import Candidate, Found
from nkisim.profiling.advice.engines import engine_advice, queue_advice
from nkisim.profiling.advice.order import order_advice, stage_advice, table_advice
from nkisim.profiling.advice.reloads import reload_advice
from nkisim.profiling.advice.sentences import sentences
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.model.program import Program
from nkisim.profiling.model.ranges import Difference, alternatives_of, difference
from nkisim.profiling.result import Advice, ProfileData, Together
from nkisim.rewriting import applied, disjoint, unified_diff
from nkisim.trials import Trials, Tried

RULES: tuple[Callable[[Found], Iterator[Candidate]], ...] = (
    queue_advice,
    engine_advice,
    activation_advice,
    reload_advice,
    table_advice,
    order_advice,
    stage_advice,
    sentences,
)
"""Functions that yield the candidates of a program."""

_MOST = 5
"""Pieces of advice that a report shows."""

_LEAST_SHARE = 0.01
"""Share of the device time that a change must save to be worth a line."""

_LEAST_SENTENCE = 0.1
"""A candidate without a trial is shown if its lines have this share of the device time at least."""

_AT_ITS_BOUND = 0.9
"""Share of the bound from which on a kernel has little left to gain."""


class _Piece(NamedTuple):
    """A candidate that was tried, with the prediction of the changed kernel."""

    candidate: Candidate
    tried: Tried
    prediction: Prediction


def advise(
    program: Program, found: ProfileData, trials: Trials, last: Callable[[], Prediction]
) -> None:
    """Fill a profile with the changes worth making, those with the largest gain first.

    Args:
        program: The program, with spills.
        found: The profile of the program. ``advise`` sets ``advice``, ``together`` and
            ``no_advice``.
        trials: Runs and profiles edited kernels on the arguments of the profiled call.
        last: Returns the prediction of the kernel that was tried last.
    """
    file = None if trials.file is None else trials.file.file
    condition = Found(program, found, file)
    search = _Search(found, trials, last, "" if file is None else file.text)
    candidates = sorted(
        ((condition.most_gain(c), c) for rule in RULES for c in rule(condition)),
        key=lambda pair: -pair[0],
    )
    pieces: list[_Piece] = []
    untried: list[Candidate] = []
    for most, candidate in candidates:
        if candidate.edits and most < _LEAST_SHARE * found.latency_us:
            continue
        if candidate.edits and trials.may_go_on():
            piece = search.tried([candidate])
            pieces += [] if piece is None else [piece]
        elif most >= _LEAST_SENTENCE * found.latency_us:
            untried.append(candidate)
    pieces.sort(key=lambda piece: piece.tried.latency_us)
    shown: list[_Piece] = []
    for piece in pieces:  # of several forms of one change, the best
        rule, candidate = piece.candidate.rule, piece.candidate
        same = [other.candidate.edits for other in shown if other.candidate.rule is rule]
        if all(disjoint(candidate.edits, edits) for edits in same):
            shown.append(piece)
    shown = shown[:_MOST]
    found.advice = [search.advice(piece) for piece in shown]
    found.advice += [_sentence(candidate) for candidate in untried[: _MOST - len(shown)]]
    found.together = search.together(shown)
    if not found.advice:
        found.no_advice = _reason(found, trials.made, file is not None)


def _reason(found: ProfileData, tried: int, has_source: bool) -> str:
    """Return why there is no advice."""
    if found.bound_by == "launch":
        return f"the fixed cost of a call is {found.fixed_us / found.latency_us:.0%} of the time"
    if found.bound_share >= _AT_ITS_BOUND:
        return f"the kernel is at {found.bound_share:.0%} of its bound by {found.bound_by}"
    if not has_source:
        return "the source of the kernel is not available"
    if tried:
        return f"none of {tried} changes that were tried saves {_LEAST_SHARE:.0%}"
    return "no rule has a change for the lines on the critical path"


class _Search:
    """Applies candidates to the kernel's file and tries the result.

    Args:
        original: The profile of the original kernel.
        trials: Runs and profiles the edited kernel.
        last: Returns the prediction of the kernel that was tried last.
        text: The text of the kernel's file.
    """

    def __init__(
        self,
        original: ProfileData,
        trials: Trials,
        last: Callable[[], Prediction],
        text: str,
    ) -> None:
        self._latency_us = original.latency_us
        self._alternatives = alternatives_of(original.assumptions)
        self._trials = trials
        self._last = last
        self._text = text

    def _edited(self, candidates: Sequence[Candidate]) -> str:
        edits = [edit for candidate in candidates for edit in candidate.edits]
        return applied(self._text, edits, [1])[0]

    def _diff(self, text: str) -> str:
        assert self._trials.file is not None
        return unified_diff(Path(Path(self._trials.file.file.file).name), self._text, text)

    def tried(self, candidates: Sequence[Candidate], best: float | None = None) -> _Piece | None:
        """Apply candidates together and try the result; it is a piece of the last candidate.

        None if the trial fails, or saves less than 1 % of the original time compared with ``best``
        (by default the original time).
        """
        below = (self._latency_us if best is None else best) - _LEAST_SHARE * self._latency_us
        change = max(c.most_change for c in candidates)
        found = self._trials.tried(self._edited(candidates), below, change)
        return None if found is None else _Piece(candidates[-1], found, self._last())

    def _gain_range(self, piece: _Piece) -> Difference:
        """Return the range of what a piece gains."""
        after, others = piece.prediction.latency_us, alternatives_of(piece.prediction.doubts)
        return difference(self._latency_us, self._alternatives, after, others)

    def advice(self, piece: _Piece) -> Advice:
        """Return the advice of a candidate that was tried: its gain, diff and changed rounding."""
        candidate, tried = piece.candidate, piece.tried
        plain, action = _sentence(candidate), candidate.action
        if tried.change:
            action += f"; {candidate.rounding} disappears, and the result changes by up to "
            action += f"{tried.change:.1e} of its largest element"
        if tried.refused_on:
            action += f"; {' and '.join(tried.refused_on)} cannot run the change"
        gain, code = self._latency_us - tried.latency_us, self._diff(self._edited([candidate]))
        return plain._replace(
            action=action,
            gain_us=gain,
            change=tried.change,
            code=code,
            gain_range=self._gain_range(piece),
        )

    def together(self, shown: Sequence[_Piece]) -> Together | None:
        """Try pieces together: begin with the first, add each that makes the kernel faster.

        A piece that changes the same bytes as an earlier one is left out.
        """
        if not shown:
            return None
        taken, whole = [0], shown[0]
        for number, (candidate, *_) in enumerate(shown[1:], 1):
            chosen = [shown[i].candidate for i in taken]
            edits = [edit for c in chosen for edit in c.edits]
            if not disjoint(candidate.edits, edits) or not self._trials.may_go_on():
                continue
            piece = self.tried([*chosen, candidate], whole.tried.latency_us)
            if piece is not None:
                taken.append(number)
                whole = piece
        text, result = self._edited([shown[i].candidate for i in taken]), whole.tried
        return Together(
            tuple(taken),
            result.latency_us,
            self._gain_range(whole),
            result.change,
            self._diff(text),
            text,
        )


def _sentence(candidate: Candidate) -> Advice:
    texts = candidate.rule.id, candidate.title, candidate.cause, candidate.action
    return Advice(*texts, None, *candidate.line, values=candidate.values)
