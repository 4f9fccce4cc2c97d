"""Contractions while torch.compile looks on: steps as constants, tensors as what is traced."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnsci.core.tracing import constant_to_compile
from trntensor._subscripts import parse

__all__ = ["traced"]


@constant_to_compile
def _plain(text: str, ranks: tuple[int, ...]) -> str:
    return parse("einsum", text, ranks).plain


def traced(text: str, tensors: Sequence[Tensor], precision: str) -> Tensor:
    """Return a contraction in operations that torch.compile knows."""
    return torch.einsum(_plain(text, tuple(x.ndim for x in tensors)), *tensors)
