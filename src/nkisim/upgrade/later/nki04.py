"""The step from 0.3.0 to 0.4.0: removed and deprecated names, shapes that are checked now."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nkisim.source import literal_integer
from nkisim.upgrade.rules import RULES, Match, rule
from nkisim.upgrade.source import NISA, Source
from nkisim.upgrade.tiles import shape_of
from nkisim.versions import parameter_names

_ISA, _LANGUAGE = "nki.isa", "nki.language"

rule(
    "MG-404",
    "tensor_copy_dynamic_src and tensor_copy_dynamic_dst were removed",
    "partial",
    same_as="MG-321",
)(RULES["MG-321"].find)
rule("MG-405", "the namespace neuronxcc.nki is an error in kernels", "safe", same_as="MG-101")(
    RULES["MG-101"].find
)


@rule("MG-406", "nki.jit: func became fn, mode was removed", "safe")
def _jit(source: Source) -> Iterator[Match]:
    for call in source.calls("nki", "jit"):
        given = source.given(call)
        function, mode = (source.keyword(call, name) for name in ("func", "mode"))
        if mode is None and len(given) > 1 and not any(a.keyword or a.star for a in given):
            mode = given[1]
        if function is not None and function is given[0]:
            edit = source.replaced(function.node, source.code(function.value))
            yield Match(call, "the function is passed by position", (edit,))
        elif function is not None:
            yield Match(call, "pass the function first and without func=")
        if mode is None:
            continue
        edit = source.without_argument(call, mode)
        if len(given) == 1 and source.is_decorator(call):
            edit = source.replaced(call, source.code(call.func))
        yield Match(call, "mode is removed: the framework follows from the arguments", (edit,))


def renamed_attributes(source: Source, names: Mapping[str, str]) -> Iterator[Match]:
    """Yield the uses of attributes of ``nl.tile_size``, each with the edit to its new name."""
    for attribute in source.all(ast.Attribute):
        owner, _, name = (source.name(attribute) or "").rpartition(".")
        if owner == f"{_LANGUAGE}.tile_size" and name in names:
            edit = source.renamed(attribute, names[name])
            yield Match(attribute, f"tile_size.{name} is now {names[name]}", (edit,))


@rule("MG-407", "tile_size: names that say what they measure", "safe", deprecated=True)
def _sizes(source: Source) -> Iterator[Match]:
    # Despite its name, the first is the size per partition; the second is that of a bank.
    names = {"total_available_sbuf_size": "sbuf_fmax_bytes", "psum_fmax": "psum_bank_fmax"}
    yield from renamed_attributes(source, names)


@rule("MG-408", "dma_transpose: dst has exactly the permuted shape of src", "partial")
def _transposed_shape(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "dma_transpose"):
        arguments = source.arguments(call, parameter_names("0.4.0", _ISA, "dma_transpose"))
        order = _integers(arguments.get("axes"))
        if order is None or "dst" not in arguments or "src" not in arguments:
            continue
        dst, src = (shape_of(source, arguments[key]) for key in ("dst", "src"))
        if dst is None or len(dst) == len(order):
            continue
        rank = f"dst has {len(dst)} dimensions, axes name {len(order)}"
        wanted = [] if src is None or len(src) != len(order) else [src[axis] for axis in order]
        if wanted and [s for s in wanted if s != "1"] == [s for s in dst if s != "1"]:
            text = f"{source.code(arguments['dst'])}.reshape(({', '.join(wanted)}))"
            edit = source.replaced(arguments["dst"], text)
            yield Match(call, f"{rank}: dst is reshaped", (edit,))
        else:
            yield Match(call, f"{rank}: allocate dst with the permuted shape of src")


def _integers(node: ast.expr | None) -> list[int] | None:
    """Return the values of a tuple of integers that are each a dimension of it."""
    if not isinstance(node, ast.Tuple):
        return None
    found = [literal_integer(element) for element in node.elts]
    values = [value for value in found if value is not None]
    return values if sorted(values) == list(range(len(found))) else None


@rule("MG-411", "the variable of a dynamic loop is read-only", "report")
def _frozen(source: Source) -> Iterator[Match]:
    for loop in source.all(ast.For):
        if not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Name):
            continue
        if source.nki_name(loop.iter.func, _LANGUAGE) != "dynamic_range":
            continue
        for call in source.within(loop.body, ast.Call):
            name = source.nki_name(call.func, _ISA)
            given = source.given(call)
            if name not in ("register_load", "register_move") or not given:
                continue
            target = given[0].value
            if isinstance(target, ast.Name) and target.id == loop.target.id:
                fix = f"use a register of its own in place of {target.id}"
                yield Match(call, f"the loop counts in {target.id}: {fix}")


@rule(
    "MG-412",
    "nc_transpose honours engine=: the vector engine takes 32 x 32",
    "partial",
    certain=False,
)
def _transpose_engine(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "nc_transpose"):
        arguments = source.arguments(call, parameter_names("0.4.0", _ISA, "nc_transpose"))
        engine, data = arguments.get("engine"), arguments.get("data")
        if engine is None or data is None:
            continue
        if source.name(engine) not in (f"{_ISA}.engine.vector", f"{_ISA}.vector_engine"):
            continue
        sizes = [int(s) if s.isdecimal() else 0 for s in shape_of(source, data) or ()]
        if len(sizes) == 2 and 0 not in sizes and max(sizes) <= 32:
            continue
        if sizes and max(sizes) > 32:
            edit = source.replaced(engine, f"{NISA}.engine.tensor")
            message = "a tile over 32 x 32 is transposed by the tensor engine"
            yield Match(call, message, (edit,), certain=True)
        else:
            fix = "use nisa.engine.tensor if the tile is larger than 32 x 32"
            yield Match(call, f"0.3.0 ignored engine=, now it counts: {fix}")
