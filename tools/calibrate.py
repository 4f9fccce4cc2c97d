"""Compare predicted device times with published ones, and write the calibration page.

python tools/calibrate.py            print the page, without the largest kernels
python tools/calibrate.py --write    write docs/design/profile-calibration.md, with them
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "nkisim" / "profiling"))
sys.path.insert(0, str(Path(__file__).parent))

from calibration import kernels
from calibration.measurements import GRID, INSTRUCTIONS, KERNELS, GridRow, KernelTime
from calibration.operators import TUNED
from calibration.sources import (
    SHARE,
    Row,
    by_source,
    captured,
    every_case,
    grid_program,
    kernel_program,
    leave_one_out,
    name_of,
    rows_of,
)
from slow_kernels import SLOW

import nkisim
from nkisim.arch import GENERATIONS, resolve_target
from nkisim.arch.timing import timing_of
from nkisim.profiling.analysis import Prediction

PAGE = Path(__file__).parent.parent / "docs" / "design" / "profile-calibration.md"
_SIZES = (128, 512, 2048)


class Compared(NamedTuple):
    """Predictions of grid rows beside their published times."""

    rows: list[GridRow]
    predicted: np.ndarray
    published: np.ndarray

    @property
    def error(self) -> float:
        """Mean absolute error, in percent."""
        return float(np.mean(np.abs(self.predicted / self.published - 1))) * 100

    @property
    def rank(self) -> float:
        """Spearman's rank correlation."""
        return rank_correlation(self.predicted, self.published)

    @property
    def regret(self) -> float:
        """Published time of the predicted best over the best, minus one, in percent."""
        best = self.published[int(np.argmin(self.predicted))]
        return float(best / self.published.min() - 1) * 100


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's rank correlation; equal values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    found: np.ndarray = (ends - (counts - 1) / 2)[inverse]
    return found


def grid_prediction(row: GridRow) -> tuple[Prediction, int, int]:
    """Return the prediction of a grid row, and the bytes and transfers that its source asks for."""
    program = grid_program(row)
    moved = [o.work.transfer for o in program.operations if o.work.transfer is not None]
    return Prediction(program), sum(m.nbytes for m in moved), len(moved)


def compare(rows: list[GridRow]) -> Compared:
    """Return the predictions of grid rows."""
    predicted = np.array([grid_prediction(row)[0].latency_us for row in rows])
    return Compared(rows, predicted, np.array([row.us for row in rows]))


def kernel_prediction(entry: KernelTime) -> float:
    """Return the predicted time of a published kernel, in us."""
    return Prediction(kernel_program(entry)).latency_us


def leave_m_out() -> list[tuple[int, float, float]]:
    """Fit ``exposed_latency`` without the rows of one M, and return the error on those rows.

    Returns:
        M, the fitted share, and the error in percent.
    """
    predictions = [grid_prediction(row)[0] for row in GRID]
    published = np.array([row.us for row in GRID])
    shares = np.linspace(0, 0.5, 51)
    errors = [
        np.abs(np.array([_with_share(found, share) for found in predictions]) / published - 1)
        for share in shares
    ]
    found_rows: list[tuple[int, float, float]] = []
    for m in (1, 2, 4, 8, 16):
        out = np.array([row.tiles[0] == m for row in GRID])
        best = int(np.argmin([np.mean(error[~out]) for error in errors]))
        found_rows.append((m, float(shares[best]), float(np.mean(errors[best][out])) * 100))
    return found_rows


def _with_share(found: Prediction, share: float) -> float:
    return found.latency_with({**found.program.assumptions, "exposed_latency": share})


