"""A profile as terminal text: totals, engines, timeline, critical path and advice."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence

from nkisim.diagnostics import Finding
from nkisim.profiling.model.ranges import Difference
from nkisim.profiling.result import Advice, LineTime, ProfileData, Span

_RATES = ((1.0, "TFLOP/s"), (1e3, "GFLOP/s"))

_MOST_LINES = 5
_LEAST_WIDTH = 60
_LABEL = 12
_SHADES = {True: " ░▒▓█", False: " .:+#"}
_COLOURS = {
    "tensor": "\x1b[34m",
    "vector": "\x1b[32m",
    "scalar": "\x1b[33m",
    "gpsimd": "\x1b[35m",
    "sync": "\x1b[37m",
    "dge": "\x1b[31m",
    "dma": "\x1b[36m",
    "head": "\x1b[1m",
    "dim": "\x1b[2m",
}
_RESET = "\x1b[0m"
_ORIGINS = {
    "software": "by GpSimd",
    "hardware": "by hardware",
    "prebuilt": "before the run",
}


def summary(
    profile: ProfileData, width: int = 80, *, colour: bool = False, unicode: bool = True
) -> str:
    """Return a profile as text.

    Args:
        profile: The profile.
        width: Columns of the terminal; at least 60 are used.
        colour: Whether to add terminal colours.
        unicode: Whether to draw with block characters; otherwise with ASCII.
    """
    drawing = _Drawing(max(width, _LEAST_WIDTH), colour, unicode)
    parts = [
        drawing.findings(profile.findings),
        drawing.totals(profile),
        drawing.engines(profile),
        drawing.timeline(profile),
        drawing.critical_path(profile),
        drawing.advice(profile),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def labels(profiles: Sequence[ProfileData]) -> list[str]:
    """Return the names of the kernels, with their files where there are several."""
    if len({profile.file for profile in profiles}) < 2:
        return [profile.kernel for profile in profiles]
    here = os.getcwd() + os.sep
    return [f"{profile.file.removeprefix(here)}::{profile.kernel}" for profile in profiles]


def comparison(profiles: Sequence[ProfileData]) -> str:
    """Return one line per profile."""
    names = labels(profiles)
    name = max(6, *map(len, names)) + 2
    lines = [f"{'kernel':<{name}}{'target':<8}{'latency':>10}  {'bound by':<14}share of the bound"]
    for label, profile in zip(names, profiles, strict=True):
        lines.append(
            f"{label:<{name}}{profile.target:<8}{duration(profile.latency_us):>10}  "
            f"{profile.bound_by:<14}{profile.bound_share:.0%}"
        )
    return "\n".join(lines) + "\n"


def duration(us: float) -> str:
    """Return a time with three significant digits and its unit."""
    if us < 0:
        return f"-{duration(-us)}"
    for factor, unit in ((1e-6, "s"), (1e-3, "ms"), (1.0, "us")):
        if us * factor >= 1 or unit == "us":
            value = us * factor
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    raise AssertionError


def size(nbytes: float) -> str:
    """Return a number of bytes with a binary prefix."""
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"


def place(file: str, line: int) -> str:
    """Return a line of a file, without the folder."""
    return f"{os.path.basename(file)}:{line}" if file else ""


def schedule_us(profile: ProfileData) -> float:
    """Return the end of the timeline: the last result is ready."""
    return max((span.ready_us for span in profile.timeline), default=0.0)


def busy_columns(spans: Iterable[Span], end_us: float, columns: int) -> list[float]:
    """Return the share of each column of time in which an engine is busy."""
    busy = [0.0] * columns
    step = end_us / columns or 1.0
    for span in spans:
        first = min(int(span.start_us / step), columns - 1)
        last = min(int(span.end_us / step), columns - 1)
        for column in range(first, last + 1):
            inside = min(span.end_us, (column + 1) * step) - max(span.start_us, column * step)
            busy[column] += max(inside, 0.0)
    return [min(share / step, 1.0) for share in busy]


class _Drawing:
    """The parts of a summary, for a width and a set of characters."""

    def __init__(self, width: int, colour: bool, unicode: bool) -> None:
        self.width = width
        self.colour = colour
        self.shades = _SHADES[unicode]

    def totals(self, profile: ProfileData) -> list[str]:
        """Return the time, its bound, the traffic and the position below the roofs."""
        low, high = profile.interval_us
        waits = profile.latency_us - profile.fixed_us - schedule_us(profile)
        rows = [
            ("arguments", arguments_text(profile)),
            (
                "latency",
                f"{duration(profile.latency_us)}, between {duration(low)} and {duration(high)}",
            ),
            ("assumed", assumptions_text(profile)),
            (
                "parts",
                f"{duration(schedule_us(profile))} timeline, {duration(max(waits, 0.0))} expected "
                f"waits, {duration(profile.fixed_us)} fixed cost",
            ),
            ("host", f"{duration(profile.host_us)} per call, not in the latency"),
            (
                "left out",
                "operators of the framework beside the kernel: an execution of 15 to 30 us each",
            ),
            (
                "bound by",
                f"{profile.bound_by}; the bound of {duration(profile.bound_us)} is "
                f"{profile.bound_share:.0%} of the time without the fixed cost",
            ),
            (
                "HBM",
                f"{size(profile.hbm_bytes)} in {profile.transfers:,} transfers, spills "
                f"{size(profile.spill_bytes)}, DMA efficiency {profile.dma_efficiency:.0%}",
            ),
            ("DGE", descriptors_text(profile)),
            ("roofline", roofline_text(profile)),
        ]
        cores = f", {len(profile.per_core)} cores" if len(profile.per_core) > 1 else ""
        title = f"{profile.kernel} on {profile.target}{cores}, NKI {profile.nki}"
        return [self._styled(title, "head"), *self._table(rows)]

    def engines(self, profile: ProfileData) -> list[str]:
        """Return the busy time of each engine with a bar of its utilisation."""
        busiest = " of the busiest core" if len(profile.per_core) > 1 else ""
        lines = [self._styled(f"{'engine':<{_LABEL}}{'busy':>10}   utilisation{busiest}", "head")]
        room = self.width - _LABEL - 10 - 3 - 7
        for key, busy in profile.engine_busy_us.items():
            share = profile.utilization[key]
            bar = self.shades[-1] * round(min(share, 1.0) * room)
            painted = self._styled(bar.ljust(room), key)
            lines.append(f"{key:<{_LABEL}}{duration(busy):>10}   {painted}{share:>7.1%}")
        return lines

    def timeline(self, profile: ProfileData) -> list[str]:
        """Return one row per engine and core; columns are shaded by utilisation."""
        end = schedule_us(profile)
        if not profile.timeline or end <= 0:
            return []
        columns = self.width - _LABEL - 2
        rows: dict[tuple[int, str], list[Span]] = {}
        for span in profile.timeline:
            rows.setdefault((span.core, span.engine), []).append(span)
        several = len(profile.per_core) > 1
        head = f"{'timeline':<{_LABEL}} 0 to {duration(end)}, {duration(end / columns)} per column"
        lines = [self._styled(head, "head")]
        for core in range(len(profile.per_core)):
            for key in profile.engine_busy_us:
                spans = rows.get((core, key))
                if spans is None:
                    continue
                top = len(self.shades) - 1
                cells = "".join(
                    self.shades[min(top, max(round(share * top), int(share > 0)))]
                    for share in busy_columns(spans, end, columns)
                )
                label = f"{core} {key}" if several else key
                lines.append(f"{label:<{_LABEL}}|{self._styled(cells, key)}|")
        return lines

    def critical_path(self, profile: ProfileData) -> list[str]:
        """Return the lines with the largest shares of the critical path, and its cycle."""
        shown = [line for line in profile.lines if line.critical_us > 0][:_MOST_LINES]
        if not shown:
            return []
        whole = sum(line.critical_us for line in profile.lines)
        lines = [self._styled(f"critical path, {duration(whole)}", "head")]
        lines += [self._line(line, whole) for line in shown]
        if profile.cycle is not None:
            variable, count, steps = profile.cycle
            total = sum(ns for *_, ns in steps)
            lines.append(f"one of {count:,} iterations of `{variable}` on it, {total:,.0f} ns")
            lines += [f"{ns:>7,.0f} ns  {place(file, n)}  {name}" for name, file, n, ns in steps]
        return lines

    def _line(self, line: LineTime, whole: float) -> str:
        share = f"{line.critical_us / whole:.0%}"
        head = f"{duration(line.critical_us):>10} {share:>5}  {place(line.file, line.line)}  "
        room = max(self.width - len(head), 3)
        text = line.text if len(line.text) <= room else line.text[: room - 3] + "..."
        return (head + text).rstrip()

    def advice(self, profile: ProfileData) -> list[str]:
        """Return the changes that gain and what they gain together, or why there are none."""
        if profile.no_advice:
            return self._table([("advice", f"none, because {profile.no_advice}")])
        lines = [self._styled("advice", "head")] if profile.advice else []
        for advice in profile.advice:
            lines.append(self._styled(advice_title(advice), "head"))
            rows = [
                ("cause", advice.cause),
                ("action", advice.action),
                ("range", range_text(advice.gain_range)),
            ]
            lines += self._table([row for row in rows if row[1]])
            lines += [f"{'':<{_LABEL}}{row}" for row in hunks(advice.code)]
        together = together_text(profile)
        return [*lines, *([self._styled(together, "head")] if together else [])]

    def findings(self, found: Sequence[Finding]) -> list[str]:
        """Return the findings; errors among them are about the source alone."""
        lines = [self._styled("findings", "head")] if found else []
        return [*lines, *(f"  {finding.summary}" for finding in found)]

    def _table(self, rows: Iterable[tuple[str, str]]) -> list[str]:
        """Return labelled paragraphs."""
        lines = []
        for label, text in rows:
            wrapped = textwrap.wrap(text, self.width - _LABEL) or [""]
            lines.append(self._styled(f"  {label:<{_LABEL - 2}}", "dim") + wrapped[0])
            lines += [" " * _LABEL + more for more in wrapped[1:]]
        return lines

    def _styled(self, text: str, style: str) -> str:
        return f"{_COLOURS.get(style, '')}{text}{_RESET}" if self.colour else text


def advice_title(advice: Advice) -> str:
    """Return rule, condition, place and gain of a piece of advice."""
    gain = ", not tried" if advice.gain_us is None else f", saves {duration(advice.gain_us)}"
    where = f" at {place(advice.file, advice.line)}" if advice.file else ""
    return f"{advice.rule} {advice.title}{where}{gain}"


def range_text(gain: Difference | None) -> str:
    """Return the range of a gain, and whether it has one sign; empty without a range."""
    if gain is None:
        return ""
    low, high, doubt = gain.low, gain.high, gain.doubt
    return f"{duration(low)} to {duration(high)}" + (f", not separable: {doubt}" if doubt else "")


def hunks(code: str) -> list[str]:
    """Return the lines of a diff without the names of its files."""
    return [row for row in code.splitlines() if not row.startswith(("--- ", "+++ "))]


def together_text(profile: ProfileData) -> str:
    """Return what pieces of advice gain together; empty for a single one."""
    whole = profile.together
    tried = sum(piece.gain_us is not None for piece in profile.advice)
    if whole is None or tried < 2:
        return ""
    chosen = [profile.advice[i] for i in whole.pieces]
    names = " and ".join(f"{piece.rule} at line {piece.line}" for piece in chosen)
    rest = "" if len(chosen) == tried else "; the other changes gain nothing on top of that"
    return (
        f"with {names} the kernel takes {duration(whole.latency_us)} in place of "
        f"{duration(profile.latency_us)}{rest}; that saves {range_text(whole.gain_range)}"
    )


def arguments_text(profile: ProfileData) -> str:
    """Return the arguments of the call, arrays by dtype and shape."""
    return ", ".join(f"{name}={text}" for name, text in profile.arguments.items()) or "none"


def assumptions_text(profile: ProfileData) -> str:
    """Return the assumption that matters most, with the times of its alternatives."""
    if not profile.assumptions:
        return "nothing that changes the time"
    first, *others = profile.assumptions
    times = ", ".join(f"{duration(us)} with {value}" for value, us in first.alternatives.items())
    more = f"; less depends on {', '.join(doubt.name for doubt in others)}" if others else ""
    return f"{first.name} = {first.assumed}: {times}{more}"


def descriptors_text(profile: ProfileData) -> str:
    """Return the origins of the DMA descriptors, and what was assumed about them."""
    counts = [f"{_ORIGINS[mode]} {count:,}" for mode, count in profile.descriptors.items()]
    return (
        f"descriptors made {', '.join(counts) or 'for no transfer'}; assumed "
        f"{_ORIGINS[profile.assumed_descriptors]} where the kernel leaves it open"
    )


def roofline_text(profile: ProfileData) -> str:
    """Return the rate of a kernel compared with the roof at its arithmetic intensity."""
    if not profile.flops:
        rate = profile.hbm_bytes / profile.latency_us / 1e3 if profile.latency_us else 0.0
        return f"no products; {rate:.0f} of {profile.hbm_gbps:.0f} GB/s of HBM traffic"
    limit = "HBM" if profile.roofline_tflops < profile.peak_tflops else "Tensor engine"
    return (
        f"{flop_rate(profile.achieved_tflops)} of {flop_rate(profile.roofline_tflops)}, the limit "
        f"of the {limit} at {profile.intensity:.1f} FLOP/byte"
    )


def flop_rate(tflops: float) -> str:
    """Return a floating-point rate in the largest unit of which it is at least a tenth."""
    value, unit = next(
        ((tflops * factor, unit) for factor, unit in _RATES if tflops * factor >= 0.1),
        (tflops * 1e6, "MFLOP/s"),
    )
    return f"{value:.{2 if value < 10 else 1}f} {unit}"
