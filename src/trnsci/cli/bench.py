"""``trnsci bench``: run the benchmarks of the checkout, record and plot their results."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from trnsci.cli.extras import not_installed


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
    from trnsci.cli.charts import chart, read_results

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
