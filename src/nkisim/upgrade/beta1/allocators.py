"""``nki.compiler`` of Beta 1: manual allocators, its decorators and its directives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NL, Source

_LANGUAGE, _COMPILER = "nki.language", "nki.compiler."
_BUFFERS = {
    f"{_COMPILER}{memory}.{function}": memory
    for memory in ("sbuf", "psum")
    for function in ("auto_alloc", "mod_alloc")
}
_DECORATORS = ("enable_stack_allocator", "force_auto_alloc", "skip_middle_end_transformations")
_PLACE = "use nl.sbuf or nl.psum, and address= of nl.ndarray for a place"


@rule("MG-113", "manual allocators of nki.compiler", "partial")
def _allocators(source: Source) -> Iterator[Match]:
    done: set[ast.AST] = set()
    for call in source.all(ast.Call):
        full = _full_name(source, call.func)
        if full in _BUFFERS:
            done.add(call.func)
            edit = source.replaced(call, f"{NL}.{_BUFFERS[full]}")
            review = "the compiler places the tensor: check that all of them fit"
            yield Match(call, "the tensor has no fixed place", (edit,), review)
        directive = source.keyword(call, "directives")
        if directive is not None and source.nki_name(call.func, _LANGUAGE) is not None:
            done.update(source.within(directive.node, ast.Attribute))
            edit = source.without_argument(call, directive)
            yield Match(call, "directives= is removed: it changed the schedule only", (edit,))
    for decorator, _ in source.decorators():
        used = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = (source.name(used) or "").removeprefix(_COMPILER)
        edit_line = without_decorator(source, decorator) if name in _DECORATORS else None
        if edit_line is not None:
            done.add(used)
            message = f"nki.compiler.{name} is removed: the compiler places tensors"
            yield Match(decorator, message, (edit_line,))
    for attribute in source.all(ast.Attribute):
        above, full = source.parent(attribute), source.name(attribute) or ""
        if not full.startswith(_COMPILER) or isinstance(above, ast.Attribute) or attribute in done:
            continue
        alias = _alias_line(source, attribute)
        if alias is None:
            yield Match(attribute, _PLACE)
        elif not alias[1]:
            edit = source.emptied(alias[0])
            yield Match(attribute, "the name of the allocator is not used any more", (edit,))
    for line in source.unused_imports("nki.compiler"):
        yield Match(line, "nki.compiler is not used any more", (source.emptied(line),))


def _full_name(source: Source, node: ast.AST) -> str:
    """Return the full name of a function, also of one that a variable stands for."""
    full = source.name(node)
    values = None if full is not None else source.values(node)
    if values is not None and len(values) == 1:
        full = source.name(values[0])
    return full or ""


def _alias_line(source: Source, node: ast.AST) -> tuple[ast.stmt, bool] | None:
    """Return the line of ``name = node`` for an allocator, and whether the name is used."""
    statement, line = source.parent(node), source.statement(node)
    if source.name(node) not in _BUFFERS or line is None or not isinstance(statement, ast.Assign):
        return None
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return None
    return line, any(one.references for one in source.scope(target).assignments[target.id])


def without_decorator(source: Source, decorator: ast.expr) -> Edit | None:
    """Return the edit that removes the line of a decorator, or None if a comment is behind it."""
    start, stop = source.span(decorator)
    start = source.data.rfind(b"\n", 0, start) + 1
    rest = re.match(rb"[ \t]*\r?\n", source.data[stop:])
    return None if rest is None else Edit(start, stop + rest.end(), "")
