#!/usr/bin/env python
"""Compare choices that the suite makes by formulas with all alternatives, by predicted time.

    python tools/tune_suite.py               every choice, on gen3
    python tools/tune_suite.py --only fft    those of problems with the text in their names

A choice is a block size, the factors of a transform, or a kernel. It is replaced by each of its
alternatives in turn, and the launch of the call is profiled by shapes. A table of choices would pay
where an alternative is 5 % faster than the formula's: the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
for folder in ("tools", "benchmarks"):
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))

from device_problems import factors, fft, products, sparse  # noqa: E402
from device_problems.problem import Problem  # noqa: E402
from runner import show  # noqa: E402

from nkisim.profiling import ProfileError  # noqa: E402
from trnfft import clear_plan_cache  # noqa: E402
from trnfft._kernels.stacked_geometry import (  # noqa: E402
    RowsGeometry,
    StackedGeometry,
    many_rows,
    stacked_geometry,
)
from trnsci.core.tiles import tiling_gemm  # noqa: E402
from trnsci.core.tiles.hardware import TILE  # noqa: E402

WORTH = 0.05
"""Gain over the formula from which a table pays."""


class Choice(NamedTuple):
    """A choice of a call, and what can take its place.

    Attributes:
        problem: The call.
        place: Qualified name of the choice.
        alternatives: What can stand there, by its description.
    """

    problem: Problem
    place: str
    alternatives: dict[str, Any]


class Comparison(NamedTuple):
    """Predicted times of a problem in us, and the number of legal alternatives."""

    formula: float
    fastest: float
    alternative: str
    tried: int

    @property
    def gain(self) -> float:
        """Gain of the fastest alternative, negative if the formula's choice is faster."""
        return self.formula / self.fastest - 1


def compared(choice: Choice, target: str) -> Comparison:
    """Return the times of a problem with each alternative."""
    formula = _time(choice.problem, target)
    times = {}
    for name, alternative in choice.alternatives.items():
        with patch(choice.place, alternative), suppress(ProfileError):  # some are not legal
            times[name] = _time(choice.problem, target)
    fastest = min(times, key=lambda name: times[name])
    return Comparison(formula, times[fastest], fastest, len(times))


def _time(problem: Problem, target: str) -> float:
    clear_plan_cache()  # plans depend on choices
    return problem.profile(target).latency_us


def choices() -> Iterator[Choice]:
    """Yield choices of all kinds; sizes with a goal, and small and odd ones."""
    for sizes in ((1024, 1024, 1024), (1000, 300, 700), (256, 2048, 128), (2048, 128, 640)):
        for dtype in ("float32", "bfloat16"):
            yield _tilings(*sizes, dtype)
    for batch, n in ((128, 1024), (16, 1000), (8, 4096), (4, 65536)):
        yield _factors(batch, n)
    for order in (97, 256, 512):
        widths = {f"{width} columns": width for width in (8, 12, 20)}
        yield Choice(factors.cholesky(order), "trnsolver._kernels.elimination.PANEL", widths)
    for order, columns in ((300, 500), (1024, 512)):
        together = {f"{count} together": count for count in (1, 4, 8)}
        yield Choice(products.trsm(order, columns), "trnblas._kernels.trsm.LOCK_STEP", together)
    for rows, share, columns in ((1000, 0.02, 64), (1000, 0.002, 512), (2048, 0.005, 8)):
        yield Choice(
            sparse.problem(rows, share, columns),
            "trnsparse._paths.rows.plan_rows",
            {name: _always(SimpleNamespace(kernel=name)) for name in ("segments", "one-hot")},
        )


def _always(result: Any) -> Callable[..., Any]:
    """Return a function with this result for any arguments."""
    return lambda *args, **kwargs: result


def _tilings(m: int, k: int, n: int, dtype: str) -> Choice:
    problem = tiling_gemm.Problem(m, n, k, dtype, "gen3", "columns", "rows", stated=False)
    tilings = (tiling_gemm.price(problem, *cut) for cut in tiling_gemm.cuts(problem))
    found = {str(tuple(tiling.blocks)): _always(tiling) for tiling in tilings if tiling.fits}
    return Choice(products.gemm(m, k, n, dtype), "trnblas.matrix_products.gemm_tiling", found)


def _factors(batch: int, n: int) -> Choice:
    """Return the choice among the factors of a transform, or of many rows at once."""
    chosen = stacked_geometry(n)
    assert chosen is not None
    found = {}
    for a in range(4, TILE // 2 + 1):
        for b in range(4, TILE + 1):
            d, rest = divmod(n, a * b)
            if rest or (d == 1) != (chosen.d == 1) or (d > 1 and not 4 <= d <= TILE // 2):
                continue
            s = max(s for s in range(1, TILE // b + 1) if d % s == 0)
            geometry = StackedGeometry(a, b, d, s, chosen.many)
            found[f"{a} x {b} x {d}"] = _always(geometry)
    if many_rows(chosen.many, batch):
        pairs = [RowsGeometry(a, n // a) for a in range(4, 33) if n % a == 0 and 4 <= n // a <= 64]
        found = {f"{a} x {b}": _always(chosen._replace(many=RowsGeometry(a, b))) for a, b in pairs}
        found["row by row"] = _always(chosen._replace(many=None))
    place = "trnfft._planning.recipe.stacked_geometry"
    return Choice(fft.problem("fft", batch, n), place, found)


def main() -> None:
    """Print the comparison of each problem; exit with 1 if a table would pay."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--target", choices=("gen2", "gen3", "gen4"), default="gen3")
    options = parser.parse_args()
    rows, pays = [], False
    for choice in choices():
        if options.only not in choice.problem.name:
            continue
        found = compared(choice, options.target)
        pays |= found.gain >= WORTH
        rows.append(
            (
                choice.problem.name,
                str(found.tried),
                f"{found.formula:,.1f}",
                f"{found.fastest:,.1f}",
                f"{found.gain:+.1%}",
                found.alternative if found.gain > 0 else "",
            )
        )
    show(rows, ("problem", "alternatives", "formula us", "fastest us", "gain", "fastest"))
    sys.exit(int(pays))


if __name__ == "__main__":
    main()
