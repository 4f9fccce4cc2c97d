"""P010: steps that one ``activation`` does with its scale, its bias and its sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from nkisim.arch.timing import Timing, timing_of
from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line, with_operations
from nkisim.profiling.advice.code import statement_of, with_arguments
from nkisim.profiling.costs import Work, work_of
from nkisim.profiling.program import Operation, Program
from nkisim.profiling.result import Advice
from nkisim.profiling.steps import Term
from nkisim.spec.enums import engine as Engine
from nkisim.spec.ops import OPS

__all__ = ["activation_advice"]

ONE_ACTIVATION = declare(
    "P010",
    "steps-of-one-activation",
    "note",
    "Scaling, adding a bias, a function and a sum are separate instructions on one tile.",
    "one activation does all of them while it reads the tile once",
    advice=True,
)

_MOST_AFFINE = 2


class _Chain(NamedTuple):
    """Steps on one tile, in order.

    Attributes:
        affine: Steps that become scale and bias.
        core: The function, or the square.
        sum: The sum of its results, if there is one.
    """

    affine: tuple[Operation, ...]
    core: Operation
    sum: Operation | None

    @property
    def lines(self) -> tuple[Line, ...]:
        steps = (*self.affine, self.core, *(() if self.sum is None else (self.sum,)))
        return tuple((o.place.file, o.place.line) for o in steps)


class _Folded(NamedTuple):
    """Scale and bias that do what affine steps do, as terms with the step that they come from.

    Attributes:
        scale, bias: Index of the step, and the term.
        negated: Whether the bias is subtracted.
        scaled: Whether the bias is added before the scaling.
    """

    scale: tuple[int, Term] | None = None
    bias: tuple[int, Term] | None = None
    negated: bool = False
    scaled: bool = False

    @property
    def needs_a_column(self) -> bool:
        """Whether the bias is a column that has to be computed first."""
        column = self.bias is not None and self.bias[1].number is None
        return column and (self.negated or self.scaled)


def activation_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on chains of steps."""
    groups: dict[tuple[Line, ...], list[_Chain]] = {}
    for chain in _chains(found.program):
        groups.setdefault(chain.lines, []).append(chain)
    for lines, chains in groups.items():
        terms = [(i, term) for i, o in enumerate(chains[0].affine) for term in _terms(o)]
        folded = _folded(terms, found.program.generation.number)
        if folded is not None and _is_all(found, lines, chains):
            yield _candidate(found, lines, chains, folded)


def _is_all(found: Found, lines: tuple[Line, ...], chains: list[_Chain]) -> bool:
    """Return whether the lines do nothing else, equally each time, and are in one block."""
    if any(len(found.by_line[line]) != len(chains) for line in lines):
        return False
    first = [o.step for o in (*chains[0].affine, chains[0].core)]
    if any([o.step for o in (*chain.affine, chain.core)] != first for chain in chains):
        return False
    names = [found.by_line[line][0].name for line in lines]
    cases = [statement_of(ONE_ACTIVATION, *pair) for pair in zip(lines, names, strict=True)]
    return None not in cases and len({id(case.block) for case in cases if case is not None}) == 1


def _terms(operation: Operation) -> tuple[Term, ...]:
    return () if operation.step is None else operation.step.terms


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
        if _folded([(0, t) for o in affine for t in _terms(o)], program.generation.number) is None:
            affine = affine[-1:]
        total = None if step.reduces else sums.get(core.number)
        if total is not None and any(number > core.number for number in total.reuses):
            total = None  # what it overwrites is still read after the function
        if affine or total is not None:
            yield _Chain(tuple(affine), core, total)


def _folded(terms: list[tuple[int, Term]], generation: int) -> _Folded | None:
    """Return scale and bias in place of operators in a row; None where an activation cannot."""
    kinds = ["scale" if term.operator == "multiply" else "bias" for _, term in terms]
    if not terms:
        return _Folded()
    if kinds == ["scale"]:
        return _Folded(scale=terms[0])
    last = terms[-1]
    if kinds == ["bias"]:
        folded = _Folded(bias=last)
    elif kinds == ["scale", "bias"]:
        folded = _Folded(terms[0], last)
    elif kinds == ["bias", "scale"] and last[1].number is not None:
        folded = _Folded(last, terms[0], scaled=True)
    else:
        return None
    assert folded.bias is not None
    term = folded.bias[1]
    if generation == 2 and term.number is not None:  # gen2 takes a tile only
        return None
    return folded._replace(negated=term.operator == "subtract")


