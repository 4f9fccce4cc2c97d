"""Causal attention of two heads of 64 columns in blocks of 128 tokens, forward."""

from __future__ import annotations

from functools import partial

import torch

import trnsparse
from device_problems.problem import Problem

_HEADS, _WIDTH, _BLOCK = 2, 64, 128
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def problem(tokens: int, dtype: str) -> Problem:
    """Return one call; its products are those of the blocks of the pattern."""
    mask = trnsparse.causal_mask(tokens, _BLOCK)
    operand = torch.zeros(1, _HEADS, tokens, _WIDTH, dtype=_DTYPES[dtype])
    return Problem(
        f"attention {_HEADS} x {tokens} x {_WIDTH} {dtype}",
        "trnsparse",
        lambda: partial(trnsparse.block_sparse_attention, operand, operand, operand, mask),
        4 * operand.numel() * operand.element_size(),
        4 * _HEADS * mask.n_blocks * _BLOCK * _BLOCK * _WIDTH,
        dtype=dtype,
    )


PROBLEMS = (problem(1024, "float32"), problem(1024, "bfloat16"))
LARGER = (problem(1536, "float32"), problem(1536, "bfloat16"))
ODD = (problem(1001, "bfloat16"),)
