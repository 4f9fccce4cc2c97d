"""Validation cases of the trntensor kernels: contractions compared with float64."""

from __future__ import annotations

import torch
from torch import Tensor

import trntensor
from trnsci.core.evidence import Case
from trnsci.core.testing import random_tensor, unit_roundoff
from trntensor._library import LIBRARY

__all__ = ["CASES"]


def _case(kernel: str, title: str, subscripts: str, *shapes: tuple[int, ...]) -> Case:
    """Return the case of an einsum; its bound counts the terms of all sums."""

    def inputs() -> tuple[Tensor, ...]:
        return tuple(random_tensor(*shape, seed=i) for i, shape in enumerate(shapes))

    def exact(*operands: Tensor) -> Tensor:
        return torch.einsum(subscripts, *(x.double() for x in operands))

    def bound(*operands: Tensor) -> float:
        terms = subscripts.partition("->")[0].split(",")
        sizes = {
            label: size
            for term, x in zip(terms, operands, strict=True)
            for label, size in zip(term, x.shape, strict=True)
        }
        summed = sum(sizes[label] for label in set(sizes) - set(subscripts.partition("->")[2]))
        magnitude = float(exact(*(x.abs() for x in operands)).norm() / exact(*operands).norm())
        return (summed + len(operands)) * unit_roundoff(torch.float32) * magnitude

    return Case(
        kernel,
        title,
        inputs,
        lambda *operands: trntensor.einsum(subscripts, *operands),
        exact,
        "torch.einsum in float64",
        bound,
    )


CASES = (
    _case("contract", "einsum of two operands", "bij,bkj->kib", (3, 130, 70), (3, 60, 70)),
    _case("chain", "fused einsum", "ij,jk,kl->il", (140, 60), (60, 90), (90, 130)),
    *LIBRARY.evidence(),
)
