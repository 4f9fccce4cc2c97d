"""Instructions of Beta 1 return their result; since Beta 2 they write into ``dst``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from nkisim import versions
from nkisim.rewriting import Edit, before
from nkisim.source import literal_integer, writes_tile
from nkisim.upgrade.beta1.indexing import target_text
from nkisim.upgrade.beta2.arguments import named
from nkisim.upgrade.rules import Match, hoisted, rule
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.upgrade.tiles import buffer_of, in_psum, tile_dtype

_ISA = "nki.isa"
DST = "allocate the result and pass it as dst=: since Beta 2 the instruction returns nothing"


def old_calls(source: Source, *names: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls whose result is used: from Beta 2 on no instruction returns a result."""
    for call in source.calls(_ISA, *names):
        line = source.statement(call)
        used = line is not None and not source.is_bare(line, call)
        if (
            used
            and source.keyword(call, "dst") is None
            and not any(a.star for a in source.given(call))
        ):
            yield call, source.nki_name(call.func, _ISA) or ""


def statement_of(source: Source, node: ast.AST, wish: str) -> Match:
    """Return the change that gives a nested call a statement of its own, in front of its line."""
    return hoisted(source, node, wish, "the nested call becomes a statement", DST)


def target_of(source: Source, call: ast.Call) -> ast.Name | ast.Subscript | None:
    """Return the name or part of a tile that is assigned the result of a call, and only that."""
    statement = source.parent(call)
    target: ast.AST | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        target = statement.target
    return target if isinstance(target, ast.Name | ast.Subscript) else None


