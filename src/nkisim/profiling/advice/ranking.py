"""The search for advice: candidates of all rules, scheduled and ranked by gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nkisim.profiling.advice.activations import activation_advice
from nkisim.profiling.advice.candidate import Candidate, Found
from nkisim.profiling.advice.engines import engine_advice
from nkisim.profiling.advice.products import product_advice
from nkisim.profiling.advice.queues import queue_advice
from nkisim.profiling.advice.reloads import reload_advice
from nkisim.profiling.advice.tiles import buffer_advice, spill_advice
from nkisim.profiling.advice.transfers import transfer_advice
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.program import Program
from nkisim.profiling.result import Advice, ProfileData
from nkisim.profiling.schedule import schedule

__all__ = ["advise"]

_MOST = 5
_LEAST_SHARE = 0.01
"""Share of the device time that a change must save to be worth a line."""


def advise(program: Program, prediction: Prediction, found: ProfileData) -> list[Advice]:
    """Return the changes worth trying, largest gain first.

    Args:
        program: The program as captured.
        prediction: Its prediction, with spills.
        found: Its profile.
    """
    least = _LEAST_SHARE * found.latency_us
    pieces = [*spill_advice(program, prediction)]
    condition = Found(prediction.program, found)
    for candidate in _candidates(condition):
        if condition.most_gain(candidate.lines) < least:
            continue
        changed = candidate.changed(prediction.program)
        if changed is None:
            continue
        gain = (prediction.times.total - schedule(changed).total) / 1e3
        if gain >= least:
            pieces.append(replace(candidate.advice, gain_us=round(gain, 2)))
    pieces.sort(key=lambda piece: -(piece.gain_us or 0.0))
    return pieces[:_MOST]


def _candidates(found: Found) -> Iterator[Candidate]:
    yield from transfer_advice(found)
    yield from queue_advice(found)
    yield from product_advice(found)
    yield from buffer_advice(found)
    yield from engine_advice(found)
    yield from activation_advice(found)
    if not found.profile.spill_bytes:  # else nothing more can be kept
        yield from reload_advice(found)
