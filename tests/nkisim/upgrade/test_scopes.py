"""The reading of source: scopes as Python has them, full names, spans with parentheses."""

import ast
import symtable
import sys
from pathlib import Path

import pytest

from each_case import each_case
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


def tables(table):
    """Yield the symbol tables of a module, its functions and its classes, by line and name."""
    if table.get_type() not in ("module", "function", "class"):
        return
    if table.get_name() not in ("listcomp", "setcomp", "dictcomp", "genexpr", "lambda"):
        yield (table.get_lineno(), table.get_name()), table
    for child in table.get_children():
        yield from tables(child)


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="symtable lists variables of comprehensions as those around"
)
@each_case("text", TEXTS.values(), ids=list(TEXTS))
def test_scopes_are_those_of_python(text):
    source = Source(text)
    ours = {(0, "top"): source.scope(source.module)}
    for node in (*source.functions, *source.all(ast.ClassDef)):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        ours[first, node.name] = ours[node.lineno, node.name] = source.scope(node.body[0])
    for place, table in tables(symtable.symtable(text, "text", "exec")):
        bound = {
            symbol.get_name()
            for symbol in table.get_symbols()
            if (symbol.is_assigned() or symbol.is_parameter() or symbol.is_imported())
            and (symbol.is_local() or table.get_type() == "module")
        }
        assert set(ours[place].assignments) == bound, place


def test_full_names():
    """A name has a full name where all of its bindings are one import."""
    source = Source(FORMS)
    named = {}
    for node in (*source.all(ast.Attribute), *source.all(ast.Name)):
        named.setdefault(source.code(node), set()).add(source.name(node))
    assert named["nl.load"] == {"nki.language.load", None}  # the parameter of inner is another
    assert named["nl.store"] == {"nki.language.store"}
    assert named["nl.Base"] == {"nki.language.Base"}
    assert named["nki.isa.copy"] == {"nki.isa.copy"}
    assert named["os.path"] == {"os.path", None}
    assert named["mark"] == {"nki.jit"}
    assert named["home"] == {"..far.away"}
    assert named["np.pi"] == named["np.add"] == {None}  # also bound to None
    assert named["nl.field"] == named["Holder.nl"] == {None}


def test_patterns_bind_names():
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
    found = {
        one.name: len(one.references)
        for scope in Source(text).scopes
        for made in scope.assignments.values()
        for one in made
    }
    assert found == {"f": 0, "g": 0, "t": 2, "u": 1}


def test_every_node_has_its_parent_and_its_place():
    source = Source(FORMS)
    for kind in (ast.Call, ast.Name, ast.Subscript, ast.Assign):
        starts = [source.span(node)[0] for node in source.all(kind)]
        assert starts == sorted(starts)
        for node in source.all(kind):
            *_, last = source.ancestors(node)
            assert isinstance(last, ast.Module)


@each_case("text", TEXTS.values(), ids=list(TEXTS))
def test_the_text_of_an_expression_is_that_expression(text):
    source = Source(text)
    for kind in (ast.Name, ast.Attribute, ast.Call, ast.BinOp, ast.Subscript, ast.Constant):
        for node in source.all(kind):
            # The literal parts of a format string are no expressions of their own.
            inside = isinstance(source.parent(node), ast.JoinedStr)
            if not inside and not source.is_formatted(node):
                code = source.code(node)
                again = ast.parse(f"({code}\n)", mode="eval").body
                assert ast.unparse(again) == ast.unparse(node), code


@each_case(
    ("text", "code"),
    [
        ("f(é)", "é"),
        ("'ü('; f(é)", "é"),
        ("f((é))", "(é)"),
        ("f(( (é) ))", "( (é) )"),
        ("(é)(f)", "(é)"),
        ("(é(f))", "é"),
        ("f((  # )\n  é  # (\n  ))", "(  # )\n  é  # (\n  )"),
        ("f(a, (é), *b)", "(é)"),
        ("f(a=(é))", "(é)"),
        ("x[(é), (b)]", "(é)"),
        ("x[(é, b)]", "é"),
        ("class A(é): pass", "é"),
        ("f(é \\\n )", "é"),
        ("f((\\\n é))", "(\\\n é)"),
        ("x = (')', é, '(')", "é"),
        ("x = (é)\r\ny = 1\r\n", "(é)"),
        ("if (é): pass", "(é)"),
    ],
)
def test_parentheses_around_a_name(text, code):
    source = Source(text)
    (name,) = (name for name in source.all(ast.Name) if name.id == "é")
    assert source.code(name) == code
    assert source.bare(name) == "é"


@each_case(
    ("text", "indices"),
    [
        ("x[a]", ["a"]),
        ("x[a,]", ["a"]),
        ("x[a, b:c]", ["a", "b:c"]),
        ("x[(a), (b)]", ["(a)", "(b)"]),
        ("x[(a, b)]", ["(a, b)"]),
        ("x[((a), (b))]", ["((a), (b))"]),
        ("x[(a, b), c]", ["(a, b)", "c"]),
        ("x[(a + b) * (c + d)]", ["(a + b) * (c + d)"]),
    ],
)
def test_indices_of_a_subscript(text, indices):
    source = Source(text)
    (node,) = source.all(ast.Subscript)
    assert [source.code(index) for index in source.indices(node)] == indices
    assert all(source.parent(index) is node for index in source.indices(node))


def test_arguments_of_a_generator():
    source = Source("f( k for k in y )\ng((k for k in y))\n")
    texts = [source.code(node) for node in source.all(ast.GeneratorExp)]
    assert texts == ["k for k in y", "(k for k in y)"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1\nb = 2;\n", {"a = 1", "b = 2"}),
        ("a = 1; b = 2\nc = 3\n", {"c = 3"}),
        ("if x: a = 1\nelse:\n    b = 2\n", {"b = 2"}),
        ("if x: \\\n    a = 1\n", set()),
        ("a = (\n    1)  # (\nb = [c for c in d]\n", {"a = (\n    1)", "b = [c for c in d]"}),
    ],
)
def test_statements_on_lines_of_their_own(text, lines):
    source = Source(text)
    alone = (source.statement(node) for node in source.all(ast.Assign))
    assert {source.code(line) for line in alone if line is not None} == lines
