"""The parameters of functions of nki.isa, as the lists of all versions have them."""

from __future__ import annotations

import ast
from functools import cache

from nkisim import versions


@cache
def _signatures(name: str) -> tuple[ast.arguments, ...]:
    texts = (versions.parameters(v, "nki.isa", name) for v in versions.VERSIONS)
    functions = (ast.parse(f"lambda {text}: 0", mode="eval").body for text in texts if text)
    return tuple(f.args for f in functions if isinstance(f, ast.Lambda))


def binds(name: str, call: ast.Call) -> bool:
    """Return whether a call has all arguments that a function requires in one of the versions.

    It is then a call with ``dst``. In 0.6.0 its result is the instruction.
    """
    keywords = {keyword.arg for keyword in call.keywords}
    for signature in _signatures(name):
        required = signature.args[: len(signature.args) - len(signature.defaults)]
        missing = {p.arg for p in required[len(call.args) :]}
        if missing <= keywords and not keywords & {"dtype", "mask"}:
            return True
    return False
