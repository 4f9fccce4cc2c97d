"""The functions of nki.isa that write a tile, as the lists of all versions have them."""

from __future__ import annotations

import ast
from functools import cache

from nkisim import versions

__all__ = ["binds", "writes_tile"]


@cache
def _signatures(name: str) -> tuple[ast.arguments, ...]:
    texts = (versions.parameters(v, "nki.isa", name) for v in versions.VERSIONS)
    functions = (ast.parse(f"lambda {text}: 0", mode="eval").body for text in texts if text)
    return tuple(f.args for f in functions if isinstance(f, ast.Lambda))


@cache
def writes_tile(name: str) -> bool:
    """Return whether a function writes to ``dst``, so that its Beta 1 form returned a tile.

    Functions that return a generation or a register do not, nor do enums.
    """
    found = (parameter.arg for signature in _signatures(name) for parameter in signature.args)
    return name == "builtin_custom_op" or "dst" in found


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
