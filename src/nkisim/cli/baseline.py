"""Options ``--baseline OLD.json --fail-if-slower 5%`` of commands that predict times."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from nkisim.profiling.text import duration


class Baseline(NamedTuple):
    """Times of an earlier report.

    Attributes:
        times: Times in us by kernel, target and arguments as text.
        margin: Share of the earlier time by which a kernel may be slower.
    """

    times: dict[tuple[str, str, str], float]
    margin: float

    def slower(self, kernel: str, target: str, arguments: str, latency_us: float) -> str:
        """Return by how much a kernel is slower than before; empty if it is not, or not known.

        A kernel is compared with itself on the same target and arguments only.
        """
        before = self.times.get((kernel, target, arguments), math.inf)
        if latency_us <= before * (1.0 + self.margin):
            return ""
        return (
            f"{kernel} on {target}: {duration(latency_us)} and not {duration(before)}, "
            f"{latency_us / before - 1.0:.1%} slower"
        )

    def knows(self, kernel: str, target: str, arguments: str) -> bool:
        """Return whether the earlier report has a call."""
        return (kernel, target, arguments) in self.times


def baseline_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the two options to a command."""
    slower = click.option(
        "--fail-if-slower", metavar="PERCENT", default="0%", help="Tolerated loss, such as 5%."
    )
    old = click.option("--baseline", metavar="FILE", help="JSON report of an earlier run.")
    return old(slower(command))


def read_baseline(file: str | None, margin: str) -> Baseline | None:
    """Return the baseline that the options name; None without one."""
    number = margin.strip().removesuffix("%")
    try:
        share = float(number) / 100.0
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1e6:
        raise click.UsageError(f"--fail-if-slower: got {margin!r}, accepted: a percentage like 5%")
    if file is None:
        return None
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        return Baseline(_times(data), share)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise click.UsageError(
            f"--baseline: {file} is no report of judge or profile: {error}"
        ) from None


def arguments_text(arguments: dict[str, str]) -> str:
    """Return the arguments of a profile as text."""
    return ", ".join(f"{name}={text}" for name, text in arguments.items())


def _times(data: dict[str, Any]) -> dict[tuple[str, str, str], float]:
    if "profiles" in data:
        return {
            (p["kernel"], p["target"], arguments_text(p["arguments"])): float(p["latency_us"])
            for p in data["profiles"]
        }
    if data["latency_us"] is None:
        return {}
    first = data["right"]["cases"][0]["arguments"]
    return {(data["kernel"], data["target"], first): float(data["latency_us"])}
