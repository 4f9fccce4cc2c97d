"""Fixes of calls that do not exist: invented names, arguments and methods, a missing ``dst``."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.intents import ARGUMENTS, NAMES, Intent, argument_meant, intent_of
from nkisim.source import base_name, expression, indices, number, rewritten
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of
from nkisim.suggestions.arguments import with_keyword
from nkisim.suggestions.products import product, transposed, transposed_operand
from nkisim.suggestions.shapes import along_columns
from nkisim.suggestions.statement import Case, fixes
from nkisim.versions import has, in_force

_ALIKE = {
    "activation": "data",
    "dma_copy": "src",
    "reciprocal": "data",
    "scalar_tensor_tensor": "data",
    "tensor_copy": "src",
    "tensor_scalar": "data",
    "tensor_tensor": "data1",
}
"""Instructions whose result has the shape of one operand, and that operand."""


@fixes("A025")
def _bad_call(case: Case) -> Rewrite | None:
    """A name, an argument or a value that does not exist."""
    data = case.finding.data
    if data.get("module") in ("nki.isa", "nki.language"):
        return invented(case, case.finding.operand)
    if data.get("module") == "NkiTensor":
        return method(case, case.finding.operand)
    if data.get("is_none"):
        return _nothing_returned(case)
    return _argument(case, data["keyword"]) if "keyword" in data else along_columns(case)


def _argument(case: Case, keyword: str) -> Rewrite | None:
    """An argument under another name, or a flag for what is an instruction of its own."""
    call = case.call
    if call is None or case.function not in INSTRUCTIONS:
        return None
    parameters = parameters_of(case.function)
    if case.function == "nc_matmul" and keyword in ("transpose_moving", "transpose_stationary"):
        return transposed_operand(case, keyword)
    taken = {*parameters[: len(call.args)], *(k.arg for k in call.keywords)}
    meant = argument_meant(keyword, [p for p in parameters if p not in taken])
    return with_keyword(case, keyword, case.text(keyword), called=meant) if meant else None


@fixes("A037")
def _nothing_returned(case: Case) -> Rewrite | None:
    """``y = nisa.f(dst=t)`` leaves None in y; the result is in t."""
    name = case.name(case.finding.operand or "value")
    for statement in case.block if name else ():
        made = getattr(statement, "value", None)
        if isinstance(made, ast.Call) and case.at(statement).target == name:
            for named in (k.value for k in made.keywords if k.arg == "dst"):
                return case.rewrite(case.with_name(name, ast.unparse(named)))
    return None


@fixes("A004")
def _fill(case: Case) -> Rewrite | None:
    """A fill of an integer tile is an integer."""
    value = number(case.arguments.get("value"))
    if value is None or value != int(value):
        return None
    return case.rewrite(case.with_arguments(value=str(int(value))))


@fixes("A026")
def _no_destination(case: Case) -> Rewrite | None:
    """An instruction is given a tile for its result."""
    call, new, nl = case.call, case.target, case.nl
    if call is None or not new or case.function not in INSTRUCTIONS:
        return None
    if case.tree.parent(call) is not case.statement:
        return None
    names = [p for p in parameters_of(case.function) if p != "dst"]
    given = dict(zip(names, map(ast.unparse, call.args), strict=False))
    given |= {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg is not None}
    if case.function == "nc_matmul" and {"stationary", "moving"} <= set(given):
        shape = f"({given['stationary']}.shape[1], {given['moving']}.shape[1])"
        made = case.tile(new, shape=shape, dtype=f"{nl}.float32", buffer="psum")
    elif case.function == "tensor_reduce" and given.get("axis") in ("1", "-1"):
        made = case.tile(new, given["data"], shape=f"({given['data']}.shape[0], 1)")
    elif case.function == "nc_transpose":
        shape = f"({given['data']}.shape[1], {given['data']}.shape[0])"
        made = case.tile(new, given["data"], shape=shape, buffer="psum")
    elif (like := given.get(_ALIKE.get(case.function, ""), "")) and case.variable(
        base_of(expression(like))
    ):
        made = case.tile(new, like)
    else:
        return None
    return case.rewrite(made, case.isa(case.function, dst=new, **given))


_DESTINATIONS = {"dst", *ARGUMENTS["dst"].split()} - {"y", "o"}

_TRANSFERS = {"dma", "load", "store", "memcpy"}
"""Words in names of functions that move data to or from HBM."""

_NAMED = ("tensor_scalar", "scalar_", "tensor_", "elementwise_", "eltwise_", "vector_", "hadamard")
"""Beginnings of names that tell whether an operation is of a tile and a number, or of two tiles."""


def invented(case: Case, name: str) -> Rewrite | None:
    """Return the statement with what was meant by a name that a module of NKI does not have."""
    node, call = _used(case, name)
    if node is None:
        return None
    if not isinstance(call, ast.Call) or call.func is not node:
        known = NAMES.get(name, "")
        return case.rewrite(case.with_expression(node, f"{case.nl}.{known}")) if known else None
    if has(in_force(), "nki.isa", name):  # the other module
        return case.rewrite(case.with_expression(node, f"{case.nisa}.{name}"))
    intent = intent_of(name)
    if intent is None:
        return None
    if intent.kind == "function":
        return case.rewrite(case.with_expression(node, f"{case.nl}.{intent.op}"))
    return _meant(case, name, intent, call)


def _used(case: Case, name: str) -> tuple[ast.Attribute, ast.AST | None] | tuple[None, None]:
    """Return the one use of an attribute in the statement, and the node around it."""
    used = [n for n in ast.walk(case.statement) if isinstance(n, ast.Attribute) and n.attr == name]
    return (used[0], case.tree.parent(used[0])) if len(used) == 1 else (None, None)


def method(case: Case, name: str) -> Rewrite | None:
    """Return the statement with what was meant by a method that tensors do not have."""
    node, call = _used(case, name)
    if node is None:
        return None
    tensor = node.value
    if name == "T":
        plain = getattr(case.statement, "value", None) is node
        return transposed(case, tensor) if plain else None
    if not isinstance(call, ast.Call) or call.func is not node:
        return None
    if name in ("astype", "to", "type", "cast") and len(call.args) == 1 and not call.keywords:
        text = f"{case.nl}.copy({ast.unparse(tensor)}, dtype={ast.unparse(call.args[0])})"
        return case.rewrite(case.with_expression(call, text))
    intent = intent_of(name)
    if intent is None or intent.kind in ("function", "instruction", "move"):
        return None
    return _meant(case, name, intent, call, tensor)


def _meant(
    case: Case, name: str, intent: Intent, call: ast.Call, *first: ast.expr
) -> Rewrite | None:
    """Return the statement with another call; ``first`` are operands in front of its own."""
    operands = [*first, *call.args]
    named = {k.arg or "**": k.value for k in call.keywords}
    dst = next((named.pop(k) for k in list(named) if k in _DESTINATIONS), None)
    named.pop("op", None)
    if dst is None and len(operands) > intent.operands:
        dst = operands.pop(0)
    if "axis=1" in intent.call and not is_of_rows(case, named, dst):
        return None
    for key in list(named)[: intent.operands - len(operands)]:
        operands.append(named.pop(key))
    if len(operands) != intent.operands or any(isinstance(n, ast.Starred) for n in operands):
        return None
    if dst is None:
        return _without_dst(case, intent, call, operands) if not named else None
    new = _into(case, name, intent, dst, operands)
    if not isinstance(new, ast.Call) or not isinstance(new.func, ast.Attribute):
        return None
    known = parameters_of(new.func.attr)
    if any(key not in known for key in named):
        return None  # the meaning of the other arguments is unknown
    new.keywords += [ast.keyword(key, value) for key, value in named.items()]
    return case.rewrite(case.with_expression(call, ast.unparse(new)))


def is_of_rows(case: Case, named: dict[str, ast.expr], dst: ast.expr | None) -> bool:
    """Return whether a reduction is that of each row: by its axis, or by the shape of its result.

    The arguments that say so are taken out.
    """
    axes = [ast.unparse(named.pop(key)) for key in ("axis", "dim") if key in named]
    kept = [named.pop(key) for key in ("keepdims", "keepdim") if key in named]
    base = None if dst is None else base_name(dst)
    fact = case.variable(base.id) if isinstance(dst, ast.Name) and base is not None else None
    if axes:
        return axes[0] in ("1", "-1")
    return not kept and fact is not None and fact.shape[1:] == (1,)


def _without_dst(
    case: Case, intent: Intent, call: ast.Call, operands: list[ast.expr]
) -> Rewrite | None:
    """Return the value that was meant as an expression, or made by some statements."""
    if intent.expression:
        return case.rewrite(case.with_expression(call, value_of(case, intent, *operands)))
    if getattr(case.statement, "value", None) is not call:
        return None
    if intent.kind == "matmul":
        return product(case, *operands)
    return transposed(case, operands[0]) if intent.kind == "transpose" else None


def value_of(case: Case, intent: Intent, *operands: ast.expr) -> str:
    """Return an operation on operands as an expression."""
    divided = intent.op == "divide" and _is_number(case, operands[1])
    text = "nl.multiply(a, 1.0 / b)" if divided else intent.expression
    return ast.unparse(_filled(case, text, None, operands))


def _filled(
    case: Case, text: str, dst: ast.expr | None, operands: tuple[ast.expr, ...] | list[ast.expr]
) -> ast.expr:
    """Return an expression of ``a``, ``b``, ``c`` and ``dst`` with a kernel's own operands."""
    own = dict(zip("abc", operands, strict=False)) | ({} if dst is None else {"dst": dst})
    own |= {"nl": expression(case.nl), "nisa": expression(case.nisa)}
    return rewritten(expression(text), lambda n: own.get(n.id) if isinstance(n, ast.Name) else None)


