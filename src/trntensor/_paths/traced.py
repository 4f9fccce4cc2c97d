"""Contractions under torch.compile: the steps are constants; only tensors are traced."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnsci.core.interop import constant_to_compile
from trntensor._library import LIBRARY
from trntensor._paths.dispatch import Stage, run_stages, stages_of
from trntensor._planning.pairs import Unary
from trntensor._planning.program import make_program
from trntensor._planning.subscripts import LETTERS, Equation, parse

__all__ = ["traced", "traced_terms"]


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


def traced(text: str, tensors: Sequence[Tensor]) -> Tensor:
    """Return a contraction made of operations that torch.compile traces.

    On torch it is one ``torch.einsum``, valid for all sizes. On a kernel path, or with more indices
    than ``torch.einsum`` accepts, the steps are those for the sizes at trace time.
    """
    shapes = tuple(tuple(x.shape) for x in tensors)
    if LIBRARY.kernels_wanted() and len(tensors) > 1:
        unaries, stages = _planned(text, shapes, tensors[0].element_size())
        return run_stages(unaries, stages, tensors)
    plain = _plain(text, tuple(x.ndim for x in tensors))
    if len(tensors) > 1 and len(set(plain) - set(",->")) > len(LETTERS):
        return _each_pair(*_pairs(text, shapes, tensors[0].element_size()), tensors)
    result: Tensor = torch.einsum(plain, *tensors)
    return result


@constant_to_compile
def _pairs(
    text: str, shapes: tuple[tuple[int, ...], ...], itemsize: int
) -> tuple[tuple[str, ...], tuple[tuple[int, int, str], ...]]:
    """Return the preparation of the operands and the pairs, as equations in letters."""
    equation = parse("einsum", text, tuple(len(shape) for shape in shapes))
    program = make_program("einsum", equation, shapes, itemsize)
    labels = program.labels
    prepared = tuple(Equation((u.labels,), u.kept, "").plain for u in program.unaries)
    return prepared, tuple(
        (i, j, Equation((labels[i], labels[j]), out, "").plain) for i, j, out in program.steps
    )


def _each_pair(
    prepared: tuple[str, ...], pairs: tuple[tuple[int, int, str], ...], tensors: Sequence[Tensor]
) -> Tensor:
    found = [torch.einsum(one, x) for one, x in zip(prepared, tensors, strict=True)]
    for i, j, pair in pairs:
        found.append(torch.einsum(pair, found[i], found[j]))
    return found[-1]
