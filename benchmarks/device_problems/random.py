"""Random numbers in float32."""

from __future__ import annotations

from functools import partial

import trnrand
from device_problems.problem import Problem


def problem(
    law: str, count: int, *, engine: str = "philox", goal_us: float | None = None
) -> Problem:
    """Return samples of one distribution."""
    return Problem(
        f"{law}({count:,}), {engine}",
        "trnrand",
        lambda: partial(
            getattr(trnrand, law), count, generator=trnrand.Generator(0, engine=engine)
        ),
        4 * count,
        goal_us=goal_us,
    )


PROBLEMS = (problem("normal", 2**20, goal_us=450),)
LARGER = (problem("normal", 3 * 2**19), problem("uniform", 2**20))
ODD = (problem("normal", 1_000_003), problem("normal", 2**20, engine="threefry"))
