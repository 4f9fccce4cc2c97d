"""The bad and the good form of a kernel, derived from one text.

A mark at the end of a line says that only one form has it, ``# bad`` or ``# good``. A line of the
bad form where a finding is expected has ``# here``::

    @twin(f32(64, 32))
    def M021(a):
        result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.exp, data=a)  # bad here
        nisa.activation(dst=result, op=nl.exp, data=nl.load(a))  # good
        return stored(result)

A mark covers the whole statement that has it, with the comments directly above and an empty line
below: on the first line of a ``for`` or an ``if``, all of the block. What follows a colon, as in
``# bad: 32 rows``, is a comment of that form.

Each form has a file of its own, such as ``build/twins/bad/memory.py``. There ``M021`` is
``bad_M021`` and the lines of the other form are empty, so that the line numbers of findings and
tracebacks are those of ``memory.py``.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

DECLARATIONS = ("twin", "source_twin", "advised_twin", "host_twin")
"""Decorators of a kernel with two forms."""
FORMS = ("bad_", "good_")
"""What the names of forms begin with."""
FOLDER = Path(__file__).parents[2] / "build" / "twins"
"""Files of forms, which git ignores."""
_MARK = re.compile(r"  # (?:(?P<form>bad|good)(?P<here> here)?(?:: (?P<why>.*))?|here)$")


def form_lines(text: str, form: str) -> list[str | None]:
    """Return the lines of a form, with None in the place of those that it does not have."""
    lines, tree = text.splitlines(), _parsed(text)
    marked = {n: match["form"] for n, line in enumerate(lines, 1) if (match := _MARK.search(line))}
    found: list[str | None] = [_MARK.sub(lambda mark: _comment(mark, form), row) for row in lines]
    of_no_statement = {number for number, of in marked.items() if of}
    for node in _statements(tree) if marked else ():
        head = _head(node)
        of_no_statement -= set(head)
        forms = {marked.get(number) for number in head} - {None}
        if forms and form not in forms:
            first, end = head[0] - 1, int(node.end_lineno or 0)
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if lines[end : end + 1] == [""] and lines[end + 1].startswith(" "):
                end += 1
            found[first:end] = [None] * (end - first)
    if of_no_statement:
        raise ValueError(
            f"marks of lines {sorted(of_no_statement)} are on no statement's first line"
        )
    for node in tree.body:
        if has_two_forms(node):
            line = node.lineno - 1
            found[line] = str(found[line]).replace("def ", f"def {form}_", 1)
    return found


def has_two_forms(node: ast.stmt) -> bool:
    """Return whether a statement is the one text of two forms."""
    declared = any(map(declares, getattr(node, "decorator_list", ())))
    return declared and not getattr(node, "name", "").startswith(FORMS)


def declares(decorator: ast.expr) -> bool:
    """Return whether a decorator declares a kernel with two forms."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in DECLARATIONS


def form_of(kernel: Callable[..., Any], form: str) -> Callable[..., Any]:
    """Return a form of a kernel, which becomes a function of the kernel's module."""
    name = f"{form}_{kernel.__name__}"
    code = _code(Path(kernel.__code__.co_filename), form)[name]
    made = FunctionType(code, kernel.__globals__, name, kernel.__defaults__)
    made.__kwdefaults__, made.__annotations__ = kernel.__kwdefaults__, kernel.__annotations__
    kernel.__globals__[name] = made
    return made


@cache
def _code(path: Path, form: str) -> dict[str, CodeType]:
    """Return the code of each function of a form's file, which is written if it is out of date."""
    file = FOLDER / form / path.name
    text = "".join(f"{line or ''}\n" for line in form_lines(path.read_text(), form))
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")  # other processes may write it as well
        draft.write_text(text)
        draft.replace(file)
    of_module = compile(text, str(file), "exec", dont_inherit=True)
    return {code.co_name: code for code in of_module.co_consts if isinstance(code, CodeType)}


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements inside a block, of all depths."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from _statements(child)


def _head(node: ast.stmt) -> range:
    """Return the lines of a statement, or those before the body of a block."""
    starts = [part.lineno for part in (node, *getattr(node, "decorator_list", ()))]
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return range(min(starts), int(node.end_lineno or 0) + 1)
    first = getattr(body[0], "pattern", body[0])
    inner = [part.lineno for part in (first, *getattr(first, "decorator_list", ()))]
    return range(min(starts), max(min(inner), node.lineno + 1))


def _comment(mark: re.Match[str], form: str) -> str:
    """Return what a form has in the place of a mark."""
    why = f"  # {mark['why']}" if mark["why"] else ""
    here = form == "bad" and (mark["here"] or not mark["form"])
    return why + "  # here" * bool(here)
