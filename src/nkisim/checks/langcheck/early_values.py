"""Values that are used before they are known.

Sizes of the target are known while a kernel is compiled, not when its module is imported; the rank
of a core is known while it runs, not when the kernel is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.found import Found
from nkisim.checks.langcheck.unit import Unit
from nkisim.diagnostics import declare
from nkisim.source import indices

READ_AT_IMPORT = declare(
    "A039",
    "read-at-import",
    "error",
    "A kernel uses a module constant that was made from nl.tile_size or get_nc_version().",
    "outside of a kernel the target is not known yet, and the value is not set",
)
RANK_AS_NUMBER = declare(
    "C033",
    "rank-as-number",
    "error",
    "rank_id() is used as a compile-time number: in a range, an index, a slice or a condition.",
    "the rank is known only on the device, in a register",
)

_SIZES = "nki.language.tile_size"
_VERSION = "nki.isa.get_nc_version"
_RANK = "nki.collectives.rank_id"


def check_early_values(unit: Unit) -> Iterator[Found]:
    """Find values that are used before they are known."""
    yield from _constants(unit)
    yield from _ranks(unit)


def _constants(unit: Unit) -> Iterator[Found]:
    """Find module constants that depend on the target."""
    reported: set[str] = set()
    for node in unit.of(ast.Name):
        name = node.id
        if name in reported or unit.tree.is_local(node):
            continue
        assigned = unit.tree.constants.get(name)
        if assigned is None or not isinstance(node.ctx, ast.Load):
            continue
        for part in ast.walk(assigned):
            path = unit.meaning(part).path if isinstance(part, ast.Attribute) else ""
            if path.startswith(f"{_SIZES}.") or path == _VERSION:
                reported.add(name)
                text = ast.unparse(assigned)
                yield Found(
                    READ_AT_IMPORT,
                    node,
                    f"{unit.name} uses {name}, which was read when the module was imported",
                    f"write {text} inside {unit.name}",
                    seen=f"{name} = {text}",
                    operand=name,
                    notes=(f"{name} is made at line {assigned.lineno}",),
                )
                break


def _ranks(unit: Unit) -> Iterator[Found]:
    """Find a rank where the compiler needs a constant."""
    if not any(meaning.path == _RANK for _, meaning in unit.calls()):
        return
    kinds = unit.kinds
    for node, used in _numbers(unit):
        if kinds.of(node) == "rank":
            yield Found(
                RANK_AS_NUMBER,
                node,
                f"`{ast.unparse(node)}` is a rank, and used in {used}",
                "give it to an access pattern as scalar_offset, or pass the rank as an argument",
                operand=ast.unparse(node),
            )


def _numbers(unit: Unit) -> Iterator[tuple[ast.AST, str]]:
    """Yield the expressions that must be compile-time constants, with their use."""
    for operation in unit.of(ast.BinOp):
        yield from ((side, "arithmetic") for side in (operation.left, operation.right))
    for comparison in unit.of(ast.Compare):
        sides = (comparison.left, *comparison.comparators)
        yield from ((side, "a condition") for side in sides)
    for branch in unit.of(ast.If, ast.IfExp):
        yield branch.test, "a condition"
    for part in unit.of(ast.Slice):
        bounds = (part.lower, part.upper, part.step)
        yield from ((bound, "a slice") for bound in bounds if bound is not None)
    for index in unit.of(ast.Subscript):
        yield from ((part, "an index") for part in indices(index))
    for call, meaning in unit.calls():
        if meaning.path.endswith("range"):
            yield from ((argument, "a range") for argument in call.args)