def _merged(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Join insertions at one place into one edit, in their order."""
    out: list[Edit] = []
    for edit in edits:
        if out and edit.start == edit.stop == out[-1].start == out[-1].stop:
            out[-1] = Edit(edit.start, edit.stop, out[-1].text + edit.text)
        else:
            out.append(edit)
    return tuple(out)


def replaced_by(
    source: Source, call: ast.Call, arguments: dict[str, str]
) -> Callable[[str], list[Edit]]:
    """Return the function from the text of ``dst`` to the edits that write the whole call anew."""

    def edits(dst: str) -> list[Edit]:
        parts = [f"dst={dst}", *(f"{key}={text}" for key, text in arguments.items())]
        return [source.replaced(call, f"{source.code(call.func)}({', '.join(parts)})")]

    return edits


def allocated(
    source: Source,
    call: ast.Call,
    result: tuple[str, str, str],
    edits: Callable[[str], list[Edit]],
    message: str,
    review: str = "",
) -> Match:
    """Return the change of ``t = f(...)`` to an allocation and ``f(dst=t, ...)``.

    ``result`` is the shape, the dtype and the buffer of the result. A part of a tile,
    ``t[0:64] = f(...)``, is written without an allocation.
    """
    statement, line = source.parent(call), source.statement(call)
    target = target_of(source, call)
    if statement is None or line is None or target is None:
        return Match(call, DST)
    start, stop = source.span(statement)[0], source.span(call)[0]
    without = [Edit(start, stop, "")] if stop > start else []
    if isinstance(target, ast.Subscript):
        new = _joined(without, edits(target_text(source, target)))
        return Match(call, "the result is written to dst", _merged(new), review)
    used = target.id in source.words(call)
    name = source.fresh(f"{target.id}_new") if used else target.id
    shape, dtype, buffer = result
    label = name
    if isinstance(statement, ast.AnnAssign) and not used:
        label += f": {source.code(statement.annotation)}"
    made = f"{label} = {NL}.ndarray({shape}, dtype={dtype}, buffer={NL}.{buffer})"
    new = [before(source, line, [made]), *_joined(without, edits(name))]
    if used:
        comment = source.comment_behind(line)
        end = source.span(call)[1] if comment is None else comment[1]
        after = source.newline + source.indent(line) + f"{target.id} = {name}"
        new.append(Edit(end, end, after))
    return Match(call, message, _merged(new), review)


def _joined(without: list[Edit], edits: list[Edit]) -> list[Edit]:
    """Join the removal of the target with an edit that begins where it ends."""
    if without and edits and edits[0].start == without[0].stop < edits[0].stop:
        first = Edit(without[0].start, edits[0].stop, edits[0].text)
        return [first, *edits[1:]]
    return [*without, *edits]


@dataclass(frozen=True)
class _Result:
    """The parameters of a Beta 1 instruction, and the tensor that it returned.

    ``{0}`` in the shape stands for the operand ``like``, ``{1}`` for the operand ``other``. The
    dtype is the more precise one of ``like`` and ``mate``.
    """

    parameters: tuple[str, ...]
    like: str
    shape: str = "{0}.shape"
    dtype: str = "{0}.dtype"
    buffer: str = "sbuf"
    other: str = ""
    mate: str = ""


_SCALAR = ("data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1")
_SCAN = ("data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1")
_COLUMNS = "({{0}}.shape[0], {})"

_RESULTS = {
    "activation": _Result(("op", "data", "bias", "scale"), "data"),
    "activation_reduce": _Result(("op", "data", "reduce_op", "reduce_res"), "data"),
    "bn_aggr": _Result(("data",), "data", _COLUMNS.format(2)),
    "bn_stats": _Result(("data",), "data", _COLUMNS.format(6)),
    "dma_transpose": _Result(("src",), "src", "({0}.shape[1], {0}.shape[0])"),
    "dropout": _Result(("data", "prob"), "data"),
    "max8": _Result((), "src", _COLUMNS.format(8)),
    "nc_find_index8": _Result((), "data", _COLUMNS.format(8), f"{NL}.uint32"),
    "nc_match_replace8": _Result((), "data"),
    "nc_matmul": _Result(
        ("stationary", "moving"),
        "stationary",
        "({0}.shape[-1], {1}.shape[-1])",
        f"{NL}.float32",
        "psum",
        "moving",
    ),
    "nc_transpose": _Result(("data",), "data", "({0}.shape[1], {0}.shape[0])", buffer="psum"),
    "range_select": _Result((), "on_true_tile"),
    "reciprocal": _Result(("data",), "data"),
    "scalar_tensor_tensor": _Result((), "data", mate="operand1"),
    "sequence_bounds": _Result(("segment_ids",), "segment_ids", "({0}.shape[0], 2, {0}.shape[1])"),
    "tensor_copy": _Result(("src",), "src"),
    "tensor_partition_reduce": _Result(("op", "data"), "data", "(1,) + {0}.shape[1:]"),
    "tensor_reduce": _Result(("op", "data", "axis"), "data", _COLUMNS.format(1)),
    "tensor_scalar": _Result(_SCALAR, "data"),
    "tensor_scalar_reduce": _Result((), "data"),
    "tensor_tensor": _Result(("data1", "data2", "op"), "data1", mate="data2"),
    "tensor_tensor_scan": _Result(_SCAN, "data0", mate="data1"),
}
# Instructions of other rules.
_OTHERS = (
    *("affine_select", "builtin_custom_op", "iota", "memset"),
    *("tensor_copy_dynamic_dst", "tensor_copy_dynamic_src"),
)


def _over(axis: ast.AST | None) -> list[int] | None:
    """Return the axes of a reduction if they are literals."""
    nodes = axis.elts if isinstance(axis, ast.Tuple | ast.List) else [axis]
    numbers = [literal_integer(node) for node in nodes]
    return None if None in numbers else sorted(n for n in numbers if n is not None)


def _shape(source: Source, name: str, arguments: Mapping[str, ast.expr]) -> str | None:
    """Return the text of the shape of a result, or None if it is not known."""
    result = _RESULTS[name]
    like = source.code(arguments[result.like])
    other = source.code(arguments[result.other]) if result.other in arguments else ""
    if name == "tensor_reduce":
        axes = _over(arguments.get("axis"))
        if not axes or axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] < 1:
            return None
        if axes[0] > 1:
            return f"({', '.join(f'{like}.shape[{place}]' for place in range(axes[0]))})"
    if name == "dma_transpose" and "axes" in arguments:
        order = arguments["axes"]
        elements = order.elts if isinstance(order, ast.Tuple | ast.List) else []
        places = [source.code(element) for element in elements]
        if not places or not all(place.isdecimal() for place in places):
            return None
        return f"({', '.join(f'{like}.shape[{place}]' for place in places)})"
    return result.shape.format(like, other)


@rule("MG-102", "instructions write into dst", "partial")
def _results(source: Source) -> Iterator[Match]:
    for call, name in old_calls(source):
        if not writes_tile(name) or name in _OTHERS:
            continue
        # A call that has dst by position returns the instruction in 0.6.0.
        certain = False if _binds(name, call) else None
        for match in _result(source, call, name):
            yield replace(match, certain=certain)


@cache
def _signatures(name: str) -> tuple[ast.arguments, ...]:
    texts = (versions.parameters(v, "nki.isa", name) for v in versions.VERSIONS)
    functions = (ast.parse(f"lambda {text}: 0", mode="eval").body for text in texts if text)
    return tuple(f.args for f in functions if isinstance(f, ast.Lambda))


def _binds(name: str, call: ast.Call) -> bool:
    """Return whether a call has all arguments that a function requires in one of the versions.

    It is then a call with ``dst``. In 0.6.0 its result is the instruction.
    """
    keywords = {keyword.arg for keyword in call.keywords}
    for signature in _signatures(name):
        required = signature.args[: len(signature.args) - len(signature.defaults)]
        missing = {p.arg for p in required[len(call.args) :]}
        if missing <= keywords and not keywords & {"dtype", "mask"}:
            return True
    return False


def _result(source: Source, call: ast.Call, name: str) -> Iterator[Match]:
    if name not in _RESULTS:
        yield Match(call, DST)
        return
    if source.keyword(call, "mask") is not None:
        return  # MG-103
    result, line = _RESULTS[name], source.statement(call)
    arguments = source.arguments(call, result.parameters)
    if line is None or result.like not in arguments:
        yield Match(call, DST)
        return
    if isinstance(line, ast.AugAssign) and line.value is call:
        if name != "nc_matmul":
            yield statement_of(source, call, f"{name}_result")
        return
    target = target_of(source, call)
    if target is None:
        yield statement_of(source, call, f"{name}_result")
        return
    operands = [arguments[k] for k in (result.like, result.other) if k in arguments]
    nested = [o for o in operands if not isinstance(o, ast.Name | ast.Subscript)]
    shape = _shape(source, name, arguments)
    part = isinstance(target, ast.Subscript) and buffer_of(source, target)
    if result.buffer == "psum" and part == "sbuf":
        # The Tensor engine writes to PSUM only.
        yield statement_of(source, call, f"{name}_result")
    elif nested and isinstance(target, ast.Name):
        yield statement_of(source, nested[0], f"{name}_operand")
    elif shape is None and isinstance(target, ast.Name):
        yield Match(call, DST)
    else:
        yield _allocated(source, call, name, shape or "", arguments)


def _call_edits(source: Source, call: ast.Call, result: _Result, dst: str) -> list[Edit]:
    """Return the edits that add ``dst=``, name all arguments and drop ``dtype=``."""
    edits: list[Edit] = []
    first = source.given(call)[0]
    start = source.span(first.node)[0]
    dropped = source.keyword(call, "dtype")
    if dropped is not None:
        edits.append(source.without_argument(call, dropped))
    if source.nki_name(call.func, _ISA) == "nc_matmul" and _overwrites(source, call):
        dst += ", accumulate=False"
    if first is dropped:
        return [*edits, Edit(edits[0].stop, edits[0].stop, f"dst={dst}, ")]
    return [Edit(start, start, f"dst={dst}, "), *named(source, call, 0, result.parameters), *edits]


def _overwrites(source: Source, call: ast.Call) -> bool:
    """Return whether a product is assigned to a tile that may hold an earlier product."""
    return source.keyword(call, "accumulate") is None and isinstance(
        target_of(source, call), ast.Subscript
    )


def _more_precise(source: Source, first: ast.expr, second: ast.expr) -> tuple[str, bool]:
    """Return the dtype of the result of two tiles, and whether it is certain.

    It is the more precise of their dtypes: float32 if one of them is.
    """
    known = tile_dtype(source, first), tile_dtype(source, second)
    if f"{NL}.float32" in known:
        return f"{NL}.float32", True
    own = f"{source.code(first)}.dtype"
    named = known[0] is not None and known[0].startswith(NL) and known[0] != known[1]
    if named and isinstance(second, ast.Name | ast.Subscript):
        return f"{source.code(second)}.dtype", False
    return own, known[0] is not None and known[0] == known[1]


def _allocated(
    source: Source,
    call: ast.Call,
    name: str,
    shape: str,
    arguments: Mapping[str, ast.expr],
) -> Match:
    result, given = _RESULTS[name], arguments.get("dtype")
    like = source.code(arguments[result.like])
    dtype = result.dtype.format(like)
    if given is not None and not (result.buffer == "psum" and result.other == ""):
        dtype = source.code(given)
    review = ""
    if isinstance(target_of(source, call), ast.Subscript):
        review = "" if given is None else "the result has the dtype of dst"
    elif given is None and result.mate in arguments:
        dtype, certain = _more_precise(source, arguments[result.like], arguments[result.mate])
        if not certain:
            review = f"the result has the dtype of {like}: check that it is as precise as the other"
    return allocated(
        source,
        call,
        (shape, dtype, result.buffer),
        lambda dst: _call_edits(source, call, result, dst),
        "the result is allocated and written to dst",
        review,
    )


@rule("MG-114", "memset fills a tile that exists", "safe")
def _memset(source: Source) -> Iterator[Match]:
    for call, _ in old_calls(source, "memset"):
        arguments = source.arguments(call, ("shape", "value", "dtype"))
        line, target = source.statement(call), target_of(source, call)
        if line is None or "mask" in arguments or not {"shape", "value", "dtype"} <= set(arguments):
            continue
        if not isinstance(line, ast.Assign) or not isinstance(target, ast.Name):
            yield statement_of(source, call, "filled")
            continue
        shape, value, dtype = (source.code(arguments[k]) for k in ("shape", "value", "dtype"))
        made = f"{target.id} = {NL}.ndarray({shape}, dtype={dtype}, buffer={NL}.sbuf)"
        parts = [f"dst={target.id}", f"value={value}"]
        if "engine" in arguments:
            parts.append(f"engine={source.code(arguments['engine'])}")
        text = f"{source.code(call.func)}({', '.join(parts)})"
        edits = (before(source, line, [made]), Edit(*source.span(line), text))
        yield Match(call, "the tile is allocated, then filled", edits)


@rule("MG-117", "nc_stream_shuffle: dst comes first", "safe", certain=False)
def _shuffle(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "nc_stream_shuffle"):
        edits = named(source, call, 0, ("src", "dst", "shuffle_mask"))
        if edits and not any(a.star for a in source.given(call)):
            yield Match(call, "the tensors are passed by keyword", edits)


@rule("MG-122", "accumulation in PSUM", "partial")
def _accumulated(source: Source) -> Iterator[Match]:
    for statement in source.all(ast.AugAssign):
        call = statement.value
        if not isinstance(statement.op, ast.Add) or not isinstance(call, ast.Call):
            continue
        name = source.name(call.func)
        if name not in ("nki.isa.nc_matmul", "nki.language.matmul"):
            continue
        text = _matmul_into(source, call, source.code(statement.target))
        if text is None or not in_psum(source, statement.target):
            yield Match(call, "write nisa.nc_matmul(dst=..., accumulate=...) into a PSUM tile")
        else:
            edit = source.replaced(statement, f"{NISA}.{text}")
            yield Match(call, "nc_matmul accumulates in dst", (edit,))


def _matmul_into(source: Source, call: ast.Call, dst: str) -> str | None:
    """Return the ``nc_matmul`` into ``dst`` for an instruction or an ``nl.matmul`` of Beta 1."""
    if source.name(call.func) == "nki.language.matmul":
        found = source.arguments(call, ("x", "y", "transpose_x"))
        if set(found) != {"x", "y", "transpose_x"} or source.code(found["transpose_x"]) != "True":
            return None
        pair, rest = (source.code(found["x"]), source.code(found["y"])), ""
    else:
        found = source.arguments(call, ("stationary", "moving"))
        if not {"stationary", "moving"} <= set(found) or "mask" in found:
            return None
        pair = source.code(found["stationary"]), source.code(found["moving"])
        extra = [k for k in found if k not in ("stationary", "moving", "dtype")]
        rest = "".join(f", {key}={source.code(found[key])}" for key in extra)
    return f"nc_matmul(dst={dst}, stationary={pair[0]}, moving={pair[1]}{rest})"
