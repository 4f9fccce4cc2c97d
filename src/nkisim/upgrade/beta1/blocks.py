"""Block dimensions of Beta 1, in front of the partition, move behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.upgrade.beta1.affine import depends
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import allocated, is_tile

_LANGUAGE = "nki.language"
_ADVICE = (
    "the partition is now the first dimension: use a list of tiles, put the blocks behind the "
    "partition, or allocate inside the loop"
)


@rule("MG-107", "block dimensions", "partial")
def _blocks(source: Source) -> Iterator[Match]:
    done: set[ast.AST] = set()
    for mark in source.calls(_LANGUAGE, "par_dim"):
        shape = source.parent(mark)
        if not isinstance(shape, ast.Tuple | ast.List) or mark in done:
            continue
        if shape.elts[0] is mark:
            continue  # MG-108
        name = _target(source, shape)
        made = [] if name is None else source.scope(name).assignments[name.id]
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


def _target(source: Source, shape: ast.AST) -> ast.Name | None:
    """Return the name that a tensor with this shape is assigned to."""
    for above in source.ancestors(shape):
        if isinstance(above, ast.Assign):
            target = above.targets[0]
            return target if len(above.targets) == 1 and isinstance(target, ast.Name) else None
        if isinstance(above, ast.stmt):
            return None
    return None


def _moved_shape(source: Source, name: ast.AST) -> tuple[Edit, ast.AST, int] | None:
    """Return the edit of an on-chip allocation, its mark and the number of its block dimensions."""
    statement = source.parent(name)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    arguments = allocated(source, call)
    shape, buffer = arguments.get("shape"), arguments.get("buffer")
    if not isinstance(shape, ast.Tuple | ast.List):
        return None
    if buffer is not None and source.nki_name(buffer, _LANGUAGE) not in ("sbuf", "psum"):
        return None
    sizes = shape.elts
    marks = [
        (place, size)
        for place, size in enumerate(sizes)
        if isinstance(size, ast.Call) and source.name(size.func) == f"{_LANGUAGE}.par_dim"
    ]
    if len(marks) != 1 or marks[0][0] == 0:
        return None
    if any(isinstance(size, ast.Starred) for size in sizes):
        return None
    blocks, mark = marks[0]
    given = source.given(mark)
    if len(given) != 1:
        return None
    texts = [source.code(size) for size in sizes]
    order = [source.code(given[0].value), *texts[:blocks], *texts[blocks + 1 :]]
    return source.replaced(shape, f"({', '.join(order)})"), mark, blocks


def _moved_use(source: Source, name: ast.Name, blocks: int) -> Edit | None:
    """Return the edit of ``t[k, p, f]``; an empty one of a use that need not change."""
    use = source.parent(name)
    start = source.span(name)[0]
    if isinstance(use, ast.Attribute) and use.attr in ("dtype", "buffer"):
        return Edit(start, start, "")
    if not isinstance(use, ast.Subscript) or use.value is not name:
        return None
    indices = source.indices(use)
    if len(indices) < blocks:
        return None
    texts = []
    for place, part in enumerate(indices):
        text = source.code(part)
        if text in ("...", "None"):
            return None
        moving = isinstance(part, ast.Slice) or depends(source, part) or is_tile(source, part)
        if place < blocks and moving:
            return None
        texts.append(text)
    order = [*(texts[blocks : blocks + 1] or [":"]), *texts[:blocks], *texts[blocks + 1 :]]
    first, last = source.span(indices[0])[0], source.span(indices[-1])[1]
    return Edit(first, last, ", ".join(order))
