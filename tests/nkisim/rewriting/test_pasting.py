"""Code to paste as edits: what changes in the file, what stays, and what is refused."""

import ast
import itertools

import pytest

from each_case import each_case
from nkisim.diagnostics import Rewrite
from nkisim.rewriting import NotPastedError, code_with_comments, edited, edits_of


def pasted(text, code, first=1, last=None):
    """The text after the edits of a rewrite of its lines, by default of all of them."""
    last = last or len(text.splitlines())
    edits = edits_of(text, Rewrite("k.py", first, last, code))
    return edited(text, edits, [1])[0]


CHANGES = [
    # an argument: changed, renamed, removed, added, named
    ("f(a,  b = 1)  # why\n", "f(a, b=2)", "f(a,  b = 2)  # why\n"),
    ("f(a,  b = 1)\n", "f(a, c=1)", "f(a,  c = 1)\n"),
    ("f( a, b=1, c=2 )\n", "f(a, c=2)", "f( a, c=2 )\n"),
    ("f( a, b=1 )\n", "f(a)", "f( a )\n"),
    ("f( a, )\n", "f()", "f(  )\n"),
    ("f(a)\n", "f(a, b=1, c=2)", "f(a, b=1, c=2)\n"),
    ("f( )\n", "f(a)", "f( a)\n"),
    ("f(\n    a,\n    b,\n)\n", "f(a, b, c=1)", "f(\n    a,\n    b,\n    c=1,\n)\n"),
    ("g(t,  u, 'x')\n", "g(dst=t, src=u, name='x')", "g(dst=t,  src=u, name='x')\n"),
    ("g(1e-6, **k)\n", "g(1e-06, 2, **k)", "g(1e-6, 2, **k)\n"),
    # a comment in the statement
    ("f(\n    a,  # first\n    b=1,\n)\n", "f(a, b=2)", "f(\n    a,  # first\n    b=2,\n)\n"),
    (
        "f(\n    a=t,\n    b=u,  # u\n    op=m,  # m\n)\n",
        "f(a=t, op0=m, operand=u)",
        "f(\n    a=t,\n    operand=u,  # u\n    op0=m,  # m\n)\n",
    ),
    # a name, an operator, an index, a quotient in a product
    ("x = m.f(  a  )\n", "x = n.f(a)", "x = n.f(  a  )\n"),
    ("x = m.f(  a  )\n", "x = m.g(a)", "x = m.g(  a  )\n"),
    ("x = (a)  /  b\n", "x = a // b", "x = (a)  //  b\n"),
    ("x = t[ :, 0:9 ]\n", "x = t[:, 0:4]", "x = t[ :, 0:4 ]\n"),
    ("x = a * b\n", "x = a * (b + c)", "x = a * (b + c)\n"),
    ("x = (a - 1) * b\n", "x = (a + c) * b", "x = (a + c) * b\n"),
    # parts whose edits alone would give another program: all of the statement is replaced
    ("x = a[0 , 1]\n", "x = (a + b)[0, 1]", "x = (a + b)[0, 1]\n"),
    ("f((a) , b)\n", "f(b)", "f(b)\n"),
    # statements around, and another one instead
    ("f( a )  # why\n", "b = g(a)\nf(b)\nh(b)", "b = g(a)\nf( b )  # why\nh(b)\n"),
    ("t += u  # why\n", "f(dst=t, data=u)", "f(dst=t, data=u)  # why\n"),
    ("f(a)", "f(a)\ng(a)", "f(a)\ng(a)"),
    ("f(a)\r\n", "b = 1\nf(b)", "b = 1\r\nf(b)\r\n"),
    ("x = f('é', a)\n", "x = f('é', b)", "x = f('é', b)\n"),
    ('x = f(f"{a}é", b)\n', 'x = f(f"{a}é", c)', 'x = f(f"{a}é", c)\n'),
]


