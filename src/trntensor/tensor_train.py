"""Tensor trains (matrix product states): a tensor as a chain of three-index cores.

Core k is (r_{k-1}, n_k, r_k) with r_0 = r_d = 1; an element of the tensor is the product of one
matrix from every core.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.numbers.values import finite, one_problem, power_below, untraced
from trntensor._unfolding import check_dtype, check_parts, check_tensor, check_tolerances, split
from trntensor.contraction import einsum

__all__ = ["tt_decompose", "tt_inner", "tt_norm", "tt_reconstruct", "tt_round"]

_RANKS = "its ranks depend on values"


def tt_decompose(
    tensor: Tensor, max_rank: int | None = None, *, eps: float = 0.0, batch: bool = False
) -> list[Tensor]:
    """Return the cores of a tensor train that approximates a tensor (TT-SVD).

    The error is at most sqrt(d - 1) times the error of the best train of the same ranks.

    Args:
        tensor: (n_1, ..., n_d) with d at least 2, floating point.
        max_rank: Maximum rank; None for the ranks of the tensor.
        eps: Maximum relative error; ranks are the smallest that reach it.
        batch: Whether the first dimension is a batch; then only ``max_rank`` limits the ranks.

    Returns:
        d cores (r_{k-1}, n_k, r_k), all but the last with orthonormal columns.

    Raises:
        ShapeError: The tensor has fewer than two dimensions, or max_rank is below 1.
        FlagError: Both batch and eps are given, or eps is negative or not finite.
        NotFiniteError: The tensor has a NaN or an infinity.
    """
    function = "tt_decompose"
    check_tensor(function, tensor, 2 + batch)
    finite(function, "tensor", tensor)
    if max_rank is not None:
        max_rank = whole(function, "max_rank", max_rank, 1, error=ShapeError)
    check_tolerances(function, eps=eps)
    if batch:
        if eps:
            raise FlagError(f"{function}: batch goes with max_rank, and without eps")
        return list(torch.func.vmap(lambda x: tuple(_cut(x, max_rank, 0.0)))(tensor))
    return _within(tensor, max_rank, eps) if eps else _cut(tensor, max_rank, 0.0)


@untraced(f"with eps {_RANKS}", name="tt_decompose")
def _within(tensor: Tensor, max_rank: int | None, eps: float) -> list[Tensor]:
    """Return cores of the smallest ranks with a relative error of at most ``eps``."""
    one_problem("tt_decompose", tensor, instead="max_rank without eps needs none")
    unit = power_below(tensor)  # errors are roots of sums of squares
    *cores, last = _cut(tensor / unit, max_rank, eps)
    return [*cores, last * unit]


def _cut(x: Tensor, max_rank: int | None, eps: float) -> list[Tensor]:
    sizes, cores, rank = x.shape, [], 1
    allowed = 0.0
    if eps:
        norm = float(torch.linalg.vector_norm(x.detach()))
        # A zero tensor has rank 1.
        allowed = eps * norm / max(len(sizes) - 1, 1) ** 0.5 or torch.finfo(x.dtype).tiny
    rest = x.reshape(sizes[0], -1)
    for size in sizes[:-1]:
        matrix = rest.reshape(rank * size, -1)
        basis = split(matrix, max_rank, allowed)[0]
        cores.append(basis.reshape(rank, size, -1))
        rank = basis.shape[1]
        rest = einsum("ij,ik->kj", matrix, basis.conj().resolve_conj())
    cores.append(rest.reshape(rank, sizes[-1], 1))
    return cores


def tt_reconstruct(cores: Sequence[Tensor]) -> Tensor:
    """Return the full tensor of a train.

    Raises:
        ShapeError: The cores are incompatible.
    """
    _check_cores("tt_reconstruct", cores)
    result = cores[0].flatten(0, 1)
    for core in cores[1:]:
        result = einsum("ij,jk->ik", result, core.flatten(1)).reshape(-1, core.shape[2])
    return result.reshape([core.shape[1] for core in cores])


@untraced(_RANKS)
def tt_round(
    cores: Sequence[Tensor], max_rank: int | None = None, *, eps: float = 0.0
) -> list[Tensor]:
    """Return an approximation of a train with smaller ranks.

    The train is orthogonalized from the right, then truncated by SVDs from the left. No
    intermediate is larger than a core.

    Args:
        cores: The train.
        max_rank: Maximum rank; None for the ranks that ``eps`` requires.
        eps: Maximum relative error.

    Raises:
        ShapeError: The cores are incompatible, or max_rank is below 1.
        FlagError: eps is negative or not finite.
        DTypeError: A core is narrower than float32.
        NotFiniteError: A core has a NaN or an infinity.
    """
    function = "tt_round"
    _check_cores(function, cores)
    for number, core in enumerate(cores):
        if core.is_floating_point():
            check_dtype(function, f"cores[{number}]", core)
        finite(function, f"cores[{number}]", core)
    if max_rank is not None:
        max_rank = whole(function, "max_rank", max_rank, 1, error=ShapeError)
    check_tolerances(function, eps=eps)
    one_problem(function, *cores)
    found, units = _around_one(cores)
    for k in range(len(found) - 1, 0, -1):
        first, size, last = found[k].shape
        q, r = torch.linalg.qr(found[k].reshape(first, size * last).mH)
        found[k] = q.mH.reshape(-1, size, last)
        found[k - 1] = einsum("aib,bc->aic", found[k - 1], r.mH.resolve_conj())
    norm = float(torch.linalg.vector_norm(found[0].detach()))
    allowed = eps * norm / max(len(found) - 1, 1) ** 0.5
    for k in range(len(found) - 1):
        first, size, last = found[k].shape
        matrix = found[k].reshape(first * size, last)
        # Values below the rounding error of the largest are noise of the factorization.
        floor = torch.finfo(matrix.dtype).eps * norm
        basis = split(matrix, max_rank, max(allowed, floor))[0]
        found[k] = basis.reshape(first, size, -1)
        found[k + 1] = einsum("ij,ik,jnm->knm", matrix, basis.conj().resolve_conj(), found[k + 1])
    found[-1] = _sized(found[-1], units)
    return found


def tt_inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    """Return the inner product of two trains, as a 0-d tensor.

    The left one is conjugated. The cost is d n r^3; the full tensors are not formed.

    Raises:
        ShapeError: The shapes of the tensors differ.
    """
    for name, cores in (("left", left), ("right", right)):
        _check_cores("tt_inner", cores, name)
    shapes = [tuple(core.shape[1] for core in cores) for cores in (left, right)]
    if shapes[0] != shapes[1]:
        raise ShapeError(f"tt_inner: trains must be of one shape, got {shapes[0]} and {shapes[1]}")
    carried = left[0].new_ones(1, 1)
    for a, b in zip(left, right, strict=True):
        carried = einsum("ab,anc,bnd->cd", carried, a.conj().resolve_conj(), b)
    return carried.reshape(())


def tt_norm(cores: Sequence[Tensor]) -> Tensor:
    """Return the 2-norm of the tensor of a train, as a 0-d tensor.

    Raises:
        ShapeError: The cores are incompatible.
    """
    _check_cores("tt_norm", cores)
    scaled, units = _around_one(cores)
    return _sized(tt_inner(scaled, scaled).real.clamp(min=0).sqrt(), units)


def _around_one(cores: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return cores scaled so that squares neither overflow nor underflow, and the scales.

    The scales are powers of two as in ``power_below``, but tensors: the device is not synchronized.
    """
    units = []
    for core in cores:
        peak = core.detach().abs().amax() if core.numel() else core.real.new_ones(())
        units.append(torch.where(peak > 0, peak, 1).log2().floor().exp2())
    return [core / unit for core, unit in zip(cores, units, strict=True)], units


def _sized(x: Tensor, units: Sequence[Tensor]) -> Tensor:
    """Undo the scaling of ``_around_one`` on a result."""
    for unit in units:
        x = x * unit
    return x


def _check_cores(function: str, cores: Sequence[Tensor], name: str = "cores") -> None:
    check_parts(function, name, cores)
    shapes = [tuple(core.shape) for core in cores]
    fit = len(cores) > 0 and all(len(shape) == 3 for shape in shapes)
    if fit:
        fit = shapes[0][0] == shapes[-1][2] == 1
        fit = fit and all(a[2] == b[0] for a, b in pairwise(shapes))
    if not fit:
        raise ShapeError(
            f"{function}: {name} must be (r, n, r') with equal neighbouring ranks, 1 at both ends, "
            f"got {shapes}"
        )
