"""Loops on the device: ``dynamic_range`` and ``while`` become functions of the loop body.

A body becomes a nested function only where that changes no meaning: every name that it assigns is
its own, nothing leaves the loop early, and the loop variable is only passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, islice

import libcst as cst

from nkisim.rewriting import Edit
from nkisim.upgrade.later.nki06 import is_register
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source

__all__: list[str] = []

_LANGUAGE = "nki.language"

Loop = cst.For | cst.While

_LEAVES: tuple[type[cst.CSTNode], ...] = (cst.Break, cst.Continue, cst.Return, cst.Yield, cst.Await)
_BINDS: tuple[type[cst.CSTNode], ...] = (
    cst.AugAssign,
    cst.ClassDef,
    cst.Del,
    cst.ExceptHandler,
    cst.Global,
    cst.Import,
    cst.ImportFrom,
    cst.Match,
    cst.NamedExpr,
    cst.Nonlocal,
    cst.With,
)


@rule(
    "MG-601",
    "dynamic_range is fori_loop",
    since="0.5",
    to="0.6.0",
    kind="partial",
    before="def gather(row, table, rows):\n"
    "    for step in nl.dynamic_range(rows):\n"
    "        nisa.dma_copy(dst=row, src=table.ap([[1, 1], [1, 8]], scalar_offset=step))",
    after="def gather(row, table, rows):\n"
    "    def body(step):\n"
    "        nisa.dma_copy(dst=row, src=table.ap([[1, 1], [1, 8]], scalar_offset=step))\n\n"
    "    nl.fori_loop(0, rows, body)",
    deprecated=True,
)
def _counted(source: Source) -> Iterator[Match]:
    for loop in source.all(cst.For):
        if not _is_device(source, loop):
            continue
        assert isinstance(loop.iter, cst.Call)
        bounds = source.arguments(loop.iter, ("start", "stop", "step")) or {}
        variable = loop.target.value if isinstance(loop.target, cst.Name) else ""
        why = _kept_by(source, loop) or _used_by(source, loop, str(variable))
        module = source.import_of(_LANGUAGE)
        if why or module is None or "start" not in bounds:
            yield Match(loop, f"use nl.fori_loop with a body function; {why or 'name the bounds'}")
            continue
        if _has_loop_inside(source, loop):
            continue  # the inner loop goes first
        lower, upper = ("0", source.code(bounds["start"]))
        if "stop" in bounds and source.code(bounds["stop"]) != "None":
            lower, upper = upper, source.code(bounds["stop"])
        step = f", step={source.code(bounds['step'])}" if "step" in bounds else ""
        name = _name(source, loop)
        tail = f"{module[0]}.fori_loop({lower}, {upper}, {name}{step})"
        edits = (*module[1], *_as_function(source, loop, f"def {name}({variable}):", tail))
        yield Match(loop, "the body is a function of the loop variable", edits)


@rule(
    "MG-602",
    "while with a register is while_loop",
    since="0.5",
    to="0.6.0",
    kind="partial",
    before="left = nisa.register_alloc(3)\n"
    "while left:\n"
    "    nisa.tensor_tensor(dst=n, data1=n, data2=one, op=nl.subtract)\n"
    "    nisa.register_load(left, n)",
    after="left = nisa.register_alloc(3)\n"
    "def body(left):\n"
    "    nisa.tensor_tensor(dst=n, data1=n, data2=one, op=nl.subtract)\n"
    "    nisa.register_load(left, n)\n"
    "    return left\n\n"
    "nl.while_loop(left, body)",
    deprecated=True,
)
def _conditional(source: Source) -> Iterator[Match]:
    for loop in source.all(cst.While):
        if not _is_device(source, loop):
            continue
        test = loop.test
        assert isinstance(test, cst.Name)
        why = _kept_by(source, loop) or _read_later(source, loop, test.value)
        module = source.import_of(_LANGUAGE)
        if why or module is None:
            yield Match(loop, f"use nl.while_loop with a body function; {why}")
            continue
        if _has_loop_inside(source, loop):
            continue
        name = _name(source, loop)
        head = f"def {name}({test.value}):"
        tail = f"{module[0]}.while_loop({test.value}, {name})"
        edits = _as_function(source, loop, head, tail, f"return {test.value}")
        yield Match(loop, "the body is a function of the register", (*module[1], *edits))


def _name(source: Source, loop: Loop) -> str:
    """Return a name for the body of a loop that the file does not use, another for each loop."""
    used = {name.value for name in source.all(cst.Name)}
    wishes = ("body" if n == 1 else f"body_{n}" for n in count(1))
    free = (wish for wish in wishes if wish not in used)
    loops = [one for one in _loops(source, source.module) if _is_device(source, one)]
    return next(islice(free, loops.index(loop), None))


def _as_function(
    source: Source, loop: Loop, head: str, tail: str, last: str = ""
) -> tuple[Edit, ...]:
    """Return the edits that turn the header of a loop into ``head`` and add lines behind it."""
    body = loop.body
    assert isinstance(body, cst.IndentedBlock)
    start = source.span(loop)[0]
    header = loop.iter if isinstance(loop, cst.For) else loop.test
    colon = source.data.index(b":", source.span(header)[1])
    indent = source.data[source.data.rfind(b"\n", 0, start) + 1 : start].decode()
    first = source.span(body.body[0])[0]
    inner = source.data[source.data.rfind(b"\n", 0, first) + 1 : first].decode()
    rows = [f"{inner}{last}"] if last else []
    rows += ["", indent + tail]
    text = "".join(source.newline + row for row in rows)
    stop = _end(source, source.span(body.body[-1])[1], inner)
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
    if isinstance(loop, cst.While):
        return isinstance(loop.test, cst.Name) and is_register(source, loop.test)
    return (
        isinstance(loop.iter, cst.Call)
        and source.nki_name(loop.iter.func, _LANGUAGE) == "dynamic_range"
    )


def _has_loop_inside(source: Source, loop: Loop) -> bool:
    """Return whether a loop holds another one that becomes a function."""
    return any(_is_device(source, one) for one in _loops(source, loop.body))


def _loops(source: Source, node: cst.CSTNode) -> Iterator[Loop]:
    """Yield the loops inside a node: first those over values, then those with a condition."""
    yield from source.within(node, cst.For)
    yield from source.within(node, cst.While)


# -- what must hold --------------------------------------------------------------------------------


def _kept_by(source: Source, loop: Loop) -> str:
    """Return why the body of a loop cannot become a function; empty if it can."""
    if loop.orelse is not None:
        return "the loop has an else"
    if not isinstance(loop.body, cst.IndentedBlock):
        return "the body is on the line of the loop"
    for node in _of_kinds(source, loop.body, _LEAVES):
        if source.function_of(node) is source.function_of(loop):
            return f"{source.code(node).split()[0]} leaves the body"
    for node in _of_kinds(source, loop.body, _BINDS):
        if not isinstance(node, cst.With) or any(item.asname for item in node.items):
            return f"line {source.line(node)} binds a name"
    for name in sorted(_bound(source, loop)):
        if not _is_own(source, loop, name):
            return f"{name}, which the body assigns, is used outside"
    return ""


def _of_kinds(
    source: Source, block: cst.CSTNode, kinds: tuple[type[cst.CSTNode], ...]
) -> Iterator[cst.CSTNode]:
    for kind in kinds:
        yield from source.within(block, kind)


def _used_by(source: Source, loop: cst.For, variable: str) -> str:
    """Return why the variable of a loop cannot be a parameter; empty if it can."""
    if not variable:
        return "the loop has several variables"
    if _assigns(source, loop.body, variable):
        return f"the body assigns {variable}"
    for name in source.within(loop.body, cst.Name):
        above = source.parent(name)
        if name.value != variable or (isinstance(above, cst.Arg) and above.keyword is name):
            continue
        if not isinstance(above, cst.Arg):
            return f"{variable} cannot take part in a Python expression"
        call = source.parent(above)
        first = isinstance(call, cst.Call) and call.args[0] is above and call
        if first and source.nki_name(first.func, "nki.isa") in ("register_load", "register_move"):
            return f"the body writes {variable}"
    return ""


def _read_later(source: Source, loop: cst.While, register: str) -> str:
    """Return why a register cannot be passed by value: its last value is used; empty if not."""
    stop = source.span(loop)[1]
    function = source.function_of(loop)
    outer = [a for a in source.ancestors(loop) if isinstance(a, cst.For | cst.While)]
    for name in source.all(cst.Name):
        if name.value != register or source.function_of(name) is not function:
            continue
        if source.span(name)[0] >= stop:
            return f"{register} is used after the loop"
    if function is not None and register in {p.name.value for p in function.params.params}:
        return f"{register} is a parameter, which the caller can read"
    if outer:
        # A further round of any outer loop must not read what this loop leaves.
        own = set(source.within(outer[0], cst.Name))
        others = (n for n in source.within(outer[-1], cst.Name) if n.value == register)
        if not _begins_with(source, outer[0], register) or any(n not in own for n in others):
            return f"{register} lives longer than one round of the outer loop"
    if _assigns(source, loop.body, register):
        return f"the body assigns {register}"
    return ""


def _assigns(source: Source, block: cst.CSTNode, name: str) -> bool:
    """Return whether a statement of a block binds a name."""
    return any(name in _names(source, target) for target in _targets(source, block))


def _targets(source: Source, block: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the targets of the assignments and loops in a block."""
    yield from (node.target for node in source.within(block, cst.AssignTarget))
    yield from (node.target for node in source.within(block, cst.AnnAssign))
    yield from (node.target for node in source.within(block, cst.For))


