"""What 0.7.0 makes simpler in kernels that work: scalars, grids, prepared and derived collectives.

These rules change nothing and leave nothing to do. They are used for files of a known release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.upgrade.later.nki06 import is_register
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import shape_of

_ISA = "nki.isa"


@rule("MG-709", "scalars for offsets", "optional", certain=False)
def _offsets(source: Source) -> Iterator[Match]:
    for call in source.all(ast.Call):
        if _register_of(source, call):
            yield Match(call, "nisa.scalar_load returns a scalar, which + - * compute with")


def _register_of(source: Source, call: ast.Call) -> str:
    """Return the register that is the offset of an access pattern; empty for other calls."""
    offset = source.keyword(call, "scalar_offset")
    found = offset is not None and is_register(source, offset.value)
    return source.code(offset.value) if offset is not None and found else ""


@rule("MG-710", "scalar arithmetic for offsets in tiles", "optional", certain=False)
def _tiles_of_one(source: Source) -> Iterator[Match]:
    registers = {_register_of(source, call) for call in source.all(ast.Call)}
    loads = [source.arguments(c, ("dst", "src")) for c in source.calls(_ISA, "register_load")]
    tiles = {
        source.code(given["src"])
        for given in loads
        if given and source.code(given["dst"]) in registers and "src" in given
    }
    for call in source.calls(_ISA, "tensor_scalar", "tensor_tensor"):
        dst = source.arguments(call, ("dst",)).get("dst")
        if dst is not None and source.code(dst) in tiles and shape_of(source, dst) == ["1", "1"]:
            yield Match(call, f"{source.code(dst)} takes an instruction; scalar arithmetic none")


@rule("MG-713", "tiles with clamped edges", "optional", certain=False)
def _clamped(source: Source) -> Iterator[Match]:
    for part in source.all(ast.Subscript):
        bounds = [index.upper for index in source.indices(part) if isinstance(index, ast.Slice)]
        cut = [b for b in bounds if isinstance(b, ast.Call) and source.code(b.func) == "min"]
        if cut and source.in_device_code(part):
            message = f"nl.tiles({source.code(part.value)}, tile_shape=...) clamps its last tiles"
            yield Match(part, message)


@rule("MG-715", "all_to_all_v in two parts", "optional", certain=False)
def _prepared(source: Source) -> Iterator[Match]:
    for call in source.calls("nki.collectives", "all_to_all_v"):
        yield Match(
            call, "if its counts are known earlier: all_to_all_v_prepare there, then _trigger"
        )


@rule("MG-716", "groups of ranks by an operation", "optional", certain=False)
def _groups(source: Source) -> Iterator[Match]:
    for call in source.calls("nki.collectives", "ReplicaGroup"):
        if any(isinstance(given.value, ast.ListComp) for given in source.given(call)):
            yield Match(call, "ncc.ReplicaGroup.from_partition_op(world_size, op, operand)")
