"""``trnsci bench``: run the benchmarks of the checkout, keep their results, draw them."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

__all__ = ["bench", "draw"]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="Name the benchmarks and run none.")
@click.option("--no-run", is_flag=True, help="Draw what was recorded before.")
@click.option(
    "--draw",
    "folder",
    type=click.Path(file_okay=False),
    help="Draw the latest results as SVG files in this folder.",
)
def bench(names: tuple[str, ...], only_list: bool, no_run: bool, folder: str | None) -> None:
    """Run benchmarks, all without NAMES, and append what they measure to their CSV files."""
    home = _benchmarks()
    known = {path.stem.removeprefix("bench_"): path for path in sorted(home.glob("bench_*.py"))}
    if only_list:
        click.echo("\n".join(known))
        return
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"got {unknown[0]!r}, accepted: {', '.join(known)}")
    failed = []
    for name in () if no_run else names or known:
        click.echo(f"== {name}")
        ran = subprocess.run([sys.executable, str(known[name]), "--record"], cwd=home.parent)
        if ran.returncode:
            failed.append(name)
    if folder is not None:
        for path in sorted((home / "results").glob("*.csv")):
            click.echo(str(draw(path, Path(folder))))
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


def _benchmarks() -> Path:
    """Return the folder of the benchmarks, which only a checkout has."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "benchmarks" / "runner.py").is_file():
            return parent / "benchmarks"
    raise click.ClickException("the benchmarks come with the checkout of trnsci, not with a wheel")


def draw(results: Path, folder: Path) -> Path:
    """Draw the latest measurement of each problem as bars, relative to its fastest contender."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise click.ClickException("drawing needs matplotlib: pip install '.[plot]'") from None

    latest = _latest(results)
    figure: Any = Figure(figsize=(9, 0.6 + 0.34 * sum(map(len, latest.values()))), layout="tight")
    axes = figure.add_subplot()
    labels, ratios, colours = [], [], []
    for problem, times in latest.items():
        least = min(times.values())
        for place, (contender, seconds) in enumerate(times.items()):
            labels.append(f"{problem}: {contender}")
            ratios.append(seconds / least)
            colours.append(f"C{place}")
    axes.barh(range(len(labels)), ratios, color=colours)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time relative to the fastest, this CPU")
    axes.set_title(results.stem)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results.stem}.svg"
    figure.savefig(path)
    return path


def _latest(results: Path) -> dict[str, dict[str, float]]:
    """Return seconds by problem and contender, of the last time each was measured."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with results.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            found[line["problem"]][line["contender"]] = float(line["wall_p50_s"])
    return dict(found)
