"""Direct solvers: sparse LU on a CPU, and triangular substitution.

Gradients are solutions with the adjoint matrix, by the same factors; gradients by the entries have
the pattern of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad

from trnsci.core.arguments import agree
from trnsci.core.errors import DTypeError, OperandError, SingularMatrixError
from trnsci.core.interop import is_wrapped, with_forward_mode, without_transforms
from trnsci.core.krylov.implicit import values_of
from trnsci.core.numbers.conversions import array_of, tensor_of
from trnsci.core.numbers.values import one_cotangent, untraced
from trnsparse._library import no_kernel
from trnsparse._patterns.conversions import transposed
from trnsparse._patterns.index import outside_transforms, plain
from trnsparse._patterns.layouts import NATIVE
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import RowMatrix, csr_product, sampled_product
from trnsparse._products.triangles import Triangle
from trnsparse.formats import CSRMatrix, SparseMatrix

__all__ = ["SparseLU", "splu", "spsolve", "sptrsv"]


class _Inverse(Protocol):
    """A solver with one matrix, or with its conjugate transpose."""

    def apply(self, b: Tensor, adjoint: bool) -> Tensor:
        """Return the solution for a matrix of right-hand sides, outside of autograd's graph."""
        ...


@untraced()
def spsolve(A: SparseMatrix, b: Tensor) -> Tensor:
    """Return x with ``A x = b``, by SciPy's sparse LU factorization.

    Args:
        A: A square matrix of any format; on another device it is factored on the CPU.
        b: A vector (n,) or matrix (n, k), of A's dtype and device.

    Gradients of any order reach the entries of A, on its pattern, and b, by the same factors.

    Raises:
        OperandError: The shapes do not fit.
        SingularMatrixError: A is singular.
        DTypeError: SciPy does not factor matrices of the dtype.

    Example:
        >>> spsolve(2 * eye_sparse(2), torch.tensor([2.0, 4.0]))
        tensor([1., 2.])
    """
    no_kernel("spsolve")
    matrix = _checked("spsolve", A)
    return _solved("spsolve", matrix, b, lambda values: SparseLU(matrix.with_values(values)))


@untraced()
def splu(A: SparseMatrix) -> SparseLU:
    """Return the LU factorization of a square matrix, for repeated solves.

    Raises:
        OperandError: A is not square.
        SingularMatrixError: A is singular.
        DTypeError: SciPy does not factor matrices of the dtype.
    """
    no_kernel("splu")
    return SparseLU(A)


