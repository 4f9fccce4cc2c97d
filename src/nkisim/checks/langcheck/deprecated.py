"""Names and loops that the version in force still has and that a later one drops."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from nkisim.checks.langcheck.found import Found
from nkisim.checks.langcheck.unit import Unit
from nkisim.diagnostics import RULES, declare
from nkisim.versions import FRONTEND_VARIABLE, VERSIONS, in_force, is_traced

DEPRECATED = declare(
    "A045",
    "deprecated-name",
    "A kernel uses a name or a loop that the release in force deprecates.",
    "a later release does not have it",
    severity="note",
)

_RANGE = ("0.6.0", "range(...), which is unrolled the same")
_NAMES = {
    "nki.language.affine_range": _RANGE,
    "nki.language.sequential_range": _RANGE,
    "nki.language.static_range": _RANGE,
    "nki.language.dynamic_range": ("0.6.0", "nl.fori_loop with the body in a function"),
    "nki.isa.gpsimd_engine": ("0.6.0", "nisa.engine.gpsimd"),
    "nki.isa.scalar_engine": ("0.6.0", "nisa.engine.scalar"),
    "nki.isa.tensor_engine": ("0.6.0", "nisa.engine.tensor"),
    "nki.isa.unknown_engine": ("0.6.0", "nisa.engine.unknown"),
    "nki.isa.vector_engine": ("0.6.0", "nisa.engine.vector"),
    "nki.language.tile_size.psum_fmax": ("0.4.0", "nl.tile_size.psum_bank_fmax"),
    "nki.language.tile_size.total_available_sbuf_size": (
        "0.4.0",
        "nl.tile_size.sbuf_fmax_bytes for a partition, or sbuf_size_bytes for all",
    ),
}
"""Deprecated names: the first version that deprecates them, and the replacement."""

_GONE = "nki.language.dynamic_range"
_WHILE = ("0.6.0", "nl.while_loop with the body in a function")


def check_deprecated(unit: Unit) -> Iterator[Found]:
    """Find deprecated names, and loops on a register."""
    for node, meaning in unit.references:
        if meaning.path in _NAMES and not meaning.assumed:
            since, instead = _NAMES[meaning.path]
            if meaning.path == _GONE and is_traced():
                message = f"nl.dynamic_range does not run under NKI {in_force()}"
                yield Found(RULES["L031"], node, message, f"use {instead}", seen=_GONE)
                continue
            yield from _deprecated(node, meaning.path, since, instead)
    kinds = unit.kinds
    if in_force() == "0.7.0":
        if not is_traced() and unit.is_kernel:
            what = f"{FRONTEND_VARIABLE}={os.environ[FRONTEND_VARIABLE]}"
            yield from _deprecated(unit.node, what, "0.7.0", "the default, which traces the kernel")
        for call in unit.of(ast.Call):
            waits = isinstance(call.func, ast.Attribute) and call.func.attr == "depends_on"
            if waits and not {"kind", None} & {keyword.arg for keyword in call.keywords}:
                what = "depends_on without kind"
                yield from _deprecated(call, what, "0.7.0", "kind=nisa.dependency.runtime")
    for loop in unit.of(ast.While):
        if kinds.of(loop.test) == "register" and not is_traced():
            yield from _deprecated(loop, f"`while {ast.unparse(loop.test)}`", *_WHILE)


def _deprecated(node: ast.AST, what: str, since: str, instead: str) -> Iterator[Found]:
    version = in_force()
    if VERSIONS.index(version) >= VERSIONS.index(since):
        message = f"{what} is deprecated in NKI {version}"
        yield Found(DEPRECATED, node, message, f"use {instead}", seen=what)
