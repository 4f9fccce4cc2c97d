"""``trnsci bench``: run the benchmarks of the checkout, record and plot their results.

A chart has the latest run of every problem against its best baseline. A ratio is of two medians of
the same run, since machines differ and throttle. Charts are plain SVG, so that a page needs no
script and can use its own colour scheme.
"""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path

import click

from trnsci.cli.extras import not_installed
from trnsci.core.errors import ParameterError
from trnsci.libraries import LIBRARIES

OURS = ("ours", "nkisim", "philox", *LIBRARIES)
"""Names of the libraries in the results."""

ASIDE = ("threefry",)
"""Other variants of ours: not baselines, like all names that begin with one of ``OURS``."""

ROW_PX, LABEL_PX, VALUE_PX, PLOT_PX = 18, 210, 130, 300
LABEL_LETTERS = 34


@dataclass(frozen=True)
class Result:
    """The latest measurement of one problem.

    Attributes:
        problem: Its name.
        ours_s: Median seconds of ours.
        rival: The fastest baseline in the same run.
        rival_s: Its median seconds.
        date: Day of the run.
        commit: Commit of the sources.
        machine: The machine.
        python: Python version.
    """

    problem: str
    ours_s: float
    rival: str
    rival_s: float
    date: str
    commit: str
    machine: str
    python: str

    @property
    def ratio(self) -> float:
        """Time of ours over that of the strongest baseline; below 1 is faster."""
        return self.ours_s / self.rival_s


def read_results(path: Path) -> list[Result]:
    """Return the latest run of every problem that has a baseline, in the order of the file.

    Raises:
        ParameterError: The file is not a results file of the benchmarks.
    """
    runs: dict[str, dict[str, dict[str, str]]] = {}
    before = ""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                problem, contender = line["problem"], line["contender"]
                run = runs.get(problem)
                # A run writes its contenders one after the other, each once.
                if run is None or problem != before or contender in run:
                    run = runs[problem] = {}
                float(line["wall_p50_s"]), line["date"], line["commit"], line["machine"]
                run[contender] = line
                before = problem
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path}: not a table of results: {error!r}") from None
    return [found for problem, run in runs.items() if (found := _result(problem, run)) is not None]


def _result(problem: str, run: dict[str, dict[str, str]]) -> Result | None:
    ours = next((line for name, line in run.items() if name in OURS), None)
    others = {n: line for n, line in run.items() if not n.startswith((*OURS, *ASIDE))}
    if ours is None or not others:
        return None
    rival = min(others, key=lambda name: float(others[name]["wall_p50_s"]))
    return Result(
        problem,
        float(ours["wall_p50_s"]),
        rival,
        float(others[rival]["wall_p50_s"]),
        ours["date"][:10],
        ours["commit"],
        ours["machine"],
        ours.get("python", ""),
    )


