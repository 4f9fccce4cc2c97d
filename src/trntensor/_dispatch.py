"""Where a contraction runs: on torch, or pair by pair through operations on kernels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trntensor._program import Program

__all__ = ["contracted"]


def contracted(program: Program, operands: Sequence[Tensor]) -> Tensor:
    """Return a contraction whose products are computed by kernels."""
    return program.run(*operands)
