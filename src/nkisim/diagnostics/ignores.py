"""Comments that silence a rule on a line: ``# nkisim: ignore[M004]``.

The comment may be on any line of the statement. It lists rule ids, or prefixes of ids, separated
by commas.
"""

from __future__ import annotations

import ast
import io
import linecache
import re
import tokenize
from functools import lru_cache

from nkisim.diagnostics.syntax import tree_of

Comment = tuple[int, tuple[str, ...]]
"""Line of a comment, and the ids in it."""

_COMMENT = re.compile(r"#\s*nkisim:\s*ignore\s*\[([^\]]*)\]")
_BARE = re.compile(r"#\s*nkisim:\s*ignore")


_READ: dict[str, tuple[list[str], dict[int, list[Comment]]]] = {}
"""Cache by file: its source lines, and the comments that apply to each line."""


def silencing_line(file: str, line: int, rule: str) -> int:
    """Return the line of the comment that silences a rule on a line, or 0."""
    lines = linecache.getlines(file)
    known = _READ.get(file)
    if known is None or known[0] is not lines:
        text = "".join(lines)
        # linecache gives the same list until the file is read again.
        known = _READ[file] = (lines, _by_line(text) if "nkisim:" in text else {})
    for at, ids in known[1].get(line, ()):
        if any(rule.startswith(name) for name in ids):
            return at
    return 0


def comments_of(text: str) -> list[Comment]:
    """Return the ignore comments of a source; one without ids silences nothing."""
    if "nkisim:" not in text:
        return []
    return list(_comments(text))


@lru_cache(maxsize=64)
def _comments(text: str) -> tuple[Comment, ...]:
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and _BARE.search(token.string):
                named = _COMMENT.search(token.string)
                ids = named[1].replace(" ", "").split(",") if named else []
                found.append((token.start[0], tuple(name for name in ids if name)))
    except (tokenize.TokenError, SyntaxError):
        pass
    return tuple(found)


def _by_line(text: str) -> dict[int, list[Comment]]:
    """Return the comments that apply to each line."""
    by_line: dict[int, list[Comment]] = {}
    spans = _statements(text)
    for comment in _comments(text):
        for line in spans.get(comment[0], (comment[0],)):
            by_line.setdefault(line, []).append(comment)
    return by_line


def _statements(text: str) -> dict[int, range]:
    """Return, for each line, the lines of its statement or block header."""
    tree = tree_of(text)
    if tree is None:
        return {}
    spans: dict[int, range] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        body = getattr(node, "body", None)
        last = (node.end_lineno or node.lineno) if not body else max(body[0].lineno - 1, first)
        for line in range(first, last + 1):
            spans[line] = range(first, last + 1)
    return spans
