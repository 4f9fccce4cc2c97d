"""Compiled loops of the two cores of a logical core, compared when both have ended.

The compiler translates the kernel once for each core and links the two. Each compiled loop gives
basic blocks; both cores must have as many. A loop without iterations hides the loops in its body,
which are not compared then.
"""

from __future__ import annotations

from nkisim.diagnostics import declare, flag
from nkisim.machine import Core
from nkisim.versions.rules import is_off

UNEQUAL_LOOPS = declare(
    "C040",
    "unequal-loops",
    "The two cores of a kernel build different sequences of compiled loops.",
    "the compiler expects equal basic blocks on both cores (NCC_IXGM002)",
)
UNEQUAL_TRIPS = declare(
    "C042",
    "unequal-trips",
    "The two cores of a kernel run a compiled loop a different number of times.",
    "users saw the device hang until its timeout; one kernel with 1 and 0 iterations ran",
    severity="warning",
)


def check_loops(first: Core, second: Core) -> None:
    """Flag compiled loops that only one of two cores has, else those of unequal iterations."""
    if is_off(UNEQUAL_LOOPS.id):
        return
    for path in sorted({*first.loops} | {*second.loops}):
        mine, theirs = first.loops.get(path), second.loops.get(path)
        if mine is None or theirs is None:
            if _is_known(path, second if theirs is None else first):
                _flag_missing(path, first, second)
                return
        elif mine.counts != theirs.counts:
            flag(
                UNEQUAL_TRIPS,
                f"a compiled loop runs {_times(mine.counts)} on core 0 and "
                f"{_times(theirs.counts)} on core 1",
                seen=f"{_times(mine.counts)} and {_times(theirs.counts)}",
                allowed="equal numbers of iterations",
                fix="give both cores equal bounds, and mask the work that a core does not have",
                notes=(f"on core 1 at {theirs.place}",),
                place=mine.place,
            )
            return


def _is_known(path: tuple[int, ...], core: Core) -> bool:
    """Return whether a core has run the body that would contain the loop."""
    around = core.loops.get(path[:-1])
    return len(path) == 1 or (around is not None and any(around.counts))


def _flag_missing(path: tuple[int, ...], first: Core, second: Core) -> None:
    having = first if path in first.loops else second
    number = having.program_id
    counts = [len([p for p in core.loops if len(p) == len(path)]) for core in (first, second)]
    flag(
        UNEQUAL_LOOPS,
        f"core {number} builds a compiled loop that core {1 - number} does not have",
        seen=f"loops of this depth: {counts[0]} on core 0, {counts[1]} on core 1",
        allowed="the same sequence of compiled loops on both cores",
        fix="run the loop on both cores, and mask the work that a core does not have",
        place=having.loops[path].place,
    )


def _times(counts: list[int]) -> str:
    """Return the numbers of iterations as text: those of the first runs of the loop."""
    shown = ", ".join(map(str, counts[:4])) + (", ..." if len(counts) > 4 else "")
    return f"{shown} times" if counts != [1] else "once"
