"""Python operators on tiles, assignments to tiles, and tiles that 0.3.0 leaves in PSUM."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit, before
from nkisim.source import COMPARISONS, OPERATORS, base_name, number
from nkisim.upgrade.beta1.indexing import target_text
from nkisim.upgrade.rules import Match, copied, hoisted, rule, staged
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.upgrade.tiles import (
    broadcast,
    buffer_of,
    dtype_text,
    in_psum,
    is_column,
    is_number,
    is_tile,
    tile_shape,
)

_ISA, _LANGUAGE = "nki.isa", "nki.language"

_BINARY = {kind: name for kind, name in OPERATORS.items() if "shift" not in name}
_IN_PLACE = ("add", "subtract", "multiply", "divide")
_HBM = ("hbm", "shared_hbm", "private_hbm")


def _operates(source: Source, node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _BINARY and (
            is_tile(source, node.left) or is_tile(source, node.right)
        )
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and is_tile(source, node.operand)
    )


def _converted(source: Source, node: ast.AST) -> str:
    """Return an expression with functions in place of the operators on tiles."""
    if not _operates(source, node):
        return source.code(node)
    if isinstance(node, ast.UnaryOp):
        return f"{NL}.negative({_inner(source, node.operand)})"
    assert isinstance(node, ast.BinOp)
    name = _BINARY[type(node.op)]
    left, right = _inner(source, node.left), _inner(source, node.right)
    if name == "power" and right in ("2", "2.0"):
        return f"{NL}.square({left})"
    if name == "divide" and left in ("1", "1.0"):
        return f"{NL}.reciprocal({right})"
    return f"{NL}.{name}({left}, {right})"


def _inner(source: Source, node: ast.expr) -> str:
    """Return an operand without the parentheses that an argument does not need."""
    text = _converted(source, node)
    if not _operates(source, node) and not isinstance(node, ast.Tuple | ast.GeneratorExp):
        bare = source.bare(node)
        return bare if "\n" not in bare else text
    return text


@rule("MG-125", "operators on tiles", "partial")
def _operators(source: Source) -> Iterator[Match]:
    for node in (*source.all(ast.BinOp), *source.all(ast.UnaryOp)):
        if _operates(source, node) and not any(_operates(source, a) for a in _above(source, node)):
            edit = source.replaced(node, _converted(source, node))
            yield Match(node, "functions of nki.language compute on tiles", (edit,))
    for comparison in source.all(ast.Compare):
        target = comparison.comparators[0]
        tiles = is_tile(source, comparison.left) or is_tile(source, target)
        name = COMPARISONS.get(type(comparison.ops[0]))
        exact = isinstance(comparison.ops[0], ast.Eq | ast.NotEq)  # may compare other things
        if not tiles or name is None or exact or len(comparison.ops) > 1:
            continue
        left, right = source.code(comparison.left), source.code(target)
        edit = source.replaced(comparison, f"{NL}.{name}({left}, {right})")
        yield Match(comparison, "functions of nki.language compare tiles", (edit,))
    for statement in source.all(ast.AugAssign):
        name = _BINARY.get(type(statement.op))
        call = statement.value
        product = isinstance(call, ast.Call) and (source.name(call.func) or "").endswith("matmul")
        if not is_tile(source, statement.target) or product:
            continue
        if name not in _IN_PLACE or _aliased(source, statement.target):
            yield Match(statement, "tiles have no operators: write into the tile with dst=")
            continue
        dst, value = source.code(statement.target), source.code(call)
        text = f"{NISA}.tensor_copy(dst={dst}, src={NL}.{name}({dst}, {value}))"
        edit = source.replaced(statement, text)
        yield Match(statement, "the tile is updated with tensor_copy", (edit,))


def _aliased(source: Source, target: ast.expr) -> bool:
    """Return whether another name stands for the same tile, as after ``old = tile``."""
    name, function = base_name(target), source.function_of(target)
    return name is not None and any(
        isinstance(statement.value, ast.Name) and statement.value.id == name.id
        for statement in source.within(function or source.module, ast.Assign)
    )


def _above(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the operations that a node is a direct operand of."""
    for above in source.ancestors(node):
        if not isinstance(above, ast.BinOp | ast.UnaryOp):
            return
        yield above


@rule("MG-124", "assignments to tiles", "partial")
def _assignments(source: Source) -> Iterator[Match]:
    for statement in source.all(ast.Assign):
        if len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        # ``tiles[0] = tile`` puts another tile into a list.
        if not isinstance(target, ast.Subscript) or not is_tile(source, target.value):
            continue
        if isinstance(value, ast.Call) and source.nki_name(value.func, _ISA) is not None:
            continue  # MG-102
        if isinstance(value, ast.Call) and source.keyword(value, "mask") is not None:
            continue  # MG-103
        text = _written(source, target, value)
        if text is None:
            yield Match(statement, "write with dst= of an instruction, or with nisa.tensor_copy")
        else:
            edit = source.replaced(statement, text)
            yield Match(statement, "the tile is written by an instruction", (edit,))


