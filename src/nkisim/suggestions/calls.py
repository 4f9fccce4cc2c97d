"""Fixes of calls that do not exist: invented names and arguments, and a missing ``dst``."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.intents import ARGUMENTS, Intent, argument_meant, intent_of
from nkisim.source import expression, indices
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of
from nkisim.suggestions.arguments import with_keyword
from nkisim.suggestions.statement import Case, fixes

_DESTINATIONS = {"dst", *ARGUMENTS["dst"].split()} - {"y", "o"}

_ALIKE = {
    "activation": "data",
    "reciprocal": "data",
    "scalar_tensor_tensor": "data",
    "tensor_copy": "src",
    "tensor_scalar": "data",
    "tensor_tensor": "data1",
}
"""Instructions whose result has the shape of one operand, and that operand."""


_INSTEAD = {
    "binary": ("tensor_tensor", "data1", "data2"),
    "fill": ("memset", "value"),
    "matmul": ("nc_matmul", "stationary", "moving"),
    "move": ("dma_copy", "src"),
    "transpose": ("nc_transpose", "data"),
    "unary": ("activation", "data"),
}
"""By the kind of a meaning, the instruction and its operands."""

_TRANSFERS = {"dma", "load", "store"}
"""Words in names of functions that move data to or from HBM."""


@fixes("A025")
def _bad_call(case: Case) -> Rewrite | None:
    """A name, an argument or a value that does not exist."""
    data = case.finding.data
    if data.get("module") == "nki.isa":
        return _invented(case, case.finding.operand)
    if data.get("module") == "nki.language":
        return _other_name(case, case.finding.operand)
    if data.get("is_none"):
        return _nothing_returned(case)
    return _argument(case, data["keyword"]) if "keyword" in data else None


def _called(case: Case, name: str) -> ast.Call | None:
    """Return the call of a function that does not exist."""
    calls = [node for node in ast.walk(case.statement) if isinstance(node, ast.Call)]
    called = (c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == name)
    return next(called, None)


def _invented(case: Case, name: str) -> Rewrite | None:
    call, intent = _called(case, name), intent_of(name)
    if call is None or intent is None:
        return None
    operands = [ast.unparse(a) for a in call.args]
    named = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg is not None}
    dst = next((named.pop(k) for k in list(named) if k in _DESTINATIONS), "")
    count = len(_INSTEAD.get(intent.kind, "-")) - 1
    named.pop("op", None)
    if not dst and len(operands) > count:
        dst = operands.pop(0)
    for key in list(named)[: count - len(operands)]:
        operands.append(named.pop(key))
    if len(operands) != count or not count:
        return None
    text = _instead(case, name, intent, dst, operands)
    new = expression(text) if text else None
    if not isinstance(new, ast.Call) or not isinstance(new.func, ast.Attribute):
        return None
    known = parameters_of(new.func.attr) if new.func.attr in INSTRUCTIONS else []
    if any(key not in known for key in named):
        return None  # the meaning of the other arguments is unknown
    new.keywords += [ast.keyword(key, expression(value)) for key, value in named.items()]
    return case.rewrite(case.with_expression(call, ast.unparse(new)))


def _instead(case: Case, name: str, intent: Intent, dst: str, operands: list[str]) -> str:
    """Return the call that was probably meant; empty where the operands may mean another one."""
    op, (instruction, *names) = f"{case.nl}.{intent.op}", _INSTEAD[intent.kind]
    if not dst:
        by_language = intent.kind in ("binary", "unary") and isinstance(case.statement, ast.Assign)
        return f"{op}({', '.join(operands)})" if by_language else ""
    given = {"dst": dst}
    if intent.kind == "unary":
        given["op"] = op
    elif intent.kind == "move":
        sides = [case.variable(_base(text)) for text in (dst, operands[0])]
        far = any(fact is not None and "hbm" in fact.buffer for fact in sides)
        if not far and None in sides and not _TRANSFERS.intersection(name.split("_")):
            return ""
        instruction = instruction if far or None in sides else "tensor_copy"
    elif intent.kind == "binary":
        instruction = _of_two(case, name, *operands)
        if instruction == "tensor_scalar":
            return case.isa(instruction, dst=dst, data=operands[0], op0=op, operand0=operands[1])
    given |= dict(zip(names, operands, strict=True))
    given |= {"op": op} if intent.kind == "binary" else {}
    return case.isa(instruction, **given) if instruction else ""


def _base(text: str) -> str:
    """Return the variable that an operand begins with."""
    node: ast.expr = expression(text)
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_NAMED = ("tensor_scalar", "scalar_", "tensor_", "elementwise_", "vector_")
"""Beginnings of names that tell whether an operation is of a tile and a number, or of two tiles."""


def _of_two(case: Case, name: str, first: str, second: str) -> str:
    """Return the instruction for an operation on two operands; empty if it may be either.

    By their shapes where a run knows them, else by the text and by the name of the function.
    """
    node = expression(second)
    fact, other = case.variable(second), case.variable(first)
    if fact is not None and other is not None and fact.shape != other.shape:
        return "tensor_scalar" if fact.shape[1:] == (1,) else ""
    if fact is not None:
        return "tensor_tensor"
    # A run knows all variables that are tiles.
    number = isinstance(node, ast.Name) and bool(case.finding.facts)
    if number or isinstance(node, (ast.Constant, ast.UnaryOp, ast.BinOp)) or _is_column(node):
        return "tensor_scalar"
    if case.variable(_base(second)) is not None:
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


def _other_name(case: Case, name: str) -> Rewrite | None:
    """A function of the other module, or one with a similar name and the same meaning."""
    call, intent = _called(case, name), intent_of(name)
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    if name in INSTRUCTIONS:
        return case.rewrite(case.with_expression(call.func, f"{case.nisa}.{name}"))
    if intent is not None and intent.op and intent.op != name:
        return case.rewrite(case.with_expression(call.func, f"{case.nl}.{intent.op}"))
    return None


def _argument(case: Case, keyword: str) -> Rewrite | None:
    """An argument under another name, or a flag for what is an instruction of its own."""
    call = case.call
    if call is None or case.function not in INSTRUCTIONS:
        return None
    parameters = parameters_of(case.function)
    if case.function == "nc_matmul" and keyword in ("transpose_moving", "transpose_stationary"):
        return _transposed(case, keyword)
    taken = {*parameters[: len(call.args)], *(k.arg for k in call.keywords)}
    meant = argument_meant(keyword, [p for p in parameters if p not in taken])
    return with_keyword(case, keyword, case.text(keyword), called=meant) if meant else None


def _transposed(case: Case, keyword: str) -> Rewrite | None:
    operand, flag = keyword.removeprefix("transpose_"), case.arguments[keyword]
    if not isinstance(flag, ast.Constant) or case.fact(operand) is None:
        return None
    return _matmul(case, (operand,) if flag.value else (), without=keyword)


def _matmul(case: Case, turned: tuple[str, ...], without: str = "") -> Rewrite | None:
    """Return a product of which some operands, which are names, are transposed before."""
    given = {name: case.text(name) for name in case.arguments if name != without}
    lines: list[str] = []
    for operand in turned:
        if not case.name(operand):
            return None
        more, given[operand] = _transpose(case, case.name(operand))
        lines += more
    return case.rewrite(*lines, case.isa("nc_matmul", **given))


def _transpose(case: Case, name: str) -> tuple[list[str], str]:
    """Return the statements that transpose a tile, and the name of the new one."""
    in_psum, transposed = case.fresh(f"{name}_psum"), case.fresh(f"{name}_t")
    shape = f"({name}.shape[1], {name}.shape[0])"
    lines = [
        case.tile(in_psum, name, shape=shape, buffer="psum"),
        case.isa("nc_transpose", dst=in_psum, data=name),
        case.tile(transposed, name, shape=shape),
        case.isa("tensor_copy", dst=transposed, src=in_psum),
    ]
    return lines, transposed


@fixes("S028")
def _contraction(case: Case) -> Rewrite | None:
    """Operands with the contraction in their columns are transposed.

    Only if the shape of the result leaves no other possibility.
    """
    facts = {name: case.fact(name) for name in ("dst", "stationary", "moving")}
    shapes = {n: f.shape for n, f in facts.items() if f is not None and len(f.shape) == 2}
    known = {*facts, "accumulate", "name"}
    if len(shapes) != 3 or not case.is_bare or set(case.arguments) - known:
        return None
    (k, m), (j, n) = shapes["stationary"], shapes["moving"]
    readings = {
        ("stationary",): m == j and shapes["dst"] == (k, n),
        ("moving",): k == n and shapes["dst"] == (m, j),
        ("stationary", "moving"): m == n and shapes["dst"] == (k, j),
    }
    fitting = [names for names, fits in readings.items() if fits]
    if len(fitting) != 1 or shapes["dst"] == (m, n):
        return None
    return _matmul(case, fitting[0])


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
    elif (like := given.get(_ALIKE.get(case.function, ""), "")) and case.variable(_base(like)):
        made = case.tile(new, like)
    else:
        return None
    return case.rewrite(made, case.isa(case.function, dst=new, **given))