class SparseLU:
    """LU factorization of a square sparse matrix, as returned by ``splu``.

    A copy, and one that was pickled, factors the same matrix again.

    Attributes:
        shape: Shape of the matrix.
        nnz: Number of entries of both factors, fill-in included.
    """

    def __init__(self, A: SparseMatrix) -> None:
        self.matrix = _checked("splu", A)
        self.shape = A.shape
        self.nnz = 0
        values = values_of("splu", self.matrix.values)
        with without_transforms():
            single = self.matrix.with_values(values.detach()).cpu().sum_duplicates()
            # SuperLU needs CSC with 32-bit indices. This copy is kept: the values may change.
            self._columns: Any = single.to_scipy().tocsc()
            self._order = _order(single)
        self._factor()

    def _factor(self) -> None:
        from scipy.sparse.linalg import splu as factored

        self._factors: Any = None
        if not self.shape[0]:
            return
        try:
            self._factors = factored(self._columns, permc_spec=self._order)
        except RuntimeError as error:
            raise SingularMatrixError(f"splu: the matrix has no inverse: {error}") from error
        self.nnz = int(self._factors.nnz)

    def __getstate__(self) -> dict[str, Any]:  # SuperLU's factors cannot be pickled
        return {name: x for name, x in vars(self).items() if name != "_factors"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._factor()

    @untraced()
    def solve(self, b: Tensor) -> Tensor:
        """Return x with ``A x = b`` for a vector (n,) or matrix (n, k)."""
        return _solved("spsolve", self.matrix, b, lambda values: self)

    def apply(self, b: Tensor, adjoint: bool) -> Tensor:
        """Return the solution for a matrix of right-hand sides, outside of autograd's graph."""
        if self._factors is None:
            return b.clone()
        right = array_of(b.detach().cpu().resolve_conj().contiguous())
        found = tensor_of(self._factors.solve(right, trans="H" if adjoint else "N"))
        return found.to(b.device)


_DOMINANT = 7 / 8
"""Least share of a diagonal entry in the sum of the others of its column for pivots to stay there:
at 0.93 and 0.74 of a Laplacian the fill-in is 0.9 and 2.4 times that of COLAMD."""


def _order(matrix: CSRMatrix) -> str:
    """Return the column ordering for SuperLU with the least fill-in.

    For a symmetric pattern and a dominant diagonal, minimum degree on the graph of A has about half
    the fill-in of COLAMD, which allows for any choice of pivots. Without a dominant diagonal, as of
    a matrix less an inner eigenvalue, pivots leave the diagonal and the fill-in is a multiple.
    """
    pattern = matrix.pattern
    transposed, _ = pattern.transposed
    symmetric = torch.equal(transposed.pointers, pattern.pointers) and torch.equal(
        transposed.indices, pattern.indices
    )
    if not symmetric:
        return "COLAMD"
    diagonal, sizes = matrix.diagonal().abs(), matrix.values.abs()
    columns = sizes.new_zeros(matrix.shape[1]).index_add(0, pattern.indices, sizes)
    dominant = bool(((diagonal > 0) & (diagonal >= _DOMINANT * (columns - diagonal))).all())
    return "MMD_AT_PLUS_A" if dominant else "COLAMD"


@untraced()
def sptrsv(
    A: SparseMatrix, b: Tensor, *, lower: bool = True, unit: bool = False, trans: bool = False
) -> Tensor:
    """Return x with ``T x = b`` for a triangle T of a sparse matrix, by substitution.

    Args:
        A: A square matrix of any format; only one triangle is read.
        b: A vector (n,) or matrix (n, k), of A's dtype and device.
        lower: Whether T is the lower triangle.
        unit: Whether the diagonal is assumed to be ones, and not read.
        trans: Whether to solve with the transpose of the triangle.

    Gradients of any order reach the entries of the triangle, and b.

    Raises:
        OperandError: The shapes do not fit.
        SingularMatrixError: The diagonal has a zero.
        DTypeError: The dtype has no substitution routine.
    """
    no_kernel("sptrsv")
    csr = _checked("sptrsv", A).sum_duplicates()
    pattern = csr.pattern
    read = (
        pattern.row_indices >= pattern.indices if lower else pattern.row_indices <= pattern.indices
    )
    if unit:
        read = read & (pattern.row_indices != pattern.indices)
    # Entries outside of the triangle are multiplied by 0, so they have no effect and no gradient.
    triangle = csr.with_values(torch.where(read, csr.values, 0.0)) if not read.all() else csr
    if trans:
        triangle, lower = triangle.transpose(), not lower
    return _solved("sptrsv", triangle, b, lambda values: _triangle(triangle, values, lower, unit))


def _triangle(matrix: CSRMatrix, values: Tensor, lower: bool, unit: bool) -> Triangle:
    if not unit and not bool((matrix.with_values(values.detach()).diagonal() != 0).all()):
        raise SingularMatrixError("sptrsv: the diagonal has a zero; unit=True assumes ones")
    return Triangle(values, matrix.pattern, lower, unit)


class _Solve(torch.autograd.Function):
    """A solution as one autograd node; its derivatives are solutions with the same factors."""

    @staticmethod
    def forward(
        values: Tensor,
        b: Tensor,
        pattern: Pattern,
        inverse: _Inverse | None,
        make: Callable[[Tensor], _Inverse],
        adjoint: bool,
    ) -> Tensor:
        """Return the solution."""
        return (inverse or make(values)).apply(b, adjoint)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the entries and the solution."""
        values, _, *ctx.others, ctx.adjoint = inputs
        ctx.save_for_backward(values, output)
        ctx.save_for_forward(values, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the entries and by the right-hand sides."""
        one_cotangent("trnsparse: a sparse solution", *grads)
        (values, x), pattern = ctx.saved_tensors, ctx.others[0]
        by_b = _solve(values, grads[0], *ctx.others, not ctx.adjoint)
        by_values = None
        if ctx.needs_input_grad[0]:
            left, right = (x, by_b) if ctx.adjoint else (by_b, x)
            by_values = -sampled_product(pattern, left, right.conj())
        return by_values, by_b, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, of_values: Tensor | None, of_b: Tensor | None, *others: Any) -> Tensor:
        """Return the solution for the tangent of b less that of the matrix times x."""
        # Outer derivatives are needed here, and the tangents of this level are not.
        with with_forward_mode(True):
            values, x = (_unpack_dual(saved)[0] for saved in ctx.saved_tensors)
            pattern = ctx.others[0]
            right = torch.zeros_like(x) if of_b is None else of_b
            if of_values is not None:
                if ctx.adjoint:
                    of_values, pattern = transposed(of_values.conj(), pattern)
                right = right - csr_product(RowMatrix(of_values, pattern), x)
            found: Tensor = _solve(values, right, *ctx.others, ctx.adjoint)
        return found

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Return the solutions of a batch: further columns, or one matrix after the other."""
        values, b, pattern, inverse, make, adjoint = inputs
        size = info.batch_size
        sides = b.expand(size, *b.shape) if in_dims[1] is None else b.movedim(in_dims[1], 0)
        if in_dims[0] is None:
            columns = sides.movedim(0, -1).flatten(1)
            x = _solve(values, columns, pattern, inverse, make, adjoint)
            return x.unflatten(-1, (-1, size)).movedim(-1, 0), 0
        each = zip(values.movedim(in_dims[0], 0), sides, strict=True)
        return torch.stack([_solve(v, c, pattern, make(v), make, adjoint) for v, c in each]), 0


_solve: Any = _Solve.apply
_unpack_dual: Any = forward_ad.unpack_dual


def _solved(
    function: str, matrix: CSRMatrix, b: Tensor, make: Callable[[Tensor], _Inverse]
) -> Tensor:
    """Return the solution; ``make`` returns the solver for given entries of the matrix."""
    agree(function, "A", matrix.values, "b", b)
    if b.ndim not in (1, 2) or b.shape[0] != matrix.shape[0]:
        raise OperandError(
            f"{function}: A and b must agree in their rows, got {matrix.shape} and {tuple(b.shape)}"
        )
    columns = b if b.ndim == 2 else b.unsqueeze(-1)
    values = plain(matrix.values)
    # One solver for the solution and its derivatives; each entry of a batch of vmap has its own.
    inverse = None if is_wrapped(values) else outside_transforms(make)(values)
    x: Tensor = _solve(matrix.values, columns, matrix.pattern, inverse, make, False)
    return x if b.ndim == 2 else x.squeeze(-1)


def _checked(function: str, A: SparseMatrix) -> CSRMatrix:
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"{function}: A must be a sparse matrix, got {type(A).__name__}")
    if A.shape[0] != A.shape[1]:
        raise OperandError(f"{function}: A must be square, got {A.shape}")
    if A.batch_shape:
        raise OperandError(f"{function}: takes one matrix, not a batch {A.batch_shape}")
    if A.dtype not in NATIVE:
        raise DTypeError(f"{function}: A must be float32, float64 or complex, got {A.dtype}")
    return A.to_csr()
