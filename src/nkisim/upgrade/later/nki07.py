"""The step from 0.6.0 to 0.7.0: loops of the device, kinds of dependencies, traced Python.

The last rules make kernels simpler that work as they are: scalars, grids, collectives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import Function, literal_integer, string
from nkisim.upgrade.later.loops import conditional, counted
from nkisim.upgrade.later.nki06 import is_register, ranges
from nkisim.upgrade.later.positions import keywords
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NISA, Source
from nkisim.upgrade.tiles import is_number, shape_of
from nkisim.versions import FRONTEND_VARIABLE

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_HBM = tuple(f"{_LANGUAGE}.{name}" for name in ("hbm", "private_hbm", "shared_hbm"))

rule("MG-701", "dynamic_range is fori_loop", "partial", same_as="MG-601")(counted)
rule("MG-702", "while with a register is while_loop", "partial", same_as="MG-602")(conditional)
rule(
    "MG-703",
    "affine_range, sequential_range and static_range are range",
    "safe",
    deprecated=True,
    same_as="MG-603",
)(ranges)
rule("MG-706", "activation and activate2: engine was inserted before name", "safe", certain=False)(
    keywords("0.6.0", "0.7.0", "activation", "activate2")
)
rule("MG-707", "topk: sorted was inserted before name", "safe", certain=False)(
    keywords("0.6.0", "0.7.0", "topk")
)


@rule("MG-704", "== of objects is Python's", "report", certain=False)
def _equality(source: Source) -> Iterator[Match]:
    # Objects of other classes could not be used in kernels before.
    classes = {
        node.name
        for node in source.all(ast.ClassDef)
        if [source.name(base) for base in node.bases] == [f"{_LANGUAGE}.NKIObject"]
        and not any("dataclass" in source.code(part) for part in node.decorator_list)
        and not any(isinstance(part, Function) and part.name == "__eq__" for part in node.body)
    }
    for compare in source.all(ast.Compare):
        if any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in compare.ops):
            sides = (compare.left, *compare.comparators)
            made = [name for side in sides for name in _class_of(source, side) & classes]
            if made:
                fix = "give it __eq__, make it a dataclass, or compare fields"
                message = f"objects of {made[0]} are compared by identity: {fix}"
                yield Match(compare, message)


def _class_of(source: Source, node: ast.expr) -> set[str]:
    """Return the name of the class whose objects an expression certainly is, as a set."""
    values = [node] if isinstance(node, ast.Call) else source.values(node) or []
    names = {
        v.func.id if isinstance(v, ast.Call) and isinstance(v.func, ast.Name) else ""
        for v in values
    }
    return names if len(names) == 1 else set()


@rule("MG-705", "depends_on has a kind", "safe", deprecated=True)
def _kinds(source: Source) -> Iterator[Match]:
    for call in source.all(ast.Call):
        waits = isinstance(call.func, ast.Attribute) and call.func.attr == "depends_on"
        given = source.given(call) if waits and source.alias(_ISA) is not None else []
        if given and "kind" not in [g.keyword for g in given]:
            last = given[-1].value
            edit = source.replaced(last, f"{source.code(last)}, kind={NISA}.dependency.runtime")
            yield Match(call, "a wait on the device has its kind", (edit,))


@rule("MG-708", "topk has another layout", "report", certain=False)
def _topk(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "topk"):
        if "sorted" not in [given.keyword for given in source.given(call)]:
            message = "result j is on partition j % 16, column j // 16; sorted=True orders them"
            yield Match(call, message)


@rule("MG-711", "scalar_store stores no number", "safe")
def _stored(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "scalar_store"):
        value = source.arguments(call, ("dst", "value")).get("value")
        if value is not None and is_number(source, value):
            edit = source.replaced(call.func, f"{NISA}.memset")
            yield Match(call, "a number is written by memset", (edit,))


@rule("MG-712", "NKI_COMPILER_FRONTEND is custom or nothing", "partial", deprecated=True)
def _frontend(source: Source) -> Iterator[Match]:
    for key in source.all(ast.Constant):
        value = _set_to(source, key) if key.value == FRONTEND_VARIABLE else None
        line = None if value is None else source.statement(value)
        if value is None or line is None:
            continue
        if string(value) == "parser":
            review = "the next release has no such front end: upgrade the kernels, then remove it"
            yield Match(value, "parser is custom", (source.replaced(value, '"custom"'),), review)
        elif string(value) == "tracer":
            yield Match(value, "tracing is the default", (source.emptied(line),))


def _set_to(source: Source, key: ast.Constant) -> ast.expr | None:
    """Return the value that an assignment or a call gives to a variable of the environment."""
    above = source.parent(key)
    if isinstance(above, ast.Call) and key in above.args[:-1]:
        return above.args[above.args.index(key) + 1]
    if isinstance(above, ast.Subscript) and above.slice is key:
        line = source.parent(above)
        return line.value if isinstance(line, ast.Assign) and line.targets == [above] else None
    return None


@rule("MG-717", "the address of an HBM tensor has one part", "partial", certain=False)
def _addresses(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "ndarray"):
        given = source.arguments(call, ("shape", "dtype", "buffer", "name", "address"))
        buffer, address = given.get("buffer"), given.get("address")
        if buffer is None or address is None or source.name(buffer) not in _HBM:
            continue
        parts = address.elts if isinstance(address, ast.Tuple) else []
        if len(parts) == 2 and source.code(parts[0]) == "0":
            edit = source.replaced(address, f"({source.code(parts[1])},)")
            yield Match(call, "the address is an offset", (edit,))
        elif len(parts) != 1:
            yield Match(call, "pass address=(offset,)")


@rule("MG-720", "Python effects in the body of a device loop happen once", "report", certain=False)
def _effects(source: Source) -> Iterator[Match]:
    calls = source.calls(_LANGUAGE, "fori_loop", "while_loop")
    named = {source.code(given.value) for call in calls for given in source.given(call)}
    for function in source.functions:
        if function.name not in named:
            continue
        for call in source.within(function.body, ast.Call):
            text = source.code(call.func)
            if text == "print" or text.endswith((".append", ".extend", ".update")):
                yield Match(call, f"{text} happens once: do it outside the loop, or use a tile")


@rule("MG-719", "// and % and methods of lists are Python's", "report", certain=False)
def _values(source: Source) -> Iterator[Match]:
    for operation in source.all(ast.BinOp):
        divides = isinstance(operation.op, ast.FloorDiv | ast.Mod)
        negative = (literal_integer(operation.right) or 0) < 0
        if divides and negative and source.in_device_code(operation):
            yield Match(operation, "Python rounds down: the remainder may be negative now")
    for method in source.all(ast.Attribute):
        is_method = method.attr in _LISTS and source.in_device_code(method)
        if is_method and source.kinds.of(method.value) == "list":
            yield Match(method, f"{method.attr}() {_LISTS[method.attr]}, as in Python")


_LISTS = {
    "count": "counts a value and not the list",
    "index": "raises ValueError where the value is absent",
    "remove": "removes the first match only, and raises ValueError without one",
}


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