def _written(source: Source, target: ast.Subscript, value: ast.expr) -> str | None:
    """Return the instruction that writes a value to a part of a tile."""
    dst, code = target_text(source, target), source.code(value)
    memory = buffer_of(source, target)
    if memory in _HBM:
        return f"{NL}.store({dst}, {code})" if is_tile(source, value) else None
    if isinstance(value, ast.Call) and source.name(value.func) == "nki.language.load":
        found = source.arguments(value, ("src",))
        converted = found.pop("dtype", None)
        own = (dtype_text(source, target.value) or "").rpartition(".")[2]
        same = converted is None or own == source.code(converted).rpartition(".")[2]
        if set(found) == {"src"} and memory == "sbuf" and same:
            return f"{NISA}.dma_copy(dst={dst}, src={source.code(found['src'])})"
    if isinstance(value, ast.Call) and source.name(value.func) == "nki.language.matmul":
        found = source.arguments(value, ("x", "y", "transpose_x"))
        flag = found.get("transpose_x")
        if flag is not None and source.code(flag) == "True":
            pair = f"stationary={source.code(found['x'])}, moving={source.code(found['y'])}"
            if memory == "psum":
                return f"{NISA}.nc_matmul(dst={dst}, {pair}, accumulate=False)"
    if number(value.operand if isinstance(value, ast.UnaryOp) else value) is not None:
        return f"{NISA}.memset(dst={dst}, value={code})"
    if is_number(source, value):
        return f"{NISA}.memset(dst={_element(source, target)}, value={code})"
    if is_tile(source, value):
        return f"{NISA}.tensor_copy(dst={dst}, src={code})"
    return None


def _element(source: Source, target: ast.Subscript) -> str:
    """Return the text of a part of a tile, with slices of one element for plain integers."""
    texts = []
    for part in source.indices(target):
        text = source.code(part)
        if is_number(source, part):
            text = f"{text}:{text} + 1" if not text.isdecimal() else f"{text}:{int(text) + 1}"
        texts.append(text)
    return f"{source.code(target.value)}[{', '.join(texts)}]"


@rule("MG-106", "nl.store stores no number", "safe")
def _store_number(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "store"):
        found = source.arguments(call, ("dst", "value"))
        dst, value = found.get("dst"), found.get("value")
        if dst is None or value is None or not is_number(source, value):
            continue
        code = source.code(dst)
        rest = f"dtype={code}.dtype, buffer={NL}.sbuf"
        edit = source.replaced(value, f"{NL}.full({code}.shape, {source.code(value)}, {rest})")
        yield Match(call, "the number is stored from a tile", (edit,))


@rule("MG-346", "nl.store stores no PSUM tile", "safe")
def _store(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "store"):
        arguments = source.arguments(call, ("dst", "value"))
        value, line = arguments.get("value"), source.statement(call)
        if value is None or "mask" in arguments or not in_psum(source, value):
            continue
        name, text = base_name(value), source.code(value)
        if line is None or not source.is_bare(line, call):
            yield Match(call, "copy the PSUM tile to SBUF with nisa.tensor_copy first")
            continue
        product = source.fresh("product") if name is None else name.id
        stage = source.fresh(f"{product}_sbuf")
        made = (f"{product} = {text}",) if name is None else ()
        rows = (*made, *copied(stage, product if name is None else text))
        edits = (before(source, line, rows), source.replaced(value, stage))
        yield Match(call, "the PSUM tile is copied to SBUF first", edits)


@rule("MG-347", "nl.copy of a PSUM tile stays in PSUM", "safe", certain=False)
def _copy(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "copy"):
        arguments = source.arguments(call, ("src", "dtype"))
        tile = arguments.get("src", arguments.get("x"))
        statement, line = source.parent(call), source.statement(call)
        if tile is None or "mask" in arguments or not in_psum(source, tile) or line is None:
            continue
        base = base_name(tile)
        if base is None:
            continue
        dtype = source.code(arguments["dtype"]) if "dtype" in arguments else ""
        target = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id != base.id:
            made, copy = copied(target.id, source.code(tile), dtype)
            edits = (before(source, line, [made]), Edit(*source.span(line), copy))
            yield Match(call, "the tile is copied to SBUF", edits)
        elif source.unconditional(call) and not isinstance(target, ast.Name):
            yield hoisted(source, call, f"{base.id}_sbuf", "the copy gets a name")


