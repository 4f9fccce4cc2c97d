"""Unfoldings of a tensor, and orthonormal bases of their column spaces."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from trnsci.core.arguments import tensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.numbers.values import inert


def check_tensor(function: str, value: Tensor, least: int, complex_too: bool = True) -> None:
    """Raise unless a tensor can be decomposed."""
    tensor(function, "tensor", value)
    check_dtype(function, "tensor", value, complex_too)
    if value.ndim < least:
        raise ShapeError(
            f"{function}: tensor must have at least {least} dimensions, got {tuple(value.shape)}"
        )
    if 0 in value.shape:
        raise ShapeError(f"{function}: tensor must have elements, got shape {tuple(value.shape)}")


def check_dtype(function: str, name: str, value: Tensor, complex_too: bool = True) -> None:
    """Raise unless torch can factor matrices of the dtype."""
    known = [torch.float32, torch.float64]
    if complex_too:
        known += [torch.complex64, torch.complex128]
    if value.dtype not in known:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in known)
        raise DTypeError(f"{function}: {name} must be one of {names}, got {value.dtype}")


def check_parts(function: str, name: str, parts: object) -> None:
    """Raise unless the parts of a decomposition are a sequence of tensors."""
    if not isinstance(parts, Sequence):
        kind = type(parts).__name__
        raise DTypeError(f"{function}: {name} must be a sequence of torch.Tensor, got {kind}")
    for number, part in enumerate(parts):
        tensor(function, f"{name}[{number}]", part)


def check_tolerances(function: str, **values: float | None) -> None:
    """Raise unless tolerances are numbers from 0 on; None is one that is not given."""
    for name, value in values.items():
        if value is not None and not 0 <= value < inf:
            raise FlagError(f"{function}: {name} must be finite and at least 0, got {value}")


def unfolded(x: Tensor, mode: int) -> Tensor:
    """Return a tensor as a matrix with one mode as its rows, the others in order as columns."""
    return x.movedim(mode, 0).reshape(x.shape[mode], -1)


def leading_basis(matrix: Tensor, rank: int) -> Tensor:
    """Return the first left singular vectors of a matrix."""
    return split(matrix, rank)[0]


def split(matrix: Tensor, rank: int | None = None, allowed: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return an orthonormal basis U of the leading left singular vectors, and singular values.

    For float32 matrices with few rows, the eigenvalues of the Gram matrix in float64 are used. They
    are as accurate as float32 singular values and many times faster to compute.

    Args:
        matrix: (m, n).
        rank: Maximum number of vectors.
        allowed: Maximum norm of the truncated part. The smallest number of vectors is returned for
            which the norm of the rest does not exceed it.

    Returns:
        U of (m, r), and all singular values, the largest first.
    """
    rows, columns = matrix.shape[-2:]
    if matrix.dtype is torch.float32 and rows <= columns:
        wide = matrix.double()
        values, vectors = torch.linalg.eigh(wide @ wide.mT)
        u = vectors.flip(-1).to(matrix.dtype)
        s = values.flip(-1).clamp(min=0).sqrt().to(matrix.dtype)
    else:
        narrow = matrix
        if 2 * rows <= columns:  # its triangular factor has the same singular values
            # The derivative of R needs Q.
            mode = "r" if inert(matrix) else "reduced"
            narrow = torch.linalg.qr(matrix.mH, mode=mode).R.mH
        u, s, _ = torch.linalg.svd(narrow, full_matrices=False)
    count = min(rows, columns)
    u, s = u[..., :count], s[..., :count]
    if allowed > 0:
        tail = s.detach().double().square().flip(-1).cumsum(-1).sqrt().flip(-1)
        count = max(1, int((tail > allowed).sum()))
    if rank is not None:
        count = min(count, rank)
    return u[..., :count], s
