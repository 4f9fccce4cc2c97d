"""Contractions while torch.compile looks on: steps as constants, tensors as what is traced."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnsci.core.tracing import constant_to_compile
from trntensor._dispatch import Stage, run_stages, stages_of
from trntensor._library import LIBRARY
from trntensor._pairs import Unary
from trntensor._program import make_program
from trntensor._subscripts import parse

__all__ = ["traced"]


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


def traced(text: str, tensors: Sequence[Tensor]) -> Tensor:
    """Return a contraction in operations that torch.compile knows.

    On torch it is one ``torch.einsum``, whatever sizes turn out to be; on a kernel path the steps
    are those for the sizes that are there when it is traced.
    """
    if LIBRARY.kernels_wanted() and len(tensors) > 1:
        shapes = tuple(tuple(x.shape) for x in tensors)
        unaries, stages = _planned(text, shapes, tensors[0].element_size())
        return run_stages(unaries, stages, tensors)
    result: Tensor = torch.einsum(_plain(text, tuple(x.ndim for x in tensors)), *tensors)
    return result
