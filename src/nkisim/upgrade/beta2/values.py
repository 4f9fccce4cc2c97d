"""Values that must fit the tensor: memset, axes of reductions, registers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import literal_integer, number
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NISA, Source
from nkisim.upgrade.tiles import dtype_of, rank_of, shape_of

_ISA = "nki.isa"


def _filled(source: Source) -> Iterator[tuple[ast.Call, str, ast.expr]]:
    """Yield the calls of memset on a tile of a visible dtype, with the dtype and the value."""
    for call in source.calls(_ISA, "memset"):
        arguments = source.arguments(call, ("dst", "value", "engine", "name"))
        if {"dst", "value"} <= set(arguments):
            yield call, dtype_of(source, arguments["dst"]) or "", arguments["value"]


@rule("MG-304", "memset: an integer tile takes an integer", "safe")
def _memset(source: Source) -> Iterator[Match]:
    for call, dtype, value in _filled(source):
        literal = value.operand if isinstance(value, ast.UnaryOp) else value
        amount = number(literal)
        if "int" not in dtype or not isinstance(amount, float):
            continue
        if amount.is_integer():
            edit = source.replaced(literal, str(int(amount)))
            yield Match(call, "the value of an integer tile is an integer", (edit,))
        else:
            text = source.code(value)
            yield Match(call, f"{text} does not fit {dtype}: choose an integer")


@rule("MG-305", "memset: packed types take zero only", "report")
def _packed(source: Source) -> Iterator[Match]:
    for call, dtype, value in _filled(source):
        if dtype.endswith("_x4") and number(value) not in (None, 0):
            yield Match(call, "pass the packed constant as an argument and load it with dma_copy")


@rule("MG-306", "tensor_reduce: axis counts the dimensions of the tensor", "partial")
def _axis(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "tensor_reduce"):
        arguments = source.arguments(call, ("dst", "op", "data", "axis", "negate", "keepdims"))
        if not {"dst", "data", "axis"} <= set(arguments):
            continue
        if literal_integer(_only(arguments["axis"])) != 1:
            continue
        data, dst = shape_of(source, arguments["data"]), shape_of(source, arguments["dst"])
        rank = _rank(source, arguments["data"]) if data is None else len(data)
        if rank is not None and rank < 3:
            continue
        if data is None or dst is None:
            text = f"len({source.code(arguments['data'])}.shape) - 1" if rank is None else None
            edit = source.replaced(arguments["axis"], text or str((rank or 0) - 1))
            review = "axis 1 was the last dimension: check that it is the one that is meant"
            # In files of Beta 1 other rules still change the indices of data.
            yield Match(call, "the last dimension is named", (edit,), review, False, "beta2")
            continue
        sizes = [size for size in dst if size != "1"]
        last = [size for size in data[:-1] if size != "1"]
        second = [size for size in data[:1] + data[2:] if size != "1"]
        if sizes == last and sizes != second:
            edit = source.replaced(arguments["axis"], str(len(data) - 1))
            yield Match(call, "the shape of dst shows that the last dimension is meant", (edit,))
        elif sizes != second:
            yield Match(call, "axis=1 is now the second dimension: name the one that is meant")


def _rank(source: Source, node: ast.expr) -> int | None:
    """Return the number of dimensions of a tile or of a part of one, if the text shows it."""
    if not isinstance(node, ast.Subscript):
        return rank_of(source, node)
    rank, indices = rank_of(source, node.value), source.indices(node)
    if rank is None or any(not isinstance(i, ast.Slice | ast.Constant) for i in indices):
        return None
    return rank - sum(isinstance(literal_integer(i), int) for i in indices)


def _only(axis: ast.expr) -> ast.expr:
    """Return the axis in ``[axis]`` or ``(axis,)``."""
    return axis.elts[0] if isinstance(axis, ast.List | ast.Tuple) and len(axis.elts) == 1 else axis


@rule("MG-310", "register_move: imm became src, a register", "safe")
def _register_move(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "register_move"):
        argument = source.keyword(call, "imm")
        certain = argument is not None  # the docstring of 0.3.0 takes an integer for src
        given = source.given(call)
        if argument is None and len(given) == 2 and given[1].keyword is None:
            argument = given[1] if literal_integer(given[1].value) is not None else None
        if argument is not None:
            text = f"src={NISA}.register_alloc({source.code(argument.value)})"
            edit = source.replaced(argument.node, text)
            message = "the constant is put into a register first"
            yield Match(call, message, (edit,), certain=certain)
