"""Fixes of calls: what does not exist and was invented, and wrong or missing arguments."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.intents import ARGUMENTS, NAMES, Intent, argument_meant, intent_of
from nkisim.source import (
    expression,
    indices,
    number,
    rewritten,
    string,
)
from nkisim.spec import INSTRUCTIONS, OPS
from nkisim.spec.signatures import parameters_of
from nkisim.suggestions.products import product, transposed, transposed_operand
from nkisim.suggestions.shapes import along_columns
from nkisim.suggestions.statement import Case, NoFixError, expect, fixes, only_if, required
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
def _bad_call(case: Case) -> Rewrite:
    """A name, an argument or a value that does not exist."""
    data = case.finding.data
    if data.get("module") in ("nki.isa", "nki.language"):
        return invented(case, case.finding.operand)
    if data.get("module") == "NkiTensor":
        return method(case, case.finding.operand)
    if data.get("is_none"):
        return _nothing_returned(case)
    return _argument(case, data["keyword"]) if "keyword" in data else along_columns(case)


def _argument(case: Case, keyword: str) -> Rewrite:
    """An argument under another name, or a flag for what is an instruction of its own."""
    call = required(case.call)
    only_if(case.function in INSTRUCTIONS)
    parameters = parameters_of(case.function)
    if case.function == "nc_matmul" and keyword in ("transpose_moving", "transpose_stationary"):
        return transposed_operand(case, keyword)
    taken = {*parameters[: len(call.args)], *(k.arg for k in call.keywords)}
    meant = argument_meant(keyword, [p for p in parameters if p not in taken])
    only_if(meant)
    return with_keyword(case, keyword, case.text(keyword), called=meant)


@fixes("A037")
def _nothing_returned(case: Case) -> Rewrite:
    """``y = nisa.f(dst=t)`` leaves None in y; the result is in t."""
    name = case.name(case.finding.operand or "value")
    for statement in case.block if name else ():
        made = getattr(statement, "value", None)
        if isinstance(made, ast.Call) and case.at(statement).target == name:
            for named in (k.value for k in made.keywords if k.arg == "dst"):
                return case.rewrite(case.with_name(name, ast.unparse(named)))
    raise NoFixError


@fixes("A004")
def _fill(case: Case) -> Rewrite:
    """A fill of an integer tile is an integer."""
    value = required(number(case.arguments.get("value")))
    only_if(value == int(value))
    return case.rewrite(case.with_arguments(value=str(int(value))))


@fixes("A026")
def _no_destination(case: Case) -> Rewrite:
    """An instruction is given a tile for its result."""
    call, new, nl = required(case.call), case.target, case.nl
    only_if(new, case.function in INSTRUCTIONS, case.tree.parent(call) is case.statement)
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
        raise NoFixError
    return case.rewrite(made, case.isa(case.function, dst=new, **given))


_DESTINATIONS = {"dst", *ARGUMENTS["dst"].split()} - {"y", "o"}

_TRANSFERS = {"dma", "load", "store", "memcpy"}
"""Words in names of functions that move data to or from HBM."""

_NAMED = ("tensor_scalar", "scalar_", "tensor_", "elementwise_", "eltwise_", "vector_", "hadamard")
"""Beginnings of names that tell whether an operation is of a tile and a number, or of two tiles."""


def invented(case: Case, name: str) -> Rewrite:
    """Return the statement with what was meant by a name that a module of NKI does not have."""
    node, call = _used(case, name)
    if not isinstance(call, ast.Call) or call.func is not node:
        known = required(NAMES.get(name))
        return case.rewrite(case.with_expression(node, f"{case.nl}.{known}"))
    if has(in_force(), "nki.isa", name):  # the other module
        return case.rewrite(case.with_expression(node, f"{case.nisa}.{name}"))
    intent = required(intent_of(name))
    if intent.kind == "function":
        return case.rewrite(case.with_expression(node, f"{case.nl}.{intent.op}"))
    return _meant(case, name, intent, call)


def _used(case: Case, name: str) -> tuple[ast.Attribute, ast.AST | None]:
    """Return the one use of an attribute in the statement, and the node around it."""
    used = [n for n in case.tree.within(case.statement, ast.Attribute) if n.attr == name]
    only_if(len(used) == 1)
    return used[0], case.tree.parent(used[0])


def method(case: Case, name: str) -> Rewrite:
    """Return the statement with what was meant by a method that tensors do not have."""
    node, around = _used(case, name)
    tensor = node.value
    if name == "T":
        only_if(case.value is node)
        return transposed(case, tensor)
    call = expect(ast.Call, around)
    only_if(call.func is node)
    if name in ("astype", "to", "type", "cast") and len(call.args) == 1 and not call.keywords:
        text = f"{case.nl}.copy({ast.unparse(tensor)}, dtype={ast.unparse(call.args[0])})"
        return case.rewrite(case.with_expression(call, text))
    intent = required(intent_of(name))
    only_if(intent.kind not in ("function", "instruction", "move"))
    if intent.kind == "transpose":
        axes = ", ".join(map(ast.unparse, call.args)).strip("()")
        # NumPy's transpose(0, 1) changes nothing, torch's does.
        only_if(axes in ("", "1, 0"), not call.keywords, case.value is call)
        return transposed(case, tensor)
    return _meant(case, name, intent, call, tensor)


def _meant(case: Case, name: str, intent: Intent, call: ast.Call, *first: ast.expr) -> Rewrite:
    """Return the statement with another call; ``first`` are operands in front of its own."""
    operands = [*first, *call.args]
    named = {k.arg or "**": k.value for k in call.keywords}
    dst = next((named.pop(k) for k in list(named) if k in _DESTINATIONS), None)
    named.pop("op", None)
    if dst is None and len(operands) > intent.operands:
        dst = operands.pop(0)
    only_if("axis=1" not in intent.call or is_of_rows(case, named, dst))
    for key in list(named)[: intent.operands - len(operands)]:
        operands.append(named.pop(key))
    only_if(len(operands) == intent.operands)
    only_if(not any(isinstance(node, ast.Starred) for node in operands))
    if dst is None:
        only_if(not named)
        if intent.expression:
            return case.rewrite(case.with_expression(call, value_of(case, intent, *operands)))
        only_if(case.value is call, intent.kind in ("matmul", "transpose"))
        return (product if intent.kind == "matmul" else transposed)(case, *operands)
    new = expect(ast.Call, _into(case, name, intent, dst, operands))
    known = parameters_of(expect(ast.Attribute, new.func).attr)
    only_if(set(named) <= set(known))  # else the meaning of the other arguments is unknown
    new.keywords += [ast.keyword(key, value) for key, value in named.items()]
    return case.rewrite(case.with_expression(call, ast.unparse(new)))


def is_of_rows(case: Case, named: dict[str, ast.expr], dst: ast.expr | None) -> bool:
    """Return whether a reduction is that of each row: by its axis, or by the shape of its result.

    The arguments that say so are taken out.
    """
    axes = [ast.unparse(named.pop(key)) for key in ("axis", "dim") if key in named]
    kept = [named.pop(key) for key in ("keepdims", "keepdim") if key in named]
    if axes:
        return axes[0] in ("1", "-1")
    fact = None if dst is None else case.named(dst)
    return not kept and fact is not None and fact.shape[1:] == (1,)


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
) -> ast.expr:
    """Return the call that was probably meant."""
    text = intent.call
    if intent.kind == "move":
        sides = [case.variable(base_of(node)) for node in (dst, operands[0])]
        far = any(fact is not None and "hbm" in fact.buffer for fact in sides)
        only_if(far or None not in sides or _TRANSFERS.intersection(name.split("_")))
        if not far and None not in sides:
            text = "nisa.tensor_copy(dst=dst, src=a)"
    elif intent.kind == "binary" and _of_two(case, name, *operands) == "tensor_scalar":
        op, factor = intent.op, "b"
        if op == "divide":
            number = _is_number(case, operands[1])
            op, factor = "multiply", "1.0 / b" if number else "nl.reciprocal(b)"
        text = f"nisa.tensor_scalar(dst=dst, data=a, op0=nl.{op}, operand0={factor})"
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
    """Return the instruction for an operation on two operands.

    By their shapes where a run knows them, else by the text and by the name of the function.
    """
    fact, other = case.named(second), case.named(first)
    if fact is not None and other is not None and fact.shape != other.shape:
        only_if(fact.shape[1:] == (1,))
        return "tensor_scalar"
    if fact is not None:
        return "tensor_tensor"
    computed = isinstance(second, (ast.UnaryOp, ast.BinOp))
    if computed or _is_number(case, second) or _is_column(second):
        return "tensor_scalar"
    if case.variable(base_of(second)) is not None:
        return "tensor_tensor"
    named = required(next((start for start in _NAMED if name.startswith(start)), None))
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


def with_keyword(case: Case, name: str, text: str | None, *, called: str = "") -> Rewrite:
    """Return the call with a keyword argument changed, renamed or, for no text, left out."""
    call = required(case.call)
    given = [keyword.arg for keyword in call.keywords]
    only_if(name in given, None not in given)
    parts = [ast.unparse(argument) for argument in call.args]
    for keyword in call.keywords:
        if keyword.arg != name:
            parts.append(f"{keyword.arg}={ast.unparse(keyword.value)}")
        elif text is not None:
            parts.append(f"{called or name}={text}")
    return case.rewrite(case.with_call(f"{ast.unparse(call.func)}({', '.join(parts)})"))


_LEFT_OUT = {
    "A002": "dge_mode",
    "A034": "engine",
    "A035": "engine",
    "A036": "dge_mode",
    "A046": "engine",
    "D010": "is_{}_onezero",
    "D026": "negate",
    "M022": "engine",
    "M033": "name",
}
"""By rule, the argument whose default is right."""

_DTYPES = ("float32", "float16", "int8", "int16", "int32", "uint8", "uint16", "uint32")
_OF_LANGUAGE = {
    "A014": ("buffer", ("sbuf", "psum", "hbm", "shared_hbm", "private_hbm")),
    "D022": ("{}", tuple(OPS)),
    "D045": ("dtype", _DTYPES),
}
"""By rule, an argument, and what ``nki.language`` has by the same name."""


@fixes(*_LEFT_OUT)
def _default(case: Case) -> Rewrite:
    """An argument is left at its default."""
    return with_keyword(case, _LEFT_OUT[case.rule].format(case.finding.operand), None)


@fixes("A012")
def _shared(case: Case) -> Rewrite:
    """An output lies in shared HBM."""
    return with_keyword(case, "buffer", f"{case.nl}.shared_hbm")


@fixes(*_OF_LANGUAGE)
def _of_language(case: Case) -> Rewrite:
    """A string or an object of NumPy is the object of that name in ``nki.language``."""
    argument, known = _OF_LANGUAGE[case.rule]
    name = argument.format(case.finding.operand)
    node = case.arguments.get(name)
    meant = string(node) or getattr(node, "attr", None)
    only_if(meant in known)
    return with_keyword(case, name, f"{case.nl}.{meant}")


@fixes("A032", "A044")
def _renamed(case: Case) -> Rewrite:
    """An argument has the name of the parameter that replaced it."""
    name, new = case.finding.operand, required(case.finding.data.get("renamed"))
    return with_keyword(case, name, case.text(name), called=new)


@fixes("A040")
def _by_name(case: Case) -> Rewrite:
    """All arguments are given by their names."""
    return case.rewrite(case.with_given(**{name: case.text(name) for name in case.arguments}))


@fixes("S010")
def _from_the_end(case: Case) -> Rewrite:
    """A negative index is rewritten to count from the beginning."""

    def change(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return None
        parts = indices(node)
        for axis, part in enumerate(parts):
            if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
                extent = f"{node.value.id}.shape[{axis}]"
                parts[axis] = expression(f"{extent} - {ast.unparse(part.operand)}")
        if not isinstance(node.slice, ast.Tuple):
            node.slice = parts[0]
        return node

    return case.rewrite(case.replaced(change))
