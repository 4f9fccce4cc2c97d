"""Scopes of names: the same imports and bindings as the scope analysis of libcst."""

from pathlib import Path

import pytest

pytest.importorskip("libcst")

import libcst as cst
from libcst.metadata import Assignment, MetadataWrapper, QualifiedNameSource, ScopeProvider

from each_case import each_case
from nkisim.upgrade.scopes import Tree
from nkisim.upgrade.source import Source

ROOT = Path(__file__).resolve().parents[3]
FORMS = """\
import os, nki.language as nl
import nki.isa
from nki import jit as mark, collectives
from . import near
from ..far import away as home
from other import *
import neuronxcc.nki.language
try:
    import numpy as np
except ImportError as error:
    np = None
TABLE: dict[str, nl.sbuf] = {}
first, (second, *rest) = nl.load, [1, 2]
with open(os.path) as stream, near.lock:
    stream.read(nl)


@mark(nl.psum)
def kernel(x: nl.ndarray, size=nl.tile_size, *more, key=np.add, **named) -> home:
    global TABLE
    TABLE, local = nl.x, nl.y
    nl.store(x, nki.isa.copy(size), nl=local)
    for i, j in nl.affine_range(os.n):
        total = i
        total += nl.load(x[i, j:size])
    else:
        del total

    def inner(nl):
        nonlocal local
        local = nl.z
        return nl.load(x), local, np.pi

    squares = [nl.e(k) for k in range(local) if k for m in nl.rows(k)]
    pairs = {k: {v for v in k} for k, np in nl.items()}
    lazy = (nl for nl in nl.all())
    short = lambda os, y=nl.one: os.path(nl, y)
    if (found := nl.find(x)) and not found:
        raise nl.Error(f"{nl.name} {os!r}") from found
    return kernel, inner, squares, pairs, lazy, short


class Holder(nl.Base, metaclass=np.Meta):
    nl = 1
    field = nl

    def method(self, nl=nl):
        return nl.field, os.path, Holder.nl

    def other(self):
        return nl.load, field

"""
TEXTS = {
    "forms": FORMS,
    "empty": "",
    **{
        name: (ROOT / "src" / "nkisim" / name).read_text(encoding="utf-8")
        for name in ("upgrade/engine.py", "cli/upgrading.py", "language/movement.py")
    },
}


def dotted(node):
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return None if head is None else f"{head}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else None


@each_case("text", TEXTS.values(), ids=list(TEXTS))
def test_scopes_are_those_of_libcst(text):
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    theirs = wrapper.resolve(ScopeProvider)
    ours = Tree(wrapper.module)
    for name in ours.nodes.get(cst.Name, []):
        scope = ours.scopes.get(name)
        known = theirs.get(name)
        if scope is None or known is None:
            continue
        found = {one.node for one in known.assignments[name.value] if isinstance(one, Assignment)}
        assert {one.node for one in scope.assignments[name.value]} == found, name.value


@each_case("text", TEXTS.values(), ids=list(TEXTS))
def test_full_names_are_those_of_libcst(text):
    """Where libcst follows the order of statements, a name with two meanings has none here."""
    source = Source(text)
    theirs = MetadataWrapper(source.module, unsafe_skip_copy=True).resolve(ScopeProvider)
    named = 0
    for node in (*source.all(cst.Attribute), *source.all(cst.Name)):
        full = source.name(node)
        base = node
        while isinstance(base, cst.Attribute):
            base = base.value
        if full is None or dotted(node) is None or theirs.get(base) is None:
            continue
        scope = theirs[base]
        expected = {
            one.name.removeprefix("neuronxcc.")
            for one in scope.get_qualified_names_for(dotted(node))
            if one.source is QualifiedNameSource.IMPORT
        }
        assert expected == {full}, dotted(node)
        named += 1
    assert named or not text


def test_patterns_bind_names():
    """Unlike in libcst, whose analysis leaves them out."""
    text = (
        "import nki.language as nl\n\nmatch x:\n    case {'a': nl.sbuf, **others}:\n        pass\n"
        "    case [head, *tail] if head:\n        pass\n    case list(field=value) as whole:\n"
        "        pass\n"
    )
    source = Source(text)
    bound = source.scope(source.module).assignments
    assert set(bound) == {"nl", "others", "head", "tail", "value", "whole"}
    assert [len(bound[name][0].references) for name in ("nl", "head", "tail")] == [1, 1, 0]


def test_references_and_closures():
    text = "def f():\n    t = 1\n    def g():\n        return t, u\n    return t\nu = 2\n"
    tree = Source(text)._tree
    found = {
        one.name: len(one.references)
        for scope in set(tree.scopes.values())
        for made in scope.assignments.values()
        for one in made
    }
    assert found == {"f": 0, "g": 0, "t": 2, "u": 1}


def test_every_node_has_its_parent_and_its_place():
    source = Source(FORMS)
    for kind in (cst.Call, cst.Name, cst.Subscript, cst.Assign):
        starts = [source.span(node)[0] for node in source.all(kind)]
        assert starts == sorted(starts)
        for node in source.all(kind):
            *_, last = source.ancestors(node)
            assert isinstance(last, cst.Module)
