"""Masks of Beta 1: bounds of index tensors become bounds of slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from nkisim.upgrade.beta1.affine import Affine, Axis, affine, lower, plus
from nkisim.upgrade.beta1.indexing import has_index, is_read, sliced
from nkisim.upgrade.bindings import assigned_value, same_values
from nkisim.upgrade.edits import Edit
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import is_column, is_tile

__all__: list[str] = []

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_ADVICE = "slice every operand to the valid part, [start:min(start + size, n)], and drop mask="
_REVIEW = "the tile has only the valid elements: check the shapes that it is used with"

Bounds = dict[Axis, tuple[Affine, str]]


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
        edits = None if bounds is None else _limited(source, call, argument, bounds)
        if edits is None:
            yield Match(call, _ADVICE)
        else:
            edits = (*edits, without)
            yield Match(call, "the slices end where the mask did", edits, _REVIEW)
    for statement in source.all(cst.Assign):
        line, target = source.statement(statement), statement.targets[0].target
        if line is None or len(statement.targets) != 1 or not isinstance(target, cst.Name):
            continue
        if _bounds(source, statement.value) and not is_read(source, target):
            yield Match(statement, "the mask is not used any more", (source.emptied(line),))


def _limited(
    source: Source, call: cst.Call, mask: cst.Arg, bounds: Bounds
) -> tuple[Edit, ...] | None:
    """Return the edits that slice the operands of a call to the valid part, or None."""
    operands: list[cst.BaseExpression] = [a.value for a in call.args if a is not mask]
    above = source.parent(call)
    if isinstance(above, cst.Assign) and len(above.targets) == 1:
        operands.append(above.targets[0].target)
    elif isinstance(above, cst.AugAssign):
        operands.append(above.target)
    if _is_elementwise(source, call, operands):
        return ()  # elements that the mask left out are undefined, and may be computed
    edits, used = [], set()
    for operand in operands:
        if isinstance(operand, cst.Subscript) and has_index(source, operand):
            own = {a: b for a, b in bounds.items() if _indexed(source, operand, a)}
            text = sliced(source, operand, own)
            used |= set(own)
        elif is_tile(source, operand) and operand is not operands[-1]:
            text = _whole_tile(source, operand, bounds)
            used |= set(bounds)
        elif is_tile(source, operand) and isinstance(operand, cst.Subscript):
            return None
        else:
            continue
        if text is None:
            return None
        edits.append(source.replaced(operand, text))
    return tuple(edits) if used == set(bounds) else None


def _is_elementwise(source: Source, call: cst.Call, operands: Sequence[cst.BaseExpression]) -> bool:
    """Return whether a call computes a new tile element by element from whole tiles."""
    name = source.nki_name(call.func, _LANGUAGE) or source.nki_name(call.func, _ISA)
    if name not in _ELEMENTWISE or any(isinstance(o, cst.Subscript) for o in operands):
        return False
    above = source.parent(call)
    return isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Name)


def _indexed(source: Source, node: cst.Subscript, axis: Axis) -> bool:
    """Return whether an axis of index tensors is used in a subscript."""
    for element in node.slice:
        index = element.slice
        found = affine(source, index.value) if isinstance(index, cst.Index) else None
        if found is not None and any(axis == own for own, _ in found.terms):
            return True
    return False


def _whole_tile(source: Source, tile: cst.BaseExpression, bounds: Bounds) -> str | None:
    """Return the valid part of a tile that has the shape of the index tensors."""
    if not isinstance(tile, cst.Name):
        return None
    ranks = {axis.rank for axis in bounds}
    if len(ranks) != 1 or any(limited.offset != "0" for limited, _ in bounds.values()):
        return None
    by_place = {axis.place: (axis, bound) for axis, (_, bound) in bounds.items()}
    parts = []
    for place in range(ranks.pop()):
        if place not in by_place or (place > 0 and is_column(source, tile)):
            parts.append(":")
            continue
        axis, bound = by_place[place]
        if axis.start != "0":
            return None
        parts.append(f"0:{lower(axis.stop, bound)}")
    return f"{tile.value}[{', '.join(parts)}]"


def _bounds(source: Source, mask: cst.BaseExpression) -> Bounds | None:
    """Return the upper bounds in a mask ``(i < n) & (j < m)``, or None of another form."""
    if isinstance(mask, cst.Name):
        found = assigned_value(source, mask)
        if found is None or found[1] is not None or not same_values(source, found[0], mask):
            return None
        return None if isinstance(found[0], cst.Name) else _bounds(source, found[0])
    if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
        left, right = _bounds(source, mask.left), _bounds(source, mask.right)
        if left is None or right is None or set(left) & set(right):
            return None
        return left | right
    if not isinstance(mask, cst.Comparison) or len(mask.comparisons) != 1:
        return None
    target = mask.comparisons[0]
    index, bound = affine(source, mask.left), affine(source, target.comparator)
    if isinstance(target.operator, cst.GreaterThan | cst.GreaterThanEqual):
        index, bound = bound, index
    if index is None or bound is None or bound.terms or len(index.terms) != 1:
        return None
    ((axis, factor),) = index.terms
    more = _STRICT.get(type(target.operator))
    if factor != "1" or more is None:
        return None
    return {axis: (index, plus(bound.offset, more))}


_STRICT: Mapping[type[cst.BaseCompOp], str] = {
    cst.LessThan: "0",
    cst.GreaterThan: "0",
    cst.LessThanEqual: "1",
    cst.GreaterThanEqual: "1",
}

_ELEMENTWISE = frozenset(
    "abs activation add arctan bitwise_and bitwise_or bitwise_xor ceil copy cos divide equal erf "
    "exp floor gelu greater greater_equal invert less less_equal log logical_and logical_not "
    "logical_or maximum minimum mish multiply negative not_equal power reciprocal relu rsqrt "
    "sigmoid sign silu sin softplus sqrt square subtract tan tanh tensor_copy tensor_scalar "
    "tensor_tensor trunc where".split()
)