def _into(
    case: Case, name: str, intent: Intent, dst: ast.expr, operands: list[ast.expr]
) -> ast.expr | None:
    """Return the call that was probably meant; None where the operands may mean another one."""
    text = intent.call
    if intent.kind == "move":
        sides = [case.variable(base_of(node)) for node in (dst, operands[0])]
        far = any(fact is not None and "hbm" in fact.buffer for fact in sides)
        if not far and None in sides and not _TRANSFERS.intersection(name.split("_")):
            return None
        if not far and None not in sides:
            text = "nisa.tensor_copy(dst=dst, src=a)"
    elif intent.kind == "binary":
        instruction = _of_two(case, name, *operands)
        if instruction == "tensor_scalar":
            text = f"nisa.tensor_scalar(dst=dst, data=a, op0=nl.{intent.op}, operand0=b)"
            if intent.op == "divide":
                inverse = "1.0 / b" if _is_number(case, operands[1]) else "nl.reciprocal(b)"
                text = f"nisa.tensor_scalar(dst=dst, data=a, op0=nl.multiply, operand0={inverse})"
        elif not instruction:
            return None
    return _filled(case, text, dst, operands)


def base_of(node: ast.expr) -> str:
    """Return the variable that an operand begins with."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_number(case: Case, node: ast.expr) -> bool:
    """Return whether an operand is certainly a number: a run knows all variables that are tiles."""
    if isinstance(node, ast.Name):
        return bool(case.finding.facts) and case.variable(node.id) is None
    if isinstance(node, ast.UnaryOp):
        return _is_number(case, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(case, node.left) and _is_number(case, node.right)
    return isinstance(node, ast.Constant)


def _of_two(case: Case, name: str, first: ast.expr, second: ast.expr) -> str:
    """Return the instruction for an operation on two operands; empty if it may be either.

    By their shapes where a run knows them, else by the text and by the name of the function.
    """
    fact, other = (
        case.variable(node.id) if isinstance(node, ast.Name) else None for node in (second, first)
    )
    if fact is not None and other is not None and fact.shape != other.shape:
        return "tensor_scalar" if fact.shape[1:] == (1,) else ""
    if fact is not None:
        return "tensor_tensor"
    # A run knows all variables that are tiles.
    number = isinstance(second, ast.Name) and bool(case.finding.facts)
    if number or isinstance(second, (ast.Constant, ast.UnaryOp, ast.BinOp)) or _is_column(second):
        return "tensor_scalar"
    if case.variable(base_of(second)) is not None:
        return "tensor_tensor"
    named = next((start for start in _NAMED if name.startswith(start)), "")
    if not named:
        return ""
    return "tensor_scalar" if "scalar" in named else "tensor_tensor"


def _is_column(node: ast.expr) -> bool:
    """Return whether an expression is one column of a tile: ``t[:, 0:1]``, ``t[:, i : i + 1]``."""
    if not isinstance(node, ast.Subscript):
        return False
    parts = indices(node)
    part = parts[-1]
    if len(parts) < 2 or not isinstance(part, ast.Slice) or part.upper is None:
        return False
    start = "0" if part.lower is None else ast.unparse(part.lower)
    upper = part.upper
    if isinstance(upper, ast.Constant) and start.isdigit():
        return upper.value == int(start) + 1
    return ast.unparse(upper) in (f"{start} + 1", f"1 + {start}")
