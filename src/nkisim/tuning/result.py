"""The result of tuning: legal variants by predicted time, and variants that were dropped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from nkisim.profiling.model.ranges import Difference, alternatives_of, difference
from nkisim.profiling.result import Doubt
from nkisim.profiling.text import duration, size

TIE = 0.02
"""Share of the time up to which variants are ties: the model cannot order them."""

_MOST_SHOWN = 20
"""Maximum of variants in the text; all variants are in the data."""

Values = dict[str, Any]
"""The value of each parameter of the space, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A legal variant of a kernel, with its prediction.

    Attributes:
        values: Values of its parameters.
        latency_us: Predicted device time.
        interval_us: Range of the prediction over the assumptions of the model.
        assumptions: Those that change the time, the one that changes it most first.
        bound_by, bound_share: What limits it, and the share of that bound that it reaches.
        hbm_bytes, spill_bytes: Bytes that it moves.
        used_bytes: Bytes per partition of SBUF and PSUM that its tiles need at most.
        capacity: Bytes per partition that SBUF and PSUM have.
        instructions: Number of instructions.
        agreement: How its outputs compare with the right ones.
    """

    values: Values
    latency_us: float
    interval_us: tuple[float, float]
    assumptions: tuple[Doubt, ...] = ()
    bound_by: str
    bound_share: float
    hbm_bytes: int
    spill_bytes: int
    used_bytes: dict[str, int]
    capacity: dict[str, int]
    instructions: int
    agreement: str = ""

    @property
    def widest(self) -> str:
        """The assumption that widens the range most; "" if none changes the time."""
        return self.assumptions[0].name if self.assumptions else ""

    def is_separable(self, other: Variant) -> bool:
        """Return whether the range of the difference of both times has one sign."""
        return self.difference(other).separable

    def difference(self, base: Variant) -> Difference:
        """Return the range of the difference from the time of another variant."""
        return difference(
            self.latency_us,
            alternatives_of(self.assumptions),
            base.latency_us,
            alternatives_of(base.assumptions),
        )

    def free_bytes(self, region: str) -> int:
        """Return the bytes per partition of ``"sbuf"`` or ``"psum"`` that no tile ever needs."""
        # ``used_bytes`` exceeds the capacity where tiles are spilled.
        return max(self.capacity[region] - self.used_bytes[region], 0)


class Dropped(NamedTuple):
    """A variant that is not offered.

    Attributes:
        values: Values of its parameters.
        reason: Why, in one line.
    """

    values: Values
    reason: str


class NoneLegalError(ValueError):
    """No variant of a kernel is legal and right; the message has the reasons."""


def ranked(variants: Iterable[Variant]) -> list[list[Variant]]:
    """Return the variants in groups of ties, fastest group first.

    A group has all variants within ``TIE`` of its fastest one. In a group the simplest comes first:
    fewest instructions, then least memory, then the shortest time.
    """
    groups: list[list[Variant]] = []
    for variant in sorted(variants, key=lambda v: v.latency_us):
        if not groups or variant.latency_us > (1 + TIE) * groups[-1][0].latency_us:
            groups.append([])
        groups[-1].append(variant)
    return [sorted(group, key=_complexity) for group in groups]


def _complexity(variant: Variant) -> tuple[int, int, float]:
    return variant.instructions, sum(variant.used_bytes.values()), variant.latency_us


@dataclass(slots=True, kw_only=True)
class Tuning:
    """The variants of a kernel for one call.

    Attributes:
        kernel: Name of the kernel.
        target: Generation.
        nki: NKI version.
        arguments: The other arguments by name, as text.
        variants: The legal variants, best first.
        ties: Number of variants at the start of ``variants`` that are ties with the best.
        dropped: The others.
        agreement: With whose outputs those of the variants were compared, and how the best one's
            compare.
        equal_bits: Whether all bits of these outputs are the same; False with a reference.
    """

    kernel: str
    target: str
    nki: str
    arguments: dict[str, str]
    variants: list[Variant]
    ties: int
    dropped: list[Dropped] = field(default_factory=list)
    agreement: str = ""
    equal_bits: bool = True

    @property
    def best(self) -> Variant:
        """The first variant."""
        return self.variants[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        plain = asdict(self)
        for found, variant in zip(plain["variants"], self.variants, strict=True):
            found["assumptions"] = [doubt._asdict() for doubt in variant.assumptions]
            found["separable"] = variant.is_separable(self.best)
        return {**plain, "dropped": [dropped._asdict() for dropped in self.dropped]}

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        count = len(self.variants) + len(self.dropped)
        given = ", ".join(f"{name} {text}" for name, text in self.arguments.items())
        lines = [
            f"{self.kernel} on {self.target}, NKI {self.nki}: {given}",
            f"{count} variants, {len(self.dropped)} dropped; predicted times, nothing was measured",
            "",
            *_table(self.variants[:_MOST_SHOWN], self.ties),
        ]
        doubts = [v.difference(self.best).doubt for v in self.variants[1:]]
        close = [doubt for doubt in doubts if doubt]
        if close:
            lines.append(f"~ not separable from the first line ({len(close)}): {close[0]}")
        if len(self.variants) > _MOST_SHOWN:
            lines.append(f"... and {len(self.variants) - _MOST_SHOWN} more")
        lines += ["", f"outputs of the first line: {self.agreement}"]
        if self.dropped:
            lines += ["", "dropped", *dropped_lines(self.dropped)]
        return "\n".join(lines) + "\n"


def shown(values: Values) -> str:
    """Return values of parameters as text."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def _mark(best: Variant, variant: Variant, *, tied: bool) -> str:
    if variant is best or tied:
        return "= " if tied else ""
    return "" if variant.is_separable(best) else "~ "


def dropped_lines(dropped: Sequence[Dropped]) -> list[str]:
    """Return one line for each rule or exception, with its first message and its variants."""
    groups: dict[str, list[Dropped]] = {}
    for entry in dropped:
        groups.setdefault(entry.reason.partition(":")[0], []).append(entry)
    lines = []
    for group in groups.values():
        names = "; ".join(shown(entry.values) for entry in group[:3])
        more = f"; and {len(group) - 3} more" if len(group) > 3 else ""
        lines.append(f"  {group[0].reason} ({names}{more})")
    return lines


def _table(variants: Sequence[Variant], ties: int) -> list[str]:
    """Return a header and a line for each variant.

    A tie with the best has an ``=``, another one that is not separable from it a ``~``.
    """
    rows = [
        [
            *map(str, variants[0].values),
            *("latency", "range", "bound by", "share", "SBUF free", "PSUM free", "instructions"),
        ]
    ]
    for number, v in enumerate(variants):
        low, high = v.interval_us
        rows.append(
            [
                *map(str, v.values.values()),
                f"{_mark(variants[0], v, tied=0 < number < ties)}{duration(v.latency_us)}",
                f"{duration(low)} - {duration(high)}",
                v.bound_by,
                f"{v.bound_share:.0%}",
                size(v.free_bytes("sbuf")),
                size(v.free_bytes("psum")),
                f"{v.instructions:,}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