def _names(source: Source, target: cst.CSTNode) -> set[str]:
    """Return the names that an assignment to a target binds."""
    if isinstance(target, cst.Name):
        return {target.value}
    if isinstance(target, cst.Tuple | cst.List):
        return {n for element in target.elements for n in _names(source, element.value)}
    return set()


def _bound(source: Source, loop: Loop) -> set[str]:
    """Return the names that a loop and its body bind in their function."""
    function = source.function_of(loop)
    found = _names(source, loop.target) if isinstance(loop, cst.For) else set()
    for target in _targets(source, loop.body):
        if source.function_of(target) is function:
            found |= _names(source, target)
    for inner in source.within(loop.body, cst.FunctionDef):
        if source.function_of(inner) is function:
            found.add(inner.name.value)
    return found


def _is_own(source: Source, loop: Loop, name: str) -> bool:
    """Return whether no code outside of a loop can read what its body assigns to a name."""
    if not _begins_with(source, loop, name):
        return False
    function = source.function_of(loop)
    inside = set(source.within(loop, cst.Name))
    for other in source.within(function or source.module, cst.Name):
        if other.value != name or other in inside:
            continue
        nested = source.function_of(other)
        if nested is not None and nested is not function and _has_own(source, nested, name):
            continue
        above = source.parent(other)
        if isinstance(above, cst.Attribute) and above.attr is other:
            continue
        if isinstance(above, cst.Arg) and above.keyword is other:
            continue
        loops = [a for a in source.ancestors(other) if isinstance(a, cst.For | cst.While)]
        apart = [a for a in loops if loop not in source.within(a, type(loop))]
        if not any(_begins_with(source, one, name) for one in apart):
            return False
    return True


