"""Random kernels that are right, changes that break one rule, and changes that break none.

A kernel is a list of steps: tiles are made, loaded, combined and stored, and every tile is used. A
mutation returns the steps of another kernel; ``HARMFUL`` ones come with the rules of which one must
be found, after ``HARMLESS`` ones nothing is found and the result is the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def fuzzed(x, b):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
"""
UNARY = {"exp": np.exp, "tanh": np.tanh, "sigmoid": lambda v: 1 / (1 + np.exp(-v))}
BINARY = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "subtract": np.subtract}


@dataclass(frozen=True)
class Step:
    """One or more lines of a kernel.

    Attributes:
        kind: ``make``, ``load``, ``unary``, ``binary``, ``scalar``, ``store`` or ``other``.
        text: The lines.
        tile: The tile that it makes or writes.
        parts: What the lines are made of.
    """

    kind: str
    text: str
    tile: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """The steps of a kernel, its arguments and its result."""

    steps: tuple[Step, ...]
    inputs: tuple[np.ndarray, ...]
    wanted: np.ndarray

    @property
    def text(self) -> str:
        lines = [line for step in self.steps for line in step.text.splitlines()]
        return HEAD + "".join(f"    {line}\n" for line in lines) + "    return out\n"

    def with_step(self, at: int, *steps: Step) -> Kernel:
        return replace(self, steps=(*self.steps[:at], *steps, *self.steps[at + 1 :]))

    def places(self, *kinds: str) -> list[int]:
        return [i for i, step in enumerate(self.steps) if step.kind in kinds]


def make(tile: str, shape: str = "x.shape") -> Step:
    text = f"{tile} = nl.ndarray({shape}, dtype=x.dtype, buffer=nl.sbuf)"
    return Step("make", text, tile, (shape,))


def load(tile: str, argument: str) -> Step:
    return Step("load", f"nisa.dma_copy(dst={tile}, src={argument})", tile, (argument,))


def unary(tile: str, op: str, data: str) -> Step:
    text = f"nisa.activation(dst={tile}, op=nl.{op}, data={data})"
    return Step("unary", text, tile, (op, data))


def binary(tile: str, op: str, first: str, second: str) -> Step:
    text = f"nisa.tensor_tensor(dst={tile}, data1={first}, data2={second}, op=nl.{op})"
    return Step("binary", text, tile, (op, first, second))


def scalar(tile: str, op: str, data: str, operand: str) -> Step:
    text = f"nisa.tensor_scalar(dst={tile}, data={data}, op0=nl.{op}, operand0={operand})"
    return Step("scalar", text, tile, (op, data, operand))


def random_kernel(rng: random.Random) -> Kernel:
    """Return a kernel that is right, with what it computes."""
    rows, cols = rng.randint(1, 128), rng.randint(8, 96)
    values = np.random.default_rng(rng.randint(0, 2**31))
    x = values.uniform(-1, 1, (rows, cols)).astype(np.float32)
    b = values.uniform(-1, 1, (rows, 1)).astype(np.float32)
    steps = [make("t0"), load("t0", "x"), make("col", "b.shape"), load("col", "b")]
    steps += [make("t1"), scalar("t1", "add", "t0", "col")]
    known = {"t0": x, "t1": x + b}
    last = "t1"
    for number in range(2, 2 + rng.randint(1, 5)):
        tile = f"t{number}"
        steps.append(make(tile))
        kind = rng.choice(["unary", "binary", "scalar"])
        if kind == "unary":
            op = rng.choice(list(UNARY))
            steps.append(unary(tile, op, last))
            known[tile] = UNARY[op](known[last])
        elif kind == "binary":
            op, other = rng.choice(list(BINARY)), rng.choice(list(known))
            steps.append(binary(tile, op, last, other))
            known[tile] = BINARY[op](known[last], known[other])
        else:
            op, number_given = rng.choice(["add", "multiply"]), round(rng.uniform(-2, 2), 3)
            steps.append(scalar(tile, op, last, str(number_given)))
            known[tile] = BINARY[op](known[last], np.float32(number_given))
        # So that nothing overflows, however long the chain is.
        steps.append(unary(tile, "tanh", tile))
        known[tile] = np.tanh(known[tile])
        last = tile
    steps.append(Step("store", f"nisa.dma_copy(dst=out, src={last})", "out", (last,)))
    return Kernel(tuple(steps), (x, b), known[last])


# -- changes that break a rule ---------------------------------------------------------------------


def lost_load(kernel, rng):
    at = rng.choice(kernel.places("load"))
    return kernel.with_step(at), {"M001"}


def short_load(kernel, rng):
    at = kernel.places("load")[0]
    text = "nisa.dma_copy(dst=t0[:, 0:5], src=x[:, 0:5])"
    return kernel.with_step(at, Step("load", text, "t0")), {"M001"}


def past_the_end(kernel, rng):
    at = rng.choice(kernel.places("load"))
    tile, argument = kernel.steps[at].tile, kernel.steps[at].parts[0]
    end = kernel.inputs[0].shape[1] + rng.randint(1, 9)
    text = f"nisa.dma_copy(dst={tile}[:, 0:{end}], src={argument}[:, 0:{end}])"
    return kernel.with_step(at, Step("load", text, tile)), {"S009"}


def column_as_tile(kernel, rng):
    at = kernel.places("scalar")[0]
    return kernel.with_step(at, binary("t1", "add", "t0", "col")), {"S007"}


def wrong_memory(kernel, rng):
    at = rng.choice([i for i in kernel.places("make") if kernel.steps[i].tile not in ("col",)])
    step = kernel.steps[at]
    text = step.text.replace("nl.sbuf", "nl.shared_hbm")
    return kernel.with_step(at, replace(step, text=text)), {"M021", "S058", "M024"}


