"""Contractions under torch.compile: the steps are constants; only tensors are traced."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import torch
from torch import Tensor

from trnsci.core.interop import constant_to_compile
from trntensor._library import LIBRARY
from trntensor._paths.dispatch import Stage, run_stages, stages_of
from trntensor._paths.precision import Precision
from trntensor._planning.pairs import Unary, unary_call
from trntensor._planning.program import make_program
from trntensor._planning.subscripts import LETTERS, Equation, parse


@constant_to_compile
def _plain(text: str, ranks: tuple[int, ...]) -> str:
    return parse("einsum", text, ranks).plain


@constant_to_compile
def _planned(
    text: str, shapes: tuple[tuple[int, ...], ...], itemsize: int
) -> tuple[tuple[Unary, ...], tuple[Stage, ...]]:
    equation = parse("einsum", text, tuple(len(shape) for shape in shapes))
    program = make_program("einsum", equation, shapes, itemsize)
    return program.unaries, stages_of(program)


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
    if LIBRARY.kernels_wanted() and len(tensors) > 1:
        unaries, stages = _planned(text, _shapes(tensors), tensors[0].element_size())
        return run_stages(unaries, stages, tensors, precision)
    plain = _plain(text, tuple(x.ndim for x in tensors))
    if len(tensors) > 2 or (len(tensors) == 2 and len({*plain} - {*",->"}) > len(LETTERS)):
        return _each_pair(*_pairs(text, _shapes(tensors), tensors[0].element_size()), tensors)
    result: Tensor = torch.einsum(plain, *tensors)
    return result


def _shapes(tensors: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes at trace time; torch compiles another graph for other shapes."""
    return tuple(tuple(index(n) for n in x.shape) for x in tensors)


@constant_to_compile
def _pairs(
    text: str, shapes: tuple[tuple[int, ...], ...], itemsize: int
) -> tuple[tuple[Unary, ...], tuple[tuple[int, int, str], ...]]:
    """Return the preparation of the operands, and the pairs as equations in letters."""
    equation = parse("einsum", text, tuple(len(shape) for shape in shapes))
    program = make_program("einsum", equation, shapes, itemsize)
    labels = program.labels
    return program.unaries, tuple(
        (i, j, Equation((labels[i], labels[j]), out, "").plain) for i, j, out in program.steps
    )


def _each_pair(
    unaries: Sequence[Unary], pairs: Sequence[tuple[int, int, str]], tensors: Sequence[Tensor]
) -> Tensor:
    found = [x if u.trivial else unary_call(u)(x) for x, u in zip(tensors, unaries, strict=True)]
    for i, j, pair in pairs:
        found.append(torch.einsum(pair, found[i], found[j]))
    return found[-1]
