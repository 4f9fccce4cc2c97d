"""Loops on the device: ``dynamic_range`` and ``while`` become functions of the loop body.

A body becomes a nested function only where that changes no meaning: every name that it assigns is
its own, nothing leaves the loop early, and the loop variable is only passed on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import count, islice

from nkisim.rewriting import Edit
from nkisim.source import Function
from nkisim.upgrade.later.nki06 import is_register
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NL, Source

_LANGUAGE = "nki.language"

Loop = ast.For | ast.While

_LEAVES: tuple[type[ast.AST], ...] = (
    *(ast.Break, ast.Continue, ast.Return),
    *(ast.Yield, ast.YieldFrom, ast.Await),
)
_BINDS: tuple[type[ast.AST], ...] = (
    *(ast.AugAssign, ast.ClassDef, ast.Delete, ast.ExceptHandler, ast.Global, ast.Import),
    *(ast.ImportFrom, ast.Match, ast.NamedExpr, ast.Nonlocal, ast.With, ast.AsyncWith),
)


@rule("MG-601", "dynamic_range is fori_loop", "partial", refused="0.7.0")
def counted(source: Source) -> Iterator[Match]:
    """Find loops over ``dynamic_range``."""
    for loop in source.all(ast.For):
        if not _is_device(source, loop):
            continue
        assert isinstance(loop.iter, ast.Call)
        bounds = source.arguments(loop.iter, ("start", "stop", "step"))
        variable = loop.target.id if isinstance(loop.target, ast.Name) else ""
        why = _kept_by(source, loop) or _used_by(source, loop, variable)
        if why or "start" not in bounds:
            yield Match(loop, f"use nl.fori_loop with a body function; {why or 'name the bounds'}")
            continue
        if _has_loop_inside(source, loop):
            continue  # the inner loop goes first
        lower, upper = ("0", source.code(bounds["start"]))
        if "stop" in bounds and source.code(bounds["stop"]) != "None":
            lower, upper = upper, source.code(bounds["stop"])
        step = f", step={source.code(bounds['step'])}" if "step" in bounds else ""
        name = _name(source, loop)
        tail = f"{NL}.fori_loop({lower}, {upper}, {name}{step})"
        edits = _as_function(source, loop, f"def {name}({variable}):", tail)
        yield Match(loop, "the body is a function of the loop variable", edits)


@rule("MG-602", "while with a register is while_loop", "partial", refused="0.7.0")
def conditional(source: Source) -> Iterator[Match]:
    """Find loops while a register is not 0."""
    for loop in source.all(ast.While):
        if not _is_device(source, loop):
            continue
        test = loop.test
        assert isinstance(test, ast.Name)
        why = _kept_by(source, loop) or _read_later(source, loop, test.id)
        if why:
            yield Match(loop, f"use nl.while_loop with a body function; {why}")
            continue
        if _has_loop_inside(source, loop):
            continue
        name = _name(source, loop)
        head = f"def {name}({test.id}):"
        tail = f"{NL}.while_loop({test.id}, {name})"
        edits = _as_function(source, loop, head, tail, f"return {test.id}")
        yield Match(loop, "the body is a function of the register", edits)


def _name(source: Source, loop: Loop) -> str:
    """Return a name for the body of a loop that the file does not use, another for each loop."""
    used = source.words(source.module)
    wishes = ("body" if n == 1 else f"body_{n}" for n in count(1))
    free = (wish for wish in wishes if wish not in used)
    loops = [one for one in _loops(source, source.module) if _is_device(source, one)]
    return next(islice(free, loops.index(loop), None))


def _as_function(
    source: Source, loop: Loop, head: str, tail: str, last: str = ""
) -> tuple[Edit, ...]:
    """Return the edits that turn the header of a loop into ``head`` and add lines behind it."""
    start = source.span(loop)[0]
    header = loop.iter if isinstance(loop, ast.For) else loop.test
    colon = source.data.index(b":", source.span(header)[1])
    indent = source.data[source.data.rfind(b"\n", 0, start) + 1 : start].decode()
    first = source.span(loop.body[0])[0]
    inner = source.data[source.data.rfind(b"\n", 0, first) + 1 : first].decode()
    rows = [f"{inner}{last}"] if last else []
    rows += ["", indent + tail]
    text = "".join(source.newline + row for row in rows)
    stop = _end(source, source.span(loop.body[-1])[1], inner)
    return Edit(start, colon + 1, head), Edit(stop, stop, text)


def _end(source: Source, stop: int, indent: str) -> int:
    """Return the end of the line at ``stop``, or of the comments of the same block that follow."""
    here = re.compile(rb"[^\r\n]*").match(source.data, stop)
    assert here is not None
    row = rb"(?:\r?\n[ \t]*)*?\r?\n" + re.escape(indent.encode()) + rb"[ \t]*#[^\r\n]*"
    comments = re.compile(rb"(?:" + row + rb")*").match(source.data, here.end())
    assert comments is not None
    return comments.end()


def _is_device(source: Source, loop: Loop) -> bool:
    """Return whether a loop runs on the device: over ``dynamic_range``, or while a register."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Name) and is_register(source, loop.test)
    return (
        isinstance(loop.iter, ast.Call)
        and source.nki_name(loop.iter.func, _LANGUAGE) == "dynamic_range"
    )


