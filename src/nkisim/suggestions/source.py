"""Fixes of unsupported Python: comprehensions, loops over pairs, true division."""

from __future__ import annotations

import ast
import re

from nkisim.diagnostics import Rewrite
from nkisim.source import base_name
from nkisim.suggestions.statement import Case, fixes


@fixes("L006")
def _comprehension(case: Case) -> Rewrite | None:
    """A list comprehension becomes a loop that appends."""
    made, name = getattr(case.statement, "value", None), case.target
    if not name or not isinstance(made, ast.ListComp) or len(made.generators) != 1:
        return None
    source = made.generators[0]
    lines = [f"{name} = []", f"for {ast.unparse(source.target)} in {ast.unparse(source.iter)}:"]
    indent = "    "
    for condition in source.ifs:
        lines.append(f"{indent}if {ast.unparse(condition)}:")
        indent += "    "
    lines.append(f"{indent}{name}.append({ast.unparse(made.elt)})")
    return case.rewrite(*lines)


@fixes("L012")
def _deleted(case: Case) -> Rewrite | None:
    """A tile ends with its last use, without a statement."""
    return case.rewrite("pass")


@fixes("L022", "L044")
def _listed(case: Case) -> Rewrite | None:
    """Three arguments of min and max are one list, and a set is a tuple."""

    def change(node: ast.expr) -> ast.expr | None:
        if case.rule == "L044":
            return ast.Tuple(node.elts, ast.Load()) if isinstance(node, ast.Set) else None
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("min", "max"):
            return None
        node.args = [ast.List(node.args, ast.Load())] if len(node.args) > 2 else node.args
        return node

    return case.rewrite(case.replaced(change))


@fixes("L067")
def _printed(case: Case) -> Rewrite | None:
    """A tile is printed on the device."""
    call = getattr(case.statement, "value", None)
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "print" or len(call.args) != 1:
        return None
    name = ast.unparse(call.args[0])
    return (
        case.rewrite(f"{case.nl}.device_print({name!r}, {name})") if name.isidentifier() else None
    )


@fixes("L019")
def _division(case: Case) -> Rewrite | None:
    """An extent is divided by ``//``."""
    text = case.finding.data.get("expression")
    shape = case.arguments.get("shape")
    inside = {ast.unparse(n) for n in ast.walk(shape)} if text is None and shape is not None else ()

    def change(node: ast.expr) -> ast.expr | None:
        divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if divides and (ast.unparse(node) == text or ast.unparse(node) in inside):
            assert isinstance(node, ast.BinOp)
            node.op = ast.FloorDiv()
        return None

    if isinstance(case.statement, ast.For) and text is not None:
        source = ast.unparse(case.statement.iter)
        new = source.replace(text, text.replace(" / ", " // ", 1), 1)
        return case.head(case.statement, ast.unparse(case.statement.target), new)
    return case.rewrite(case.replaced(change))


@fixes("L016", "L017")
def _pairs(case: Case) -> Rewrite | None:
    """A loop over pairs runs over an index."""
    loop = case.statement
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return None
    source = loop.iter
    names = [ast.unparse(name) for name in loop.target.elts]
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Name) or source.keywords:
        return None
    if source.func.id == "enumerate" and len(source.args) == 1 and len(names) == 2:
        index, parts = names[0], names[1:]
    elif source.func.id == "zip" and len(source.args) == len(names):
        index, parts = case.fresh("i"), names
    else:
        return None
    texts = [ast.unparse(part) for part in source.args]
    calls = {ast.unparse(part): part for part in source.args if isinstance(part, ast.Call)}
    if any(ast.unparse(c.func) != "range" or len(c.args) != 1 for c in calls.values()):
        return None
    # A range has no length and no items outside a loop header; those of range(n) are the indices.
    items = [index if text in calls else f"{text}[{index}]" for text in texts]
    taken = [f"{name} = {item}" for name, item in zip(parts, items, strict=True)]
    first = texts[0] if texts[0] in calls else f"range(len({texts[0]}))"
    return case.head(loop, index, first, taken)


@fixes("L031", "L032", "L033")
def _static(case: Case) -> Rewrite | None:
    """A dynamic loop with bounds that are known needs no register: its index is a number."""
    around = [*case.loops(), *([case.statement] if isinstance(case.statement, ast.For) else [])]
    found = [
        loop
        for loop in around
        if isinstance(loop.iter, ast.Call)
        and case.path(loop.iter.func) == "nki.language.dynamic_range"
    ]
    if len(found) != 1 or not isinstance(found[0].iter, ast.Call):
        return None
    (loop,) = found
    bounds = list(map(ast.unparse, found[0].iter.args))
    known = all(re.fullmatch(r"-?\d+|\w+\.shape\[\d\]", bound) for bound in bounds)
    source = f"range({', '.join(bounds)})"
    return case.head(loop, ast.unparse(loop.target), source) if known else None


@fixes("L028")
def _assigned_part(case: Case) -> Rewrite | None:
    """An assignment to a part of a tensor is a copy, a transfer or a fill."""
    statement = case.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(target.value, ast.Name):
        return None
    dst, src = ast.unparse(target), ast.unparse(value)
    tensor = case.variable(target.value.id)
    if isinstance(value, ast.Constant) and tensor is not None and "hbm" not in tensor.buffer:
        return case.rewrite(case.isa("memset", dst=dst, value=src))
    base = base_name(value)
    other = None if base is None else case.variable(base.id)
    if tensor is None or other is None:
        return None
    far = "hbm" in tensor.buffer or "hbm" in other.buffer
    return case.rewrite(case.isa("dma_copy" if far else "tensor_copy", dst=dst, src=src))


@fixes("A013")
def _member(case: Case) -> Rewrite | None:
    """An integer becomes the enum member of that value."""
    node = case.arguments.get(case.finding.operand)
    if not isinstance(node, ast.Constant):
        return None
    member = f"{case.nisa}.{case.finding.data['member']}"
    return case.rewrite(case.with_expression(node, member))