def _has_own(source: Source, function: cst.FunctionDef, name: str) -> bool:
    """Return whether a name in a nested function is another one than outside."""
    parameters = {p.name.value for p in function.params.params}
    return name in parameters or _assigns(source, function.body, name)


def _begins_with(source: Source, loop: Loop, name: str) -> bool:
    """Return whether the first use of a name in a loop, in the order of the text, assigns it.

    The assignment is a statement of the body itself, so that every round makes it.
    """
    if isinstance(loop, cst.For) and name in _names(source, loop.target):
        return True
    for statement in loop.body.body:
        if not any(n.value == name for n in source.within(statement, cst.Name)):
            continue
        if isinstance(statement, cst.FunctionDef):
            return statement.name.value == name
        if isinstance(statement, cst.For):
            inside = name in _names(source, statement.target)
            return inside and not _mentions(source, statement.iter, name)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return False
        small = statement.body[0]
        if isinstance(small, cst.Assign):
            targets = [t.target for t in small.targets]
        elif isinstance(small, cst.AnnAssign) and small.value is not None:
            targets = [small.target]
        else:
            return False
        assert small.value is not None
        made = any(name in _names(source, target) for target in targets)
        return made and not _mentions(source, small.value, name)
    return False


def _mentions(source: Source, node: cst.CSTNode, name: str) -> bool:
    return any(n.value == name for n in source.within(node, cst.Name))
