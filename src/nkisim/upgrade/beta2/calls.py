"""Calls that Beta 2 took and 0.3.0 refuses or reads otherwise."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.upgrade.beta2.arguments import COMPARISONS
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import shape_of
from nkisim.versions import VERSIONS, parameter_names

_ISA, _LANGUAGE = "nki.isa", "nki.language"

# Keywords of older releases that have rules of their own.
# fmt: off
_HANDLED = frozenset(
    (
        "channel_multiplier", "dst_rmw_op", "dtype", "expr", "imm", "is_moving_zero",
        "is_stationary_zero", "mask", "num_channels", "pred", "psumAccumulateFlag", "shape",
        "unique_indices", "use_gpsimd_dma",
    )
)
# fmt: on


@rule("MG-201", "unknown keywords", "report")
def _keywords(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA):
        name = source.nki_name(call.func, _ISA) or ""
        known = {p for version in VERSIONS for p in parameter_names(version, _ISA, name)}
        if not known or not source.is_bare(source.statement(call), call):
            continue
        for argument in source.given(call):
            key = argument.keyword or ""
            if not key or key in known or key in _HANDLED:
                continue
            near = difflib.get_close_matches(key, sorted(known), 1)
            advice = f"is {near[0]}= meant?" if near else "remove it: it had no effect"
            yield Match(call, f"nisa.{name} has no argument {key}=; {advice}")


@rule("MG-204", "activation: bias has one column", "report")
def _bias(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "activation", "activation_reduce"):
        argument = source.keyword(call, "bias")
        shape = None if argument is None else shape_of(source, argument.value)
        wide = [size for size in (shape or [])[1:] if size.isdecimal() and size != "1"]
        if argument is not None and wide:
            text = source.code(argument.value)
            yield Match(call, f"bias has the shape (P, 1): pass one column, {text}[:, 0:1]")


_ON_HOST = ("identity", "zeros", "ones", "arange")
_NUMPY = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32")


@rule("MG-205", "nki.tensor makes no constants", "partial")
def _host_tensors(source: Source) -> Iterator[Match]:
    done: list[ast.AST] = []
    named = False
    for call in source.calls(_LANGUAGE, "shared_constant"):
        given = source.arguments(call, ("constant", "dtype"))
        made = [c for c in source.within(call, ast.Call) if _is_trace_time(source, c)]
        if not made or "constant" not in given or not set(given) <= {"constant", "dtype"}:
            continue
        done += made
        match = _identity_matrix(source, call, given)
        if match is None:
            if named:
                continue  # one at a time: the next one needs another name
            match = _array(source, call, given, made)
            named = match is not None
        yield match or Match(call, _ADVICE)
    for call in source.all(ast.Call):
        if _is_trace_time(source, call) and call not in done:
            yield Match(call, _ADVICE)
    for line in source.unused_imports("nki.tensor", "nki.meta"):
        yield Match(line, "the import is not used any more", (source.emptied(line),))


_ADVICE = (
    "make the array with NumPy outside of the kernel and pass it to nl.shared_constant; "
    "for the identity use nl.shared_identity_matrix"
)


def _is_trace_time(source: Source, call: ast.Call) -> bool:
    return (source.name(call.func) or "").rpartition(".")[0] in ("nki.tensor", "nki.meta.tensor")


def _identity_matrix(source: Source, call: ast.Call, given: dict[str, ast.expr]) -> Match | None:
    """``nl.shared_constant`` of an identity matrix is a function of its own."""
    made = given["constant"]
    if not isinstance(made, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    found = source.arguments(made, ("n", "dtype"))
    if not (source.name(made.func) or "").endswith(".identity") or set(found) != {"n", "dtype"}:
        return None
    dtype = source.code(given.get("dtype", found["dtype"]))
    text = f"{source.code(call.func.value)}.shared_identity_matrix"
    edit = source.replaced(call, f"{text}({source.code(found['n'])}, dtype={dtype})")
    return Match(call, "nl.shared_identity_matrix makes the constant", (edit,))


def _array(
    source: Source, call: ast.Call, given: dict[str, ast.expr], made: list[ast.Call]
) -> Match | None:
    """An array of NumPy in front of the function: a kernel can pass it on, and not make it."""
    numpy, imports = source.alias("numpy"), list[Edit]()
    if numpy is None:
        top = next(s for s in source.module.body if isinstance(s, ast.Import | ast.ImportFrom))
        if not source.begins_line(top) or source.is_used("np"):
            return None
        start = source.span(top)[0]
        numpy, imports = "np", [Edit(start, start, f"import numpy as np{source.newline}")]
    whole = given["constant"]
    names = {n for n in source.within(whole, ast.Name) if source.name(n) is None}
    text, first = source.code(whole), source.span(whole)[0]
    spots: list[tuple[int, int, str]] = []
    for one in made:
        dtype = source.keyword(one, "dtype")
        kind = None if dtype is None else source.nki_name(dtype.value, _LANGUAGE)
        name = (source.name(one.func) or "").rpartition(".")[2]
        if name not in _ON_HOST or dtype is None or kind not in _NUMPY or names:
            return None
        spots.append((*source.span(one.func), f"{numpy}.{name}"))
        spots.append((*source.span(dtype.value), f"{numpy}.{kind}"))
    data = text.encode()
    for start, stop, new in sorted(spots, reverse=True):
        data = data[: start - first] + new.encode() + data[stop - first :]
    text = data.decode()
    if "dtype" in given:
        kind = source.nki_name(given["dtype"], _LANGUAGE)
        if kind not in _NUMPY:
            return None
        text = f"({text}).astype({numpy}.{kind})"
    if not source.in_device_code(call):
        edits = (*imports, source.replaced(call, f"{source.code(call.func)}({text})"))
        return Match(call, "NumPy makes the constant", edits)
    (outer,) = [s for s in source.ancestors(call) if source.parent(s) is source.module]
    marks = [source.span(mark)[0] for mark in getattr(outer, "decorator_list", ())]
    place = source.data.rfind(b"\n", 0, min((*marks, source.span(outer)[0]))) + 1
    constant = source.fresh("CONSTANT")
    line = Edit(place, place, f"{constant} = {text}{source.newline * 3}")
    use = source.replaced(call, f"{source.code(call.func)}({constant})")
    return Match(call, "NumPy makes the constant, outside of the kernel", (*imports, line, use))


@rule("MG-206", "kernels without arguments", "report")
def _no_arguments(source: Source) -> Iterator[Match]:
    for function in source.kernels():
        if not any(True for _ in ast.iter_child_nodes(function.args)):
            yield Match(function, "a kernel takes at least one tensor: give it an argument")


@rule("MG-207", "range_select: reduce_cmd had no effect", "partial", certain=False)
def _reduce_command(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "range_select"):
        argument = source.keyword(call, "reduce_cmd")
        name = "" if argument is None else source.name(argument.value) or ""
        ignored = name.startswith("nki.isa.reduce_cmd.") and not name.endswith(".reset_reduce")
        if argument is not None and ignored:
            edit = source.without_argument(call, argument)
            review = "Beta 2 used reset_reduce whatever was passed; 0.3.0 uses what is passed"
            yield Match(call, "reduce_cmd=, which was ignored, is removed", (edit,), review)


@rule("MG-327", "comparisons have the dtype of their inputs", "report", certain=False)
def _comparisons(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, *COMPARISONS):
        statement = source.parent(call)
        if source.keyword(call, "dtype") is not None or not isinstance(statement, ast.Assign):
            continue
        target = statement.targets[0]
        made = source.bound(target) if isinstance(target, ast.Name) else []
        above = (source.parent(use) for one in made for use in one.references)
        if any(isinstance(a, ast.Attribute) and a.attr in ("dtype", "view") for a in above):
            yield Match(call, "the result was bool: pass dtype=nl.uint8 if its bits matter")
