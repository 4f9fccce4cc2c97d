"""Instructions of Beta 1 return their result; since Beta 2 they write into ``dst``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from nkisim.rewriting import Edit
from nkisim.upgrade.beta2.arguments import named
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source, literal_integer
from nkisim.upgrade.tiles import allocation, base_name, in_psum

__all__: list[str] = []

_ISA, _LANGUAGE = "nki.isa", "nki.language"


@dataclass(frozen=True)
class _Result:
    """The parameters of a Beta 1 instruction, and the tensor that it returned.

    ``{0}`` in the shape stands for the operand ``like``, ``{1}`` for the operand ``other``.
    """

    parameters: tuple[str, ...]
    like: str
    shape: str = "{0}.shape"
    dtype: str = "{0}.dtype"
    buffer: str = "sbuf"
    other: str = ""


_SCALAR = ("data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1")
_SCAN = ("data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1")
_COLUMNS = "({{0}}.shape[0], {})"

_RESULTS = {
    "activation": _Result(("op", "data"), "data"),
    "activation_reduce": _Result(("op", "data"), "data"),
    "bn_aggr": _Result(("data",), "data", _COLUMNS.format(2)),
    "bn_stats": _Result(("data",), "data", _COLUMNS.format(6)),
    "dropout": _Result(("data", "prob"), "data"),
    "max8": _Result((), "src", _COLUMNS.format(8)),
    "nc_find_index8": _Result((), "data", _COLUMNS.format(8), "nl.uint32"),
    "nc_match_replace8": _Result((), "data"),
    "nc_matmul": _Result(
        ("stationary", "moving"),
        "stationary",
        "({0}.shape[1], {1}.shape[1])",
        "nl.float32",
        "psum",
        "moving",
    ),
    "nc_transpose": _Result(("data",), "data", "({0}.shape[1], {0}.shape[0])", buffer="psum"),
    "range_select": _Result((), "on_true_tile"),
    "reciprocal": _Result(("data",), "data"),
    "scalar_tensor_tensor": _Result((), "data"),
    "tensor_copy": _Result(("src",), "src"),
    "tensor_reduce": _Result(("op", "data", "axis"), "data", _COLUMNS.format(1)),
    "tensor_scalar": _Result(_SCALAR, "data"),
    "tensor_scalar_reduce": _Result((), "data"),
    "tensor_tensor": _Result(("data1", "data2", "op"), "data1"),
    "tensor_tensor_scan": _Result(_SCAN, "data0"),
}
_DST = "allocate the result and pass it as dst=: since Beta 2 the instruction returns nothing"


def _old_calls(source: Source, *names: str) -> Iterator[tuple[cst.Call, str]]:
    """Yield the calls whose result is used: no instruction of a later release returns one."""
    for call in source.calls(_ISA, *names):
        line = source.statement(call)
        used = line is not None and not source.is_bare(line, call)
        if used and source.keyword(call, "dst") is None and not any(a.star for a in call.args):
            yield call, source.nki_name(call.func, _ISA) or ""


@rule(
    "MG-102",
    "instructions write into dst",
    since="beta1",
    kind="partial",
    before="res = nisa.tensor_tensor(lhs, rhs, op=nl.add)",
    after="res = nl.ndarray(lhs.shape, dtype=lhs.dtype, buffer=nl.sbuf)\n"
    "nisa.tensor_tensor(dst=res, data1=lhs, data2=rhs, op=nl.add)",
)
def _results(source: Source) -> Iterator[Match]:
    for call, name in _old_calls(source, *_RESULTS):
        if source.keyword(call, "mask") is not None:
            continue  # MG-103
        result, line = _RESULTS[name], source.statement(call)
        arguments = source.arguments(call, result.parameters)
        language = source.import_of(_LANGUAGE)
        if arguments is None or line is None or language is None or result.like not in arguments:
            yield Match(call, _DST)
            continue
        statement = line.body[0]
        if isinstance(statement, cst.AugAssign) and statement.value is call:
            if name != "nc_matmul":
                yield from _hoisted(source, line, call, f"{name}_result")
            continue
        if not isinstance(statement, cst.Assign) or statement.value is not call:
            yield from _hoisted(source, line, call, f"{name}_result")
            continue
        if len(statement.targets) != 1:
            yield Match(call, _DST)
            continue
        operands = [arguments[k] for k in (result.like, result.other) if k in arguments]
        nested = [o for o in operands if not isinstance(o, cst.Name | cst.Subscript)]
        target = statement.targets[0].target
        if isinstance(target, cst.Subscript):
            yield _into(source, call, result, statement, source.code(target))
        elif nested:
            yield from _hoisted(source, line, nested[0], f"{name}_operand")
        elif isinstance(target, cst.Name):
            if name == "tensor_reduce" and not _over_columns(arguments.get("axis")):
                yield Match(call, _DST)
            else:
                yield _allocated(source, call, result, statement, target, language, arguments)
        else:
            yield Match(call, _DST)


def _over_columns(axis: cst.CSTNode | None) -> bool:
    """Return whether an axis is 1, alone: the result then has one column."""
    if isinstance(axis, cst.Tuple | cst.List) and len(axis.elements) == 1:
        axis = axis.elements[0].value
    return axis is not None and literal_integer(axis) == 1


def _hoisted(
    source: Source, line: cst.SimpleStatementLine, node: cst.CSTNode, wish: str
) -> Iterator[Match]:
    """A nested call gets a statement of its own, in front of the one that contains it."""
    if not source.unconditional(node):
        yield Match(node, _DST)
        return
    name = source.fresh(wish)
    edits = (source.before(line, f"{name} = {source.code(node)}"), source.replaced(node, name))
    yield Match(node, "the nested call becomes a statement", edits)


def _call_edits(source: Source, call: cst.Call, result: _Result, dst: str) -> list[Edit]:
    """Return the edits that add ``dst=``, name all arguments and drop ``dtype=``."""
    edits: list[Edit] = []
    start = source.span(call.args[0])[0]
    dropped = source.keyword(call, "dtype")
    if dropped is not None:
        edits.append(source.without_argument(call, dropped))
    if call.args[0] is dropped:
        return [*edits, Edit(edits[0].stop, edits[0].stop, f"dst={dst}, ")]
    return [Edit(start, start, f"dst={dst}, "), *named(source, call, 0, result.parameters), *edits]


def _merged(edits: list[Edit]) -> tuple[Edit, ...]:
    """Join insertions at one place into one edit, in their order."""
    out: list[Edit] = []
    for edit in edits:
        if out and edit.start == edit.stop == out[-1].start == out[-1].stop:
            out[-1] = Edit(edit.start, edit.stop, out[-1].text + edit.text)
        else:
            out.append(edit)
    return tuple(out)


def _into(
    source: Source, call: cst.Call, result: _Result, statement: cst.Assign, dst: str
) -> Match:
    start, stop = source.span(statement)[0], source.span(call)[0]
    edits = [Edit(start, stop, ""), *_call_edits(source, call, result, dst)]
    review = "" if source.keyword(call, "dtype") is None else "the result has the dtype of dst"
    return Match(call, "the result is written to dst", _merged(edits), review)


def _allocated(
    source: Source,
    call: cst.Call,
    result: _Result,
    statement: cst.Assign,
    target: cst.Name,
    language: tuple[str, list[Edit]],
    arguments: dict[str, cst.BaseExpression],
) -> Match:
    nl, imports = language
    like = source.code(arguments[result.like])
    other = source.code(arguments[result.other]) if result.other in arguments else ""
    shape, given = result.shape.format(like, other), arguments.get("dtype")
    dtype = result.dtype.format(like).replace("nl.", f"{nl}.") if given is None else ""
    if given is not None:
        dtype = source.code(given)
        if result.buffer == "psum" and result.other == "":
            dtype = f"{like}.dtype"
    used = any(n.value == target.value for n in source.within(call, cst.Name))
    name = source.fresh(f"{target.value}_new") if used else target.value
    line = source.statement(call)
    assert line is not None
    made = f"{name} = {nl}.ndarray({shape}, dtype={dtype}, buffer={nl}.{result.buffer})"
    start, stop = source.span(statement)[0], source.span(call)[0]
    edits = [*imports, source.before(line, made)]
    edits += [Edit(start, stop, ""), *_call_edits(source, call, result, name)]
    if used:
        end = source.span(call)[1]
        after = source.newline + source.indent(line) + f"{target.value} = {name}"
        comment = line.trailing_whitespace.comment
        end = end if comment is None else source.span(comment)[1]
        edits.append(Edit(end, end, after))
    # The result of two tiles had the more precise of their dtypes.
    mixed = given is None and result.like in ("data0", "data1")
    review = f"the result has the dtype of {like}: check that {like} is as precise as the others"
    message = "the result is allocated and written to dst"
    return Match(call, message, _merged(edits), review if mixed else "")


@rule(
    "MG-114",
    "memset fills a tile that exists",
    since="beta1",
    kind="safe",
    before="t = nisa.memset((128, 4), 0.5, nl.float32)",
    after="t = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
    "nisa.memset(dst=t, value=0.5)",
)
def _memset(source: Source) -> Iterator[Match]:
    for call, _ in _old_calls(source, "memset"):
        arguments = source.arguments(call, ("shape", "value", "dtype"))
        line, language = source.statement(call), source.import_of(_LANGUAGE)
        if arguments is None or line is None or language is None:
            continue
        statement = line.body[0]
        if "mask" in arguments or not {"shape", "value", "dtype"} <= set(arguments):
            continue
        if not isinstance(statement, cst.Assign) or statement.value is not call:
            yield from _hoisted(source, line, call, "filled")
            continue
        target = statement.targets[0].target
        if len(statement.targets) != 1 or not isinstance(target, cst.Name):
            yield from _hoisted(source, line, call, "filled")
            continue
        shape, value, dtype = (source.code(arguments[k]) for k in ("shape", "value", "dtype"))
        nl, name = language[0], target.value
        made = f"{name} = {nl}.ndarray({shape}, dtype={dtype}, buffer={nl}.sbuf)"
        parts = [f"dst={name}", f"value={value}"]
        if "engine" in arguments:
            parts.append(f"engine={source.code(arguments['engine'])}")
        text = f"{source.code(call.func)}({', '.join(parts)})"
        edit = Edit(*source.span(statement), text)
        edits = (*language[1], source.before(line, made), edit)
        yield Match(call, "the tile is allocated, then filled", edits)


def _only_reported(
    source: Source, name: str, keys: tuple[str, ...], advice: str
) -> Iterator[Match]:
    for call, _ in _old_calls(source, name):
        if any(source.keyword(call, key) is not None for key in keys) or call.args:
            yield Match(call, advice)


@rule(
    "MG-115",
    "iota takes a pattern",
    since="beta1",
    kind="report",
    before="t = nisa.iota(nl.arange(4)[None, :], dtype=nl.int32)",
)
def _iota(source: Source) -> Iterator[Match]:
    advice = (
        "allocate dst and write nisa.iota(dst, pattern=[[step, count]], channel_multiplier=...)"
    )
    yield from _only_reported(source, "iota", ("expr",), advice)


@rule(
    "MG-116",
    "affine_select takes a pattern",
    since="beta1",
    kind="report",
    before="t = nisa.affine_select(pred=p, on_true_tile=x, on_false_value=0.0)",
)
def _affine_select(source: Source) -> Iterator[Match]:
    advice = "write the predicate as pattern, channel_multiplier and offset, compared with zero"
    yield from _only_reported(source, "affine_select", ("pred",), advice)


@rule(
    "MG-117",
    "nc_stream_shuffle: dst comes first",
    since="beta1",
    kind="safe",
    certain=False,
    before="nisa.nc_stream_shuffle(a, b, mask)",
    after="nisa.nc_stream_shuffle(src=a, dst=b, shuffle_mask=mask)",
)
def _shuffle(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "nc_stream_shuffle"):
        edits = named(source, call, 0, ("src", "dst", "shuffle_mask"))
        if edits and not any(a.star for a in call.args):
            yield Match(call, "the tensors are passed by keyword", edits)


@rule(
    "MG-122",
    "accumulation in PSUM",
    since="beta1",
    kind="partial",
    before="acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
    "for k in range(4):\n    acc += nl.matmul(a, b, transpose_x=True)",
    after="acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
    "for k in range(4):\n    nisa.nc_matmul(dst=acc, stationary=a, moving=b)",
)
def _accumulated(source: Source) -> Iterator[Match]:
    for statement in source.all(cst.AugAssign):
        call = statement.value
        if not isinstance(statement.operator, cst.AddAssign) or not isinstance(call, cst.Call):
            continue
        name = source.name(call.func)
        if name not in ("nki.isa.nc_matmul", "nki.language.matmul"):
            continue
        text = _matmul_into(source, call, source.code(statement.target))
        isa = source.import_of(_ISA)
        if text is None or isa is None or not in_psum(source, statement.target):
            yield Match(call, "write nisa.nc_matmul(dst=..., accumulate=...) into a PSUM tile")
            continue
        edits = (*isa[1], source.replaced(statement, f"{isa[0]}.{text}"))
        yield Match(call, "nc_matmul accumulates in dst", edits)


def _matmul_into(source: Source, call: cst.Call, dst: str) -> str | None:
    """Return the ``nc_matmul`` into ``dst`` for an instruction or an ``nl.matmul`` of Beta 1."""
    if source.name(call.func) == "nki.language.matmul":
        found = source.arguments(call, ("x", "y", "transpose_x"))
        if found is None or set(found) != {"x", "y", "transpose_x"}:
            return None
        if source.code(found["transpose_x"]) != "True":
            return None
        pair, rest = (source.code(found["x"]), source.code(found["y"])), ""
    else:
        found = source.arguments(call, ("stationary", "moving"))
        if found is None or not {"stationary", "moving"} <= set(found) or "mask" in found:
            return None
        pair = source.code(found["stationary"]), source.code(found["moving"])
        extra = [k for k in found if k not in ("stationary", "moving", "dtype")]
        rest = "".join(f", {key}={source.code(found[key])}" for key in extra)
    return f"nc_matmul(dst={dst}, stationary={pair[0]}, moving={pair[1]}{rest})"


@rule(
    "MG-123",
    "no zeros in PSUM before a matmul",
    since="beta1",
    kind="safe",
    before="acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
    "for k in range(4):\n    nisa.nc_matmul(dst=acc, stationary=a, moving=b)",
    after="acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
    "for k in range(4):\n    nisa.nc_matmul(dst=acc, stationary=a, moving=b)",
)
def _zeros(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "zeros"):
        target = source.parent(call)
        if not isinstance(target, cst.Assign) or len(target.targets) != 1:
            continue
        name = target.targets[0].target
        made = allocation(source, name)
        if not isinstance(name, cst.Name) or not made or len(made) != 1:
            continue
        if not in_psum(source, name) or not isinstance(call.func, cst.Attribute):
            continue
        function = source.function_of(call)
        writers = [
            c
            for c in source.within(function or source.module, cst.Call)
            if (dst := source.keyword(c, "dst")) is not None
            and (base := base_name(dst.value)) is not None
            and base.value == name.value
        ]
        whole = (name.value, f"{name.value}[...]")
        matmuls = [
            c
            for c in writers
            if source.name(c.func) == "nki.isa.nc_matmul"
            and (dst := source.keyword(c, "dst")) is not None
            and source.code(dst.value) in whole
        ]
        if not matmuls or matmuls != writers or _changed_otherwise(source, name, function):
            continue
        if any(source.keyword(c, "accumulate") is not None for c in matmuls):
            continue
        if not all(_always_runs(source, target, c) for c in matmuls[:1]):
            continue
        edit = source.replaced(call.func.attr, "ndarray")
        yield Match(call, "the first matmul overwrites the tile", (edit,))


def _always_runs(source: Source, made: cst.CSTNode, call: cst.CSTNode) -> bool:
    """Return whether a call is in no branch that the allocation is not in as well."""
    above = set(source.ancestors(made))
    return not any(
        isinstance(a, cst.If | cst.While | cst.Try)
        for a in source.ancestors(call)
        if a not in above
    )


def _changed_otherwise(source: Source, name: cst.Name, function: cst.FunctionDef | None) -> bool:
    """Return whether a tile is also assigned to, as in ``t[...] = x`` or ``t += x``."""
    whole = function or source.module
    targets: list[cst.BaseExpression] = [t.target for t in source.within(whole, cst.AssignTarget)]
    targets += [statement.target for statement in source.within(whole, cst.AugAssign)]
    for target in targets:
        base = base_name(target)
        if base is not None and base is not name and base.value == name.value:
            return True
    return False
