"""Code that runs only where a name exists: branches on versions, try statements, patched modules.

A name that NKI 0.3.0 does not have is no mistake in such code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import Unit

_BY_NAME = {"delattr", "getattr", "hasattr", "setattr"}
_VERSIONS = ("nki.__version__", "nki.isa.get_nc_version", "nki.isa.nc_version")
_ARITHMETIC = {"math", "numpy", "operator"}


def is_guarded(unit: Unit, node: ast.AST, attribute: str) -> bool:
    """Return whether code may run only where a module has an attribute.

    Args:
        unit: The definition.
        node: The expression in it that uses the attribute.
        attribute: The attribute's name.
    """
    return _is_chosen(unit, node) or _is_provided(unit, node, attribute)


def _is_chosen(unit: Unit, node: ast.AST) -> bool:
    """Return whether a ``try`` or a condition on the installed packages decides if a node runs."""
    child = node
    for outer in unit.enclosing(node):
        if isinstance(outer, (ast.Try, ast.TryStar)):
            return True
        if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and _asks_setup(unit, outer.test):
            return True
        if isinstance(outer, ast.BoolOp) and any(_asks_setup(unit, v) for v in outer.values):
            return True
        for block in (getattr(outer, "body", None), getattr(outer, "orelse", None)):
            if isinstance(block, list) and child in block:
                before = block[: block.index(child)]
                if any(_leaves(s) and _asks_setup(unit, s.test) for s in before):
                    return True
        child = outer
    return False


def _leaves(statement: ast.stmt) -> bool:
    """Return whether a statement is an assertion, or an ``if`` that leaves the block."""
    if isinstance(statement, ast.Assert):
        return True
    ends = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ends)


def _asks_setup(unit: Unit, test: ast.AST) -> bool:
    """Return whether a condition depends on the module's state: versions, flags, the host."""
    local = {
        assign.targets[0].id: assign.value
        for assign in unit.of(ast.Assign)
        if isinstance(assign.targets[0], ast.Name)
    }
    waiting, seen = [test], set()
    while waiting:
        part = waiting.pop()
        for name in _dotted_names(part):
            if isinstance(name, ast.Name) and unit.is_own(name):
                if name.id in local and name.id not in seen:
                    seen.add(name.id)
                    waiting.append(local[name.id])
            elif _is_setup(unit, name):
                return True
    return False


def _dotted_names(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the longest dotted names in an expression."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        inner = part
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(inner, ast.Name):
            yield part
        else:
            waiting.extend(ast.iter_child_nodes(part))


def _is_setup(unit: Unit, name: ast.expr) -> bool:
    """Return whether a global name may depend on what is installed."""
    root = name
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and unit.is_own(root):
        return False  # a field of an argument, such as x.shape
    meaning = unit.meaning(name)
    if meaning.kind == "value":
        return not _is_size(meaning.value)
    if meaning.kind == "nki":
        return meaning.path.startswith(_VERSIONS)
    if meaning.kind == "definition":
        call = unit.tree.parent(name)
        # A function of the sizes is arithmetic; one without arguments reads something else.
        return not (isinstance(call, ast.Call) and call.args)
    if meaning.kind == "foreign":
        return meaning.path.partition(".")[0] not in _ARITHMETIC
    return meaning.kind != "builtin" or meaning.path in _BY_NAME


def _is_size(value: object) -> bool:
    """Return whether a global is a number or a shape, live or as an expression of the source."""
    if isinstance(value, ast.Constant):
        value = value.value
    if isinstance(value, (ast.Tuple, ast.List)):
        return all(_is_size(part) for part in value.elts)
    if isinstance(value, ast.BinOp):
        return _is_size(value.left) and _is_size(value.right)
    if isinstance(value, (tuple, list)):
        return all(_is_size(part) for part in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_provided(unit: Unit, node: ast.AST, attribute: str) -> bool:
    """Return whether the file itself adds the attribute, checks for it, or rebinds the module."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    name = root.id if isinstance(root, ast.Name) else ""
    tree = unit.tree
    targets = [*(loop.target for loop in tree.all(ast.For))]
    targets += [item.optional_vars for item in tree.all(ast.withitem) if item.optional_vars]
    bound = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    names = [
        call.args[1]
        for call in tree.all(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id in _BY_NAME and len(call.args) > 1
    ]
    return (
        name in bound
        or any(name in statement.names for statement in tree.all(ast.Global))
        or any(_may_be(named, attribute) for named in names)
        or any(
            part.attr == attribute and not isinstance(part.ctx, ast.Load)
            for part in tree.all(ast.Attribute)
        )
    )


def _may_be(named: ast.expr, attribute: str) -> bool:
    """Return whether the second argument of ``getattr`` may be an attribute's name."""
    return not isinstance(named, ast.Constant) or named.value == attribute
