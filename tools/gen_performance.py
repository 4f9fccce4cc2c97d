#!/usr/bin/env python
"""Write docs/performance.md and its picture from the recorded predictions of the suite's kernels.

    python benchmarks/bench_device.py --record && python tools/gen_performance.py

Needs matplotlib: ``pip install "nkisim[plot]"``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in ("tools", "benchmarks"):
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))

from bench_device import GROUPS, RECORD, TARGETS, problems  # noqa: E402
from device_problems.problem import Problem  # noqa: E402
from markdown_text import join, table  # noqa: E402

PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "pictures" / "performance.svg"
FAR = 0.5
"""Share of the bound below which the page says what binds a kernel."""

BEFORE = {
    "fft 128 x 65536": (
        7335.4,
        "data is the stationary operand: a product transforms and transposes",
    ),
    "fft 128 x 1024": (
        86.3,
        "rows on partitions, exact transposes before two products, twiddles in the second",
    ),
    "fft2 1024 x 1024": (910.8, "two equal passes, the image stays in SBUF between them"),
    "normal(1,048,576), philox": (
        1085.1,
        "32-bit products from products of bytes on the Tensor engine",
    ),
    "CSR 4096, 1.00%, times 128 columns, held": (3204.4, "dense tiles, held by the matrix"),
    "CSR 4096, 1.00%, times 128 columns": (3204.4, "entries in bulk: only gathers stay on GpSimd"),
    "trsm 1024 x 512": (142.4, "inverses of diagonal blocks by doubling, 16 in lock-step"),
    "batched_gemm 64 x 256 x 256 x 256 float32": (239.3, "several whole matrices per transfer"),
    "cholesky 512": (980.7, "panels of 16 columns; each partition eliminates its own row"),
    "eigh 1 x 64": (5712.0, "fixed pairs, one matrix of rotation and permutation per round"),
    "batched_trsm 64 x 128 x 128": (1010.8, "16 blocks of any matrices in lock-step"),
    "rfft 128 x 1024": (71.4, "half of the groups of many complex rows"),
    "irfft 128 x 513": (102.7, "half of the groups of many complex rows"),
}
"""By problem on gen3: the time before tuning, by the model of that day, and what helped."""

INTRODUCTION = """\
**All times here are predictions of [`nkisim profile`](guides/profiling.md); nothing was measured
by this project.** On the published times that its constants come from, the model's mean error is
2.6 % for blocked products, and 3 to 11 % for whole kernels
([calibration](design/profile-calibration.md), where each predicted time is next to the published
one). The range of a time spans the alternatives of the model's [named
assumptions](design/profile-model.md#assumptions), one at a time, and its error; the last column
names the assumption that matters most. `python benchmarks/bench_device.py --all` prints the table
of this checkout; a test compares it with the recorded one."""


def main() -> None:
    """Write the page and the picture."""
    figures = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(page(figures), encoding="utf-8")
    draw(figures, PICTURE)
    print(f"{PAGE}: {len(figures)} problems")


def page(figures: dict[str, Any]) -> str:
    """Return the text of the page."""
    tuned = list(problems(GROUPS[:1]))
    others, kernels = list(problems(GROUPS[1:3])), list(problems(GROUPS[3:]))
    return join(
        [
            "<!-- Written by tools/gen_performance.py from benchmarks/results/device.json. -->",
            "# Predicted performance",
            INTRODUCTION,
            "![Time of each problem before and after, next to its bound](pictures/performance.svg)",
            "## Before and after, on gen3",
            "Times in us; *before* is by the model of that day. Since then iterations of device "
            "loops do not overlap, which doubles `eigh`. The bound is the least time for operands, "
            "results and products of the problem; its share is what the kernel reaches of it.",
            table(
                (
                    "problem",
                    "before",
                    "now",
                    "range",
                    "bound",
                    "share",
                    "goal",
                    "what made it faster",
                ),
                [_change(problem, figures[problem.name]["gen3"]) for problem in tuned],
            ),
            "## Generations",
            table(
                ("problem", *(f"{target}, us" for target in TARGETS), "gen4 over gen3"),
                [_generations(problem, figures[problem.name]) for problem in tuned],
            ),
            "## Other sizes",
            "Half as large again, and odd sizes: no kernel is fitted to one size.",
            table(
                ("problem", *(f"{target}, us" for target in TARGETS), "share on gen3"),
                [_other(problem, figures[problem.name]) for problem in others],
            ),
            "## Other kernels",
            "A size of use for each kernel without a goal. The time before is that on gen3.",
            table(
                (
                    "problem",
                    "before",
                    *(f"{target}, us" for target in TARGETS),
                    "share on gen3",
                    "what made it faster",
                ),
                [_kernel(problem, figures[problem.name]) for problem in kernels],
            ),
            "## Far from the bound",
            f"Problems that reach less than {FAR:.0%} of the bound on gen3: what binds them, and "
            "the assumption that their time depends on most.",
            table(
                ("problem", "share", "bound by", "assumption"),
                [
                    row
                    for p in [*tuned, *others, *kernels]
                    for row in _far(p, figures[p.name]["gen3"])
                ],
            ),
        ]
    )


def _share(figure: dict[str, Any]) -> float:
    share: float = figure["bound_us"] / figure["us"]
    return share


def _change(problem: Problem, figure: dict[str, Any]) -> list[str]:
    low, high = figure["span"]
    before, step = BEFORE.get(problem.name, (0.0, ""))
    return [
        problem.name,
        f"{before:,.0f}" if before else "",
        f"{figure['us']:,.1f}",
        f"{low:,.0f} - {high:,.0f}",
        f"{figure['bound_us']:,.1f}",
        f"{_share(figure):.0%}",
        "" if problem.goal_us is None else f"{problem.goal_us:,g}",
        step,
    ]


def _generations(problem: Problem, figures: dict[str, Any]) -> list[str]:
    times = [figures[target]["us"] for target in TARGETS]
    return [problem.name, *(f"{us:,.1f}" for us in times), f"{times[2] / times[1]:.2f}"]


def _other(problem: Problem, figures: dict[str, Any]) -> list[str]:
    return [
        problem.name,
        *(f"{figures[target]['us']:,.1f}" for target in TARGETS),
        f"{_share(figures['gen3']):.0%}",
    ]


def _kernel(problem: Problem, figures: dict[str, Any]) -> list[str]:
    before, step = BEFORE.get(problem.name, (0.0, ""))
    name, *rest = _other(problem, figures)
    return [name, f"{before:,.0f}" if before else "", *rest, step]


def _far(problem: Problem, figure: dict[str, Any]) -> Sequence[list[str]]:
    if _share(figure) >= FAR:
        return []
    return [
        [problem.name, f"{_share(figure):.0%}", figure["bound_by"], figure["assumption"] or "none"]
    ]


def draw(figures: dict[str, Any], file: Path) -> None:
    """Draw the time of each problem before and after, with its range and its bound."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "performance"
    from matplotlib import pyplot as plt

    chosen = list(problems(GROUPS[:1]))
    rows = range(len(chosen), 0, -1)
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(chosen) + 1.2), layout="constrained")
    for row, problem in zip(rows, chosen, strict=True):
        found = figures[problem.name]["gen3"]
        before, _ = BEFORE.get(problem.name, (0.0, ""))
        axes.plot(found["span"], [row, row], color="#4477aa", linewidth=5, alpha=0.35)
        axes.plot(found["us"], row, "o", color="#4477aa")
        axes.plot(found["bound_us"], row, "|", color="#c23b4e", markersize=14, markeredgewidth=2)
        if before:
            axes.plot(before, row, "o", color="#777777", fillstyle="none")
            axes.plot([before, found["us"]], [row, row], color="#777777", linewidth=0.8)
    axes.set_yticks(list(rows), [problem.name for problem in chosen])
    axes.set_xscale("log")
    axes.set_xlabel("predicted us on gen3: ring before, dot now, bar bound")
    axes.grid(axis="x", which="both", alpha=0.25)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
