"""P010: steps that one ``activation`` does with its scale, its bias and its sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nkisim.diagnostics import declare_advice
from nkisim.profiling.advice.candidate import Candidate, Found, Line, line_of
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.steps import Term
from nkisim.rewriting import Edit, before, removed, replaced, with_arguments
from nkisim.source import Statement

ONE_ACTIVATION = declare_advice(
    "P010",
    "steps-of-one-activation",
    "Scaling, adding a bias, a function and a sum are separate instructions on one tile.",
    "one activation does all of them while it reads the tile once",
)

_MOST_AFFINE = 2
_MOST_ROUNDINGS = 8
"""Roundings by which an output may change, in units of the coarsest of those that disappear."""


class _Chain(NamedTuple):
    """Successive instructions on one tile that a single ``activation`` can replace.

    Attributes:
        affine: The ``tensor_scalar`` instructions that become scale and bias.
        core: The ``activation``, or the ``tensor_tensor`` that squares the tile.
        sum: The ``tensor_reduce`` that sums the results of ``core``, if there is one.
    """

    affine: tuple[Operation, ...]
    core: Operation
    sum: Operation | None

    @property
    def steps(self) -> tuple[Operation, ...]:
        return (*self.affine, self.core, *(() if self.sum is None else (self.sum,)))

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(line_of(o) for o in self.steps)


class _Folded(NamedTuple):
    """Scale and bias of an ``activation`` that replace affine steps.

    Attributes:
        scale, bias: Index of the affine step that has the operand, and its term.
        negated: Whether the bias is subtracted.
        scaled: Whether the bias is added before the scaling.
    """

    scale: tuple[int, Term] | None = None
    bias: tuple[int, Term] | None = None
    negated: bool = False
    scaled: bool = False


def activation_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on chains of steps."""
    groups: dict[tuple[Line, ...], list[_Chain]] = {}
    for chain in _chains(found.program):
        groups.setdefault(chain.lines, []).append(chain)
    for lines, chains in groups.items():
        folded = _folded(chains[0].affine)
        steps = [[o.step for o in (*chain.affine, chain.core)] for chain in chains]
        equal = all(those == steps[0] for those in steps)
        # The lines run no other instructions.
        whole = all(len(found.by_line[line]) == len(chains) for line in lines)
        if folded is not None and equal and whole:
            yield _candidate(found, chains, folded)


def _chains(program: Program) -> Iterator[_Chain]:
    operations = program.operations
    cores = [o for o in operations if o.step is not None and o.step.kind in ("function", "square")]
    if not cores:
        return
    sums = {o.fed_by: o for o in operations if o.step is not None and o.step.kind == "sum"}
    readers: Counter[int] = Counter()
    replaced: dict[int, int] = {}  # by operation, the next one that overwrites what it read
    for o in operations:
        readers.update(o.needs[: len(o.needs) - len(o.reuses)])
        for number in o.reuses:
            replaced.setdefault(number, o.number)
    for core in cores:
        step = core.step
        affine: list[Operation] = []
        assert step is not None
        before = core.fed_by
        while step.plain and before >= 0 and len(affine) < _MOST_AFFINE:
            feeder = operations[before]
            wanted = feeder.step is not None and feeder.step.kind == "affine"
            if not wanted or readers[before] != 1 or feeder.core != core.core:
                break
            if replaced.get(before, core.number) < core.number:  # its operands are gone by then
                break
            affine.insert(0, feeder)
            before = feeder.fed_by
        while _folded(affine) is None:  # no steps at all are folded
            del affine[0]
        total = None if step.reduces else sums.get(core.number)
        if total is not None and any(number > core.number for number in total.reuses):
            total = None  # what it overwrites is still read after the function
        if affine or total is not None:
            yield _Chain(tuple(affine), core, total)


def _folded(affine: Sequence[Operation]) -> _Folded | None:
    """Return the scale and bias that replace affine steps; None if no activation computes them."""
    terms = [(i, t) for i, o in enumerate(affine) if o.step is not None for t in o.step.terms]
    scales = [place for place in terms if place[1].operator == "multiply"]
    biases = [place for place in terms if place[1].operator != "multiply"]
    if len(scales) > 1 or len(biases) > 1:
        return None
    scale, bias = (next(iter(places), None) for places in (scales, biases))
    scaled = scale is not None and terms[0] is bias
    if scaled and scale is not None and scale[1].number is None:
        return None
    return _Folded(scale, bias, bias is not None and bias[1].operator == "subtract", scaled)


