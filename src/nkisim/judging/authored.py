"""Answers of the author's child, which may be forged: what the parent takes of them, checked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from types import NoneType
from typing import Any, NamedTuple

from nkisim.checks import KernelSource
from nkisim.diagnostics import RULES
from nkisim.filecheck.arguments import Shapes, argument
from nkisim.judging.child import Ended
from nkisim.program import Program
from nkisim.trials import Arguments


class Recorded(NamedTuple):
    """A signature of a call.

    Attributes:
        program: The kernel's program for it; None without one.
        extents: What it has in place of extents of the given arguments.
        refusal: Why there is no program.
    """

    program: Program | None
    extents: dict[int, int]
    refusal: str = ""


@contextlib.contextmanager
def checked_answer() -> Iterator[None]:
    """Raise Ended for an answer of the author's child that has another form."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise Ended("refused", f"the child sent what is no answer: {error}") from None


def arguments_asked(args: Any, kwargs: Any, asked: Shapes, kernel: KernelSource) -> Arguments:
    """Return arguments from the author's child, with those that the caller has asked for."""
    node = getattr(kernel.node, "args", None)
    names = [] if node is None else [p.arg for p in (*node.posonlyargs, *node.args)]
    made = {name: argument(one) for name, one in asked.items()}
    by_place = [made.pop(name, value) for name, value in zip(names, args, strict=False)]
    return Arguments((*by_place, *args[len(names) :]), {**kwargs, **made})


def refusal_of(finding: Any) -> dict[str, Any]:
    """Return a finding of the author's child, which refuses the call, as an error."""
    texts = [finding[name] for name in ("rule", "message", "file", "fix")]
    rewrite = finding["rewrite"]
    if finding["rule"] not in RULES or not all(map(str.isprintable, texts)):
        raise ValueError("a finding of no rule")
    if type(finding["line"]) is not int or type(rewrite and rewrite["code"]) not in (str, NoneType):
        raise ValueError("a finding without its place or its rewrite")
    return plain({**finding, "severity": "error"})


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """Return data from the author's child, which JSON must hold."""
    found: dict[str, Any] = json.loads(json.dumps(data))
    return found