def _has_loop_inside(source: Source, loop: Loop) -> bool:
    """Return whether a loop holds another one that becomes a function."""
    return any(_is_device(source, one) for one in _loops(source, loop.body))


def _loops(source: Source, node: ast.AST | list[ast.stmt]) -> Iterator[Loop]:
    """Yield the loops inside a node: first those over values, then those with a condition."""
    yield from source.within(node, ast.For)
    yield from source.within(node, ast.While)


# -- what must hold --------------------------------------------------------------------------------


def _kept_by(source: Source, loop: Loop) -> str:
    """Return why the body of a loop cannot become a function; empty if it can."""
    if loop.orelse:
        return "the loop has an else"
    if not source.begins_line(loop.body[0]):
        return "the body is on the line of the loop"
    for node in _of_kinds(source, loop.body, _LEAVES):
        if source.function_of(node) is source.function_of(loop) and _leaves(source, node, loop):
            return f"{source.code(node).split()[0]} leaves the body"
    for node in _of_kinds(source, loop.body, _BINDS):
        items = node.items if isinstance(node, ast.With | ast.AsyncWith) else ()
        if not items or any(item.optional_vars for item in items):
            return f"line {source.line(node)} binds a name"
    for name in sorted(_bound(source, loop)):
        if not _is_own(source, loop, name):
            return f"{name}, which the body assigns, is used outside"
    return ""


def _leaves(source: Source, node: ast.AST, loop: Loop) -> bool:
    """Return whether a statement leaves the body of a loop, not only of a loop inside of it."""
    if not isinstance(node, ast.Break | ast.Continue):
        return True
    below: ast.AST = node
    for above in source.ancestors(node):
        # In the else of an inner loop, break and continue belong to the loop around it.
        if isinstance(above, ast.For | ast.While) and below not in above.orelse:
            return above is loop
        below = above
    return True


def _of_kinds(
    source: Source, block: list[ast.stmt], kinds: tuple[type[ast.AST], ...]
) -> Iterator[ast.AST]:
    for kind in kinds:
        yield from source.within(block, kind)


def _used_by(source: Source, loop: ast.For, variable: str) -> str:
    """Return why the variable of a loop cannot be a parameter; empty if it can."""
    if not variable:
        return "the loop has several variables"
    if _assigns(source, loop.body, variable):
        return f"the body assigns {variable}"
    for name in source.within(loop.body, ast.Name):
        if name.id != variable:
            continue
        call = source.call_of(name)
        if call is None:
            return f"{variable} cannot take part in a Python expression"
        first = source.given(call)[0].value is name
        if first and source.nki_name(call.func, "nki.isa") in ("register_load", "register_move"):
            return f"the body writes {variable}"
    return ""