def _candidate(found: Found, chains: list[_Chain], folded: _Folded) -> Candidate:
    first = chains[0]
    steps = first.steps
    names = [o.name for o in steps]
    parts = {"scale": folded.scale, "bias": folded.bias, "the sum": first.sum}
    used = [name for name, part in parts.items() if part is not None]
    cases = {o.number: found.statement(line_of(o), o.name) for o in steps}
    known = {number: case for number, case in cases.items() if case is not None}
    together = len(known) == len(cases) and len({id(c.block) for c in known.values()}) == 1
    unit, rounding = _rounding(found, first)
    return Candidate(
        rule=ONE_ACTIVATION,
        title="steps of one activation",
        cause=f"{', '.join(names[:-1])} and {names[-1]} follow each other on one tile, "
        f"{len(chains)} times",
        action=f"let one activation do them, with {' and '.join(used)}",
        line=line_of(first.core),
        lines=first.lines,
        edits=list(_edits(found, first, folded, known)) if together else (),
        rounding=rounding,
        most_change=_MOST_ROUNDINGS * unit,
        values={"steps": names, "times": len(chains), "lines": [line for _, line in first.lines]},
    )


def _rounding(found: Found, chain: _Chain) -> tuple[float, str]:
    """Return the largest rounding that one activation leaves out, and its description."""
    examples = [found.program.examples.get(line_of(o), {}) for o in chain.steps[:-1]]
    dtypes = [event.arguments["dst"].dtype for events in examples for event in events.values()]
    steps = {float(np.spacing(np.ones((), dtype.numpy))): dtype for dtype in dtypes}
    return max(steps), f"the rounding of a step to {steps[max(steps)]}"


def _edits(
    found: Found, chain: _Chain, folded: _Folded, cases: dict[int, Statement]
) -> Iterator[Edit]:
    """Yield the edits that put one ``activation`` in place of a chain.

    If the bias is a column that has to be computed, its tile and instruction go in front of it.
    """
    core = chain.core
    case = cases[core.number]
    assert core.step is not None
    tree, nl = case.tree, case.nl
    texts: dict[str, str] = {}

    def argument(operation: Operation, name: str) -> str:
        return cases[operation.number].text(name)

    if chain.affine:
        texts["data"] = argument(chain.affine[0], "data")
    if folded.scale is not None:
        texts["scale"] = argument(chain.affine[folded.scale[0]], folded.scale[1].argument)
    if folded.bias is not None:
        bias = argument(chain.affine[folded.bias[0]], folded.bias[1].argument)
        factor = f"({texts['scale']})" if folded.scaled else "1.0"
        factor = f"-{factor}" if folded.negated else factor
        changed = folded.negated or folded.scaled
        if changed and folded.bias[1].number is None:
            name = found.fresh("bias_column")
            product = {"op0": f"{nl}.multiply", "operand0": factor}
            column = [
                case.tile(name, bias, dtype=f"{nl}.float32"),
                case.isa("tensor_scalar", dst=name, data=bias, **product),
            ]
            yield before(tree, case.statement, column)
            bias = name
        elif changed:
            bias = f"{factor} * ({bias})"
        texts["bias"] = bias
    if chain.sum is not None:
        texts["reduce_op"] = f"{nl}.add"
        texts["reduce_res"] = argument(chain.sum, "dst")
        texts["reduce_cmd"] = f"{case.nisa}.reduce_cmd.reset_reduce"
    if core.step.kind == "function" and core.name == "activation":
        yield from with_arguments(case, texts)
    else:
        dst, data = argument(core, "dst"), argument(core, core.step.reads)
        texts = {"dst": dst, "op": f"{nl}.square", "data": data} | texts
        yield replaced(tree, case.statement, [case.isa("activation", **texts)])
    for o in chain.steps:
        if o is not core:
            yield removed(tree, cases[o.number].statement)
