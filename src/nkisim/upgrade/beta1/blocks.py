"""Block dimensions of Beta 1, in front of the partition, move behind it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from nkisim.rewriting import Edit
from nkisim.upgrade.beta1.affine import depends
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import ALLOCATIONS, is_tile

__all__: list[str] = []

_LANGUAGE = "nki.language"
_ADVICE = (
    "the partition is now the first dimension: use a list of tiles, put the blocks behind the "
    "partition, or allocate inside the loop"
)


@rule(
    "MG-107",
    "block dimensions",
    since="beta1",
    kind="partial",
    before="t = nl.ndarray((8, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)\n"
    "for k in range(8):\n    nisa.memset(dst=t[k, 0:128, 0:512], value=0.0)",
    after="t = nl.ndarray((128, 8, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
    "for k in range(8):\n    nisa.memset(dst=t[0:128, k, 0:512], value=0.0)",
)
def _blocks(source: Source) -> Iterator[Match]:
    done: set[cst.CSTNode] = set()
    for mark in source.calls(_LANGUAGE, "par_dim"):
        element = source.parent(mark)
        shape = None if element is None else source.parent(element)
        if not isinstance(shape, cst.Tuple | cst.List) or mark in done:
            continue
        if shape.elements[0] is element:
            continue  # MG-108
        name = _target(source, shape)
        scope = None if name is None else source.scope(name)
        made = [] if name is None or scope is None else scope.assignments[name.value]
        edits: list[Edit] = []
        for assignment in made:
            found = _moved_shape(source, assignment.node)
            if found is None:
                break
            edits.append(found[0])
            done.add(found[1])
            blocks = found[2]
            uses = [_moved_use(source, use, blocks) for use in assignment.references]
            if any(use is None for use in uses):
                break
            edits += [use for use in uses if use is not None and use.text]
        else:
            if edits:
                review = "check that the tile fits: it holds the blocks of all iterations"
                unique = tuple(dict.fromkeys(edits))
                yield Match(mark, "the blocks are behind the partition", unique, review)
                continue
        yield Match(mark, _ADVICE)


def _target(source: Source, shape: cst.CSTNode) -> cst.Name | None:
    """Return the name that a tensor with this shape is assigned to."""
    for above in source.ancestors(shape):
        if isinstance(above, cst.Assign):
            target = above.targets[0].target
            return target if len(above.targets) == 1 and isinstance(target, cst.Name) else None
        if isinstance(above, cst.BaseSmallStatement):
            return None
    return None


def _moved_shape(source: Source, name: cst.CSTNode) -> tuple[Edit, cst.CSTNode, int] | None:
    """Return the edit of an on-chip allocation, its mark and the number of its block dimensions."""
    target = source.parent(name)
    statement = None if target is None else source.parent(target)
    if not isinstance(statement, cst.Assign) or not isinstance(statement.value, cst.Call):
        return None
    call = statement.value
    function = source.nki_name(call.func, _LANGUAGE) or ""
    arguments = source.arguments(call, ALLOCATIONS.get(function, ())) or {}
    shape, buffer = arguments.get("shape"), arguments.get("buffer")
    if function not in ALLOCATIONS or not isinstance(shape, cst.Tuple | cst.List):
        return None
    if buffer is not None and source.nki_name(buffer, _LANGUAGE) not in ("sbuf", "psum"):
        return None
    sizes = [element.value for element in shape.elements]
    marks = [
        (place, size)
        for place, size in enumerate(sizes)
        if isinstance(size, cst.Call) and source.name(size.func) == f"{_LANGUAGE}.par_dim"
    ]
    if len(marks) != 1 or marks[0][0] == 0:
        return None
    if any(isinstance(element, cst.StarredElement) for element in shape.elements):
        return None
    blocks, mark = marks[0]
    if len(mark.args) != 1:
        return None
    texts = [source.code(size) for size in sizes]
    order = [source.code(mark.args[0].value), *texts[:blocks], *texts[blocks + 1 :]]
    return source.replaced(shape, f"({', '.join(order)})"), mark, blocks


def _moved_use(source: Source, name: cst.Name, blocks: int) -> Edit | None:
    """Return the edit of ``t[k, p, f]``; an empty one of a use that need not change."""
    use = source.parent(name)
    start = source.span(name)[0]
    if isinstance(use, cst.Attribute) and use.attr.value in ("dtype", "buffer"):
        return Edit(start, start, "")
    if not isinstance(use, cst.Subscript) or use.value is not name or len(use.slice) < blocks:
        return None
    texts = []
    for place, element in enumerate(use.slice):
        part = element.slice
        text = source.code(part)
        if text in ("...", "None"):
            return None
        if place < blocks:
            if not isinstance(part, cst.Index) or depends(source, part.value):
                return None
            if is_tile(source, part.value):
                return None
        texts.append(text)
    order = [*(texts[blocks : blocks + 1] or [":"]), *texts[:blocks], *texts[blocks + 1 :]]
    first, last = source.span(use.slice[0])[0], source.span(use.slice[-1].slice)[1]
    return Edit(first, last, ", ".join(order))
