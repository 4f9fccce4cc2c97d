"""Dispatch of a contraction to torch, or step by step to operations with kernels.

Under torch.compile the steps are constants; only tensors are traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import torch
from torch import Tensor

from trnsci.core.interop import constant_to_compile
from trntensor._library import LIBRARY
from trntensor._paths.operations import CHAIN, CONTRACT, DOUBLEFLOAT_CONTRACT
from trntensor._paths.precision import Precision
from trntensor._planning.chains import chain_block, roles_of
from trntensor._planning.pairs import Unary, prepared
from trntensor._planning.program import Program, make_program
from trntensor._planning.subscripts import LETTERS, Equation, parse

Stage = tuple[tuple[int, ...], tuple[str, ...]]
"""Tensor numbers of a stage, and labels: a, b, out; or a, b, t, c, out for a chain.

The results of stages are numbered after the operands.
"""


def contracted(program: Program, operands: Sequence[Tensor], precision: Precision) -> Tensor:
    """Return a contraction whose products are computed by kernels."""

    def contract(parts: Sequence[Tensor]) -> Tensor:
        return run_stages(program.unaries, stages_of(program), parts, precision)

    return program.computed(operands, contract)


def lowered(program: Program, operands: Sequence[Tensor]) -> Tensor:
    """Return a contraction on torch with every product in the dtype of autocast.

    ``torch.einsum`` computes all pairs as matrix products, so autocast applies to all of them.
    """

    def pair(a: Tensor, b: Tensor, left: str, right: str, out: str) -> Tensor:
        result: Tensor = torch.einsum(Equation((left, right), out, "").plain, a, b)
        return result

    return program.computed(operands, lambda parts: program.each_pair(pair, parts))


def moved(program: Program) -> tuple[int, list[str]]:
    """Return the elements that one slice moves to and from HBM, and its launches."""
    names = _names(program)
    elements, launches = 0, []
    for _, labels in stages_of(program):
        kept = labels[2:3] if len(labels) == 5 else ()
        elements += sum(
            prod(program.parts[names[x]] for x in term) for term in labels if term not in kept
        )
        if kept:
            launches.append("chain")
        elif any(x in labels[1] and x not in labels[2] for x in labels[0]):
            launches.append("contract")
    return elements, launches


def stages_of(program: Program) -> tuple[Stage, ...]:
    """Return the kernel launches of a program; two consecutive steps are fused if they fit."""
    if program.stages is None:
        program.stages = tuple(_stages(program))
    found: tuple[Stage, ...] = program.stages
    return found


def _stages(program: Program) -> list[Stage]:
    operands, steps = len(program.unaries), program.steps
    named = _renamed(program)
    number = {at: at for at in range(operands)}  # labels by tensor number
    stages: list[Stage] = []
    at = 0
    while at < len(steps):
        i, j, _ = steps[at]
        a, b, t = named[i], named[j], named[operands + at]
        if at + 1 < len(steps) and operands + at in steps[at + 1][:2]:
            k, m, _ = steps[at + 1]
            other = m if k == operands + at else k
            c, out = named[other], named[operands + at + 1]
            roles = roles_of(f"{a},{b}->{t}", f"{t},{c}->{out}")
            sizes = {x: program.parts[y] for x, y in _names(program).items()}
            if not isinstance(roles, str) and chain_block(roles, sizes, program.itemsize):
                number[operands + at + 1] = operands + len(stages)
                stages.append(((number[i], number[j], number[other]), (a, b, t, c, out)))
                at += 2
                continue
        number[operands + at] = operands + len(stages)
        stages.append(((number[i], number[j]), (a, b, t)))
        at += 1
    return stages


def _names(program: Program) -> dict[str, str]:
    """Return the letter that represents each index in operations."""
    labels = dict.fromkeys("".join(program.labels))
    letters = (*LETTERS, *(chr(0x4E00 + at) for at in range(len(labels))))
    return dict(zip(letters, labels, strict=False))


def _renamed(program: Program) -> list[str]:
    letters = {label: letter for letter, label in _names(program).items()}
    return ["".join(letters[label] for label in labels) for labels in program.labels]


def run_stages(
    unaries: Sequence[Unary],
    stages: Sequence[Stage],
    operands: Sequence[Tensor],
    precision: Precision,
) -> Tensor:
    """Run the stages; return the result of the last one.

    At doublefloat and for complex operands no stages are fused.
    """
    doublefloat = precision == "doublefloat"
    pair = DOUBLEFLOAT_CONTRACT if doublefloat else CONTRACT
    tensors: list[Any] = prepared(unaries, operands)
    for numbers, labels in stages:
        if len(numbers) == 3:
            a, b, t, c, out = labels
            i, j, k = numbers
            if doublefloat or any(tensors[at].is_complex() for at in numbers):
                between = pair.of(tensors[i], tensors[j], a, b, t)
                tensors.append(pair.of(between, tensors[k], t, c, out))
            else:
                equations = f"{a},{b}->{t}", f"{t},{c}->{out}"
                tensors.append(CHAIN(tensors[i], tensors[j], tensors[k], *equations))
        else:
            a, b, out = labels
            i, j = numbers
            tensors.append(pair.of(tensors[i], tensors[j], a, b, out))
        for at in numbers:
            tensors[at] = None
    result: Tensor = tensors[-1]
    return result


@constant_to_compile
def _plain(text: str, ranks: tuple[int, ...]) -> str:
    return parse("einsum", text, ranks).plain


@constant_to_compile
def _planned(
    text: str, shapes: tuple[tuple[int, ...], ...], itemsize: int
) -> tuple[tuple[Unary, ...], tuple[Stage, ...], tuple[tuple[int, int, str], ...]]:
    """Return the preparation of operands, the launches, and the pairs as equations in letters."""
    equation = parse("einsum", text, tuple(len(shape) for shape in shapes))
    program = make_program("einsum", equation, shapes, itemsize)
    labels = program.labels
    pairs = tuple(
        (i, j, Equation((labels[i], labels[j]), out, "").plain) for i, j, out in program.steps
    )
    return program.unaries, stages_of(program), pairs


@constant_to_compile
def _summed_places(text: str, ranks: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the (operand, dimension) pairs of each index that is summed."""
    equation = parse("einsum", text, ranks)
    places: dict[str, list[tuple[int, int]]] = {}
    for operand, term in enumerate(equation.inputs):
        for dim, label in enumerate(term):
            if label not in equation.output:
                places.setdefault(label, []).append((operand, dim))
    return tuple(tuple(found) for found in places.values())


