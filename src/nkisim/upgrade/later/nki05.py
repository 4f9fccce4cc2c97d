"""The step from 0.4.0 to 0.5.0: views of tensors, engines of random numbers, launches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim import versions
from nkisim.rewriting import Edit
from nkisim.source import literal_integer
from nkisim.upgrade.later.nki04 import renamed_attributes
from nkisim.upgrade.later.nki06 import RANGES, is_builtin
from nkisim.upgrade.rules import Match, rule, staged
from nkisim.upgrade.source import NISA, Source
from nkisim.upgrade.tiles import buffer_of, in_psum, is_tile, shape_of
from nkisim.versions import parameter_names

_ISA, _LANGUAGE = "nki.isa", "nki.language"


@rule("MG-407a", "tile_size.psum_fmax_bytes exists in 0.4.0 only", "safe")
def _psum_size(source: Source) -> Iterator[Match]:
    yield from renamed_attributes(source, {"psum_fmax_bytes": "psum_bank_fmax_bytes"})


@rule("MG-501", "reshape takes one shape", "safe")
def _reshape(source: Source) -> Iterator[Match]:
    for call in _method_calls(source, "reshape"):
        shape = source.keyword(call, "new_shape")
        if shape is not None and len(source.given(call)) == 1:
            edit = source.replaced(shape.node, source.code(shape.value))
            yield Match(call, "the shape is passed by position", (edit,))


def _method_calls(source: Source, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a tensor method, in kernels and where the text shows a tensor."""
    for call in source.all(ast.Call):
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != name:
            continue
        if source.name(function) is None and (
            is_tile(source, function.value) or source.in_device_code(call)
        ):
            yield call


@rule("MG-502", "access patterns of views: AWS's documents contradict each other", "report")
def _patterns(source: Source) -> Iterator[Match]:
    for call in _method_calls(source, "ap"):
        assert isinstance(call.func, ast.Attribute)
        view = call.func.value
        values = source.values(view) or [] if isinstance(view, ast.Name) else [view]
        if any(isinstance(value, ast.Subscript) and _is_part(source, value) for value in values):
            yield Match(call, f"{source.code(view)} is a view: {_OF_VIEW}")


# NKI 0.3.0 and 0.4.0 refuse ``ap`` on a view. From 0.5.0 on AWS's documents differ. By the
# docstring of ``ap`` its offset counts from the start of the view, as in nkisim; by the language
# guide it counts from the start of the tensor.
_OF_VIEW = (
    "nkisim adds the offset to the view's, AWS's language guide ignores the view; "
    "call ap on the whole tensor, with the whole offset"
)


def _is_part(source: Source, node: ast.Subscript) -> bool:
    """Return whether a subscript is a part of a tensor, not an element of a list of tensors."""
    return is_tile(source, node.value) or any(
        isinstance(i, ast.Slice) for i in source.indices(node)
    )


@rule(
    "MG-503", "an integer index of a tile keeps the partition dimension", "partial", certain=False
)
def _partitions(source: Source) -> Iterator[Match]:
    for subscript in source.all(ast.Subscript):
        base, indices = subscript.value, source.indices(subscript)
        first = indices[0]
        if not isinstance(base, ast.Name) or isinstance(first, ast.Slice):
            continue
        if isinstance(first, ast.Call) or source.code(first) == "...":  # nl.ds is a slice
            continue
        # Up to 0.4.0 the result has at least two dimensions, so a two-dimensional tile keeps both.
        shape = shape_of(source, base) or []
        rank = 0 if any("par_dim" in size for size in shape) else len(shape)  # blocks of Beta 1
        if rank < 3 or buffer_of(source, base) not in ("sbuf", "psum"):
            continue
        dropped = sum(not isinstance(part, ast.Slice) for part in indices)
        if rank - dropped < 2:
            continue
        stop = _next(source, first)
        if stop is None or not _counts_only(source, subscript):
            text = f"{source.code(subscript)} has one dimension more: index with i:i + 1"
            yield Match(subscript, f"{text}, and adapt what uses the shape")
        else:
            edit = source.replaced(first, f"{source.code(first)}:{stop}")
            yield Match(subscript, "the partition is selected by a slice", (edit,))


