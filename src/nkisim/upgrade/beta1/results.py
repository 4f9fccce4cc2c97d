"""Calls of Beta 1 instructions whose result is used: nesting, targets, allocation of ``dst``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from nkisim.rewriting import Edit, before
from nkisim.upgrade.beta1.indexing import target_text
from nkisim.upgrade.rules import Match, hoisted
from nkisim.upgrade.source import NL, Source

_ISA = "nki.isa"
DST = "allocate the result and pass it as dst=: since Beta 2 the instruction returns nothing"


def old_calls(source: Source, *names: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls whose result is used: from Beta 2 on no instruction returns a result."""
    for call in source.calls(_ISA, *names):
        line = source.statement(call)
        used = line is not None and not source.is_bare(line, call)
        if (
            used
            and source.keyword(call, "dst") is None
            and not any(a.star for a in source.given(call))
        ):
            yield call, source.nki_name(call.func, _ISA) or ""


def statement_of(source: Source, node: ast.AST, wish: str) -> Match:
    """Return the change that gives a nested call a statement of its own, in front of its line."""
    return hoisted(source, node, wish, "the nested call becomes a statement", DST)


def target_of(source: Source, call: ast.Call) -> ast.Name | ast.Subscript | None:
    """Return the name or part of a tile that is assigned the result of a call, and only that."""
    statement = source.parent(call)
    target: ast.AST | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        target = statement.target
    return target if isinstance(target, ast.Name | ast.Subscript) else None


def _merged(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Join insertions at one place into one edit, in their order."""
    out: list[Edit] = []
    for edit in edits:
        if out and edit.start == edit.stop == out[-1].start == out[-1].stop:
            out[-1] = Edit(edit.start, edit.stop, out[-1].text + edit.text)
        else:
            out.append(edit)
    return tuple(out)


def replaced_by(
    source: Source, call: ast.Call, arguments: dict[str, str]
) -> Callable[[str], list[Edit]]:
    """Return the function from the text of ``dst`` to the edits that write the whole call anew."""

    def edits(dst: str) -> list[Edit]:
        parts = [f"dst={dst}", *(f"{key}={text}" for key, text in arguments.items())]
        return [source.replaced(call, f"{source.code(call.func)}({', '.join(parts)})")]

    return edits


def allocated(
    source: Source,
    call: ast.Call,
    result: tuple[str, str, str],
    edits: Callable[[str], list[Edit]],
    message: str,
    review: str = "",
) -> Match:
    """Return the change of ``t = f(...)`` to an allocation and ``f(dst=t, ...)``.

    ``result`` is the shape, the dtype and the buffer of the result. A part of a tile,
    ``t[0:64] = f(...)``, is written without an allocation.
    """
    statement, line = source.parent(call), source.statement(call)
    target = target_of(source, call)
    if statement is None or line is None or target is None:
        return Match(call, DST)
    start, stop = source.span(statement)[0], source.span(call)[0]
    without = [Edit(start, stop, "")] if stop > start else []
    if isinstance(target, ast.Subscript):
        new = _joined(without, edits(target_text(source, target)))
        return Match(call, "the result is written to dst", _merged(new), review)
    used = target.id in source.words(call)
    name = source.fresh(f"{target.id}_new") if used else target.id
    shape, dtype, buffer = result
    label = name
    if isinstance(statement, ast.AnnAssign) and not used:
        label += f": {source.code(statement.annotation)}"
    made = f"{label} = {NL}.ndarray({shape}, dtype={dtype}, buffer={NL}.{buffer})"
    new = [before(source, line, [made]), *_joined(without, edits(name))]
    if used:
        comment = source.comment_behind(line)
        end = source.span(call)[1] if comment is None else comment[1]
        after = source.newline + source.indent(line) + f"{target.id} = {name}"
        new.append(Edit(end, end, after))
    return Match(call, message, _merged(new), review)


def _joined(without: list[Edit], edits: list[Edit]) -> list[Edit]:
    """Join the removal of the target with an edit that begins where it ends."""
    if without and edits and edits[0].start == without[0].stop < edits[0].stop:
        first = Edit(without[0].start, edits[0].stop, edits[0].text)
        return [first, *edits[1:]]
    return [*without, *edits]
