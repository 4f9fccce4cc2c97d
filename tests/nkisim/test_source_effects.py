"""Effects of statements: which pairs must keep their order, by the definition of a dependence."""

import ast

import pytest

import nkisim.isa  # noqa: F401 (declares the instructions)
from nkisim.source import Effects, File, FileGlobals, written_operands
from nkisim.spec import INSTRUCTIONS

HEAD = """
import nki.isa as nisa
import nki.language as nl


def kernel(x, y, function):
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    view = a[:, 0:32]
    tiles = []
    tiles.append(b)
"""


def effects_of(*statements):
    tree = File("kernel.py", HEAD + "".join(f"    {statement}\n" for statement in statements))
    function = tree.functions[0]
    effects = Effects(FileGlobals(tree), function)
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


def call_of(instruction):
    """A call of an instruction with a name for each of its operands."""
    given = ", ".join(f"{name}={name}" for name in instruction.operands)
    return f"nisa.{instruction.name}({given})"


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_the_operands_that_an_instruction_writes_are_those_that_it_declares(name):
    instruction = INSTRUCTIONS[name]
    call = ast.parse(call_of(instruction), mode="eval").body
    declared = {n for n, operand in instruction.operands.items() if operand.writes}
    assert {one.id for one in written_operands(call, f"nki.isa.{name}")} == declared


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_an_instruction_with_state_of_its_core_has_no_certain_effects(name):
    instruction = INSTRUCTIONS[name]
    # A sum of the core begins anew without a command, and a product adds to its own operand.
    begins = "reduce_cmd" in instruction.signature.parameters or name.startswith("nc_")
    (effect,) = effects_of(call_of(instruction))
    assert (effect is None) == (instruction.stateful and not begins)
    if begins and not name.startswith("nc_"):
        given = call_of(instruction)[:-1] + ", reduce_cmd=nisa.reduce_cmd.reduce)"
        assert effects_of(given) == [None]
