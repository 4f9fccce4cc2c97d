"""DMA: PSUM as a source, read-modify-write, dynamic copies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.source import base_name, is_none
from nkisim.upgrade.rules import Match, rule, staged
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import buffer_of, dtype_of

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_DMA_COPY = ("dst", "src")


@rule("MG-301", "dma_copy reads no PSUM", "safe")
def _from_psum(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "dma_copy"):
        arguments = source.arguments(call, _DMA_COPY)
        src, dst = arguments.get("src"), arguments.get("dst")
        if src is None or dst is None or {"dst_rmw_op", "mask"} & set(arguments):
            continue
        if buffer_of(source, src) != "psum":
            continue
        target, bare = base_name(dst), source.is_bare(source.statement(call), call)
        edits = staged(source, src, f"{target.id}.dtype") if target is not None and bare else None
        if edits is None:
            fix = "copy the PSUM tile to SBUF with nisa.tensor_copy first, and copy from there"
            yield Match(call, fix)
        else:
            yield Match(call, "the PSUM tile is copied to SBUF first", edits)


@rule("MG-302", "dma_copy with hwdge copies bytes", "report")
def _hardware_descriptors(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "dma_copy"):
        arguments = source.arguments(call, _DMA_COPY)
        if not {"dst", "src", "dge_mode"} <= set(arguments):
            continue
        if source.name(arguments["dge_mode"]) != "nki.isa.dge_mode.hwdge":
            continue
        there, here = (dtype_of(source, arguments[key]) for key in ("dst", "src"))
        if there is not None and here is not None and there != here:
            bits, values = "src=....view(dtype) to keep the bits", "dge_mode=nisa.dge_mode.swdge"
            fix = f"write {bits}, or {values} to convert the values"
            yield Match(call, f"hwdge does not convert {here} to {there}: {fix}")


@rule("MG-303a", "dma_copy: dst_rmw_op was removed", "partial")
def _read_modify_write(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "dma_copy"):
        given = source.keyword(call, "dst_rmw_op")
        unique = source.keyword(call, "unique_indices")
        if given is None:
            if unique is not None:
                edit = source.without_argument(call, unique)
                yield Match(call, "unique_indices=, without effect here, is removed", (edit,))
            continue
        if is_none(given.value):
            edit = source.without_argument(call, given)
            yield Match(call, "dst_rmw_op=None is removed", (edit,))
        elif source.nki_name(given.value, _LANGUAGE) is not None:
            text = _accumulating(source, call, source.code(given.value))
            if text is None:
                yield Match(call, _SPLIT)
            else:
                review = "check that the old value of dst is meant to be part of the result"
                yield Match(call, "dma_compute accumulates", (source.replaced(call, text),), review)


_SPLIT = "use nisa.dma_copy for the first write and nisa.dma_compute(reduce_op=...) for the others"


def _accumulating(source: Source, call: ast.Call, op: str) -> str | None:
    """Return the call of ``dma_compute`` that adds to ``dst`` what a ``dma_copy`` moved to it."""
    arguments = source.arguments(call, _DMA_COPY)
    known = {"dst", "src", "dst_rmw_op", "unique_indices", "name", "oob_mode", "dge_mode"}
    if not {"dst", "src"} <= set(arguments) <= known:
        return None
    mode = arguments.get("oob_mode")
    if mode is not None and source.name(mode) != "nki.isa.oob_mode.error":
        return None
    dst, src = (source.code(arguments[key]) for key in ("dst", "src"))
    kept = [key for key in ("unique_indices", "name") if key in arguments]
    parts = [f"dst={dst}", f"srcs=[{src}, {dst}]", f"reduce_op={op}"]
    parts += [f"{key}={source.code(arguments[key])}" for key in kept]
    function = source.code(call.func).replace("dma_copy", "dma_compute")
    return f"{function}({', '.join(parts)})"


@rule("MG-303b", "dma_copy: dst_rmw_op that is None at first", "partial")
def _first_copy(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "dma_copy"):
        given = source.keyword(call, "dst_rmw_op")
        if given is None or source.nki_name(given.value, _LANGUAGE) is not None:
            continue
        value: ast.AST = given.value
        if is_none(value):
            continue
        if isinstance(value, ast.Name):
            values = source.values(value) or []
            value = values[0] if len(values) == 1 else value
        line = source.statement(call)
        choice = value if isinstance(value, ast.IfExp) else None
        bare = isinstance(line, ast.Expr)
        if choice is None or line is None or not bare or source.code(choice.body) != "None":
            yield Match(call, _SPLIT)
            continue
        op = source.code(given.value if isinstance(given.value, ast.Name) else choice.orelse)
        other = _accumulating(source, call, op)
        plain = source.arguments(call, _DMA_COPY)
        if other is None or source.comment_behind(line) is not None:
            yield Match(call, _SPLIT)
            continue
        kept = [
            f"{key}={source.code(plain[key])}"
            for key in ("dst", "src", "oob_mode", "dge_mode", "name")
            if key in plain
        ]
        first = f"{source.code(call.func)}({', '.join(kept)})"
        rows = [f"if {source.code(choice.test)}:", f"    {first}", "else:", f"    {other}"]
        text = (source.newline + source.indent(line)).join(rows)
        edit = Edit(*source.span(line), text)
        review = "check that the old value of dst is meant to be part of the result"
        yield Match(call, "the first write copies, the others accumulate", (edit,), review)


@rule(
    "MG-321",
    "tensor_copy_dynamic_src and tensor_copy_dynamic_dst are deprecated",
    "partial",
    refused="0.4.0",
)
def _dynamic_copy(source: Source) -> Iterator[Match]:
    names = ("tensor_copy_dynamic_src", "tensor_copy_dynamic_dst")
    for call in source.calls(_ISA, *names):
        arguments = source.arguments(call, _DMA_COPY)
        function = call.func
        if (
            {"dst", "src"} <= set(arguments)
            and isinstance(function, ast.Attribute)
            and any(".ap(" in source.code(arguments[key]) for key in ("dst", "src"))
        ):
            edit = source.renamed(function, "tensor_copy")
            yield Match(call, "tensor_copy takes dynamic access patterns", (edit,))
        else:
            yield Match(call, "use nisa.tensor_copy with t.ap(pattern=..., scalar_offset=register)")