def _read_later(source: Source, loop: ast.While, register: str) -> str:
    """Return why the last value of a register is needed after the loop; empty if it is not."""
    stop = source.span(loop)[1]
    function = source.function_of(loop)
    outer = [a for a in source.ancestors(loop) if isinstance(a, ast.For | ast.While)]
    for name in source.all(ast.Name):
        if name.id != register or source.function_of(name) is not function:
            continue
        if source.span(name)[0] >= stop:
            return f"{register} is used after the loop"
    if function is not None and register in source.parameters(function):
        return f"{register} is a parameter, which the caller can read"
    if outer:
        # A later iteration of an outer loop must not read what this loop leaves.
        own = set(source.within(outer[0], ast.Name))
        others = (n for n in source.within(outer[-1], ast.Name) if n.id == register)
        if not _begins_with(source, outer[0], register) or any(n not in own for n in others):
            return f"{register} lives longer than one round of the outer loop"
    if _assigns(source, loop.body, register):
        return f"the body assigns {register}"
    return ""


def _assigns(source: Source, block: list[ast.stmt], name: str) -> bool:
    """Return whether a statement of a block binds a name."""
    return any(name in _names(target) for target in _targets(source, block))


def _targets(source: Source, block: list[ast.stmt]) -> Iterator[ast.expr]:
    """Yield the targets of the assignments and loops in a block."""
    yield from (t for node in source.within(block, ast.Assign) for t in node.targets)
    yield from (node.target for node in source.within(block, ast.AnnAssign))
    yield from (node.target for node in source.within(block, ast.For))


def _names(target: ast.expr) -> set[str]:
    """Return the names that an assignment to a target binds."""
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, ast.Tuple | ast.List):
        return {n for element in target.elts for n in _names(element)}
    return _names(target.value) if isinstance(target, ast.Starred) else set()


def _bound(source: Source, loop: Loop) -> set[str]:
    """Return the names that a loop and its body bind in their function."""
    function = source.function_of(loop)
    found = _names(loop.target) if isinstance(loop, ast.For) else set()
    for target in _targets(source, loop.body):
        if source.function_of(target) is function:
            found |= _names(target)
    for inner in source.functions:
        if loop in source.ancestors(inner) and source.function_of(inner) is function:
            found.add(inner.name)
    return found


def _is_own(source: Source, loop: Loop, name: str) -> bool:
    """Return whether no code outside of a loop can read what its body assigns to a name."""
    if not _begins_with(source, loop, name):
        return False
    function = source.function_of(loop)
    inside = set(source.within(loop, ast.Name))
    for other in source.within(function or source.module, ast.Name):
        if other.id != name or other in inside:
            continue
        nested = source.function_of(other)
        if nested is not None and nested is not function and _has_own(source, nested, name):
            continue
        loops = [a for a in source.ancestors(other) if isinstance(a, ast.For | ast.While)]
        apart = [a for a in loops if loop not in source.within(a, type(loop))]
        if not any(_begins_with(source, one, name) for one in apart):
            return False
    return True


def _has_own(source: Source, function: Function, name: str) -> bool:
    """Return whether a nested function binds a name itself."""
    return name in source.parameters(function) or _assigns(source, function.body, name)


def _begins_with(source: Source, loop: Loop, name: str) -> bool:
    """Return whether the first use of a name in a loop, in the order of the text, assigns it.

    The assignment is a statement of the body itself, so that every iteration executes it.
    """
    if isinstance(loop, ast.For) and name in _names(loop.target):
        return True
    for statement in loop.body:
        if name not in source.words(statement):
            continue
        if isinstance(statement, Function):
            return statement.name == name
        if isinstance(statement, ast.For):
            inside = name in _names(statement.target)
            return inside and name not in source.words(statement.iter)
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        else:
            return False
        assert statement.value is not None
        made = any(name in _names(target) for target in targets)
        return made and name not in source.words(statement.value)
    return False
