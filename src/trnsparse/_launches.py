"""From the arguments of an operation to the launch of its kernel.

Each function has the name of its operation, takes a launcher and the operation's arguments, and
launches one kernel once. Patterns are made constants of the program: a kernel's loops hold the
blocks that are there. Importing this module imports NKI.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.launch import Launcher
from trnsparse._attention_pattern import Pattern, pattern_of
from trnsparse._kernels.attention import attention as attention_kernel
from trnsparse._kernels.attention_backward import attention_backward as attention_backward_kernel
from trnsparse._kernels.attention_pieces import HIDDEN, Blocks

__all__ = ["attention", "attention_backward"]


# -- attention -------------------------------------------------------------------------------------


def attention(
    launch: Launcher,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    found = pattern_of(pattern)
    queries, width = q.shape[1], v.shape[2]
    bias = _of_every_head(bias, found)
    q, k, v = (_whole(x, *sides) for x, sides in zip((q, k, v), _sides(bias, found), strict=True))
    out, logs = launch(attention_kernel, q, k, v, bias, tables, _blocks(found), float(scale))
    logs = logs[:, :queries, 0]
    return _part(out, queries, width), torch.where(logs < HIDDEN / 2, -torch.inf, logs)


def attention_backward(
    launch: Launcher,
    grad: Tensor,
    grad_logs: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logs: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = pattern_of(pattern)
    shapes = q.shape, k.shape, v.shape
    shared = None if bias is None else bias.shape[0]
    bias = _of_every_head(bias, found)
    sides = _sides(bias, found)
    q, k, v = (_whole(x, *side) for x, side in zip((q, k, v), sides, strict=True))
    grad, out = _whole(grad, *sides[0]), _whole(out, *sides[0])
    # Where nothing is seen every weight is 0: exp(s - 3e38).
    logs = torch.where(logs == -torch.inf, -HIDDEN, logs).float()
    columns = [
        functional.pad(x.float(), (0, q.shape[1] - x.shape[1])).unsqueeze(-1)
        for x in (grad_logs, logs)
    ]
    operands = grad, columns[0], q, k, v, out, columns[1], bias, tables
    results = launch(attention_backward_kernel, *operands, _blocks(found), float(scale))
    three = [_part(x, *shape[1:]) for x, shape in zip(results[:3], shapes, strict=True)]
    by_bias = q.new_empty(0) if bias is None else results[3]
    if shared is not None and shared != by_bias.shape[0]:
        by_bias = by_bias.reshape(len(found.own), shared, *found.sizes).sum(0)
    return three[0], three[1], three[2], by_bias


def _blocks(found: Pattern) -> Blocks:
    return Blocks(found.sizes, found.own, found.starts, found.columns, found.which, found.packed)


def _of_every_head(bias: Tensor | None, found: Pattern) -> Tensor | None:
    """Return the blocks of a bias that heads share, once for each head."""
    blocks = found.packed[-1]
    if bias is None or bias.shape[0] == blocks:
        return bias
    return bias.repeat(len(found.own), 1, 1)


def _sides(bias: Tensor | None, found: Pattern) -> list[tuple[int, int]]:
    """Return the least length and width that the kernels want of queries, keys and values.

    With a bias, whose gradient is written block by block, blocks are whole; the keys behind the end
    are hidden by the tables of the last column of blocks. A single moving column is refused by some
    compilers.
    """
    if bias is None:
        return [(0, 2)] * 3
    rows, columns = (size * count for size, count in zip(found.sizes, found.grid, strict=True))
    return [(rows, 2), (columns, 2), (columns, 2)]


def _whole(x: Tensor, length: int, width: int) -> Tensor:
    """Return (heads, length, width), zeros added where it is smaller."""
    missing = max(length - x.shape[1], 0), max(width - x.shape[2], 0)
    return functional.pad(x, (0, missing[1], 0, missing[0])) if any(missing) else x


def _part(x: Tensor, length: int, width: int) -> Tensor:
    """Return what ``_whole`` was given; never a view, of which forward mode has its own idea."""
    return x if x.shape[1:] == (length, width) else x[:, :length, :width].clone()