def traced_terms(text: str, tensors: Sequence[Tensor]) -> int:
    """Return the number of products that are summed per element of the result."""
    terms = 1
    for places in _summed_places(text, tuple(x.ndim for x in tensors)):
        terms *= max(tensors[operand].shape[dim] for operand, dim in places)
    return terms


def traced(text: str, tensors: Sequence[Tensor], precision: Precision) -> Tensor:
    """Return a contraction made of operations that torch.compile traces.

    One or two operands on torch are one ``torch.einsum``, valid for all sizes. Otherwise the steps
    follow the path for the sizes at trace time.
    """
    kernels = LIBRARY.kernels_wanted() and len(tensors) > 1
    if not kernels:
        plain = _plain(text, tuple(x.ndim for x in tensors))
        few = len({*plain} - {*",->"}) <= len(LETTERS)
        if len(tensors) == 1 or (len(tensors) == 2 and few):
            result: Tensor = torch.einsum(plain, *tensors)
            return result
    # Sizes at trace time; torch compiles another graph for others.
    shapes = tuple(tuple(index(n) for n in x.shape) for x in tensors)
    unaries, stages, pairs = _planned(text, shapes, tensors[0].element_size())
    if kernels:
        return run_stages(unaries, stages, tensors, precision)
    found = prepared(unaries, tensors)
    for i, j, pair in pairs:
        found.append(torch.einsum(pair, found[i], found[j]))
    return found[-1]
