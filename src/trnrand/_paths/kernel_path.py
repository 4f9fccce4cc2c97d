"""Launch of the kernels of ``draw``; importing this module imports NKI."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnrand._kernels import samples
from trnrand._kernels.operands import BLOCK_WORDS, drawn_words
from trnsci.core.backend.launch import Launcher

# Distributions with kernels for float32 only; other dtypes are rounded from it.
_FLOAT32_ONLY = ("normal", "exponential")


def draw(
    launch: Launcher,
    operand: Tensor,
    engine: str,
    place: Sequence[int],
    kind: str,
    count: int,
    dtype: str,
) -> Tensor:
    kernel = getattr(samples, f"{engine}_{kind}")
    arguments = (dtype,) if kind == "uniform" else ()
    drawn = launch(kernel, operand, drawn_words(count), *arguments).reshape(-1)
    if kind == "words":
        drawn = drawn.view(torch.int32)
    skipped = place[2] % BLOCK_WORDS  # place[2] is the low half of the start
    found = drawn[skipped : skipped + count]
    return found.to(getattr(torch, dtype)) if kind in _FLOAT32_ONLY else found