def too_many_rows(kernel, rng):
    at = rng.choice(kernel.places("make"))
    step = kernel.steps[at]
    rows = 128 + rng.randint(1, 200)
    text = step.text.replace(step.parts[0], f"({rows}, {step.parts[0]}[1])")
    return kernel.with_step(at, replace(step, text=text)), {"S001"}


def one_dimension(kernel, rng):
    at = rng.choice(kernel.places("make"))
    step = kernel.steps[at]
    text = step.text.replace(step.parts[0], f"({step.parts[0]}[1],)")
    return kernel.with_step(at, replace(step, text=text)), {"S002"}


def other_keyword(kernel, rng):
    at = rng.choice(kernel.places("unary", "binary", "scalar"))
    step = kernel.steps[at]
    name = rng.choice(["out", "output", "destination", "dts"])
    return kernel.with_step(at, replace(step, text=step.text.replace("dst=", f"{name}="))), {"A025"}


def operator(kernel, rng):
    at = rng.choice(kernel.places("scalar"))
    _, data, _ = kernel.steps[at].parts
    tile = kernel.steps[at].tile
    return kernel.with_step(at, Step("other", f"{tile} = {data} + {data}", tile)), {"L027"}


def invented_name(kernel, rng):
    at = rng.choice(kernel.places("unary"))
    op, data = kernel.steps[at].parts
    tile = kernel.steps[at].tile
    return kernel.with_step(at, Step("other", f"nisa.{op}({tile}, {data})", tile)), {"A025"}


def no_store(kernel, rng):
    return kernel.with_step(kernel.places("store")[0]), {"M006", "M007", "M002", "L060", "M003"}


def comprehension(kernel, rng):
    step = Step("other", "widths = [n * 2 for n in (1, 2)]")
    at = rng.randrange(len(kernel.steps))
    return kernel.with_step(at, step, kernel.steps[at]), {"L006"}


def handler(kernel, rng):
    at = rng.choice(kernel.places("unary", "binary", "scalar", "load"))
    step = kernel.steps[at]
    text = f"try:\n    {step.text}\nexcept ValueError:\n    pass"
    return kernel.with_step(at, replace(step, text=text)), {"L007"}


# -- changes that break none -----------------------------------------------------------------------


def renamed(kernel, rng):
    old = rng.choice(["t0", "t1", "col"])
    steps = [
        replace(s, text=s.text.replace(f"{old} ", "weights ").replace(f"={old}", "=weights"))
        for s in kernel.steps
    ]
    return replace(kernel, steps=tuple(steps))


def positional(kernel, rng):
    at = rng.choice(kernel.places("unary", "binary", "scalar", "load"))
    step = kernel.steps[at]
    text = step.text.replace("dst=", "", 1)
    text = text.replace("data1=", "").replace("data2=", "").replace("src=", "")
    if step.kind == "unary":
        text = text.replace("op=", "").replace("data=", "")
    return kernel.with_step(at, replace(step, text=text))


def halves(kernel, rng):
    middle = rng.randint(1, kernel.inputs[0].shape[1] - 1)
    text = (
        f"nisa.dma_copy(dst=t0[:, 0:{middle}], src=x[:, 0:{middle}])\n"
        f"nisa.dma_copy(dst=t0[:, {middle} : x.shape[1]], src=x[:, {middle} : x.shape[1]])"
    )
    return kernel.with_step(kernel.places("load")[0], Step("load", text, "t0", ("x",)))


def named_tile(kernel, rng):
    at = rng.choice(kernel.places("make"))
    step = kernel.steps[at]
    return kernel.with_step(at, replace(step, text=step.text[:-1] + f', name="{step.tile}_tile")'))


def on_an_engine(kernel, rng):
    at = rng.choice(kernel.places("scalar"))
    step = kernel.steps[at]
    return kernel.with_step(at, replace(step, text=step.text[:-1] + ", engine=nisa.engine.vector)"))


def one_turn(kernel, rng):
    at = rng.choice(kernel.places("unary", "binary", "scalar"))
    step = kernel.steps[at]
    text = f"for turn in range(1):\n    {step.text}"
    return kernel.with_step(at, replace(step, text=text))


def arithmetic(kernel, rng):
    at = rng.randrange(len(kernel.steps))
    text = "half = (x.shape[1] + 1) // 2\nassert half > 0"
    return kernel.with_step(at, Step("other", text), kernel.steps[at])


def short_load_call(kernel, rng):
    made, loaded = kernel.places("make")[0], kernel.places("load")[0]
    without = kernel.with_step(loaded, Step("other", "t0 = nl.load(x)", "t0"))
    return without.with_step(made)


def several_lines(kernel, rng):
    at = rng.choice(kernel.places("unary", "binary", "scalar", "load"))
    step = kernel.steps[at]
    inside = step.text[step.text.index("(") + 1 : -1].split(", ")
    head = step.text[: step.text.index("(") + 1]
    text = "\n".join([head, *(f"    {part}," for part in inside), ")"])
    return kernel.with_step(at, replace(step, text=text))


HARMFUL = (
    lost_load,
    short_load,
    past_the_end,
    column_as_tile,
    wrong_memory,
    too_many_rows,
    one_dimension,
    other_keyword,
    operator,
    invented_name,
    no_store,
    comprehension,
    handler,
)
HARMLESS = (
    renamed,
    positional,
    halves,
    named_tile,
    on_an_engine,
    one_turn,
    arithmetic,
    short_load_call,
    several_lines,
)
