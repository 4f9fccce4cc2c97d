"""Random functions with device loops do the same before and after their bodies become functions.

The functions run in plain Python, with stand-ins for NKI: a register holds a number, and the loops
of 0.6.0 call their body as the documentation describes, with a register passed by value.
"""

import textwrap
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from upgraded import upgrade_text

HEAD = "import nki.isa as nisa\nimport nki.language as nl\n\n\n"
NAMES = ("a", "b", "c", "i", "j")


class Register:
    def __init__(self, value=0):
        self.value = value

    def __bool__(self):
        return self.value != 0


def fori_loop(lower, upper, body, step=1):
    for value in range(lower, upper, step):
        assert body(value) is None


def while_loop(init, body):
    register = Register(init.value)
    while register:
        register = body(register)


def load(register, value):
    register.value = value


LANGUAGE = SimpleNamespace(dynamic_range=range, fori_loop=fori_loop, while_loop=while_loop)
ISA = SimpleNamespace(register_alloc=Register, register_load=load)


def indented(lines):
    return textwrap.indent("\n".join(lines), "    ").splitlines()


@st.composite
def blocks(draw, known=frozenset(), depth=0):
    """Return the lines of a block of one to four statements.

    ``known`` are the names that have a value. Most statements read one of those; some read any
    name, also one that only the body of an earlier loop assigned.
    """
    lines, assigned = [], set(known)
    for _ in range(draw(st.integers(1, 4))):
        lines += draw(statements(assigned, depth))
    return lines


@st.composite
def statements(draw, known, depth):
    """Return the lines of one statement; add the names that it assigns in any case to ``known``."""
    readable = sorted(known - {"r"}) or ["0"]
    read = draw(st.sampled_from(readable if draw(st.integers(0, 9)) else NAMES))
    kind = draw(st.sampled_from(["new", "use", "for", "for", "while", "range", "if", "register"]))
    name = draw(st.sampled_from(NAMES))
    if kind == "new":
        known.add(name)
        return [f"{name} = new({read})"]
    if kind == "register":
        known.add("r")
        return ["r = nisa.register_alloc(2)"]
    if kind == "use" or depth == 3 or (kind == "while" and "r" not in known):
        return [f"use({read})"]
    inner = known | {name} if kind in ("for", "range") else known
    body = indented(draw(blocks(frozenset(inner), depth + 1)))
    bounds = draw(st.sampled_from(["2", "1, 4, 2", "0, 3"]))
    if kind == "for":
        return [f"for {name} in nl.dynamic_range({bounds}):", *body]
    if kind == "range":
        return [f"for {name} in range(2):", *body]
    if kind == "while":
        return ["while r:", *body, "    nisa.register_load(r, tick())"]
    return [f"if tick() > {draw(st.integers(0, 6))}:", *body]


def result(text):
    """Run the function and return all that it did, or None if a name had no value."""
    log, ticks = [], iter(range(40, -1, -1))

    def shown(value):
        return ("register", value.value) if isinstance(value, Register) else value

    def new(value):
        log.append(("new", shown(value)))
        return len(log)

    # A register counts down from 6 to 0 over and over, so that every loop ends.
    given = {
        "nl": LANGUAGE,
        "nisa": ISA,
        "new": new,
        "use": lambda *values: log.append(tuple(map(shown, values))),
        "tick": lambda: next(ticks) % 7,
    }
    try:
        exec(compile(text.removeprefix(HEAD), "f", "exec"), given)
        given["f"]()
    except (NameError, TypeError, AttributeError, StopIteration, RuntimeError):
        return None  # the function is wrong already: a name without a value, a number as register
    return log


@given(body=blocks(frozenset("r")))
def test_a_loop_does_the_same_as_a_function(body):
    start = ["def f():", "    r = nisa.register_alloc(2)"]
    before = HEAD + "\n".join([*start, *indented(body)]) + "\n"
    outcome = upgrade_text(before, "0.5", "0.6.0")
    assert outcome.problem == ""
    expected = result(before)
    if expected is not None:
        assert result(outcome.after) == expected, outcome.after