@rule("MG-345", "nl.matmul takes x transposed", "partial")
def _matmul(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "matmul"):
        found, line = source.arguments(call, ("x", "y", "transpose_x")), source.statement(call)
        flag = found.get("transpose_x")
        turned = flag is not None and source.code(flag) == "True"
        given = [found[key] for key in ("x", "y") if key in found and in_psum(source, found[key])]
        if not {"x", "y"} <= set(found) or not (given or not turned):
            continue
        plain = flag is None or source.code(flag) in ("True", "False")
        operand = given[0] if given else found["x"]
        plain = plain and "mask" not in found and source.unconditional(call)
        if line is None or not plain or not is_tile(source, found["x"]):
            yield Match(call, "pass x transposed, in SBUF, with transpose_x=True")
        elif not isinstance(operand, ast.Name):
            yield hoisted(source, operand, "operand", "the operand gets a name")
        elif given:
            edits = staged(source, operand) or ()
            yield Match(call, "the PSUM tile is copied to SBUF first", edits)
        else:
            name = source.fresh(f"{operand.id}_t")
            stage = source.fresh(f"{name}_sbuf")
            made = f"{name} = {NL}.transpose({operand.id})"
            rows = before(source, line, [made, *copied(stage, name)])
            if flag is not None:
                last = source.replaced(flag, "True")
            else:
                end = source.span(source.given(call)[-1].node)[1]
                last = Edit(end, end, ", transpose_x=True")
            edits = (rows, source.replaced(operand, stage), last)
            yield Match(call, "x is transposed on the Tensor engine", edits)


_COMBINING = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")


@rule("MG-344", "no broadcasting between tiles", "partial")
def _broadcast(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, *_COMBINING):
        found = source.arguments(call, ("x", "y", "dtype"))
        if not {"x", "y"} <= set(found):
            continue
        sizes = [tile_shape(source, found[key]) for key in ("x", "y")]
        if sizes[0] is not None and sizes[1] is not None:
            yield from _expanded(source, call, (found["x"], found["y"]), (sizes[0], sizes[1]))
            continue
        columns = [is_column(source, found[key]) for key in ("x", "y")]
        if columns[0] == columns[1]:
            continue
        column, other = (found["x"], found["y"]) if columns[0] else (found["y"], found["x"])
        if not is_tile(source, other) or not is_tile(source, column):
            continue
        if isinstance(other, ast.Name | ast.Subscript):
            text = f"{NL}.broadcast_to({source.code(column)}, {source.code(other)}.shape)"
            yield Match(call, "the column is broadcast", (source.replaced(column, text),))
        else:
            advice = "broadcast the column with nl.broadcast_to"
            yield hoisted(source, other, "tile", "the operand gets a name", advice)


def _expanded(
    source: Source,
    call: ast.Call,
    operands: tuple[ast.expr, ast.expr],
    sizes: tuple[list[str], list[str]],
) -> Iterator[Match]:
    """Expand the operands of known shapes to the shape that they have together."""
    whole, edits = broadcast(*sizes), []
    if whole is None or sizes[0] == sizes[1]:
        return
    for operand, own, other in zip(operands, sizes, reversed(operands), strict=True):
        if own == whole:
            continue
        size = f"({', '.join(whole)})"
        if isinstance(other, ast.Name | ast.Subscript) and tile_shape(source, other) == whole:
            size = f"{source.code(other)}.shape"
        text = f"{NL}.broadcast_to({source.code(operand)}, {size})"
        edits.append(source.replaced(operand, text))
    yield Match(call, "the operands are broadcast", tuple(edits))


@rule("MG-341", "no engine divides", "partial")
def _divide(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "divide"):
        found = source.arguments(call, ("x", "y", "dtype"))
        if not {"x", "y"} <= set(found) or not isinstance(call.func, ast.Attribute):
            continue
        divisor, module = found["y"], source.code(call.func.value)
        text = source.code(divisor)
        if is_tile(source, divisor):
            new = f"{module}.reciprocal({text})"
        elif number(divisor):
            new = f"1.0 / {text}"
        elif is_number(source, divisor):
            new = f"1.0 / ({text})" if isinstance(divisor, ast.BinOp) else f"1.0 / {text}"
        else:
            yield Match(
                call, f"multiply by the reciprocal of {text}, which may be a tile or a number"
            )
            continue
        edits = (source.renamed(call.func, "multiply"), source.replaced(divisor, new))
        review = "the quotient is rounded twice, as on the device"
        yield Match(call, "the reciprocal is multiplied", edits, review)