@each_case("text, code, after", CHANGES)
def test_only_the_changed_part_is_replaced(text, code, after):
    assert pasted(text, code) == after


def test_statements_in_a_block_keep_its_indentation():
    text = "def k():\n\tif x:\n\t\tf( a )  # why\n\treturn b\n"
    code = "\t\tc = g(a)\n\t\tf(c)"
    assert pasted(text, code, 3, 3) == (
        "def k():\n\tif x:\n\t\tc = g(a)\n\t\tf( c )  # why\n\treturn b\n"
    )


def test_the_head_of_a_loop_is_replaced_alone():
    text = "for i, n in enumerate(p):  # all\n    # each\n    f( i )\n"
    code = "for i in range(len(p)):\n    n = p[i]"
    assert pasted(text, code, 1, 2) == (
        "for i in range(len(p)):  # all\n    # each\n    n = p[i]\n    f( i )\n"
    )
    assert pasted("for i in range( a / 2 ):\n    f(i)\n", "for i in range(a // 2):", 1, 1) == (
        "for i in range( a // 2 ):\n    f(i)\n"
    )


def test_statements_in_a_new_loop_keep_their_comments():
    text = "def k():\n    t = f(a)  # one\n\n    # two\n    g(\n        t,  # three\n    )\n"
    code = "    for i in n:\n        j = i + 1\n        t = f(a[i:j])\n        g(t)"
    assert pasted(text, code, 2, 7) == (
        "def k():\n    for i in n:\n        j = i + 1\n        t = f(a[i:j])  # one\n\n"
        "        # two\n        g(\n            t,  # three\n        )\n"
    )
    string = "def k():\n    f('''\n    x''', a)  # one\n"
    assert pasted(string, "    for i in n:\n        f('\\n    x', a)", 2, 3) == (
        "def k():\n    for i in n:\n        f('\\n    x', a)  # one\n"
    )


@each_case(
    "text, code, first, last, reason",
    [
        ("t += (  # sum\n    u)\n", "f(t, u)", 1, 2, "a comment in the statement would be lost"),
        ("a = 1\n# note\nb = 2\n", "c = 3", 1, 3, "a comment in the statement would be lost"),
        ("f(\n    a,\n    b=1,  # why\n    c=2)\n", "f(a, c=2)", 1, 4, "a comment in the statem"),
        ("f(a,\n  b)\n", "b)", 2, 2, "not whole statements"),
        ("a = 1\n", "a = (", 1, 1, "would not be valid Python"),
        ("a = (\n", "a = 1", 1, 1, "the file is not valid Python"),
    ],
)
def test_what_is_refused(text, code, first, last, reason):
    with pytest.raises(NotPastedError, match=reason):
        pasted(text, code, first, last)


POOL = [
    "f(a, b, c=d)",
    "f(a, c=d, e=1)",
    "g(dst=a, src=b)",
    "x = f(a)[0:n, :]",
    "x = a + b * c",
    "x = (a, b, *c)",
    "x += m.f(a, **k)",
    "return x if a else f(b)",
    "y: int = -a ** b",
    "x = [f(i) for i in a if b]",
]


@each_case("old, new", list(itertools.permutations(POOL, 2)))
def test_any_statement_becomes_any_other(old, new):
    """The result has the tree of the new statement, and keeps the comment behind the old one."""
    after = pasted(f"def k():\n    {old}  # kept\n", f"    {new}", 2, 2)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(f"def k():\n    {new}\n"))
    assert after.endswith("  # kept\n")


def test_code_to_paste_can_keep_the_comments():
    text = "def k():\n    f(\n        a,  # first\n        b=1,\n    )\n"
    found = code_with_comments(text, Rewrite("k.py", 2, 5, "    f(a, b=2)"))
    assert found.code == "    f(\n        a,  # first\n        b=2,\n    )"
    assert code_with_comments(text, Rewrite("k.py", 2, 5, "    t = 1")) is None
