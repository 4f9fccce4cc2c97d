"""Masks of Beta 1: bounds of index tensors become bounds of slices.

Rows that a mask left out are apart from functions that are not finite at zero.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit, before
from nkisim.source import base_name
from nkisim.upgrade.beta1.affine import Index, affine, total
from nkisim.upgrade.beta1.indexing import Limits, Part, is_read, selected, sliced, valid_count
from nkisim.upgrade.bindings import whole_value
from nkisim.upgrade.rules import Match, hoisted, rule
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.upgrade.tiles import TILE_FUNCTIONS, is_tile

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_ADVICE = "slice every operand to the valid part, [start:min(start + size, n)], and drop mask="


@rule("MG-103", "masks were removed", "partial")
def _masks(source: Source) -> Iterator[Match]:
    for call in (*source.calls(_ISA), *source.calls(_LANGUAGE)):
        argument = source.keyword(call, "mask")
        if argument is None:
            continue
        without = source.without_argument(call, argument)
        if source.code(argument.value) == "None":
            yield Match(call, "mask=None is removed", (without,))
            continue
        limits = _limits(source, argument.value)
        name = source.nki_name(call.func, _LANGUAGE)
        match = None
        if limits is not None and name == "load":
            match = _load(source, call, limits)
        elif limits is not None and name == "store":
            match = _store(source, call, limits, without)
        elif limits is not None and name in TILE_FUNCTIONS and name not in _ACROSS:
            match = _computed(source, call, limits, without)
        elif limits is not None and source.nki_name(call.func, _ISA) in _ELEMENTWISE:
            match = _computed(source, call, limits, without) or _written(source, call, limits)
        elif limits is not None:
            match = _reduced(source, call, limits, without)
        yield match or Match(call, _ADVICE)
    yield from _unused(source)


def _unused(source: Source) -> Iterator[Match]:
    """Remove masks that nothing uses any more."""
    for statement in source.all(ast.Assign):
        line, target = source.statement(statement), statement.targets[0]
        if line is None or len(statement.targets) != 1 or not isinstance(target, ast.Name):
            continue
        if isinstance(statement.value, ast.Name) or _limits(source, statement.value) is None:
            continue
        if not is_read(source, target):
            yield Match(statement, "the mask is not used any more", (source.emptied(line),))


# Functions that combine elements: a mask decides which ones take part.
_ACROSS = ("matmul", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var")


_ELEMENTWISE = (
    "activation",
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_copy",
    "tensor_scalar",
    "tensor_tensor",
)
_OVER_COLUMNS = ("bn_stats", "tensor_reduce")


def _limits(source: Source, mask: ast.expr) -> dict[int, tuple[Index, str]] | None:
    """Return the bounds in a mask ``(i < n) & (j < m)`` by axis, or None of another form."""
    if isinstance(mask, ast.Name):
        value = whole_value(source, mask)
        return None if value is None or isinstance(value, ast.Name) else _limits(source, value)
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
        left, right = _limits(source, mask.left), _limits(source, mask.right)
        if left is None or right is None or set(left) & set(right):
            return None
        return left | right
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1:
        return None
    low, high, operator = mask.left, mask.comparators[0], mask.ops[0]
    if isinstance(operator, ast.Gt | ast.GtE):
        low, high = high, low
    elif not isinstance(operator, ast.Lt | ast.LtE):
        return None
    index, bound = affine(source, low), affine(source, high)
    if index is None or bound is None or len(index.axes) != 1 or bound.axes:
        return None
    if index.axes[0].step != "1":
        return None
    closed = isinstance(operator, ast.LtE | ast.GtE)
    return {index.axes[0].axis: (index, total(bound.offset, "1") if closed else bound.offset)}


def _inside(parts: list[Part]) -> str:
    """Return the subscript of the valid part of a tile that holds the whole selection."""
    return ", ".join(f"0:{part.valid}" for part in parts if part.count)


def _load(source: Source, call: ast.Call, limits: Limits) -> Match | None:
    """The tile keeps its size: the rest of it, which Beta 1 left undefined, is zero or one."""
    found = source.arguments(call, ("src",))
    src, line = found.get("src"), source.statement(call)
    if not isinstance(src, ast.Subscript) or set(found) - {"src", "mask", "dtype"}:
        return None
    parts, base = selected(source, src, limits), base_name(src)
    if parts is None or base is None or line is None:
        return None
    target = None
    if isinstance(line, ast.Assign) and line.value is call:
        target = line.targets[0] if len(line.targets) == 1 else None
    code = sliced(source, src, limits)
    if isinstance(target, ast.Name):
        shape = ", ".join(part.count for part in parts if part.count)
        dtype = source.code(found["dtype"]) if "dtype" in found else f"{base.id}.dtype"
        name, pole = target.id, pole_of(source, target)
        # A sum along a masked axis needs zeros.
        fill = "ones" if pole and set(limits) == {0} and rows_apart(source, target) else "zeros"
        made = f"{name} = {NL}.{fill}(({shape}), dtype={dtype}, buffer={NL}.sbuf)"
        copy = f"{NISA}.dma_copy(dst={name}[{_inside(parts)}], src={code})"
        edits = (before(source, line, [made]), Edit(*source.span(line), copy))
        message = f"the valid part is loaded into a tile of {fill}"
        review = f"{pole} gets the rest of the tile, too: check that it is finite" if pole else ""
        return Match(call, message, edits, review)
    if isinstance(target, ast.Subscript) and is_tile(source, target):
        if source.code(target).replace(" ", "").endswith(("[...]", "[:,:]", "[:]")):
            dst = f"{source.code(target.value)}[{_inside(parts)}]"
            edit = Edit(*source.span(line), f"{NISA}.dma_copy(dst={dst}, src={code})")
            return Match(call, "the valid part is loaded", (edit,))
        return None
    if target is not None:
        return None
    return hoisted(source, call, "loaded", "the nested call becomes a statement", _ADVICE)


def _store(source: Source, call: ast.Call, limits: Limits, without: Edit) -> Match | None:
    found = source.arguments(call, ("dst", "value"))
    dst, value = found.get("dst"), found.get("value")
    if not isinstance(dst, ast.Subscript) or value is None or source.statement(call) is None:
        return None
    parts = selected(source, dst, limits)
    if parts is None or not is_tile(source, value):
        return None
    if not isinstance(value, ast.Name | ast.Subscript):
        return hoisted(source, value, "stored", "the value gets a name", _ADVICE)
    text: str | None = f"{source.code(value)}[{_inside(parts)}]"
    if isinstance(value, ast.Subscript):
        text = sliced(source, value, limits)
    code = sliced(source, dst, limits)
    if text is None or code is None:
        return None
    edits = (source.replaced(dst, code), source.replaced(value, text), without)
    return Match(call, "the valid part is stored", edits)


def _computed(source: Source, call: ast.Call, limits: Limits, without: Edit) -> Match | None:
    """The rest of a new tile has no meaning: it may be computed as well."""
    line = source.statement(call)
    if isinstance(line, ast.AugAssign):
        return None
    if not isinstance(line, ast.Assign) or isinstance(line.targets[0], ast.Name):
        return Match(call, "mask= is removed: the result is a new tile", (without,))
    target = line.targets[0]
    if not isinstance(target, ast.Subscript) or not source.code(target).endswith("[...]"):
        return None
    if line.value is not call or sorted(limits) != list(range(len(limits))):
        return None
    name = source.fresh("result")
    start, stop = source.span(call)
    plain = source.code(call)[: without.start - start] + source.code(call)[without.stop - start :]
    inside = ", ".join(f"0:{valid_count(*limits[axis])}" for axis in sorted(limits))
    copy = f"dst={source.code(target.value)}[{inside}], src={name}[{inside}]"
    edits = (
        before(source, line, [f"{name} = {plain}"]),
        Edit(source.span(line)[0], stop, f"{NISA}.tensor_copy({copy})"),
    )
    return Match(call, "the valid part of the result is copied", edits)


def _reduced(source: Source, call: ast.Call, limits: Limits, without: Edit) -> Match | None:
    """A reduction along masked axes reads the valid part only; its result has the same shape."""
    name = source.nki_name(call.func, _ISA) or source.nki_name(call.func, _LANGUAGE) or ""
    if 0 in limits or name not in (*_OVER_COLUMNS, "max", "mean", "min", "prod", "sum"):
        return None
    operands = [a.value for a in source.given(call) if is_tile(source, a.value)]
    if len(operands) != 1:
        return None
    if isinstance(operands[0], ast.Name):
        rank = max(index.rank for index, _ in limits.values())
        if sorted(limits) != list(range(1, rank)):
            return None
        inside = ", ".join(f"0:{valid_count(*limits[axis])}" for axis in sorted(limits))
        edit = source.replaced(operands[0], f"{operands[0].id}[:, {inside}]")
        return Match(call, "the valid part is reduced", (edit, without))
    if not isinstance(operands[0], ast.Subscript):
        return None
    parts, text = selected(source, operands[0], limits), sliced(source, operands[0], limits)
    if parts is None or text is None or len(limits) != sum(bool(p.count) for p in parts) - 1:
        return None
    edits = (source.replaced(operands[0], text), without)
    return Match(call, "the valid part is reduced", edits)


def _written(source: Source, call: ast.Call, limits: Limits) -> Match | None:
    """``t[i, j] = instruction(a[i, j], ...)``: all of them are cut to the valid part."""
    statement = source.parent(call)
    argument = source.keyword(call, "mask")
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or argument is None:
        return None
    tiles: list[ast.expr] = [statement.targets[0]]
    tiles += [a.value for a in source.given(call) if a is not argument and is_tile(source, a.value)]
    edits = []
    for tile in tiles:
        text = sliced(source, tile, limits) if isinstance(tile, ast.Subscript) else None
        if text is None:
            return None
        edits.append(source.replaced(tile, text))
    edits.append(source.without_argument(call, argument))
    return Match(call, "the valid part is computed", tuple(edits))


_ISA, _LANGUAGE = "nki.isa", "nki.language"
_POLES = ("log", "reciprocal", "rsqrt")


# Functions that combine or move rows.
_ACROSS_ROWS = ("matmul", "transpose", "partition_reduce", "all_reduce", "shuffle")


def pole_of(source: Source, tile: ast.Name) -> str:
    """Return a function that is not finite at zero and that a tile reaches, or "".

    What is computed from the tile is followed by name, in the function of the tile.
    """
    derived = _derived(source, tile)
    for name, operand in _arguments(source, tile):
        if derived & source.words(operand):
            return name
    return ""


def rows_apart(source: Source, tile: ast.Name) -> bool:
    """Return whether no row of a tile takes part in the results of other rows."""
    derived = _derived(source, tile)
    calls = source.within(source.function_of(tile) or source.module, ast.Call)
    return not any(
        (source.name(call.func) or "").endswith(_ACROSS_ROWS) and derived & source.words(call)
        for call in calls
    )


def _arguments(source: Source, tile: ast.Name) -> Iterator[tuple[str, ast.expr]]:
    """Yield the functions with a pole at zero that are called, and their argument."""
    whole = source.function_of(tile) or source.module
    for call in source.within(whole, ast.Call):
        name = source.nki_name(call.func, _LANGUAGE)
        given = [argument.value for argument in source.given(call)]
        if name in _POLES and given:
            yield f"nl.{name}", given[0]
        elif name == "divide" and len(given) > 1:
            yield "nl.divide", given[1]
        elif (name := source.nki_name(call.func, _ISA)) is not None:
            data, op = source.keyword(call, "data"), source.keyword(call, "op")
            function = None if op is None else (source.name(op.value) or "").rpartition(".")[2]
            if name == "reciprocal" and given:
                yield "nisa.reciprocal", given[0] if data is None else data.value
            elif function in _POLES and data is not None:
                yield f"nl.{function}", data.value
    for quotient in source.within(whole, ast.BinOp):
        if isinstance(quotient.op, ast.Div):
            yield "the quotient", quotient.right


def _derived(source: Source, tile: ast.Name) -> set[str]:
    """Return the names of a tile and of what is computed from it."""
    whole = source.function_of(tile) or source.module
    steps: list[tuple[set[str], set[str]]] = []
    for statement in source.within(whole, ast.Assign):
        bases = {base.id for t in statement.targets if (base := base_name(t)) is not None}
        steps.append((source.words(statement.value), bases))
    for call in source.within(whole, ast.Call):
        dst = source.keyword(call, "dst")
        base = None if dst is None else base_name(dst.value)
        if base is not None:
            steps.append((source.words(call), {base.id}))
    found = {tile.id}
    while grown := {n for words, names in steps if words & found for n in names} - found:
        found |= grown
    return found
