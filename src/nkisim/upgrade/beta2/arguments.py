"""Arguments whose place, name or type differs: positions, enums, buffers, removed keywords."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nkisim.rewriting import Edit
from nkisim.source import is_none, literal_integer, number, string
from nkisim.upgrade.rules import Finder, Match, removed, rule
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.upgrade.tiles import ALLOCATIONS, allocated, dtype_text
from nkisim.versions import parameter_names

_ISA, _LANGUAGE = "nki.isa", "nki.language"

_ENUMS = {
    "dge_mode": ("unknown", "swdge", "hwdge", "none"),
    "engine": ("unknown", "tensor", "scalar", "gpsimd", "dma", "vector", "sync"),
    "oob_mode": ("error", "skip"),
    "reduce_cmd": ("idle", "reset", "reduce", "reset_reduce", "load_reduce"),
}
_BUFFERS = ("sbuf", "psum", "hbm", "shared_hbm", "private_hbm")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def _positional(source: Source, call: ast.Call) -> int:
    """Return the number of positional arguments, or -1 if a star hides it."""
    if any(argument.star for argument in source.given(call)):
        return -1
    return len(call.args)


def hides(source: Source, call: ast.Call, first: int) -> bool:
    """Return whether ``*values`` in a call can reach the positions from ``first`` on."""
    count = 0
    for argument in call.args:
        if not isinstance(argument, ast.Starred):
            count += 1
            continue
        value = argument.value
        values = source.values(value) if isinstance(value, ast.Name) else [value]
        lengths = {
            len(v.elts)
            for v in values or ()
            if isinstance(v, ast.Tuple | ast.List)
            and not any(isinstance(e, ast.Starred) for e in v.elts)
        }
        if not values or len(lengths) != 1:
            return True
        count += lengths.pop()
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred and count > first


HIDDEN = "* hides arguments from {} on, whose positions changed: pass them by keyword"


def _hidden(source: Source, name: str, first: int, parameter: str) -> Iterator[Match]:
    """Yield the calls of an instruction whose moved arguments a star hides."""
    for call in source.calls(_ISA, name):
        if hides(source, call, first):
            yield Match(call, HIDDEN.format(parameter), certain=False)


def named(source: Source, call: ast.Call, first: int, names: Sequence[str]) -> tuple[Edit, ...]:
    """Return the edits that turn positional arguments from ``first`` on into keywords."""
    edits = []
    for argument, name in zip(
        source.given(call)[first : max(0, _positional(source, call))], names, strict=False
    ):
        start = source.span(argument.node)[0]
        edits.append(Edit(start, start, f"{name}="))
    return tuple(edits)


@rule("MG-307", "dma_compute: scales and reduce_op changed places", "safe")
def _dma_compute(source: Source) -> Iterator[Match]:
    yield from _hidden(source, "dma_compute", 2, "scales")
    for call in source.calls(_ISA, "dma_compute"):
        count = _positional(source, call)
        if count < 3:
            continue
        third = call.args[2]
        fourth = call.args[3] if count > 3 else None
        old = source.keyword(call, "reduce_op") is not None or (
            fourth is not None
            and source.nki_name(fourth, _LANGUAGE) is not None
            and source.nki_name(third, _LANGUAGE) is None
        )
        if old:
            edits = named(source, call, 2, ("scales", "reduce_op", "name"))
            yield Match(call, "scales and reduce_op are passed by keyword", edits)


@rule("MG-308", "sendrecv: use_gpsimd_dma became dma_engine", "safe")
def _sendrecv(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "sendrecv"):
        argument = source.keyword(call, "use_gpsimd_dma")
        if argument is not None:
            given = source.code(argument.value)
            yes, no = f"{NISA}.dma_engine.gpsimd_dma", f"{NISA}.dma_engine.dma"
            text = {"True": yes, "False": no}.get(given, f"{yes} if {given} else {no}")
            edit = source.replaced(argument.node, f"dma_engine={text}")
            yield Match(call, "use_gpsimd_dma= is now dma_engine=", (edit,))


@rule("MG-309", "affine_select: offset left the third position", "safe")
def _affine_select(source: Source) -> Iterator[Match]:
    tail = ("offset", "channel_multiplier", "on_true_tile", "on_false_value", "cmp_op", "name")
    new = ("dst", "pattern", "channel_multiplier", "on_true_tile", "on_false_value")
    yield from _hidden(source, "affine_select", 2, "offset")
    for call in source.calls(_ISA, "affine_select"):
        count = _positional(source, call)
        if count < 3:
            continue
        old = any(source.keyword(call, name) is not None for name in new[2:count])
        if count >= 6:
            old = source.nki_name(call.args[5], _LANGUAGE) not in COMPARISONS
        if old:
            edits = named(source, call, 2, tail)
            yield Match(call, "offset and the arguments behind it are passed by keyword", edits)


@rule("MG-325", "nc_matmul: accumulate was inserted before tile_position", "safe")
def _nc_matmul(source: Source) -> Iterator[Match]:
    tail = ("tile_position", "tile_size", "perf_mode", "name")
    yield from _hidden(source, "nc_matmul", 6, "tile_position")
    for call in source.calls(_ISA, "nc_matmul"):
        if _positional(source, call) > 6 and isinstance(call.args[6], ast.Tuple):
            edits = named(source, call, 6, tail)
            yield Match(call, "arguments from tile_position on are passed by keyword", edits)


@rule("MG-326", "dma_copy: positions shifted when dst_rmw_op was removed", "safe")
def _dma_copy(source: Source) -> Iterator[Match]:
    tail = ("dst_rmw_op", "oob_mode", "dge_mode", "unique_indices", "name")
    yield from _hidden(source, "dma_copy", 2, "dst_rmw_op")
    for call in source.calls(_ISA, "dma_copy"):
        if _positional(source, call) < 3:
            continue
        third = call.args[2]
        if is_none(third) or source.nki_name(third, _LANGUAGE) is not None:
            edits = named(source, call, 2, tail)
            yield Match(call, "arguments behind src are passed by keyword", edits)


def _numbers(release: str, tables: dict[str, tuple[str, ...]]) -> Finder:
    """Return the function that names the members of enums which a release passed as numbers."""

    def find(source: Source) -> Iterator[Match]:
        for call in source.calls(_ISA):
            for argument in source.given(call):
                key, number = argument.keyword or "", literal_integer(argument.value)
                if key not in tables or number is None:
                    continue
                text = f"{key}={number}"
                if 0 <= number < len(tables[key]):
                    edit = source.replaced(argument.value, f"{NISA}.{key}.{tables[key][number]}")
                    message = f"{text} is named, with the numbers of {release}"
                    yield Match(call, message, (edit,))
                else:
                    yield Match(call, f"{text} names no member of nki.isa.{key}; choose one")

    return find


rule("MG-129", "numeric dge_mode of Beta 1", "safe", certain=False)(
    _numbers("Beta 1", {"dge_mode": ("none", "swdge", "hwdge", "unknown")})
)


@rule("MG-313", "numbers for enum members", "safe")
def _enums(source: Source) -> Iterator[Match]:
    yield from _numbers("Beta 2", _ENUMS)(source)
    for comparison in source.all(ast.Compare):
        left = comparison.left
        if not isinstance(left, ast.Call) or source.name(left.func) != "nki.isa.get_nc_version":
            continue
        for target in comparison.comparators:
            number = literal_integer(target)
            if number in (2, 3, 4):
                edit = source.replaced(target, f"{NISA}.nc_version.gen{number}")
                yield Match(comparison, "the generation is named", (edit,))


@rule("MG-314", "strings for buffers", "safe")
def _buffers(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, *ALLOCATIONS):
        given = allocated(source, call).get("buffer")
        name = string(given)
        if given is not None and name in _BUFFERS:
            edit = source.replaced(given, f"{NL}.{name}")
            yield Match(call, f"the buffer is {NL}.{name}", (edit,))
        elif name is not None:
            yield Match(call, f"{name!r} is no buffer; accepted are {', '.join(_BUFFERS)}")


@rule("MG-315", "engine=nisa.dma_engine: the alias is now the enum of sendrecv", "safe")
def _dma_alias(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA):
        argument = source.keyword(call, "engine")
        if argument is not None and source.name(argument.value) == "nki.isa.dma_engine":
            edit = source.without_argument(call, argument)
            yield Match(call, "engine=dma_engine, which had no effect, is removed", (edit,))


rule("MG-311", "num_channels of the collectives was removed", "partial")(
    removed(
        "num_channels",
        "nki.collectives.collective_permute_implicit_current_processing_rank_id",
        review="pass channel_ids=[0, ..., n - 1] to collective_permute_implicit",
    )
)


@rule("MG-322", "range_select: on_false_value must be FP32_MIN", "partial")
def _range_select(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "range_select"):
        argument = source.keyword(call, "on_false_value")
        if argument is None:
            continue
        digits = source.code(argument.value).replace(" ", "")
        if _is_number(digits) and float(digits) > -3.4e38:
            review = "Beta 2 used FP32_MIN whatever was passed; check that this is what you want"
            edit = source.without_argument(call, argument)
            yield Match(call, "on_false_value=, which was ignored, is removed", (edit,), review)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@rule("MG-328", "shared_constant: dtype was removed", "partial")
def _shared_constant(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "shared_constant"):
        given = source.keyword(call, "dtype")
        if given is None and _positional(source, call) < 2:
            continue
        loads = None if given is None else _loads(source, source.parent(call))
        if loads is None or given is None:
            yield Match(call, "convert the array on the host, then pass it without dtype=")
            continue
        edits = [source.without_argument(call, given)]
        for load in loads:
            if source.keyword(load, "dtype") is None:
                end = source.span(source.given(load)[-1].node)[1]
                edits.append(Edit(end, end, f", dtype={source.code(given.value)}"))
        yield Match(call, "the constant is converted when it is loaded", tuple(edits))


def _loads(source: Source, statement: ast.AST | None) -> list[ast.Call] | None:
    """Return the calls ``nl.load(name)`` of an assigned name, or None if others use it."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    made = source.bound(target) if isinstance(target, ast.Name) else []
    calls: list[ast.Call] = []
    if len(made) != 1:
        return None
    for name in made[0].references:
        call = source.call_of(name)
        full = "" if call is None else source.name(call.func)
        if call is not None and full == f"{_LANGUAGE}.load":
            calls.append(call)
        elif full != f"{_ISA}.dma_copy":  # which converts to the dtype of dst
            return None
    return calls


