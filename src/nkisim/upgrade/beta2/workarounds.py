"""Functions that 0.3.0 has and its compiler does not: other ways to the same result."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit, before
from nkisim.source import literal_integer, number
from nkisim.upgrade.rules import Match, copied, rule
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.upgrade.tiles import dtype_of, is_tile

_ISA, _LANGUAGE = "nki.isa", "nki.language"


@rule("MG-342", "no engine computes remainders", "report")
def _remainder(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "mod", "fmod"):
        name = source.nki_name(call.func, _LANGUAGE)
        yield Match(call, f"nl.{name} does not compile: subtract the multiple of the quotient")


_POWERS = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}


@rule("MG-343", "nl.power with a number", "partial")
def _power(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "power"):
        found = source.arguments(call, ("x", "y", "dtype"))
        exponent, base = _number(found.get("y")), found.get("x")
        if exponent is None or base is None or not isinstance(call.func, ast.Attribute):
            continue
        nl, code = source.code(call.func.value), source.code(base)
        tail = f", dtype={source.code(found['dtype'])}" if "dtype" in found else ""
        if exponent in _POWERS:
            name = _POWERS[exponent]
            edit = source.replaced(call, f"{nl}.{name}({code}{tail})")
            yield Match(call, f"the power is nl.{name}", (edit,))
        elif exponent in (3.0, 4.0) and isinstance(base, ast.Name | ast.Subscript):
            other = code if exponent == 3 else f"{nl}.square({code})"
            text = f"{nl}.multiply({nl}.square({code}), {other}{tail})"
            edit = source.replaced(call, text)
            yield Match(call, "the power is a product", (edit,), "each product is rounded")
        else:
            yield Match(call, "the exponent cannot be a number: multiply, or exp(p * log(x))")


def _number(node: ast.AST | None) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    value = number(node)
    return None if value is None else float(value)


@rule("MG-348", "nl.copy rounds large integers", "safe", certain=False)
def _integer_copy(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "copy"):
        found, line = source.arguments(call, ("x", "dtype")), source.statement(call)
        tile = found.get("x", found.get("src"))
        if tile is None or len(found) > 1 or dtype_of(source, tile) not in ("int32", "uint32"):
            continue
        alone = isinstance(line, ast.Assign) and line.value is call
        target = line.targets[0] if isinstance(line, ast.Assign) and alone else None
        text = source.code(tile)
        if line is not None and isinstance(target, ast.Name) and target.id != text:
            made, copy = copied(target.id, text, engine=f"{NISA}.engine.vector")
            edits = (before(source, line, [made]), Edit(*source.span(line), copy))
            yield Match(call, "the Vector engine copies the bits", edits)
        else:
            yield Match(call, "copy integers with nisa.tensor_copy on the Vector engine")


@rule("MG-349", "the index of nl.dynamic_range in arithmetic", "report", until="0.4.0")
def _dynamic_index(source: Source) -> Iterator[Match]:
    for loop in source.all(ast.For):
        call, target = loop.iter, loop.target
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Name):
            continue
        if source.name(call.func) != f"{_LANGUAGE}.dynamic_range":
            continue
        for name in source.within(loop.body, ast.Name):
            above = source.parent(name)
            used = isinstance(above, ast.BinOp | ast.UnaryOp | ast.Slice)
            if name.id == target.id and used:
                fix = "keep the index in a register of your own, or use a loop of fixed length"
                yield Match(name, fix)


@rule("MG-350", "nl.random_seed takes a tile", "partial")
def _seed(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "random_seed"):
        value, line = source.arguments(call, ("seed",)).get("seed"), source.statement(call)
        if value is None or is_tile(source, value) or literal_integer(value) is None:
            continue
        if line is None:
            yield Match(call, "pass a tile of shape (1, 1) with the seed")
            continue
        name = source.fresh("seed")
        made = f"{name} = {NL}.ndarray((1, 1), dtype={NL}.int32, buffer={NL}.sbuf)"
        rows = (made, f"{NISA}.memset(dst={name}, value={source.code(value)})")
        edits = (before(source, line, rows), source.replaced(value, name))
        yield Match(call, "the seed is put into a tile", edits)


@rule("MG-351", "nc_transpose: engine is ignored", "report", certain=False, until="0.4.0")
def _transpose_engine(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "nc_transpose"):
        argument = source.keyword(call, "engine")
        if argument is None or (source.name(argument.value) or "").endswith(("unknown", "tensor")):
            continue
        yield Match(call, "0.3.0 chooses the engine: dst must fit the Tensor engine, too")
