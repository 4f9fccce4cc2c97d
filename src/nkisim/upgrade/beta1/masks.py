"""Masks of Beta 1: bounds of index tensors become bounds of slices."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from nkisim.upgrade.beta1.affine import Affine, Axis, affine, plus
from nkisim.upgrade.beta1.indexing import sliced
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source

__all__: list[str] = []

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_ADVICE = "slice every operand to the valid part, [start:min(start + size, n)], and drop mask="


@rule(
    "MG-103",
    "masks were removed",
    since="beta1",
    kind="partial",
    before="i_p = nl.arange(128)[:, None]\ni_f = nl.arange(512)[None, :]\n"
    "t = nl.load(x[k * 128 + i_p, i_f], mask=(k * 128 + i_p < n))",
    after="t = nl.load(x[k * 128:min(k * 128 + 128, n), 0:512])",
)
def _masks(source: Source) -> Iterator[Match]:
    for call in (*source.calls(_ISA), *source.calls(_LANGUAGE)):
        argument = source.keyword(call, "mask")
        if argument is None:
            continue
        without = source.without_argument(call, argument)
        if source.code(argument.value) == "None":
            yield Match(call, "mask=None is removed", (without,))
            continue
        bounds = _bounds(source, argument.value)
        name = source.nki_name(call.func, _LANGUAGE)
        position = {"load": "src", "store": "dst"}.get(name or "")
        found = source.arguments(call, ("dst", "value") if name == "store" else ("src",)) or {}
        operand = found.get(position or "")
        text = None
        if bounds is not None and isinstance(operand, cst.Subscript):
            text = sliced(source, operand, bounds)
        if text is None or operand is None:
            yield Match(call, _ADVICE)
        else:
            review = "the tile has only the valid elements: check the shapes that it is used with"
            edits = (source.replaced(operand, text), without)
            yield Match(call, "the slice ends where the mask did", edits, review)


def _bounds(source: Source, mask: cst.BaseExpression) -> dict[Axis, tuple[Affine, str]] | None:
    """Return the upper bounds in a mask ``(i < n) & (j < m)``, or None of another form."""
    pair = _both(mask)
    if pair is not None:
        left, right = _bounds(source, pair[0]), _bounds(source, pair[1])
        if left is None or right is None or set(left) & set(right):
            return None
        return left | right
    if not isinstance(mask, cst.Comparison) or len(mask.comparisons) != 1:
        return None
    target = mask.comparisons[0]
    sides = affine(source, mask.left), affine(source, target.comparator)
    if sides[0] is None or sides[1] is None:
        return None
    operator = type(target.operator)
    index, bound = sides
    if operator in (cst.GreaterThan, cst.GreaterThanEqual):
        index, bound = bound, index
    if len(index.terms) != 1 or bound.terms or index.terms[0][1] != "1":
        return None
    more = "1" if operator in (cst.LessThanEqual, cst.GreaterThanEqual) else "0"
    if operator not in (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual):
        return None
    return {index.terms[0][0]: (index, plus(bound.offset, more))}


def _both(mask: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the two conditions that a mask requires together."""
    if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
        return mask.left, mask.right
    if isinstance(mask, cst.BooleanOperation) and isinstance(mask.operator, cst.And):
        return mask.left, mask.right
    return None
