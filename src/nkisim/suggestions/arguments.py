"""Fixes of single arguments of a call, and of sums."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.source import base_name, expression, indices, names_in, nki_arguments, number, string
from nkisim.spec import OPS
from nkisim.suggestions.statement import Case, fixes


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
_NAMED = {
    "A014": ("buffer", ("sbuf", "psum", "hbm", "shared_hbm", "private_hbm")),
    "D022": ("{}", tuple(OPS)),
    "D045": ("dtype", _DTYPES),
}
"""By rule, an argument, and what ``nki.language`` has by the same name."""


@fixes(*_LEFT_OUT)
def _default(case: Case) -> Rewrite | None:
    """An argument is left at its default."""
    return with_keyword(case, _LEFT_OUT[case.rule].format(case.finding.operand), None)


@fixes("A012")
def _shared(case: Case) -> Rewrite | None:
    """An output lies in shared HBM."""
    return with_keyword(case, "buffer", f"{case.nl}.shared_hbm")


@fixes(*_NAMED)
def _of_language(case: Case) -> Rewrite | None:
    """A string or an object of NumPy is the object of that name in ``nki.language``."""
    argument, known = _NAMED[case.rule]
    name = argument.format(case.finding.operand)
    node = case.arguments.get(name)
    meant = string(node) or getattr(node, "attr", None)
    return with_keyword(case, name, f"{case.nl}.{meant}") if meant in known else None


@fixes("A032", "A044")
def _renamed(case: Case) -> Rewrite | None:
    """An argument has the name of the parameter that replaced it."""
    name, new = case.finding.operand, case.finding.data.get("renamed")
    return with_keyword(case, name, case.text(name), called=new) if new else None


@fixes("A040")
def _by_name(case: Case) -> Rewrite | None:
    """All arguments are given by their names."""
    return case.rewrite(case.with_given(**{name: case.text(name) for name in case.arguments}))


@fixes("S010")
def _from_the_end(case: Case) -> Rewrite | None:
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


# -- sums ------------------------------------------------------------------------------------------


@fixes("M003", "M004", "M043", "W001")
def _first_step_overwrites(case: Case) -> Rewrite | None:
    """The first step of the loop over the contraction begins the sum, the others add to it."""
    dst = case.arguments.get("dst")
    base = None if dst is None else base_name(dst)
    if dst is None or base is None or case.call is None:
        return None
    if case.rule == "M004" and not _is_cleared(case, base.id):
        return None
    used, steps = names_in(dst), []
    for loop in case.loops():
        inside = case.tree.within(loop.body, ast.Name)
        makes = any(n.id == base.id and isinstance(n.ctx, ast.Store) for n in inside)
        if isinstance(loop.target, ast.Name) and loop.target.id not in used and not makes:
            steps.append(loop)
    if len(steps) > 1:
        return None  # it is not clear which loop is the contraction
    text = _not_first(case, steps[0]) if steps else "False"
    given = {name: case.text(name) for name in case.arguments if name != "accumulate"}
    return case.rewrite(case.with_given(**given, accumulate=text)) if text else None


def _not_first(case: Case, loop: ast.For) -> str:
    """Return a condition that is true in all iterations but the first; empty for other loops."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not case.path(call.func).endswith("range"):
        return ""
    start = "0" if len(call.args) == 1 else ast.unparse(call.args[0])
    return f"({ast.unparse(loop.target)} > {start})"


def _is_cleared(case: Case, name: str) -> bool:
    """Return whether a tile is filled with zeros, so that beginning a sum means the same."""
    for call in case.tree.all(ast.Call):
        path, made = case.path(call.func), case.tree.statement_of(call)
        if path == "nki.language.zeros" and name in map(ast.unparse, getattr(made, "targets", ())):
            return True
        given = nki_arguments(call, path) if path == "nki.isa.memset" else {}
        dst = given.get("dst")
        if isinstance(dst, ast.Name) and dst.id == name and number(given.get("value")) == 0:
            return True
    return False