def page(*, large: bool) -> str:
    """Return the page."""
    lines = [
        "# Calibration of predicted device times",
        "",
        "Written by `python tools/calibrate.py --write`. Predicted beside published, for every "
        "published time that the constants come from.",
        "",
        "## Blocked float32 product of order 2048, Trainium 2, one core",
        "",
        "Tiles per block in M, N, K. *Spills* marks rows that moved more than the kernel asks for.",
        "",
        "| M, N, K | published us | predicted | ratio | MB | predicted | transfers | predicted |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    predicted = []
    for row in GRID:
        found, nbytes, transfers = grid_prediction(row)
        predicted.append(found.latency_us)
        megabytes = (nbytes + found.spill_bytes) / 1e6
        mark = " spills" if row.spills else ""
        lines.append(
            f"| {', '.join(map(str, row.tiles))}{mark} | {row.us:,.1f} | {found.latency_us:,.1f} | "
            f"{found.latency_us / row.us:.3f} | {row.megabytes} | {megabytes:.1f} | "
            f"{row.transfers} | {transfers} |"
        )
    both = Compared(list(GRID), np.array(predicted), np.array([row.us for row in GRID]))
    lines += [
        "",
        f"Mean absolute error {both.error:.1f} %, rank correlation {both.rank:.2f}, regret "
        f"{both.regret:.1f} %.",
        "",
        "`exposed_latency` fitted without the rows of one M, and the error on those rows:",
        "",
        "| M | fitted | error % |",
        "| ---: | ---: | ---: |",
        *(f"| {m} | {share:.3f} | {error:.1f} |" for m, share, error in leave_m_out()),
        "",
        "## Whole kernels",
        "",
        "| kernel | M, N, K | target | source | published us | predicted us | ratio |",
        "| --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    for entry in KERNELS:
        if entry.large and not large:
            continue
        us = kernel_prediction(entry)
        lines.append(
            f"| {entry.name} | {', '.join(map(str, entry.order))} bfloat16 | {entry.target} | "
            f"{entry.source} | {entry.us:,.0f} | {us:,.0f} | {us / entry.us:.2f} |"
        )
    lines += [
        "",
        "## Isolated instructions, Trainium 2",
        "",
        "Completion time in ns for 128 partitions and N elements per partition.",
        "",
        "| instruction | " + " | ".join(f"N = {n}, published | predicted" for n in _SIZES) + " |",
        "| --- |" + " ---: |" * (2 * len(_SIZES)),
    ]
    for probe in INSTRUCTIONS:
        cells = []
        for n in _SIZES:
            if n > 512 and nkisim.language.psum in probe.buffers:
                cells += ["", ""]
                continue
            kernel = kernels.one_instruction(probe.call, (128, n), probe.dtype, probe.buffers)
            work = captured(kernel, "trn2").operations[-1].work
            cells += [f"{probe.start + probe.slope * n:,.0f}", f"{work.busy + work.tail:,.0f}"]
        lines.append(f"| {probe.name} | " + " | ".join(cells) + " |")
    rows = rows_of(every_case(large=large))
    lines += ["", *ranges_table(rows), "", *pairs_table(rows), "", *advice_table()]
    return "\n".join([*lines, "", *constants_table()]) + "\n"


def ranges_table(rows: list[Row]) -> list[str]:
    """Return the errors and the ranges of each source, and what the other sources say of them."""
    stated = float(timing_of(resolve_target("trn2")).calibration_error)
    measured = [row for row in rows if not row.tuned]
    sources, left = by_source(measured), {found.source: found for found in leave_one_out(measured)}
    lines = [
        "## Ranges",
        "",
        f"Operators ran on both cores with NKI 0.7. *Inside*: share of the measured times in the "
        f"range with the stated error of the model, {stated:.0%}. *Left out*: the same with the "
        f"error that the other sources need. *Width*: half of the range over the prediction.",
        "",
        "| source | rows | median error % | bias % | rank | inside % | width % | left out % |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, mine in (*sources.items(), ("all", measured)):
        ratios = np.array([row.ratio for row in mine])
        error, bias = np.median(np.abs(ratios - 1)), np.median(ratios) - 1
        rank = f"{_rank_of(mine):.2f}" if len(mine) > 2 and name != "all" else ""
        inside = np.mean([row.inside(stated) for row in mine])
        width = np.median([row.width(stated) for row in mine])
        without = f"{left[name].inside:.0%}".removesuffix("%") if name in left else ""
        lines.append(
            f"| {name} | {len(mine)} | {100 * error:.1f} | {100 * bias:+.1f} | {rank} | "
            f"{100 * inside:.0f} | {100 * width:.0f} | {without} |"
        )
    out = sum(found.inside * len(sources[found.source]) for found in left.values())
    narrow = np.mean([row.width(stated) <= 0.2 for row in measured])
    return [
        *lines,
        "",
        f"Leaving out one source at a time, {out / len(measured):.0%} of the rows are in their "
        f"range; {SHARE:.0%} are wanted. The range of {narrow:.0%} of the rows is at most 20 %.",
    ]


def _rank_of(rows: list[Row]) -> float:
    measured, predicted = (np.array([getattr(r, n) for r in rows]) for n in Row._fields[2:4])
    return rank_correlation(predicted, measured)


def pairs_table(rows: list[Row]) -> list[str]:
    """Return the order of tuned pairs of settings, and whether their ranges separate them."""
    known = {(row.source, row.case): row for row in rows}
    lines = [
        "## Tuned pairs",
        "",
        "Times of the tuned setting over those of the default one. A pair is *separable* if the "
        "range of the difference does not contain 0.",
        "",
        "| operator | tuned setting | measured | predicted | separable |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for pair in TUNED:
        names = [(case.name, name_of(case)) for case in pair]
        if not all(name in known for name in names):
            continue
        before, after = (known[name] for name in names)
        lines.append(
            f"| {before.source} {before.case} | {after.case.removeprefix(before.case).strip()} | "
            f"{after.measured / before.measured:.2f} | {after.predicted / before.predicted:.2f} | "
            f"{'yes' if after.less(before).separable else 'no'} |"
        )
    return lines


def advice_table() -> list[str]:
    """Return what advice gains for kernels with slow habits, on gen3."""
    lines = [
        "## Gains of advice",
        "",
        "Kernels of `tests/nkisim/profiling/slow_kernels.py` on gen3, with the changes that gain "
        "together. The times after are predictions for the edited kernels, which compute the same.",
        "",
        "| kernel | changes | before us | after us |",
        "| --- | --- | ---: | ---: |",
    ]
    for case in SLOW.values():
        found = nkisim.profile(case.kernel, "gen3")(*case.arguments(case.shapes, 0))
        if found.together is not None:
            rules = ", ".join(found.advice[i].rule for i in found.together.pieces)
            times = f"{found.latency_us:,.1f} | {found.together.latency_us:,.1f}"
            lines.append(f"| `{case.name}` | {rules} | {times} |")
    return lines


def constants_table() -> list[str]:
    """Return the table of constants."""
    by_generation = {g.name: timing_of(g).constants() for g in GENERATIONS}
    lines = [
        "## Constants",
        "",
        "Times in ns, clocks in GHz, rates in bytes per ns. *Documented*: AWS's text. *Measured*: "
        "published timings. *Fitted*: chosen so that the times above agree. *Assumed*: a guess "
        "from the neighbouring generation or from a range.",
        "",
        "| constant | " + " | ".join(by_generation) + " | gen3 is | source |",
        "| --- |" + " ---: |" * len(by_generation) + " --- | --- |",
    ]
    for name, constant in by_generation["gen3"].items():
        values = " | ".join(f"{found[name]:g}" for found in by_generation.values())
        lines.append(f"| `{name}` | {values} | {constant.confidence} | {constant.source} |")
    return lines


def main() -> None:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    wanted = parser.parse_args()
    text = page(large=wanted.write)
    if wanted.write:
        PAGE.write_text(text, encoding="utf-8")
        print(PAGE)
    else:
        print(text)


if __name__ == "__main__":
    main()
