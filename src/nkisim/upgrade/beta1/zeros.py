"""Zeros in PSUM in front of matmuls: in 0.3.0 the first matmul overwrites the tile."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import RANGES, Function, base_name
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import in_psum, shape_of

_LANGUAGE = "nki.language"


@rule("MG-123", "no zeros in PSUM before a matmul", "partial", certain=False)
def _zeros(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "zeros"):
        target = source.parent(call)
        if not isinstance(target, ast.Assign) or len(target.targets) != 1:
            continue
        name = target.targets[0]
        if not isinstance(name, ast.Name) or not in_psum(source, name):
            continue
        writers = _writers(source, call, name)
        matmuls = [c for c in writers if source.name(c.func) == "nki.isa.nc_matmul"]
        if not matmuls or all(source.keyword(c, "accumulate") is not None for c in matmuls):
            continue
        if (
            matmuls == writers
            and isinstance(call.func, ast.Attribute)
            and not any(source.keyword(c, "accumulate") is not None for c in matmuls)
            and not _changed_otherwise(source, name, source.function_of(call))
            and _always_runs(source, target, matmuls[0])
            and all(_covers(source, c, name) for c in matmuls)
        ):
            edit = source.renamed(call.func, "ndarray")
            yield Match(call, "the first matmul overwrites the tile", (edit,))
        else:
            fix = "allocate with nl.ndarray, and let the first matmul overwrite"
            yield Match(call, f"a matmul cannot add to zeros: {fix}")


def _writers(source: Source, made: ast.Call, name: ast.Name) -> list[ast.Call]:
    """Return the calls with ``dst=name`` between an allocation and the next one of the name."""
    start = source.span(made)[0]
    others = [source.span(value)[0] for value in source.values(name) or ()]
    stop = min((place for place in others if place > start), default=len(source.data))
    return [
        call
        for call in source.within(source.function_of(made) or source.module, ast.Call)
        if (dst := source.keyword(call, "dst")) is not None
        and (base := base_name(dst.value)) is not None
        and base.id == name.id
        and start < source.span(call)[0] < stop
    ]


def _covers(source: Source, call: ast.Call, name: ast.Name) -> bool:
    """Return whether the matmuls of a call, in all iterations around it, write the whole tile."""
    argument = source.keyword(call, "dst")
    dst = None if argument is None else argument.value
    if isinstance(dst, ast.Name) or dst is None:
        return dst is not None
    if not isinstance(dst, ast.Subscript) or dst.value is name:
        return False
    if source.code(dst).endswith("[...]"):
        return True
    shape = shape_of(source, name)
    indices = source.indices(dst)
    if shape is None or len(indices) > len(shape):
        return False
    return all(
        _spans(source, call, index, size) for index, size in zip(indices, shape, strict=False)
    )


def _spans(source: Source, call: ast.Call, part: ast.expr, size: str) -> bool:
    """Return whether an index takes all values below a size: a slice, or the index of a loop."""
    if isinstance(part, ast.Slice):
        low = part.lower is None or source.code(part.lower) == "0"
        return low and (part.upper is None or source.code(part.upper) == size) and not part.step
    for loop in source.ancestors(call):
        if not isinstance(loop, ast.For) or source.code(loop.target) != source.code(part):
            continue
        count = loop.iter
        given = source.given(count) if isinstance(count, ast.Call) else []
        if isinstance(count, ast.Call) and len(given) == 1:
            kind = source.name(count.func) or source.code(count.func)
            return kind in RANGES and source.code(given[0].value) == size
    return False


def _always_runs(source: Source, made: ast.AST, call: ast.AST) -> bool:
    """Return whether a call is in no branch that the allocation is not in as well."""
    above = set(source.ancestors(made))
    return not any(
        isinstance(a, ast.If | ast.While | ast.Try | ast.TryStar)
        for a in source.ancestors(call)
        if a not in above
    )


def _changed_otherwise(source: Source, name: ast.Name, function: Function | None) -> bool:
    """Return whether a tile is also assigned to, as in ``t[...] = x`` or ``t += x``."""
    whole = function or source.module
    targets: list[ast.expr] = [t for s in source.within(whole, ast.Assign) for t in s.targets]
    targets += [statement.target for statement in source.within(whole, ast.AugAssign)]
    for target in targets:
        base = base_name(target)
        if base is not None and base is not name and base.id == name.id:
            return True
    return False
