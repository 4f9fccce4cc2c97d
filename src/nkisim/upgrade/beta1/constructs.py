"""Python that the Beta 1 tracer executed and that the compiler of 0.3.0 does not translate."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.source import number, string
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import dtype_of, is_tile

_LANGUAGE, _TYPING = "nki.language", "nki.typing"


@rule("MG-112", "dictionaries with keys that are no strings", "report", certain=False)
def _keys(source: Source) -> Iterator[Match]:
    advice = "only strings are keys in a kernel: use them, or a list"
    for node in source.all(ast.Dict):
        if any(_is_other_key(key) for key in node.keys) and source.in_device_code(node):
            yield Match(node, advice)
    for statement in source.all(ast.Assign):
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or not source.in_device_code(statement):
            continue
        values = source.values(target.value) or []
        indices = source.indices(target)
        empty = bool(values) and all(source.code(v) in ("{}", "dict()") for v in values)
        if empty and (_is_other_key(indices[0]) or len(indices) > 1):
            yield Match(statement, advice)


def _is_other_key(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Tuple | ast.UnaryOp) or number(key) is not None


@rule("MG-118", "gather_flattened needs uint32 indices", "report", certain=False)
def _gather(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "gather_flattened"):
        indices = source.arguments(call, ("data", "indices")).get("indices")
        dtype = None if indices is None else dtype_of(source, indices)
        if dtype not in (None, "uint32"):
            yield Match(call, f"the indices are {dtype}: copy them into a uint32 tile in SBUF")


@rule("MG-133", "loop bodies run once for each iteration", "report", certain=False)
def _traced_once(source: Source) -> Iterator[Match]:
    for loop in source.all(ast.For):
        call = loop.iter
        if not isinstance(call, ast.Call) or source.nki_name(call.func, _LANGUAGE) not in _LOOPS:
            continue
        for statement in source.within(loop.body, ast.AugAssign):
            target = statement.target
            if not isinstance(target, ast.Name) or is_tile(source, target):
                continue
            values = source.values(target) or []
            if any(number(value) is not None for value in values):
                message = f"{target.id} changes in each iteration now, in Beta 1 once: check it"
                yield Match(statement, message)
        for branch in source.within(loop.body, ast.If):
            names = {name.id for name in source.within(branch.test, ast.Name)}
            if isinstance(loop.target, ast.Name) and loop.target.id in names:
                message = f"{loop.target.id} is a number now, and decides in each iteration"
                yield Match(branch, f"{message}: check both branches")


_LOOPS = ("affine_range", "sequential_range")


@rule("MG-135", "dtypes in the annotations of tensors", "partial")
def _annotations(source: Source) -> Iterator[Match]:
    for node in source.annotations:
        if not isinstance(node, ast.Subscript):
            continue
        if source.nki_name(node.value, _TYPING) not in ("tensor", "mutable_tensor"):
            continue
        parts = source.indices(node)
        kept = [source.code(part) for part in parts if not _is_dtype(source, part)]
        if len(kept) == len(parts):
            continue
        tail = f"[{', '.join(kept)}]" if kept else ""
        edit = source.replaced(node, source.code(node.value) + tail)
        yield Match(node, "only shapes are checked: the dtype is removed", (edit,))


def _is_dtype(source: Source, value: ast.expr) -> bool:
    module = (source.name(value) or "").rpartition(".")[0]
    dtype = isinstance(value, ast.Attribute) and value.attr == "dtype"
    return dtype or module in (_LANGUAGE, "numpy") or string(value) is not None


@rule("MG-136", "comprehensions, lambdas and nested functions", "partial", certain=False)
def _constructs(source: Source) -> Iterator[Match]:
    for kind in (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp):
        for node in source.all(kind):
            if not source.in_device_code(node):
                continue
            edit = _loop(source, node) if isinstance(node, ast.ListComp) else None
            if edit is None:
                yield Match(node, "write the comprehension as a loop with append")
            else:
                yield Match(node, "the comprehension becomes a loop", (edit,))
    for function in source.all(ast.Lambda):
        if source.in_device_code(function):
            yield Match(function, "write the lambda as a function of the module")
    for inner in source.functions:
        outer = source.function_of(inner)
        if outer is not None and outer in source.device_functions():
            yield Match(inner, "move the function to the module; pass what it uses as arguments")


def _loop(source: Source, node: ast.ListComp) -> Edit | None:
    """Return the edit of ``name = [value for item in items]`` to a loop, or None."""
    statement, clause = source.parent(node), node.generators[0]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    line = source.statement(statement)
    if line is None:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or not isinstance(clause.target, ast.Name):
        return None
    if len(node.generators) > 1 or clause.is_async:
        return None
    bound = {name for name, made in source.scope(statement).assignments.items() if made}
    used = source.words(node)
    nested = source.within(node.elt, ast.ListComp)
    if clause.target.id in bound or target.id in used or nested:
        return None  # the loop would change a name of the function
    indent = source.indent(line)
    step = "    " if "\t" not in indent else "\t"
    rows = [f"{target.id} = []"]
    rows.append(f"for {clause.target.id} in {source.code(clause.iter)}:")
    depth = step
    for condition in clause.ifs:
        rows.append(f"{depth}if {source.code(condition)}:")
        depth += step
    rows.append(f"{depth}{target.id}.append({source.code(node.elt)})")
    return Edit(*source.span(statement), (source.newline + indent).join(rows))


@rule("MG-137", "closures and factories of kernels", "report", certain=False)
def _closures(source: Source) -> Iterator[Match]:
    kernels = source.kernels()
    for function in source.device_functions():
        outer = source.function_of(function)
        if outer is None or outer in source.device_functions():
            continue
        above, own = source.body(outer), source.body(function)
        names = []
        for name in source.within(function.body, ast.Name):
            found = [] if own.assignments[name.id] else source.bound(name)
            if found and found[0].scope is above and found[0].node not in kernels:
                names.append(name.id)
        for used in dict.fromkeys(names):
            message = f"pass {used} as an argument: enclosing variables are not visible"
            yield Match(function, message)