def _next(source: Source, index: ast.expr) -> str | None:
    """Return the text of an index plus 1, for a number and for a variable of a Python loop."""
    number = literal_integer(index)
    if number is not None:
        return str(number + 1) if number >= 0 else None
    loops = [
        above
        for above in source.ancestors(index)
        if isinstance(above, ast.For) and source.code(above.target) == source.code(index)
    ]
    called = loops[0].iter if loops else None
    if not isinstance(called, ast.Call):
        return None
    counts = source.nki_name(called.func, _LANGUAGE) in RANGES
    python = source.code(called.func) == "range" and is_builtin(source, "range")
    return f"{source.code(index)} + 1" if counts or python else None


def _counts_only(source: Source, operand: ast.AST) -> bool:
    """Return whether an operand is used by a DMA that counts elements and reads no rank."""
    call = source.call_of(operand)
    return call is not None and source.name(call.func) == f"{_ISA}.dma_copy"


@rule(
    "MG-504",
    "random numbers: the engine is no longer chosen automatically",
    "partial",
    certain=False,
)
def _engines(source: Source) -> Iterator[Match]:
    for name in ("rng", "rand_get_state", "rand_set_state"):
        default = _default(versions.parameters("0.5.0", _ISA, name) or "", "engine")
        names = parameter_names("0.4.0", _ISA, name)
        for call in source.calls(_ISA, name):
            given = source.arguments(call, names)
            if not given or "engine" in given:
                continue
            stop = source.span(source.given(call)[-1].node)[1]
            review = "up to 0.4.0 the compiler chose the engine: the stream may be another one"
            edit = Edit(stop, stop, f", engine={NISA}.{default}")
            yield Match(call, f"the engine is {default}", (edit,), review)


def _default(parameters: str, name: str) -> str:
    """Return the text of a parameter's default."""
    for part in parameters.split(", "):
        key, _, value = part.partition("=")
        if key == name:
            return value
    raise KeyError(name)


@rule("MG-505", "nl.rsqrt reads no PSUM", "partial")
def _rsqrt(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "rsqrt"):
        operand = source.arguments(call, ("x", "dtype")).get("x")
        if operand is None or not in_psum(source, operand):
            continue
        edits = staged(source, operand)
        if edits is None:
            yield Match(call, "copy the PSUM tile to SBUF first, or use nisa.activation")
        else:
            yield Match(call, "the PSUM tile is copied to SBUF first", edits)


@rule(
    "MG-508",
    "launch grids will be replaced by the setting of the logical core",
    "report",
    deprecated=True,
)
def _grid(source: Source) -> Iterator[Match]:
    kernels = {function.name for function in source.kernels()}
    for call in source.all(ast.Call):
        launched = call.func
        if not isinstance(launched, ast.Subscript) or len(source.indices(launched)) > 1:
            continue  # a grid of several axes is an error since 0.3.0, which another rule reports
        if source.code(launched.value) in kernels:
            text = source.code(launched)
            fix = "a grid must equal the number of cores, and a later version drops it"
            yield Match(call, f"{text}: {fix}")


@rule("MG-509", "device_value, sim_value and is_identity exist in 0.4.0 only", "report")
def _removed_attributes(source: Source) -> Iterator[Match]:
    for attribute in source.all(ast.Attribute):
        name = attribute.attr
        if name not in ("device_value", "sim_value", "is_identity"):
            continue
        if is_tile(source, attribute.value):
            fix = "compare get_pattern()" if name == "is_identity" else "use nl.device_print"
            yield Match(attribute, f"tensors have no {name} any more: {fix}")
