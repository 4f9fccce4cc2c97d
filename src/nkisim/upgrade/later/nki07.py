"""The step from 0.6.0 to 0.7.0: loops of the device, kinds of dependencies, traced Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import Function
from nkisim.upgrade.later.loops import conditional, counted
from nkisim.upgrade.later.nki06 import ranges
from nkisim.upgrade.later.positions import keywords
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_HBM = tuple(f"{_LANGUAGE}.{name}" for name in ("hbm", "private_hbm", "shared_hbm"))

rule(
    "MG-701",
    "dynamic_range is fori_loop",
    since="0.6",
    to="0.7.0",
    kind="partial",
    before="def fill(t, rows):\n    for step in nl.dynamic_range(rows):\n        nisa.memset(t, 0)",
    after="def fill(t, rows):\n"
    "    def body(step):\n"
    "        nisa.memset(t, 0)\n\n"
    "    nl.fori_loop(0, rows, body)",
    same_as="MG-601",
)(counted)
rule(
    "MG-702",
    "while with a register is while_loop",
    since="0.6",
    to="0.7.0",
    kind="partial",
    before="left = nisa.register_alloc(3)\nwhile left:\n    nisa.register_load(left, n)",
    after="left = nisa.register_alloc(3)\n"
    "def body(left):\n"
    "    nisa.register_load(left, n)\n"
    "    return left\n\n"
    "nl.while_loop(left, body)",
    same_as="MG-602",
)(conditional)
rule(
    "MG-703",
    "affine_range, sequential_range and static_range are range",
    since="0.6",
    to="0.7.0",
    kind="safe",
    before="for k in nl.static_range(4):\n    nisa.memset(tiles[k], 0)",
    after="for k in range(4):\n    nisa.memset(tiles[k], 0)",
    deprecated=True,
    same_as="MG-603",
)(ranges)
rule(
    "MG-706",
    "activation and activate2: engine was inserted before name",
    since="0.6",
    to="0.7.0",
    kind="safe",
    certain=False,
    before="nisa.activation(y, nl.exp, x, None, 1.0, None, None, nisa.reduce_cmd.idle, 'exp')",
    after="nisa.activation(y, nl.exp, x, None, 1.0, None, None, nisa.reduce_cmd.idle, name='exp')",
)(keywords("0.6.0", "0.7.0", "activation", "activate2"))
rule(
    "MG-707",
    "topk: sorted was inserted before name",
    since="0.6",
    to="0.7.0",
    kind="safe",
    certain=False,
    before="nisa.topk(v, i, s, 100, 'best')",
    after="nisa.topk(v, i, s, 100, name='best')",
)(keywords("0.6.0", "0.7.0", "topk"))


@rule(
    "MG-704",
    "== of objects is Python's",
    since="0.6",
    to="0.7.0",
    kind="report",
    certain=False,
    before="class Layout(nl.NKIObject):\n    rows = 1\n\n\nsame = Layout(rows=2) == Layout(rows=2)",
)
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


@rule(
    "MG-705",
    "depends_on has a kind",
    since="0.6",
    to="0.7.0",
    kind="safe",
    before="second = nisa.memset(t, 0)\nsecond.depends_on(first)",
    after="second = nisa.memset(t, 0)\nsecond.depends_on(first, kind=nisa.dependency.runtime)",
    deprecated=True,
)
def _kinds(source: Source) -> Iterator[Match]:
    for call in source.all(ast.Call):
        waits = isinstance(call.func, ast.Attribute) and call.func.attr == "depends_on"
        module = source.import_of(_ISA)
        given = source.given(call) if waits else []
        if given and module is not None and "kind" not in [g.keyword for g in given]:
            last = given[-1].value
            text = f"{source.code(last)}, kind={module[0]}.dependency.runtime"
            edits = (*module[1], source.replaced(last, text))
            yield Match(call, "a wait on the device has its kind", edits)


@rule(
    "MG-708",
    "topk has another layout",
    since="0.6",
    to="0.7.0",
    kind="report",
    certain=False,
    before="nisa.topk(v, i, s, 100)",
)
def _topk(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "topk"):
        if "sorted" not in [given.keyword for given in source.given(call)]:
            message = "result j is on partition j % 16, column j // 16; sorted=True orders them"
            yield Match(call, message)


@rule(
    "MG-717",
    "the address of an HBM tensor has one part",
    since="0.6",
    to="0.7.0",
    kind="partial",
    certain=False,
    before="t = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.private_hbm, address=(0, 64))",
    after="t = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.private_hbm, address=(64,))",
)
def _addresses(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "ndarray"):
        given = source.arguments(call, ("shape", "dtype", "buffer", "name", "address")) or {}
        buffer, address = given.get("buffer"), given.get("address")
        if buffer is None or address is None or source.name(buffer) not in _HBM:
            continue
        parts = address.elts if isinstance(address, ast.Tuple) else []
        if len(parts) == 2 and source.code(parts[0]) == "0":
            edit = source.replaced(address, f"({source.code(parts[1])},)")
            yield Match(call, "the address is an offset", (edit,))
        elif len(parts) != 1:
            yield Match(call, "pass address=(offset,)")


@rule(
    "MG-720",
    "Python effects in the body of a device loop happen once",
    since="0.6",
    to="0.7.0",
    kind="report",
    certain=False,
    before="rows = []\n\n\ndef body(i):\n    rows.append(i)\n\n\nnl.fori_loop(0, 4, body)",
)
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
