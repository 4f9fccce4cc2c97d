"""Fixes of single arguments of a call, and of sums."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.source import indices, nki_arguments, number
from nkisim.suggestions.statement import Case

_ALU = ("add", "subtract", "multiply", "maximum", "minimum")


def with_keyword(case: Case, name: str, text: str | None, *, called: str = "") -> Rewrite | None:
    """Return the call with a keyword argument changed, renamed or, for no text, left out."""
    call = case.call
    if call is None or not any(k.arg == name for k in call.keywords):
        return None
    parts = [ast.unparse(argument) for argument in call.args]
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        if keyword.arg != name:
            parts.append(f"{keyword.arg}={ast.unparse(keyword.value)}")
        elif text is not None:
            parts.append(f"{called or name}={text}")
    return case.rewrite(case.with_call(f"{ast.unparse(call.func)}({', '.join(parts)})"))


def _left_out(name: str) -> Callable[[Case], Rewrite | None]:
    """Return the fix that leaves an argument at its default."""
    return lambda case: with_keyword(case, name, None)


def _shared(case: Case) -> Rewrite | None:
    """An output lies in shared HBM."""
    return with_keyword(case, "buffer", f"{case.nl}.shared_hbm")


def _buffer(case: Case) -> Rewrite | None:
    """A memory named by a string is the object of that name."""
    node = case.arguments.get("buffer")
    names = ("sbuf", "psum", "hbm", "shared_hbm", "private_hbm")
    if not isinstance(node, ast.Constant) or node.value not in names:
        return None
    return with_keyword(case, "buffer", f"{case.nl}.{node.value}")


def _dtype(case: Case) -> Rewrite | None:
    """A type of NumPy is the type of that name here."""
    node = case.arguments.get("dtype")
    known = ("float32", "float16", "int8", "int16", "int32", "uint8", "uint16", "uint32")
    if not isinstance(node, ast.Attribute) or node.attr not in known:
        return None
    return with_keyword(case, "dtype", f"{case.nl}.{node.attr}")


def _operator(case: Case) -> Rewrite | None:
    """An operator of NumPy is that of nki.language."""
    node = case.arguments.get(case.finding.operand)
    if not isinstance(node, ast.Attribute) or node.attr not in _ALU:
        return None
    return with_keyword(case, case.finding.operand, f"{case.nl}.{node.attr}")


def _from_the_end(case: Case) -> Rewrite | None:
    """A negative index is rewritten to count from the beginning."""

    def change(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return None
        parts = indices(node)
        name = node.value.id
        for axis, part in enumerate(parts):
            if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
                text = f"{name}.shape[{axis}] - {ast.unparse(part.operand)}"
                parts[axis] = ast.parse(text, mode="eval").body
        if not isinstance(node.slice, ast.Tuple):
            node.slice = parts[0]
        return node

    return case.rewrite(case.replaced(change))


def _in_place(case: Case) -> Rewrite | None:
    """``t += u`` on a tile is an instruction that writes ``t``."""
    names: dict[type[ast.operator], str] = {
        ast.Add: "add",
        ast.Sub: "subtract",
        ast.Mult: "multiply",
    }
    statement = case.statement
    if not isinstance(statement, ast.AugAssign) or type(statement.op) not in names:
        return None
    dst, op = ast.unparse(statement.target), f"{case.nl}.{names[type(statement.op)]}"
    text = ast.unparse(statement.value)
    if isinstance(statement.value, ast.Constant):
        return case.rewrite(
            f"{case.nisa}.tensor_scalar(dst={dst}, data={dst}, op0={op}, operand0={text})"
        )
    return case.rewrite(f"{case.nisa}.tensor_tensor(dst={dst}, data1={dst}, data2={text}, op={op})")


# -- sums ------------------------------------------------------------------------------------------


def _first_step_overwrites(case: Case) -> Rewrite | None:
    """The first step of the loop over the contraction begins the sum, the others add to it."""
    dst = case.arguments.get("dst")
    base = dst.value if isinstance(dst, ast.Subscript) else dst
    if dst is None or not isinstance(base, ast.Name) or not case.call:
        return None
    if case.finding.rule.id == "M004" and not _is_cleared(case, base.id):
        return None
    used = {n.id for n in ast.walk(dst) if isinstance(n, ast.Name)}
    steps = []
    for loop in ast.walk(case.module):
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        inside = [part for statement in loop.body for part in ast.walk(statement)]
        makes = any(isinstance(n, ast.Name) and _is_made(n) and n.id == base.id for n in inside)
        if case.statement in inside and loop.target.id not in used and not makes:
            steps.append(loop)
    if len(steps) > 1:
        return None  # it is not clear which loop is the contraction
    text = "False"
    if steps:
        text = _not_first(case, steps[0])
        if not text:
            return None
    parts = [f"{name}={case.text(name)}" for name in case.arguments if name != "accumulate"]
    parts.append(f"accumulate={text}")
    return case.rewrite(case.with_call(f"{ast.unparse(case.call.func)}({', '.join(parts)})"))


def _is_made(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _not_first(case: Case, loop: ast.For) -> str:
    """Return a condition that is true in all iterations but the first; empty for other loops."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not case.path(call.func).endswith("range"):
        return ""
    start = "0" if len(call.args) == 1 else ast.unparse(call.args[0])
    return f"({ast.unparse(loop.target)} > {start})"


def _is_cleared(case: Case, name: str) -> bool:
    """Return whether a tile is filled with zeros, so that beginning a sum means the same."""
    for node in ast.walk(case.module):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            path = case.path(node.value.func)
            if path == "nki.language.zeros" and ast.unparse(node.targets[0]) == name:
                return True
        if isinstance(node, ast.Call) and case.path(node.func) == "nki.isa.memset":
            given = nki_arguments(node, "nki.isa.memset")
            dst, value = given.get("dst"), given.get("value")
            if isinstance(dst, ast.Name) and dst.id == name and number(value) == 0:
                return True
    return False


ARGUMENT_FIXES: dict[str, Callable[[Case], Rewrite | None]] = {
    "A002": _left_out("dge_mode"),
    "A012": _shared,
    "A014": _buffer,
    "A034": _left_out("engine"),
    "A035": _left_out("engine"),
    "A036": _left_out("dge_mode"),
    "D010": lambda case: with_keyword(case, f"is_{case.finding.operand}_onezero", None),
    "D022": _operator,
    "D045": _dtype,
    "L029": _in_place,
    "M003": _first_step_overwrites,
    "M004": _first_step_overwrites,
    "M022": _left_out("engine"),
    "S010": _from_the_end,
    "W001": _first_step_overwrites,
}
