"""The table of ``nkisim run --profile``: kernels, calls, predicted times and their shares."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from nkisim.profiling import ProfileError, profile
from nkisim.profiling.text import arguments_text, duration
from nkisim.runs.process_calls import CountedCall, counted_calls

_EXECUTION_US = 15, 30
"""Device time of an operator of the framework beside a kernel, as published runs show it."""


class _Times(NamedTuple):
    """The predicted times of one call in us; ``reason`` says why there are none."""

    call: CountedCall
    each: float = 0.0
    low: float = 0.0
    high: float = 0.0
    arguments: str = ""
    reason: str = ""

    @property
    def total(self) -> float:
        return self.each * self.call.count


def times_text() -> str:
    """Return the table of the counted calls, the largest total first, and end the count."""
    found = sorted(map(_times_of, counted_calls()), key=lambda row: -row.total)
    others = _other_operators()
    lines = _table(found) if found else ["nkisim: no kernel was called"]
    if others:
        least, most = (duration(others * us) for us in _EXECUTION_US)
        lines.append(
            f'{others:,} other operators ran on the device "neuron", without a prediction; each '
            f"that no compiled graph joins with others is an execution of {_EXECUTION_US[0]} to "
            f"{_EXECUTION_US[1]} us: {least} to {most}"
        )
    return "\n".join(lines)


def _times_of(call: CountedCall) -> _Times:
    options = call.options
    given: dict[str, Any] = {"nki": options.nki, "ranks": options.ranks, "lnc": options.lnc}
    try:
        found = profile(call.kernel, options.target, advice=False, **given)(
            *call.args, **call.kwargs
        )
    except (ProfileError, ValueError) as error:
        return _Times(call, reason=f"no predicted time: {str(error).partition(chr(10))[0]}")
    low, high = found.interval_us
    return _Times(call, found.latency_us, low, high, arguments_text(found))


def _table(rows: list[_Times]) -> list[str]:
    whole = sum(row.total for row in rows)
    width = max(len(row.call.kernel.__name__) for row in rows) + 2
    head = f"{'kernel':<{width}}{'calls':>7}{'each':>11}{'between':>23}{'total':>11}{'share':>7}"
    lines = [f"nkisim: predicted device time {duration(whole)}", f"{head}  arguments"]
    for row in rows:
        start = f"{row.call.kernel.__name__:<{width}}{row.call.count:>7,}"
        if row.reason:
            lines.append(f"{start}  {row.reason}")
            continue
        between = f"{duration(row.low)} to {duration(row.high)}"
        lines.append(
            f"{start}{duration(row.each):>11}{between:>23}{duration(row.total):>11}"
            f"{row.total / whole:>7.0%}  {row.arguments}"
        )
    return lines


def _other_operators() -> int:
    """Return the number of operators that ran on the simulated device of torch."""
    fallback = sys.modules.get("nkitorch.fallback")
    return fallback.OperatorCounts.calls if fallback else 0
