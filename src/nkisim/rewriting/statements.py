"""Edits of statements: to insert, replace, remove or reorder them, or to set arguments."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence

from nkisim.rewriting.edits import Edit
from nkisim.source import Names, Statement

_COLUMNS = 99
"""Width from which on the arguments of a call get lines of their own."""


def with_arguments(case: Statement, texts: Mapping[str, str]) -> list[Edit]:
    """Return the edits that set arguments of the call of a statement."""
    tree, call = case.tree, case.call
    assert call is not None
    old = {name: case.arguments[name] for name in texts if name in case.arguments}
    edits = [Edit(*tree.span(node), texts[name]) for name, node in old.items()]
    new = [f"{name}={text}" for name, text in texts.items() if name not in old]
    if not new:
        return edits
    spans = [tree.span(argument.node) for argument in tree.given(call)]
    start, stop = spans[-1]
    lead = tree.data[tree.data.rfind(b"\n", 0, start) + 1 : start]
    separator = ", " if lead.strip() else f",{tree.newline}{lead.decode()}"
    width = (call.end_col_offset or 0) + sum(len(text) + 2 for text in new)
    if call.lineno == call.end_lineno and width > _COLUMNS:
        # One argument in a line, as a formatter would.
        indent = f"{tree.newline}{tree.indent(case.statement)}"
        edits += [Edit(spans[0][0], spans[0][0], f"{indent}    ")]
        edits += [Edit(a, b, f",{indent}    ") for (_, a), (b, _) in itertools.pairwise(spans)]
        end = tree.span(call)[1] - 1
        return [*edits, Edit(stop, end, "".join(f",{indent}    {t}" for t in new) + f",{indent}")]
    return [*edits, Edit(stop, stop, "".join(separator + text for text in new))]


def before(tree: Names, statement: ast.stmt, lines: Sequence[str]) -> Edit:
    """Return the edit that puts lines in front of a statement."""
    start, indent = tree.span(statement)[0], tree.newline + tree.indent(statement)
    return Edit(start, start, "".join(line + indent for line in lines))


def after(tree: Names, statement: ast.stmt, lines: Sequence[str]) -> Edit:
    """Return the edit that puts lines behind a statement and its comment."""
    end = tree.end_of_line(statement)
    indent = tree.newline + tree.indent(statement)
    return Edit(end, end, "".join(indent + line for line in lines))


def replaced(tree: Names, statement: ast.stmt, lines: Sequence[str]) -> Edit:
    """Return the edit that puts lines in place of a statement; its comment stays."""
    return Edit(*tree.span(statement), (tree.newline + tree.indent(statement)).join(lines))


def removed(tree: Names, statement: ast.stmt) -> Edit:
    """Return the edit that removes the lines of a statement, with its comment."""
    start = tree.data.rfind(b"\n", 0, tree.span(statement)[0]) + 1
    stop = tree.data.find(b"\n", tree.end_of_line(statement)) + 1
    return Edit(start, stop or len(tree.data), "")


def reordered(tree: Names, statements: Sequence[ast.stmt], order: Sequence[ast.stmt]) -> Edit:
    """Return the edit that puts successive statements into another order."""
    start = tree.data.rfind(b"\n", 0, tree.span(statements[0])[0])
    texts = dict(zip(statements, tree.texts(start, statements), strict=True))
    return Edit(start, tree.end_of_line(statements[-1]), "".join(texts[s] for s in order))
