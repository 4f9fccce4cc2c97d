"""What changed between two profiles: the time, each engine, each line.

Profiles are plain data here, as ``Profile.to_dict`` returns them, so that a saved one can be
compared with a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nkisim.profiling.saved import SCHEMA, Plain
from nkisim.profiling.text import duration, place, size

_MOST_LINES = 12
_TEXT = 48


class LineChange(NamedTuple):
    """A line in two profiles.

    Attributes:
        text: Its source, stripped.
        before, after: Time on the critical path in us; None where the kernel has no such line.
        at: The file and line in the second profile, else in the first.
    """

    text: str
    before: float | None
    after: float | None
    at: str

    @property
    def change(self) -> float:
        """The difference in us."""
        return (self.after or 0.0) - (self.before or 0.0)


def comparison_of(before: Sequence[Plain], after: Sequence[Plain], *, as_json: bool) -> str:
    """Return what changed between the profiles of two files, as text or as JSON.

    Raises:
        ValueError: No kernel and target is in both.
    """
    found = _pairs(before, after)
    if not as_json:
        return "\n".join("\n".join(_lines(old, new)) + "\n" for old, new in found)
    changes = [
        {
            "before": old,
            "after": new,
            "lines": [{**line._asdict(), "change": line.change} for line in line_changes(old, new)],
        }
        for old, new in found
    ]
    return json.dumps({"schema": SCHEMA, "changes": changes}, indent=2) + "\n"


def _pairs(before: Sequence[Plain], after: Sequence[Plain]) -> list[tuple[Plain, Plain]]:
    """Return the profiles that belong together: of one kernel and target, or the only ones."""
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    known = {(old["kernel"], old["target"]): old for old in before}
    found = [
        (known[new["kernel"], new["target"]], new)
        for new in after
        if (new["kernel"], new["target"]) in known
    ]
    if not found:
        names = [
            ", ".join(f"{p['kernel']} on {p['target']}" for p in side) for side in (before, after)
        ]
        raise ValueError(
            f"no kernel and target is in both: {names[0] or 'none'}; {names[1] or 'none'}"
        )
    return found


def line_changes(before: Plain, after: Plain) -> list[LineChange]:
    """Return the lines whose time changed, the largest change first.

    Lines belong together by their text; lines of the same text by their order in the file.
    """
    old, new = _by_text(before), _by_text(after)
    changes = []
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        shown = now or was
        assert shown is not None
        changes.append(
            LineChange(
                key[0],
                None if was is None else was["critical_us"],
                None if now is None else now["critical_us"],
                place(shown["file"], shown["line"]),
            )
        )
    return sorted((c for c in changes if c.change), key=lambda c: -abs(c.change))


def _by_text(profile: Plain) -> dict[tuple[str, int], Plain]:
    """Return the lines by text and number among the lines with this text."""
    found: dict[tuple[str, int], Plain] = {}
    for line in sorted(profile["lines"], key=lambda line: (line["file"], line["line"])):
        number = 0
        while (line["text"], number) in found:
            number += 1
        found[line["text"], number] = line
    return found


def _lines(before: Plain, after: Plain) -> Iterator[str]:
    old, new = before["latency_us"], after["latency_us"]
    names = dict.fromkeys(f"{side['kernel']} on {side['target']}" for side in (before, after))
    yield f"{' -> '.join(names)}: {duration(old)} -> {duration(new)} ({new / old - 1:+.1%})"
    yield f"bound by {_bound(before)} -> {_bound(after)}"
    moved = [
        (name, before[key], after[key])
        for name, key in (("HBM", "hbm_bytes"), ("spills", "spill_bytes"))
        if before[key] != after[key]
    ]
    for name, was, now in moved:
        yield f"{name} {size(was)} -> {size(now)}"
    counts = [sum(side["instructions"].values()) for side in (before, after)]
    yield f"instructions {counts[0]:,} -> {counts[1]:,}, transfers " + (
        f"{before['transfers']:,} -> {after['transfers']:,}"
    )
    busy = [side["engine_busy_us"] for side in (before, after)]
    rows: list[tuple[str, ...]] = [("engine", "before", "after", "change")]
    for engine in dict.fromkeys([*busy[0], *busy[1]]):
        was, now = busy[0].get(engine, 0.0), busy[1].get(engine, 0.0)
        rows.append((engine, duration(was), duration(now), _difference(now - was)))
    yield ""
    yield from _columns(rows)
    changed = line_changes(before, after)
    if not changed:
        return
    rows = [("line, time on the critical path", "before", "after", "change")]
    for line in changed[:_MOST_LINES]:
        text = line.text if len(line.text) <= _TEXT else line.text[: _TEXT - 3] + "..."
        sides = ["-" if us is None else duration(us) for us in (line.before, line.after)]
        rows.append((f"{line.at}  {text}", *sides, _difference(line.change)))
    yield ""
    yield from _columns(rows)
    if len(changed) > _MOST_LINES:
        yield f"... and {len(changed) - _MOST_LINES} more lines"


def _bound(profile: Plain) -> str:
    return f"{profile['bound_by']} ({profile['bound_share']:.0%} of the bound)"


def _difference(us: float) -> str:
    return "" if abs(us) < 0.005 else f"{'+' if us > 0 else ''}{duration(us)}"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [
            first.ljust(widths[0]),
            *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True)),
        ]
        yield "  ".join(cells).rstrip()
