"""Preconditioners of sparse matrices: functions ``r -> z`` that approximately solve ``A z = r``.

Each takes the matrices that ``cg`` takes, a sparse matrix of any format of trnsparse, torch or
SciPy, or a dense one, and stays sparse: memory grows with the number of entries. The result is used
as ``M`` of an iterative solver; it takes a vector (n,) or columns (n, k), and can be pickled.
float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import (
    DTypeError,
    FlagError,
    NotPositiveDefiniteError,
    OperandError,
    SingularMatrixError,
)
from trnsci.core.krylov.preconditioners import block_jacobi, checked_diagonal, jacobi, on_columns
from trnsci.core.numbers.conversions import array_of, tensor_of
from trnsci.core.numbers.values import finite, untraced
from trnsparse._factors.incomplete import (
    cholesky_factor,
    cholesky_levels,
    lu_factors,
    lu_levels,
)
from trnsparse._factors.relaxation import relaxation
from trnsparse._library import no_kernel
from trnsparse._products.triangles import Triangle
from trnsparse.formats import (
    BSRMatrix,
    CSRMatrix,
    SparseMatrix,
    from_dense,
    from_scipy,
    from_torch_sparse,
)

__all__ = [
    "amg_preconditioner",
    "block_jacobi_preconditioner",
    "ichol_preconditioner",
    "ilu_preconditioner",
    "jacobi_preconditioner",
    "ssor_preconditioner",
]

Preconditioner = Callable[[Tensor], Tensor]

_NARROW = (torch.float16, torch.bfloat16)
_BLOCK = 16
_SHIFTS = 12


@untraced()
def jacobi_preconditioner(A: SparseMatrix) -> Preconditioner:
    """Return the Jacobi preconditioner, division by the diagonal.

    Raises:
        SingularMatrixError: An element of the diagonal is zero.
    """
    no_kernel("jacobi_preconditioner")
    name = "jacobi_preconditioner"
    return on_columns(jacobi(name, _square(name, A).diagonal()))


@untraced()
def block_jacobi_preconditioner(A: SparseMatrix, block_size: int | None = None) -> Preconditioner:
    """Return the block Jacobi preconditioner, the solve with the diagonal blocks.

    Args:
        A: The matrix.
        block_size: Order of the blocks, of which the last may be smaller; None for that of a BSR
            matrix, and 16 for others.

    Raises:
        SingularMatrixError: A diagonal block is singular.
        FlagError: The block size is below 1.
    """
    no_kernel("block_jacobi_preconditioner")
    name = "block_jacobi_preconditioner"
    if block_size is None:
        block_size = A.block_size if isinstance(A, BSRMatrix) else _BLOCK
    size = whole(name, "block_size", block_size, 1, error=FlagError)
    csr = _csr(name, A)
    n = csr.shape[0]
    rows, columns = csr.pattern.row_indices, csr.col_indices
    chosen = (rows // size == columns // size).nonzero().squeeze(-1)
    rows, columns, values = rows[chosen], columns[chosen], csr.values[chosen]
    blocks = values.new_zeros(-(-n // size), size, size)
    places = rows // size, rows % size, columns % size
    blocks = blocks.index_put(places, values, accumulate=True)
    return on_columns(block_jacobi(name, blocks, n, definite=False))


@untraced()
def ssor_preconditioner(A: SparseMatrix, omega: float | None = None) -> Preconditioner:
    """Return one symmetric sweep of over-relaxation, for symmetric (Hermitian) matrices.

    With D the diagonal and L the strict lower triangle of A: ``(D + w L) t = r``,
    ``v = w (2 - w) D t``, ``(D + w L^H) z = v``.

    Args:
        A: The matrix, of which the lower triangle is read.
        omega: Relaxation, between 0 and 2; None estimates a good one by a few products with A.

    Raises:
        FlagError: omega is not between 0 and 2.
        SingularMatrixError: A diagonal entry is zero.
    """
    name = "ssor_preconditioner"
    no_kernel(name)
    if omega is not None and not 0 < omega < 2:
        raise FlagError(f"{name}: omega must be between 0 and 2, got {omega}")
    lower = _lower(_csr(name, A))
    diagonal = checked_diagonal(name, _last_entries(lower))
    omega = relaxation(lower, diagonal) if omega is None else omega
    below = lower.pattern.row_indices != lower.col_indices
    scaled = lower.with_values(torch.where(below, omega * lower.values, lower.values))
    return _Substitutions(scaled, omega * (2 - omega) * diagonal, None)


@untraced()
def ichol_preconditioner(A: SparseMatrix) -> Preconditioner:
    """Return the solve with an incomplete Cholesky factor, which has the pattern of A.

    If the factorization breaks down, it is repeated with a larger diagonal (Manteuffel's shift).
    The factor is computed on the CPU, all entries that do not depend on each other at once.

    Args:
        A: Symmetric (Hermitian) positive definite, of which the lower triangle is read.

    Raises:
        NotPositiveDefiniteError: The factorization breaks down for all shifts of the diagonal.
        NotFiniteError: A has a NaN or an infinity.
    """
    name = "ichol_preconditioner"
    no_kernel(name)
    lower = _lower(_csr(name, A))
    finite(name, "A", lower.values)
    if not bool((_last_entries(lower).real > 0).all()):
        raise NotPositiveDefiniteError(f"{name}: A must have a positive diagonal")
    pointers, columns, values = _arrays(lower)
    levels = cholesky_levels(pointers, columns)
    shift = 0.0
    for _ in range(_SHIFTS):
        raised = values.copy()
        raised[pointers[1:] - 1] *= 1 + shift
        factor = cholesky_factor(levels, raised)
        if factor is not None:
            made = lower.with_values(tensor_of(factor).to(lower.device))
            return _Substitutions(made, None, None)
        shift = max(2 * shift, 1e-3)
    raise NotPositiveDefiniteError(f"{name}: A has no incomplete factor up to shift {shift:g}")


@untraced()
def ilu_preconditioner(A: SparseMatrix) -> Preconditioner:
    """Return the solve with incomplete LU factors, which together have the pattern of A.

    For a symmetric matrix it is symmetric, as ``cg`` requires. There is no exchange of rows: the
    pivots of a matrix with a weak diagonal may be small, or zero.

    Args:
        A: Any square matrix.

    Raises:
        SingularMatrixError: A pivot is zero.
        NotFiniteError: A has a NaN or an infinity.
    """
    name = "ilu_preconditioner"
    no_kernel(name)
    csr = _with_diagonal(_csr(name, A))
    finite(name, "A", csr.values)
    pointers, columns, values = _arrays(csr)
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(pointers))
    diagonal = np.flatnonzero(rows == columns)
    factors = lu_factors(lu_levels(pointers, columns, diagonal), values)
    if factors is None or not factors[diagonal].all():
        raise SingularMatrixError(f"{name}: A must have no zero pivots without exchange of rows")
    made = csr.with_values(tensor_of(factors).to(csr.device))
    return _Substitutions(made, None, made)


@untraced()
def amg_preconditioner(
    A: SparseMatrix, *, sweeps: int = 1, omega: float = 2 / 3, **options: Any
) -> Preconditioner:
    """Return one V-cycle of algebraic multigrid for a symmetric positive definite matrix.

    pyamg (the extra ``amg``) builds the levels by smoothed aggregation. The cycle, with damped
    Jacobi as smoother, uses this library's products on the device of A.

    Args:
        A: The matrix.
        sweeps: Jacobi sweeps before and after each coarse correction.
        omega: Damping of the sweeps.
        **options: Options of ``pyamg.smoothed_aggregation_solver``.

    Raises:
        OperandError: A is not square.
        FlagError: ``sweeps`` is not positive.
        ModuleNotFoundError: pyamg is not installed.
    """
    no_kernel("amg_preconditioner")
    whole("amg_preconditioner", "sweeps", sweeps, 1, error=FlagError)
    csr = _csr("amg_preconditioner", A)
    try:
        import pyamg
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "amg_preconditioner: needs pyamg: pip install 'nkisim[amg]'"
        ) from error

    hierarchy = pyamg.smoothed_aggregation_solver(csr.cpu().to_scipy().tocsr(), **options)
    levels = tuple(_Level.of(level, csr) for level in hierarchy.levels[:-1])
    coarse = torch.from_numpy(hierarchy.levels[-1].A.toarray()).to(csr.device, csr.dtype)
    return _Cycle(levels, torch.linalg.pinv(coarse), sweeps, omega)


class _Substitutions:
    """The solve with a lower triangle T, a diagonal D, and an upper triangle.

    Args:
        lower: Matrix with T in its lower triangle, without its diagonal if ``upper`` is given: then
            that diagonal is ones.
        diagonal: D, which multiplies; None for the identity.
        upper: Matrix with the upper triangle; None for the adjoint of T.
    """

    def __init__(self, lower: CSRMatrix, diagonal: Tensor | None, upper: CSRMatrix | None) -> None:
        self._made_of = lower, diagonal, upper
        self._lower = Triangle(lower.values, lower.pattern, lower=True, unit=upper is not None)
        self._upper = self._lower
        if upper is not None:
            self._upper = Triangle(upper.values, upper.pattern, lower=False, unit=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of

    @untraced(name="a preconditioner by substitution")
    def __call__(self, r: Tensor) -> Tensor:
        lower, diagonal, upper = self._made_of
        if r.is_complex() and not lower.dtype.is_complex:
            return torch.complex(self(r.real), self(r.imag))
        t = self._lower.apply(r.to(lower.dtype), False)
        if diagonal is not None:
            t = diagonal * t if r.ndim == 1 else diagonal.unsqueeze(-1) * t
        return self._upper.apply(t, upper is None).to(r.dtype)


@dataclass(frozen=True)
class _Cycle:
    """A V-cycle of multigrid."""

    levels: tuple[_Level, ...]
    bottom: Tensor
    sweeps: int
    omega: float

    def __call__(self, r: Tensor) -> Tensor:
        return self._at(0, r)

    def _at(self, depth: int, r: Tensor) -> Tensor:
        if depth == len(self.levels):
            return self.bottom @ r
        level = self.levels[depth]
        inverse = level.inverse if r.ndim == 1 else level.inverse.unsqueeze(-1)
        x = self.omega * inverse * r
        for _ in range(self.sweeps - 1):
            x = x + self.omega * inverse * (r - level.A @ x)
        x = x + level.P @ self._at(depth + 1, level.R @ (r - level.A @ x))
        for _ in range(self.sweeps):
            x = x + self.omega * inverse * (r - level.A @ x)
        return x


@dataclass(frozen=True)
class _Level:
    """A multigrid level: matrix, prolongation, restriction and inverted diagonal."""

    A: CSRMatrix
    P: CSRMatrix
    R: CSRMatrix
    inverse: Tensor

    @classmethod
    def of(cls, level: Any, like: CSRMatrix) -> _Level:
        """Return a level of pyamg on the device and in the dtype of a matrix."""
        A, P, R = (
            from_scipy(m.tocsr()).to(like.device, like.dtype) for m in (level.A, level.P, level.R)
        )
        return cls(A, P, R, 1 / A.diagonal())


def _square(function: str, A: Any) -> SparseMatrix:
    """Return a square matrix of any kind as one of trnsparse.

    Raises:
        DTypeError: A is no matrix.
        OperandError: A is not one square matrix.
    """
    if isinstance(A, Tensor):
        found = from_dense(A) if A.layout is torch.strided else from_torch_sparse(A)
    elif isinstance(A, SparseMatrix):
        found = A
    elif hasattr(A, "tocsr"):
        found = from_scipy(A)
    else:
        raise DTypeError(f"{function}: A must be a matrix, got {type(A).__name__}")
    if found.shape[0] != found.shape[1] or found.batch_shape:
        shape = (*found.batch_shape, *found.shape)
        raise OperandError(f"{function}: A must be one square matrix, got shape {shape}")
    return found


def _csr(function: str, A: Any) -> CSRMatrix:
    """Return a square matrix in CSR format without duplicates and derivatives."""
    csr = _square(function, A).detach().to_csr().sum_duplicates()
    return csr.to(torch.float32) if csr.dtype in _NARROW else csr


def _lower(csr: CSRMatrix) -> CSRMatrix:
    """Return the lower triangle, with all of its diagonal stored."""
    chosen = csr.pattern.row_indices >= csr.col_indices
    return _with_diagonal(csr, chosen)


def _with_diagonal(csr: CSRMatrix, chosen: Tensor | None = None) -> CSRMatrix:
    """Return chosen entries, in order of rows and columns, with all of the diagonal stored."""
    n = csr.shape[0]
    rows, columns, values = csr.pattern.row_indices, csr.pattern.indices, csr.values
    if chosen is not None:
        kept = chosen.nonzero().squeeze(-1)
        rows, columns, values = (t.index_select(0, kept) for t in (rows, columns, values))
    rows, columns = rows.long(), columns.long()
    missing = torch.ones(n, dtype=torch.bool, device=rows.device)
    missing[rows[rows == columns]] = False
    places = missing.nonzero().squeeze(-1)
    if len(places):
        rows, columns = torch.cat([rows, places]), torch.cat([columns, places])
        values = torch.cat([values, values.new_zeros(len(places))])
        order = torch.argsort(rows * n + columns)
        rows, columns, values = rows[order], columns[order], values[order]
    pointers = torch.zeros(n + 1, dtype=torch.int64, device=rows.device)
    pointers[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    return CSRMatrix(values, columns, pointers, csr.shape, validate=False)


def _last_entries(lower: CSRMatrix) -> Tensor:
    """Return the last entry of each row: the diagonal of a lower triangle that stores all of it."""
    return lower.values[lower.pattern.pointers[1:] - 1]


def _arrays(csr: CSRMatrix) -> tuple[Any, Any, Any]:
    """Return pointers, columns and values as arrays."""
    parts = csr.row_ptrs, csr.col_indices, csr.values
    pointers, columns, values = (array_of(part.cpu()) for part in parts)
    return pointers, columns, values