def _candidate(
    found: Found, lines: tuple[Line, ...], chains: list[_Chain], folded: _Folded
) -> Candidate:
    program, first = found.program, chains[0]
    timing = timing_of(program.generation)
    changed: dict[int, Operation] = {}
    for chain in chains:
        for o in (*chain.affine, *(() if chain.sum is None else (chain.sum,))):
            changed[o.number] = replace(o, work=Work(Engine.scalar, 0.0, 0.0))
        if folded.needs_a_column:
            o = chain.affine[-1]
            changed[o.number] = replace(o, work=_column_work(timing))
        changed[chain.core.number] = replace(chain.core, work=_core_work(program, chain, timing))
    names = [o.name for o in (*first.affine, first.core)]
    names += [] if first.sum is None else [first.sum.name]
    parts = [] if not first.affine else ["scale" if folded.bias is None else "bias"]
    if folded.scale is not None and folded.bias is not None:
        parts = ["scale and bias"]
    parts += [] if first.sum is None else ["the sum"]
    place = first.core.place
    return Candidate(
        Advice(
            ONE_ACTIVATION.id,
            "steps of one activation",
            f"{', '.join(names[:-1])} and {names[-1]} follow each other on one tile, "
            f"{len(chains)} times",
            f"let one activation do them, with {' and '.join(parts)}",
            None,
            place.file,
            place.line,
            _code(first, folded),
            {"steps": names, "times": len(chains), "lines": [line for _, line in lines]},
        ),
        with_operations(changed),
        frozenset(lines),
    )


def _column_work(timing: Timing) -> Work:
    """Return the cost of a ``tensor_scalar`` of one column."""
    issue = timing.vector_issue_cycles / timing.vector_ghz
    busy = timing.least_cycles / timing.vector_ghz + issue
    return Work(Engine.vector, busy, timing.vector_tail - issue)


def _core_work(program: Program, chain: _Chain, timing: Timing) -> Work:
    """Return the cost of the activation, with the sum if there is one."""
    work, step = chain.core.work, chain.core.step
    assert step is not None
    if step.kind == "square":
        events = program.examples[chain.core.place.file, chain.core.place.line]
        event = next(iter(events.values()))
        arguments = {"data": event.arguments["data1"], "op": OPS["square"]}
        square = replace(event, instruction="activation", engine=Engine.scalar, arguments=arguments)
        work = work_of(square, program.generation, program.assumptions, prebuilt=False)
    if chain.sum is None:
        return work
    return work._replace(busy=work.busy + timing.accumulator_cycles / timing.scalar_ghz)


def _code(chain: _Chain, folded: _Folded) -> str:
    """Return the activation with its new arguments, after the column that it needs."""
    core = chain.core
    line = (core.place.file, core.place.line)
    assert core.step is not None
    case = statement_of(ONE_ACTIVATION, line, core.name)
    assert case is not None
    nisa, nl = case.nisa, case.nl
    before: list[str] = []
    arguments: dict[str, str] = {}
    if chain.affine:
        arguments["data"] = _argument(chain.affine[0], "data")
    if folded.scale is not None:
        arguments["scale"] = _argument(chain.affine[folded.scale[0]], folded.scale[1].argument)
    if folded.bias is not None:
        bias = _argument(chain.affine[folded.bias[0]], folded.bias[1].argument)
        factor = arguments["scale"] if folded.scaled else "1.0"
        factor = f"-{factor}" if folded.negated else factor
        if folded.needs_a_column:
            name = case.fresh("bias")
            before = [
                f"{name} = {nl}.ndarray({bias}.shape, dtype={nl}.float32, buffer={nl}.sbuf)",
                f"{nisa}.tensor_scalar(dst={name}, data={bias}, op0={nl}.multiply, "
                f"operand0={factor})",
            ]
            bias = name
        elif folded.scaled or folded.negated:
            bias = f"{factor} * {bias}"
        arguments["bias"] = bias
    if chain.sum is not None:
        arguments["reduce_op"] = f"{nl}.add"
        arguments["reduce_res"] = _argument(chain.sum, "dst")
        arguments["reduce_cmd"] = f"{nisa}.reduce_cmd.reset_reduce"
    if core.step.kind == "function" and core.name == "activation":
        text = with_arguments(ONE_ACTIVATION, line, core.name, arguments)
    else:
        dst, data = _argument(core, "dst"), _argument(core, core.step.reads)
        given = {"dst": dst, "op": f"{nl}.square", "data": data} | arguments
        text = f"{nisa}.activation({', '.join(f'{k}={v}' for k, v in given.items())})"
    return "\n".join([*before, text])


def _argument(operation: Operation, name: str) -> str:
    """Return an argument as the kernel has it."""
    line = (operation.place.file, operation.place.line)
    case = statement_of(ONE_ACTIVATION, line, operation.name)
    assert case is not None
    return case.text(name)
