"""Effects of statements: which pairs must keep their order, by the definition of a dependence."""

import ast

import pytest

from nkisim.profiling.advice.effects import Effects
from nkisim.source import File

HEAD = """
def kernel(x, y, function):
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    view = a[:, 0:32]
    tiles = []
    tiles.append(b)
"""
PATHS = {"nl": "nki.language", "nisa": "nki.isa"}


def path(node):
    """The full name of a dotted name of the kernel."""
    if isinstance(node, ast.Attribute):
        return f"{path(node.value)}.{node.attr}"
    return PATHS.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def effects_of(*statements):
    text = HEAD + "".join(f"    {statement}\n" for statement in statements)
    tree = File("kernel.py", text)
    function = tree.functions[0]
    effects = Effects(tree, function, path)
    return [effects.of(statement) for statement in function.body[-len(statements) :]]


LOAD_A = "nisa.dma_copy(dst=a, src=x)"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LOAD_A, "nisa.tensor_copy(dst=b, src=a)"),
        (LOAD_A, "nisa.dma_copy(dst=x, src=b)"),
        (LOAD_A, "nisa.memset(dst=view, value=0.0)"),
        (LOAD_A, "nisa.dma_copy(dst=a, src=y)"),
        (LOAD_A, "helper(a)"),
        (LOAD_A, "a = b"),
        ("nisa.dma_copy(dst=b, src=x)", "nisa.memset(dst=tiles[0], value=0.0)"),
        ("row = 0", "row += 1"),
    ],
)
def test_dependent_statements_conflict(first, second):
    a, b = effects_of(first, second)
    assert a.conflicts(b)
    assert b.conflicts(a)


@pytest.mark.parametrize(
    "second",
    [
        "nisa.dma_copy(dst=b, src=x)",
        "nisa.activation(dst=b, op=nl.exp, data=b)",
        "c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)",
        "rows = slice(0, y.shape[0])",
    ],
)
def test_independent_statements_do_not_conflict(second):
    a, b = effects_of(LOAD_A, second)
    assert not a.conflicts(b)
    assert not b.conflicts(a)


@pytest.mark.parametrize(
    "statement",
    [
        "function(a)",
        "nisa.core_barrier(data=x, cores=(0, 1))",
        "nisa.rng(dst=a)",
        "nisa.activation(dst=a, op=nl.exp, data=b, reduce_cmd=nisa.reduce_cmd.reduce)",
        "return a",
    ],
)
def test_effects_on_other_state_are_not_certain(statement):
    assert effects_of(statement) == [None]
