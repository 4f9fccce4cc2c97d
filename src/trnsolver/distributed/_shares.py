"""Validation of row shares across ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from trnsci.core.arguments import floating
from trnsci.core.errors import BackendError, DerivativeError, DTypeError, ShapeError
from trnsci.core.krylov import differentiated

__all__ = ["Group", "Shares", "shares_of", "summed"]

Group: TypeAlias = dist.ProcessGroup | None

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


# Exchanged in place of the columns of an invalid right-hand side, so that all ranks raise.
_COMPLEX, _TRACKED = -2, -3


@dataclass(frozen=True)
class Shares:
    """The distribution of rows over ranks.

    Attributes:
        rank: This rank.
        rows: Number of rows of each rank.
        columns: Number of columns, the same on all ranks.
    """

    rank: int
    rows: tuple[int, ...]
    columns: int

    @property
    def total(self) -> int:
        """Number of rows of all ranks."""
        return sum(self.rows)

    def starts(self) -> list[int]:
        """Return the first row of each rank, then the total."""
        found = [0]
        for count in self.rows:
            found.append(found[-1] + count)
        return found


def shares_of(function: str, local: Tensor, group: Group, right: Tensor | None = None) -> Shares:
    """Return the distribution of a matrix; every rank returns or raises the same.

    Raises:
        BackendError: There is no process group.
        DerivativeError: A share is being differentiated.
        DTypeError: A share is not a plain tensor, or dtypes differ.
        ShapeError: A share is not a matrix, columns differ, or right-hand sides do not fit.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise BackendError(f"{function}: torch.distributed has no process group yet")
    plain = type(local) is Tensor or type(local) is torch.nn.Parameter
    if not plain or local.layout is not torch.strided:
        kind = str(local.layout) if plain else type(local).__name__
        raise DTypeError(
            f"{function}: a share must be a plain tensor of rows, got {kind}; other layouts would "
            f"have to be gathered"
        )
    floating(function, "local", local)
    code = _DTYPES.index(local.dtype) if local.dtype in _DTYPES else -1
    header = [
        local.shape[0] if local.ndim == 2 else -1,
        local.shape[-1] if local.ndim else -1,
        code,
    ]
    header.append(_sides(local, right))
    mine = torch.tensor(header, dtype=torch.int64, device=local.device)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, mine, group=group)
    rows, columns, codes, sides = zip(*(part.tolist() for part in every), strict=True)
    if _TRACKED in sides:
        raise DerivativeError(f"{function}: shares must not be differentiated, on any rank")
    if _COMPLEX in sides:
        raise DTypeError(f"{function}: right is complex, where shares are real, on some rank")
    if min(rows) < 0 or len(set(columns)) > 1:
        raise ShapeError(
            f"{function}: every share must be a matrix of as many columns, got shape "
            f"{tuple(local.shape)} here, and {columns} columns on the ranks"
        )
    if min(codes) < 0 or len(set(codes)) > 1:
        raise DTypeError(
            f"{function}: shares must all be float32, float64 or their complex kinds, got "
            f"{local.dtype} here"
        )
    if min(sides) < 0 or len(set(sides)) > 1:
        shape = None if right is None else tuple(right.shape)
        raise ShapeError(
            f"{function}: right must have the rows of each rank, and as many columns on all, got "
            f"shape {shape} for {local.shape[0]} rows here"
        )
    return Shares(dist.get_rank(group), rows, columns[0])


def _sides(local: Tensor, right: Tensor | None) -> int:
    """Return the number of columns of a right-hand side, 0 for none, negative if invalid."""
    if differentiated(local, right):
        return _TRACKED
    if right is None:
        return 0
    if right.is_complex() and not local.is_complex():
        return _COMPLEX
    if right.ndim not in (1, 2) or right.shape[0] != local.shape[0]:
        return -1
    return 1 if right.ndim == 1 else right.shape[1]


def summed(value: Tensor, group: Group) -> Tensor:
    """Return the sum over the ranks."""
    total = value.contiguous()
    dist.all_reduce(total, group=group)
    return total
