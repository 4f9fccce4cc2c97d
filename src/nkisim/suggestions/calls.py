"""Fixes of calls that do not exist: invented names and arguments, and a missing ``dst``."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.intents import ARGUMENTS, Intent, argument_meant, intent_of
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of
from nkisim.suggestions.arguments import with_keyword
from nkisim.suggestions.statement import Case

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


_TRANSFERS = {"dma", "load", "store"}
"""Words in names of functions that move data to or from HBM."""


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
    needed = {"binary": 2, "matmul": 2, "unary": 1, "move": 1, "transpose": 1, "fill": 1}
    count = needed.get(intent.kind, 0)
    named.pop("op", None)
    if not dst and len(operands) > count:
        dst = operands.pop(0)
    for key in list(named)[: count - len(operands)]:
        operands.append(named.pop(key))
    if len(operands) != count or not count:
        return None
    text = _instead(case, name, intent, dst, operands)
    new = ast.parse(text, mode="eval").body if text else None
    if not isinstance(new, ast.Call) or not isinstance(new.func, ast.Attribute):
        return None
    known = parameters_of(new.func.attr) if new.func.attr in INSTRUCTIONS else []
    if any(key not in known for key in named):
        return None  # the meaning of the other arguments is unknown
    extra = [ast.keyword(key, ast.parse(value, mode="eval").body) for key, value in named.items()]
    new.keywords += extra
    return case.rewrite(case.replaced(lambda n: new if ast.dump(n) == ast.dump(call) else None))


def _instead(case: Case, name: str, intent: Intent, dst: str, operands: list[str]) -> str:
    """Return the call that was probably meant; empty where the operands may mean another one."""
    nisa, op = case.nisa, f"{case.nl}.{intent.op}"
    assigned = isinstance(case.statement, ast.Assign)
    if not dst:
        by_language = intent.kind in ("binary", "unary") and assigned
        return f"{op}({', '.join(operands)})" if by_language else ""
    if intent.kind == "binary":
        first, second = operands
        instruction = _of_two(case, name, first, second)
        if instruction == "tensor_tensor":
            return f"{nisa}.tensor_tensor(dst={dst}, data1={first}, data2={second}, op={op})"
        if instruction == "tensor_scalar":
            return f"{nisa}.tensor_scalar(dst={dst}, data={first}, op0={op}, operand0={second})"
        return ""
    if intent.kind == "unary":
        return f"{nisa}.activation(dst={dst}, op={op}, data={operands[0]})"
    if intent.kind == "move":
        sides = [case.variable(_base(text)) for text in (dst, operands[0])]
        far = any(fact is not None and "hbm" in fact.buffer for fact in sides)
        if not far and None in sides and not _TRANSFERS.intersection(name.split("_")):
            return ""
        near = not far and None not in sides
        return f"{nisa}.{'tensor_copy' if near else 'dma_copy'}(dst={dst}, src={operands[0]})"
    if intent.kind == "matmul":
        return f"{nisa}.nc_matmul(dst={dst}, stationary={operands[0]}, moving={operands[1]})"
    if intent.kind == "transpose":
        return f"{nisa}.nc_transpose(dst={dst}, data={operands[0]})"
    if intent.kind == "fill":
        return f"{nisa}.memset(dst={dst}, value={operands[0]})"
    return ""


def _base(text: str) -> str:
    """Return the variable that an operand begins with."""
    node: ast.expr = ast.parse(text, mode="eval").body
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_NAMED = ("tensor_scalar", "scalar_", "tensor_", "elementwise_", "vector_")
"""Beginnings of names that tell whether an operation is of a tile and a number, or of two tiles."""


def _of_two(case: Case, name: str, first: str, second: str) -> str:
    """Return the instruction for an operation on two operands; empty if it may be either.

    By their shapes where a run knows them, else by the text and by the name of the function.
    """
    node = ast.parse(second, mode="eval").body
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
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
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
    new = ""
    if name in INSTRUCTIONS:
        new = f"{case.nisa}.{name}"
    elif intent is not None and intent.op and intent.op != name:
        new = f"{case.nl}.{intent.op}"
    if not new:
        return None
    text = ast.unparse(call).replace(ast.unparse(call.func), new, 1)
    made = ast.parse(text, mode="eval").body
    return case.rewrite(case.replaced(lambda n: made if ast.dump(n) == ast.dump(call) else None))


def _argument(case: Case, keyword: str) -> Rewrite | None:
    """An argument under another name, or a flag for what is an instruction of its own."""
    call = case.call
    if call is None or case.function not in INSTRUCTIONS:
        return None
    parameters = parameters_of(case.function)
    if case.function == "nc_matmul" and keyword in ("transpose_moving", "transpose_stationary"):
        return _transposed(case, keyword)
    given = {k.arg for k in call.keywords}
    taken = set(parameters[: len(call.args)]) | given
    meant = argument_meant(keyword, [p for p in parameters if p not in taken])
    if not meant:
        return None
    return with_keyword(case, keyword, case.text(keyword), called=meant)


def _transposed(case: Case, keyword: str) -> Rewrite | None:
    operand = keyword.removeprefix("transpose_")
    node, flag = case.arguments.get(operand), case.arguments[keyword]
    fact = case.fact(operand)
    if not isinstance(node, ast.Name) or not isinstance(flag, ast.Constant) or fact is None:
        return None
    rest = {n: case.text(n) for n in case.arguments if n != keyword}
    if not flag.value:
        return case.rewrite(_matmul(case, rest))
    lines, rest[operand] = _transpose(case, node.id)
    return case.rewrite(*lines, _matmul(case, rest))


def _transpose(case: Case, name: str) -> tuple[list[str], str]:
    """Return the statements that transpose a tile, and the name of the new one."""
    nl, in_psum, transposed = case.nl, case.fresh(f"{name}_psum"), case.fresh(f"{name}_t")
    shape = f"({name}.shape[1], {name}.shape[0])"
    lines = [
        f"{in_psum} = {nl}.ndarray({shape}, dtype={name}.dtype, buffer={nl}.psum)",
        f"{case.nisa}.nc_transpose(dst={in_psum}, data={name})",
        f"{transposed} = {nl}.ndarray({shape}, dtype={name}.dtype, buffer={nl}.sbuf)",
        f"{case.nisa}.tensor_copy(dst={transposed}, src={in_psum})",
    ]
    return lines, transposed


def _contraction(case: Case) -> Rewrite | None:
    """Operands with the contraction in their columns are transposed.

    Only if the shape of the result leaves no other possibility.
    """
    facts = {name: case.fact(name) for name in ("dst", "stationary", "moving")}
    shapes = {n: f.shape for n, f in facts.items() if f is not None and len(f.shape) == 2}
    known = {*facts, "accumulate", "name"}
    if len(shapes) != 3 or case.call is None or set(case.arguments) - known:
        return None
    if not isinstance(case.statement, ast.Expr) or case.statement.value is not case.call:
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
    given = {name: case.text(name) for name in case.arguments}
    lines: list[str] = []
    for name in fitting[0]:
        node = case.arguments[name]
        if not isinstance(node, ast.Name):
            return None
        more, given[name] = _transpose(case, node.id)
        lines += more
    return case.rewrite(*lines, _matmul(case, given))


def _matmul(case: Case, arguments: dict[str, str]) -> str:
    return f"{case.nisa}.nc_matmul({', '.join(f'{n}={t}' for n, t in arguments.items())})"


def _nothing_returned(case: Case) -> Rewrite | None:
    """``y = nisa.f(dst=t)`` leaves None in y; the result is in t."""
    node = case.arguments.get(case.finding.operand or "value")
    if not isinstance(node, ast.Name):
        return None
    for statement in case.block:
        made = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(made, ast.Call) and isinstance(statement, ast.Assign):
            target = statement.targets[0]
            named = [k.value for k in made.keywords if k.arg == "dst"]
            if isinstance(target, ast.Name) and target.id == node.id and named:
                return case.rewrite(case.with_name(node.id, ast.unparse(named[0])))
    return None


def _no_destination(case: Case) -> Rewrite | None:
    """An instruction is given a tile for its result."""
    statement, call = case.statement, case.call
    known = INSTRUCTIONS.get(case.function)
    if not isinstance(statement, ast.Assign) or statement.value is not call or known is None:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or call is None:
        return None
    names = [p for p in parameters_of(case.function) if p != "dst"]
    given = dict(zip(names, map(ast.unparse, call.args), strict=False))
    given |= {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg is not None}
    nl, new = case.nl, target.id
    if case.function == "nc_matmul" and {"stationary", "moving"} <= set(given):
        shape = f"({given['stationary']}.shape[1], {given['moving']}.shape[1])"
        made = f"{new} = {nl}.ndarray({shape}, dtype={nl}.float32, buffer={nl}.psum)"
    elif (like := given.get(_ALIKE.get(case.function, ""), "")) and case.variable(_base(like)):
        made = f"{new} = {nl}.ndarray({like}.shape, dtype={like}.dtype, buffer={nl}.sbuf)"
    else:
        return None
    parts = [f"dst={new}", *(f"{name}={text}" for name, text in given.items())]
    return case.rewrite(made, f"{case.nisa}.{case.function}({', '.join(parts)})")


CALL_FIXES: dict[str, Callable[[Case], Rewrite | None]] = {
    "A025": _bad_call,
    "A026": _no_destination,
    "A037": _nothing_returned,
    "S028": _contraction,
}
