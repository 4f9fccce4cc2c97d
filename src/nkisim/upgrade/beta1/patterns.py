"""iota and affine_select of Beta 1 take expressions of index tensors; 0.3.0 takes patterns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import COMPARISONS
from nkisim.upgrade.beta1.affine import Axis, Index, affine, difference
from nkisim.upgrade.beta1.instructions import (
    allocated,
    old_calls,
    replaced_by,
    statement_of,
    target_of,
)
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NL, Source


def _pattern(index: Index, shape: str = "") -> tuple[str, str, str, list[str]] | None:
    """Return pattern, offset and channel multiplier of an expression, and its shape.

    ``shape`` is the text of the shape of a tile for axes that the expression does not contain.
    """
    if index.rank < 2:
        return None
    by_place = {axis.axis: axis for axis in index.axes}
    sizes, steps = [], []
    for place in range(index.rank):
        count = index.counts[place] if index.counts else "1"
        if shape:
            count = f"{shape}[{place}]"
        axis = by_place.get(place, Axis(place, count, "0"))
        sizes.append(axis.count)
        steps.append(axis.step)
    pattern = ", ".join(f"[{s}, {n}]" for s, n in zip(steps[1:], sizes[1:], strict=True))
    return f"[{pattern}]", index.offset, steps[0], sizes


_IOTA = "allocate dst and write nisa.iota(dst, pattern=[[step, count]], channel_multiplier=...)"


@rule("MG-115", "iota takes a pattern", "partial")
def _iota(source: Source) -> Iterator[Match]:
    for call, _ in old_calls(source, "iota"):
        found = source.arguments(call, ("expr", "dtype"))
        index = affine(source, found["expr"]) if "expr" in found else None
        values = None if index is None else _pattern(index)
        if "pattern" in found:
            continue
        if values is None or source.statement(call) is None or "mask" in found:
            yield Match(call, _IOTA)
            continue
        target, dtype = target_of(source, call), found.get("dtype")
        if target is None:
            yield statement_of(source, call, "positions")
            continue
        if dtype is None and isinstance(target, ast.Name):
            yield Match(call, _IOTA)
            continue
        pattern, offset, multiplier, sizes = values
        arguments = {"pattern": pattern, "offset": offset, "channel_multiplier": multiplier}
        shape, kind = f"({', '.join(sizes)})", "" if dtype is None else source.code(dtype)
        edits = replaced_by(source, call, arguments)
        message = "the expression becomes a pattern"
        yield allocated(source, call, (shape, kind, "sbuf"), edits, message)


_SELECT = "write the predicate as pattern, channel_multiplier and offset, compared with zero"


@rule("MG-116", "affine_select takes a pattern", "partial")
def _affine_select(source: Source) -> Iterator[Match]:
    for call, _ in old_calls(source, "affine_select"):
        found = source.arguments(call, ("pred", "on_true_tile", "on_false_value"))
        if "pattern" in found:
            continue
        tile = found.get("on_true_tile")
        known = tile is not None and "on_false_value" in found and "mask" not in found
        compared = _difference(source, found["pred"]) if "pred" in found else None
        known = known and source.statement(call) is not None
        if not known or tile is None or compared is None:
            yield Match(call, _SELECT)
            continue
        if target_of(source, call) is None:
            yield statement_of(source, call, "selected")
            continue
        if not isinstance(tile, ast.Name | ast.Subscript):
            yield statement_of(source, tile, "on_true")
            continue
        text = source.code(tile)
        values = _pattern(compared[0], f"{text}.shape")
        if values is None:
            yield Match(call, _SELECT)
            continue
        arguments = {
            "pattern": values[0],
            "offset": values[1],
            "channel_multiplier": values[2],
            "cmp_op": f"{NL}.{compared[1]}",
            "on_true_tile": text,
            "on_false_value": source.code(found["on_false_value"]),
        }
        given = found.get("dtype")
        dtype = f"{text}.dtype" if given is None else source.code(given)
        edits, message = replaced_by(source, call, arguments), "the predicate becomes a pattern"
        yield allocated(source, call, (f"{text}.shape", dtype, "sbuf"), edits, message)


def _difference(source: Source, pred: ast.expr) -> tuple[Index, str] | None:
    """Return the affine function that a predicate compares with zero, and the comparison."""
    if not isinstance(pred, ast.Compare) or len(pred.ops) != 1:
        return None
    left, right = affine(source, pred.left), affine(source, pred.comparators[0])
    name = COMPARISONS.get(type(pred.ops[0]))
    if left is None or right is None or name is None:
        return None
    value = difference(left, right)
    return None if value is None or not value.axes else (value, name)
