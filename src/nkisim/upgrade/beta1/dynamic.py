"""Indices that are tiles, ``x[rows, i_f]``, become access patterns with a vector offset."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import base_name
from nkisim.upgrade.beta1.affine import affine, depends, product, total, wrapped
from nkisim.upgrade.beta1.indexing import sliced
from nkisim.upgrade.bindings import binding
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import buffer_of, is_tile

_ADVICE = (
    "write the address as t.ap(pattern=[[step, count], ...], vector_offset=rows), or with "
    "scalar_offset= for one index"
)


@rule("MG-110", "indices that are tiles", "partial")
def _dynamic(source: Source) -> Iterator[Match]:
    for node in source.all(ast.Subscript):
        if not any(_is_dynamic(source, index) for index in source.indices(node)):
            continue
        text = _gathered(source, node)
        if text is None:
            yield Match(node, _ADVICE)
        else:
            edit = source.replaced(node, text)
            yield Match(node, "the rows are addressed with a vector offset", (edit,))


def _is_dynamic(source: Source, index: ast.expr) -> bool:
    return is_tile(source, index) and isinstance(index, ast.Name | ast.Subscript)


def _gathered(source: Source, node: ast.Subscript) -> str | None:
    """Return the access pattern of a tensor in HBM whose first index is a tile, or None."""
    tensor, indices = node.value, source.indices(node)
    first = indices[0]
    if not isinstance(tensor, ast.Name) or len(indices) < 2:
        return None
    if not _is_whole(source, tensor):
        return None
    if not _is_dynamic(source, first):
        return None
    rows: str | None = source.code(first)
    if isinstance(first, ast.Subscript) and depends(source, first):
        rows = sliced(source, first)
    if rows is None or base_name(first) is None:
        return None
    name, count = tensor.id, len(indices)
    strides = [product(*(f"{name}.shape[{i}]" for i in range(n + 1, count))) for n in range(count)]
    pattern, offset, places = [f"[{strides[0]}, {rows}.shape[0]]"], "0", [0]
    for dimension in range(1, count):
        part = _extent(source, indices[dimension], places, f"{name}.shape[{dimension}]")
        if part is None:
            return None
        pattern.append(f"[{strides[dimension]}, {part[1]}]")
        offset = total(offset, product(part[0], strides[dimension]))
    moved = "" if offset == "0" else f"offset={offset}, "
    return f"{name}.ap(pattern=[{', '.join(pattern)}], {moved}vector_offset={rows})"


def _is_whole(source: Source, tensor: ast.Name) -> bool:
    """Return whether a name is a tensor in HBM and no part of one: patterns count from its start.

    Parameters of kernels are; those of other functions may be parts.
    """
    if "hbm" in (buffer_of(source, tensor) or ""):
        return True
    return isinstance(binding(source, tensor), ast.arg) and (
        source.function_of(tensor) in source.kernels()
    )


def _extent(source: Source, part: ast.expr, places: list[int], size: str) -> tuple[str, str] | None:
    """Return the first index and the number of indices of one dimension, or None."""
    if isinstance(part, ast.Slice):
        if part.step is not None:
            return None
        start = "0" if part.lower is None else source.code(part.lower)
        stop = size if part.upper is None else source.code(part.upper)
        places.append(places[-1] + 1)
        if stop.startswith("-"):
            return None
        return start, stop if start == "0" else f"{stop} - {wrapped(start)}"
    found = affine(source, part)
    if found is None or len(found.axes) != 1:
        return None
    where = found.axes[0]
    if where.step != "1" or where.axis <= places[-1]:
        return None
    places.append(where.axis)
    return found.offset, where.count
