"""Kernel launches: from the arguments of an operation to the calls of its kernels.

Each function has the name of its operation and takes a launcher and the operation's arguments;
tensors are float32 with one leading batch dimension. A batch is one launch, unless its program
would be too long. Results have the shapes that the operation declares. Importing this module
imports NKI.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import trnblas
from trnsci.core.backend.launch import Launcher, on_both_cores
from trnsci.core.numbers.constants import Constants
from trnsci.core.numbers.planes import embedded, joined
from trnsci.core.tiles.hardware import TILE
from trnsolver._eigen.columns import block_jacobi_svd
from trnsolver._eigen.divide import Kernels, divided_eigh
from trnsolver._eigen.tournament import packed_tables, slot_permutation, sweep_bound
from trnsolver._factors.forms import (
    columns,
    joined_blocks,
    joined_columns,
    of_columns,
    orthonormal_half,
)
from trnsolver._kernels import cg as cg_kernels
from trnsolver._kernels import cholesky as cholesky_kernels
from trnsolver._kernels import eigh_blocks, eigh_tile, householder, jacobi, newton_schulz
from trnsolver._kernels import limits as limits
from trnsolver._kernels import lu as lu_kernels
from trnsolver._kernels import qr as qr_kernels
from trnsolver._kernels import svd as svd_kernels

_TABLES: Constants[tuple[int, int]] = Constants(lambda key: (packed_tables(*key),))
_NOISE: Constants[tuple[int, int, bool]] = Constants(lambda key: (noise(*key),))


def _launched(
    launch: Launcher, kernel: Any, tensors: tuple[Tensor, ...], length: int, *rest: Any
) -> Any:
    """Return the results of a kernel for a batch, split into launches of limited program length.

    Args:
        launch: The launcher.
        kernel: A kernel whose program grows with the batch, and whose results are batches.
        tensors: The batched arguments.
        length: Number of instructions for one matrix of the batch.
        *rest: The other arguments.
    """
    count, most = tensors[0].shape[0], max(1, limits.PROGRAM // length)
    if count <= most:
        return launch(kernel, *tensors, *rest)
    parts = []
    for first in range(0, count, most):
        parts.append(launch(kernel, *(x[first : first + most] for x in tensors), *rest))
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return tuple(torch.cat(results) for results in zip(*parts, strict=True))


def _product(x: Tensor, y: Tensor, transposed: bool) -> Tensor:
    # A lower level of products is not meant for factors.
    return trnblas.gemm(1.0, x, y, transA=transposed, precision="float32")


def _scaled(a: Tensor, lower: bool = False) -> tuple[Tensor, Tensor]:
    """Return matrices divided by powers of four near their largest entries, and their roots.

    Kernels compute squares in float32, and a device may replace numbers below its smallest normal
    one by zero. The division is exact, except for entries that are far below the largest.

    Args:
        a: Matrices, (batch, m, n).
        lower: Whether only lower triangles are read.
    """
    root = _root_of_power((a.tril() if lower else a).abs().amax((-2, -1), keepdim=True))
    return a / root / root, root.squeeze(-1)


def _root_of_power(sizes: Tensor) -> Tensor:
    """Return roots of the powers of four near numbers, 1 for those not positive and finite.

    Numbers are divided twice by the root: the power itself or its inverse may overflow.
    """
    halves = torch.frexp(sizes).exponent // 2
    return torch.where((sizes > 0) & (sizes < torch.inf), torch.exp2(halves.to(sizes.dtype)), 1.0)


def eigh(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    a, root = _scaled(a, lower=True)
    w, v = _eigh(launch, a, max_sweeps)
    return w * root * root, v


def _eigh(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    batch, n = a.shape[0], a.shape[-1]
    sweeps = min(max_sweeps, sweep_bound(n))
    if n <= TILE:
        order = n + n % 2
        copies = max(1, min(batch, TILE // order))
        (tables,) = _TABLES((order, copies))
        length = -(-limits.eigh_instructions(n) // copies)
        w, v, rest = _launched(
            launch, on_both_cores(launch, eigh_tile.jacobi_eigh), (a,), length, tables, sweeps
        )
    elif n > limits.EIGH_ORDER:
        return eigh_by_division(launch, a, max_sweeps, limits.EIGH_ORDER)
    else:
        w, v, rest = eigh_in_groups(launch, a, 2 * -(-n // TILE), sweeps)
    return torch.where(rest <= _negligible(n), w, torch.nan), v


def eigh_in_groups(
    launch: Launcher, a: Tensor, groups: int, sweeps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues, eigenvectors and off-diagonal residuals, with rows in groups."""
    (tables,) = _TABLES((2 * -(-a.shape[-1] // groups), 1))
    moves = tuple(slot_permutation(groups))
    length = limits.eigh_instructions(a.shape[-1])
    kernel = on_both_cores(launch, eigh_blocks.block_jacobi_eigh)
    w, v, rest = _launched(launch, kernel, (a,), length, tables, moves, sweeps)
    return w, v, rest


def eigh_by_division(
    launch: Launcher, a: Tensor, max_sweeps: int, smallest: int
) -> tuple[Tensor, Tensor]:
    """Return eigenpairs by spectral division down to matrices of order ``smallest``."""

    def factor(x: Tensor) -> Tensor:
        return cholesky(launch, x[None])[0]

    def solve(lower: Tensor, y: Tensor) -> Tensor:
        return trnblas.trsm(1.0, lower, y, side="right", uplo="lower", trans=True)

    def small(x: Tensor) -> tuple[Tensor, Tensor]:
        w, v = _eigh(launch, x[None], max_sweeps)
        return w[0], v[0]

    kernels = Kernels(_product, factor, solve, small)
    with trnblas.backend(launch.path):
        pairs = [divided_eigh(matrix, smallest, kernels) for matrix in a]
    return torch.stack([w for w, _ in pairs]), torch.stack([v for _, v in pairs])


def svd(
    launch: Launcher, a: Tensor, max_sweeps: int, full: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    if a.is_complex():
        u, s, vh = _complex_svd(launch, a, max_sweeps)
    else:
        a, root = _scaled(a)
        u, s, vh = _svd(launch, a, max_sweeps)
        s = s * root * root
    if full and a.shape[-2] > a.shape[-1]:
        u = torch.cat([u, _orthogonal_to(launch, u)], -1)
    return u, s, vh


def _complex_svd(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return half of the singular values and right vectors of the real form, with their vectors U.

    The columns of A V are orthogonal to rounding errors of the norm of A. So their QR factors are U
    and, to such errors, a diagonal of singular values.
    """
    form = of_columns(a)
    _, s, vh = svd(launch, form, max_sweeps)
    v, places = orthonormal_half(joined(vh).mT)
    s, order = s.gather(-1, places).sort(descending=True)
    v = v.gather(-1, order.unsqueeze(-2).expand_as(v))
    with trnblas.backend(launch.path):
        image = joined_columns(_product(form, columns(v), False))
    u, _ = _unitary(launch, image)
    return u, s, v.mH


def _unitary(launch: Launcher, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return QR factors of complex matrices, or the same for real ones."""
    if not a.is_complex():
        return qr(launch, a)
    q, r = qr(launch, embedded(a), True)
    return joined_blocks(q), joined_blocks(r)


def _svd(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
    m, n = a.shape[-2:]
    # Angles come from squared lengths, which lose half of the digits: the smallest columns of an
    # ill-conditioned matrix converge after the others.
    sweeps = 2 * min(max_sweeps, sweep_bound(n))
    if n <= TILE:
        (tables,) = _TABLES((n + n % 2, 1))
        length = limits.svd_instructions(m, n)
        kernel = on_both_cores(launch, svd_kernels.jacobi_svd)
        u, s, vh, rest = _launched(launch, kernel, (a,), length, tables, sweeps, True)
    else:
        u, s, vh, rest = svd_of_groups(launch, a, 2 * -(-n // TILE), sweeps)
    if bool((rest > _negligible(m)).any()):
        s, rest = _without_noise(launch, u, s, rest)
    if bool((s[:, -1] == 0).any()):
        u = _completed(launch, u, s)
    return u, torch.where(rest <= _negligible(m), s, torch.nan), vh


def _without_noise(launch: Launcher, u: Tensor, s: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Return singular values with rounding errors set to zero, and the cosines of the others.

    The columns of a matrix of low rank end as rounding errors of the largest one, which every sweep
    makes anew: they do not become orthogonal. Matrices that have converged are unchanged.
    """
    m, n = u.shape[-2:]
    open_ = rest > _negligible(m)
    noise = open_ & (s <= torch.finfo(torch.float32).eps * n * s.amax(-1, keepdim=True))
    kept = torch.where(noise.unsqueeze(-2), 0.0, u)
    with trnblas.backend(launch.path):
        gram = trnblas.gemm(1.0, kept, kept, transA=True)
    cosines = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    left = cosines.abs().amax((-2, -1)).unsqueeze(-1)
    return torch.where(noise, 0.0, s), torch.where(open_, left, rest)


def pinv(launch: Launcher, a: Tensor, rcond: float, max_sweeps: int) -> tuple[Tensor, Tensor]:
    u, s, vh = svd(launch, a, max_sweeps)
    kept = s > rcond * s[..., :1]
    inverse = torch.where(kept, 1 / torch.where(kept, s, 1.0), 0.0)
    return (vh.mH * inverse.unsqueeze(-2)) @ u.mH, s


def svd_of_groups(
    launch: Launcher, a: Tensor, groups: int, sweeps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return U, s, V^T and the largest cosine between columns of U, by block Jacobi."""
    kernel = on_both_cores(launch, svd_kernels.jacobi_svd)

    def rotated_pair(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (tables,) = _TABLES((x.shape[-1], 1))
        length = limits.svd_instructions(*x.shape[-2:])
        u, s, vh, _ = _launched(launch, kernel, (x,), length, tables, 1, False)
        return u, s, vh

    with trnblas.backend(launch.path):
        return block_jacobi_svd(a, groups, sweeps, rotated_pair, _product)


def _completed(launch: Launcher, u: Tensor, s: Tensor) -> Tensor:
    """Return left vectors, completed by an orthonormal one for each singular value of zero.

    Missing vectors are replaced by random ones, orthogonalised against the others.
    """
    filled = torch.where(s.unsqueeze(-2) == 0, _directions(u, u.shape[-1]), u)
    return qr(launch, filled)[0]


def _orthogonal_to(launch: Launcher, u: Tensor) -> Tensor:
    """Return an orthonormal basis of what is orthogonal to orthonormal columns."""
    rows, count = u.shape[-2:]
    drawn = _directions(u, rows - count).expand(*u.shape[:-1], rows - count)
    return _unitary(launch, torch.cat([u, drawn], -1))[0][..., count:]


def _directions(like: Tensor, count: int) -> Tensor:
    """Return random columns of length about 1."""
    generator, rows = torch.Generator().manual_seed(0), like.shape[-2]
    drawn = torch.randn(rows, count, generator=generator, dtype=like.dtype)
    return drawn.to(like.device) / rows**0.5


def cholesky(launch: Launcher, a: Tensor) -> Tensor:
    # Powers of two scale the diagonal to magnitude 1, so that no pivot of a graded matrix is small.
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    root = _root_of_power(diagonal).unsqueeze(-1)
    a = a / root / root.mT
    batch, n = a.shape[0], a.shape[-1]
    copies = max(1, min(batch, TILE // n))
    length = -(-limits.cholesky_instructions(n) // copies)
    found: Tensor = _launched(launch, cholesky_kernels.cholesky, (a,), length, copies)
    return found * root


def lu(launch: Launcher, a: Tensor, paired: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    step = 2 if paired else 1
    m, n = a.shape[-2], a.shape[-1] // step
    order, k = max(m, n), min(m, n)
    # Rows of zeros are no pivots before all others are, and columns of zeros change nothing.
    a, root = _scaled(torch.nn.functional.pad(a, (0, step * (order - n), 0, order - m)))
    length = step * limits.lu_instructions(order)
    p, lower, upper = _launched(launch, lu_kernels.lu, (a,), length, paired)
    upper = upper * root.unsqueeze(-1) * root.unsqueeze(-1)
    return (
        p[:, :m, : step * m : step],
        lower[:, : step * m, : step * k],
        upper[:, : step * k, : step * n],
    )


def qr(launch: Launcher, a: Tensor, paired: bool = False) -> tuple[Tensor, Tensor]:
    m, n = a.shape[-2:]
    length = limits.qr_instructions(m, n)
    a, root = _scaled(a)
    q, r = _launched(launch, qr_kernels.cholesky_qr, (a,), length, *_NOISE((m, n, paired)), paired)
    return q, r * root.unsqueeze(-1) * root.unsqueeze(-1)


def inv_sqrt_spd_ns(
    launch: Launcher, a: Tensor, max_iter: int, tol: float
) -> tuple[Tensor, Tensor, Tensor]:
    length = limits.root_instructions(a.shape[-1])
    kernel = on_both_cores(launch, newton_schulz.inverse_root)
    z, steps, residual = _launched(launch, kernel, (a,), length, max_iter, tol)
    return z, steps[:, 0], residual[:, 0]


def msign(
    launch: Launcher, a: Tensor, steps: int, first: float, third: float, fifth: float
) -> Tensor:
    if steps == 0:
        return a.clone()
    length = limits.msign_instructions(a.shape[-2], a.shape[-1], steps)
    found: Tensor = _launched(launch, newton_schulz.msign, (a,), length, steps, first, third, fifth)
    return found


def cg(
    launch: Launcher, a: Tensor, rhs: Tensor, x0: Tensor, tol: float, max_iter: int
) -> tuple[Tensor, Tensor]:
    length = limits.cg_instructions(a.shape[-1])
    kernel = on_both_cores(launch, cg_kernels.conjugate_gradients)
    x, residuals = _launched(launch, kernel, (a, rhs, x0), length, tol, max_iter)
    return x, residuals


def rotate_pairs(
    launch: Launcher, even: Tensor, odd: Tensor, c: Tensor, s: Tensor
) -> tuple[Tensor, Tensor]:
    first, second = launch(jacobi.rotate_pairs_kernel, even, odd, c, s)
    return first, second


def matvec(launch: Launcher, a: Tensor, v: Tensor) -> Tensor:
    return launch(householder.matvec_kernel, a, v)


def rank2_update(launch: Launcher, a: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return launch(householder.rank2_update_kernel, a, u, v)


def noise(rows: int, columns: int, paired: bool = False) -> np.ndarray:
    """Return random numbers, (1, rows, columns), with columns of length about 2^-22.

    Those that are paired are the real form of complex ones.
    """
    if paired:
        return embedded(joined(torch.from_numpy(noise(rows // 2, columns)))).numpy()
    drawn = np.random.default_rng((rows, columns)).standard_normal((1, rows, columns))
    return (drawn * (2.0**-22 / rows**0.5)).astype(np.float32)


def _negligible(n: int) -> float:
    """Return the tolerance of off-diagonal entries, relative to the largest entry of the matrix.

    Each product of the last sweep rounds once, with varying signs; the residual stays below
    ``20 * eps * n``.
    """
    return 4 * torch.finfo(torch.float32).eps * n