def seconds_text(seconds: float) -> str:
    """Return a time with a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def chart(results: Sequence[Result], title: str, *, standalone: bool = True) -> str:
    """Return a bar chart of the ratios on a logarithmic axis, as SVG.

    Args:
        results: The results, one bar each, from top to bottom.
        title: Description for screen readers.
        standalone: True for a separate file with a white background; False for a page, whose
            text colour is used.
    """
    reach = max([1.0, *(abs(math.log2(result.ratio)) for result in results)])
    middle = LABEL_PX + VALUE_PX + PLOT_PX / 2
    scale = PLOT_PX / 2 / (reach * 1.05)
    width, height = LABEL_PX + PLOT_PX + VALUE_PX, ROW_PX * len(results) + 44
    text = "#1f2328" if standalone else "currentColor"
    bottom = height - 24
    # A picture in a page shrinks to the page's width, which is unreadable on a phone.
    style = "" if standalone else f' style="min-width: {width}px"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(title, quote=True)}" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="{text}"{style}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>' if standalone else "",
        *_axis(reach, middle, scale, bottom, text),
    ]
    common = _common_end([result.problem for result in results])
    for row, result in enumerate(results):
        y = 4 + ROW_PX * row
        offset = scale * math.log2(result.ratio)
        left, length = min(middle, middle + offset), max(abs(offset), 1.0)
        colour = "#2e8b57" if result.ratio <= 1 else "#c2662d"
        tooltip = f"{result.problem}: {result.ratio:.2f} times as long as {result.rival}"
        parts += [
            f"<g><title>{escape(tooltip)}</title>",
            f'<text x="{LABEL_PX - 8}" y="{y + 12}" text-anchor="end">'
            f"{escape(_short(result.problem.removesuffix(common)))}</text>",
            f'<text x="{LABEL_PX}" y="{y + 12}">{result.ratio:.2f} '
            f"{escape(result.rival[:16])}</text>",
            f'<rect x="{left:.1f}" y="{y + 3}" width="{length:.1f}" height="12" fill="{colour}"/>',
            "</g>",
        ]
    return "\n".join(part for part in [*parts, "</svg>"] if part) + "\n"


def _axis(reach: float, middle: float, scale: float, bottom: int, text: str) -> Iterable[str]:
    """Yield the lines at powers of two and their labels."""
    step = 1 if reach <= 3 else 2 if reach <= 6 else 4
    for power in range(-step * int(reach // step), int(reach) + 1, step):
        x = middle + scale * power
        strong = "0.9" if power == 0 else "0.2"
        yield (
            f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}" stroke="{text}" '
            f'stroke-opacity="{strong}"/>'
        )
        label = f"{2**power}x" if power >= 0 else f"1/{2**-power}x"
        yield f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{label}</text>'
    for anchor, x, words in (
        ("end", middle - 24, "ours is faster"),
        ("start", middle + 24, "ours is slower"),
    ):
        yield f'<text x="{x:.1f}" y="{bottom + 23}" text-anchor="{anchor}">{words}</text>'


def _common_end(problems: Sequence[str]) -> str:
    """Return the common last words of all names, such as the dtype; empty for a single name."""
    ends = [name.split(" ")[::-1] for name in problems]
    count = 0
    while len(ends) > 1 and all(len(e) > count + 1 and e[count] == ends[0][count] for e in ends):
        count += 1
    return "".join(f" {word}" for word in ends[0][:count][::-1]) if count else ""


def _short(problem: str) -> str:
    """Return a name shortened to the width of its column."""
    return problem if len(problem) <= LABEL_LETTERS else f"{problem[: LABEL_LETTERS - 1]}…"


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="List the benchmarks and run none.")
@click.option("--no-run", is_flag=True, help="Run nothing; draw recorded results.")
@click.option(
    "--draw",
    "folder",
    type=click.Path(file_okay=False),
    help="Draw the latest results as SVG files in this folder.",
)
def bench(names: tuple[str, ...], only_list: bool, no_run: bool, folder: str | None) -> None:
    """Run the benchmarks NAMES, by default all, and append their results to the CSV files."""
    home = _benchmarks()
    known = {path.stem.removeprefix("bench_"): path for path in sorted(home.glob("bench_*.py"))}
    if only_list:
        click.echo("\n".join(known))
        return
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"got {unknown[0]!r}, accepted: {', '.join(known)}")
    if not no_run and find_spec("torch") is None:
        raise not_installed("torch")  # which nearly every benchmark is compared with
    failed = []
    for name in () if no_run else names or known:
        click.echo(f"== {name}")
        ran = subprocess.run([sys.executable, str(known[name]), "--record"], cwd=home.parent)
        if ran.returncode:
            failed.append(name)
    if folder is not None:
        for path in sorted((home / "results").glob("*.csv")):
            drawn = draw(path, Path(folder))
            click.echo(str(drawn) if drawn else f"{path}: no baseline to compare with")
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


def _benchmarks() -> Path:
    """Return the folder of the benchmarks, which exists only in a checkout."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "benchmarks" / "runner.py").is_file():
            return parent / "benchmarks"
    raise click.ClickException("the benchmarks come with the checkout of nkisim, not with a wheel")


def draw(results: Path, folder: Path) -> Path | None:
    """Draw the latest run of each problem relative to its best baseline; None without baselines."""
    from trnsci.cli.bench import chart, read_results

    try:
        found = read_results(results)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if not found:
        return None
    path = folder / f"{results.stem}.svg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(chart(found, f"{results.stem}: times over the fastest baseline"))
    except OSError as error:
        raise click.ClickException(f"--draw: {error}") from None
    return path
