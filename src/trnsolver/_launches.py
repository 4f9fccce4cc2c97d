"""From the arguments of an operation to the launches of its kernels.

Each function has the name of its operation and takes a launcher and the operation's arguments, of
which tensors are float32 with one batch dimension in front. A whole batch is one launch. What is
returned has the shapes that the operation states. Importing this module imports NKI.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.constants import Constants
from trnsci.core.hardware import TILE
from trnsci.core.launch import Launcher
from trnsolver._kernels import eigh_blocks, eigh_tile
from trnsolver._tournament import packed_tables, slot_permutation, sweep_bound

__all__ = ["eigh"]

_TABLES: Constants[tuple[int, int]] = Constants(lambda key: (packed_tables(*key),))


def eigh(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    batch, n = a.shape[0], a.shape[-1]
    sweeps = min(max_sweeps, sweep_bound(n))
    if n <= TILE:
        order = n + n % 2
        (tables,) = _TABLES((order, max(1, min(batch, TILE // order))))
        w, v, rest = launch(eigh_tile.jacobi_eigh, a, tables, sweeps)
    else:
        groups = 2 * -(-n // TILE)
        (tables,) = _TABLES((2 * -(-n // groups), 1))
        moves = tuple(slot_permutation(groups))
        w, v, rest = launch(eigh_blocks.block_jacobi_eigh, a, tables, moves, sweeps)
    return torch.where(rest <= _negligible(n), w, torch.nan), v


def _negligible(n: int) -> float:
    """Return what may be left beside a diagonal, relative to the largest entry of the matrix.

    Each of the products of the last sweep rounds once, and n of them are far from all being of one
    sign; the residual stays below ``20 * eps * n``.
    """
    return 4 * torch.finfo(torch.float32).eps * n