@rule("MG-329", "range_select: range_start is an integer", "safe")
def _range_start(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "range_select"):
        argument = source.keyword(call, "range_start")
        value = None if argument is None else number(argument.value)
        if argument is None or not isinstance(value, float):
            continue
        if value.is_integer():
            edit = source.replaced(argument.value, str(int(value)))
            yield Match(call, "range_start is an integer", (edit,))
        else:
            yield Match(call, f"range_start={value} is no integer: choose the first index")


@rule("MG-331", "instructions with dst take no dtype", "partial")
def _dtype(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA):
        argument, name = source.keyword(call, "dtype"), source.nki_name(call.func, _ISA) or ""
        parameters = parameter_names("0.3.0", _ISA, name)
        if argument is None or "dst" not in parameters or "dtype" in parameters:
            continue
        # Without dst it is a call of Beta 1, whose result had this dtype.
        line = source.statement(call)
        dst = source.arguments(call, parameters).get("dst")
        if dst is None or (source.keyword(call, "dst") is None and not source.is_bare(line, call)):
            continue
        own, wanted = dtype_text(source, dst), source.code(argument.value)
        edit = source.without_argument(call, argument)
        if own == wanted:
            yield Match(call, "dtype= is removed: dst has this dtype", (edit,))
        elif own is None:
            review = f"the result has the dtype of dst: check that it is {wanted}"
            yield Match(call, "dtype= is removed: the dtype of dst counts", (edit,), review)
        else:
            yield Match(call, f"allocate dst with dtype={wanted}, then drop the argument")
