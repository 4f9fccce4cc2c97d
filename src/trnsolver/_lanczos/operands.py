"""Matrices of any kind for the Lanczos method: products, and images with a bound on their rounding.

A step takes the product with one vector, by the kernels of trnblas or trnsparse where they are
wanted. The accuracy of the results is measured with images in float64, which no kernel computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci.core.arguments import floating
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.interop import transform_level
from trnsci.core.krylov.implicit import differentiated, values_of
from trnsci.core.krylov.operators import LinearOperator, as_operator
from trnsci.core.numbers.conversions import widest
from trnsci.core.numbers.values import readable
from trnsolver._paths.arguments import working

Product = Callable[[Tensor], Tensor]


class Operand:
    """A matrix A given by products with vectors.

    Attributes:
        given: The matrix as it was given.
        shape: Its shape.
        dtype: The dtype to compute in.
        result: The dtype of results.
        device: The device of its vectors.
        data: The tensor by which A is differentiated; None for a function.
    """

    given: Any
    data: Tensor | None
    shape: tuple[int, int]
    dtype: torch.dtype
    result: torch.dtype
    device: torch.device

    def like(self, *shape: int) -> Tensor:
        """Return a tensor in the dtype and on the device of vectors, not initialized."""
        return torch.empty(*shape, dtype=self.dtype, device=self.device)

    def product(self, adjoint: bool = False) -> Product:
        """Return ``v -> A v``, or ``A^H v``, without derivatives."""
        raise NotImplementedError

    def image(self, X: Tensor, adjoint: bool = False) -> Tensor:
        """Return ``A X``, or ``A^H X``, for columns, with the derivatives of A."""
        raise NotImplementedError

    def measured(self, X: Tensor, norm: float, adjoint: bool = False) -> tuple[Tensor, float]:
        """Return ``A X``, or ``A^H X``, in float64, and a bound on the error of a unit column.

        Args:
            X: Columns.
            norm: A lower bound of the norm of A.
            adjoint: Whether the conjugate transpose is multiplied.
        """
        raise NotImplementedError

    def hermitian_image(self, X: Tensor) -> Tensor:
        """Return the image by the Hermitian part of A, whose gradients are Hermitian too."""
        return (self.image(X) + self.image(X, adjoint=True)) / 2

    def tracked(self, X: Tensor) -> bool:
        """Return whether a derivative of ``A X`` may be taken."""
        return differentiated(self.data)


class _Dense(Operand):
    def __init__(self, function: str, A: Tensor) -> None:
        readable(function, "A", A)
        floating(function, "A", A)
        if A.ndim != 2:
            raise ShapeError(f"{function}: A must be 2-D, got shape {tuple(A.shape)}")
        self.given = self.data = A
        self._tracked = working(A)
        self.values = values_of(function, self._tracked).detach()
        self.shape, self.dtype = (A.shape[0], A.shape[1]), self._tracked.dtype
        self.result, self.device = A.dtype, A.device

    def product(self, adjoint: bool = False) -> Product:
        trans = "C" if adjoint else "N"
        # Of one column: gemv has no kernel.
        return lambda v: gemm(1.0, self.values, v.unsqueeze(-1), transA=trans).squeeze(-1)

    def image(self, X: Tensor, adjoint: bool = False) -> Tensor:
        return gemm(1.0, self._tracked, X, transA="C" if adjoint else "N")

    def measured(self, X: Tensor, norm: float, adjoint: bool = False) -> tuple[Tensor, float]:
        a, sizes = widest(self.values), widest(self.values).abs()
        image = (a.mH if adjoint else a) @ widest(X)
        rows, columns = (float(sizes.sum(dim).max()) if sizes.numel() else 0.0 for dim in (1, 0))
        return image, _rounding(a, max(self.shape)) * math.sqrt(rows * columns)


class _Sparse(Operand):
    def __init__(self, function: str, A: Any) -> None:
        readable(function, "A", A.entries)
        floating(function, "A", A.entries)
        if len(A.shape) != 2:
            raise ShapeError(f"{function}: takes one matrix, not a batch, got shape {A.shape}")
        self.given, self.data = A, A.entries
        self._tracked = A.with_entries(working(A.entries))
        values = values_of(function, self._tracked.entries).detach()
        self.values = A.with_entries(values)
        self.shape, self.dtype = (A.shape[0], A.shape[1]), values.dtype
        self.result, self.device = A.entries.dtype, values.device

    def product(self, adjoint: bool = False) -> Product:
        matrix = self.values.H if adjoint else self.values
        found: Product = matrix.product_like(self.like(matrix.shape[1]))
        return found

    def image(self, X: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = (self._tracked.H if adjoint else self._tracked) @ X
        return found

    def measured(self, X: Tensor, norm: float, adjoint: bool = False) -> tuple[Tensor, float]:
        coo = self.values.to_coo()
        entries = widest(coo.values)
        rows, columns = coo.row_indices.long(), coo.col_indices.long()
        if adjoint:
            rows, columns, entries = columns, rows, entries.conj().resolve_conj()
        m, n = self.shape[::-1] if adjoint else self.shape
        image = torch.stack(
            [entries.new_zeros(m).index_add(0, rows, entries * v[columns]) for v in widest(X).mT], 1
        )
        sizes = entries.abs()
        norms, longest = [], 1
        for places, length in ((rows, m), (columns, n)):
            if sizes.numel():
                norms.append(float(sizes.new_zeros(length).index_add(0, places, sizes).max()))
                longest = max(longest, int(torch.bincount(places).max()))
        return image, _rounding(entries, longest) * math.sqrt(math.prod(norms) if norms else 0.0)


class _Function(Operand):
    """An operator; its products are assumed to be accurate to ``sqrt(n) eps norm(A)``."""

    def __init__(self, function: str, A: Any, n: int | None, like: Tensor | None) -> None:
        shape, order = getattr(A, "shape", None), getattr(A, "order", None)
        if shape is None:
            order = order if isinstance(order, int) else n
            if order is None and like is not None:
                order = like.shape[0]
            if order is None and not callable(A):
                raise DTypeError(
                    f"{function}: A must be a matrix, an operator or a function, "
                    f"got {type(A).__name__}"
                )
            if order is None:
                raise ShapeError(f"{function}: n must give the order of the operator")
            shape = (order, order)
        self.given, self.data, self._function = A, None, function
        self.shape = (int(shape[0]), int(shape[1]))
        known = torch.float32 if like is None else like.dtype
        if like is None:
            own = getattr(A, "dtype", None)
            if isinstance(own, np.dtype):
                known = torch.from_numpy(np.empty(0, own)).dtype
            elif isinstance(own, torch.dtype):
                known = own
        if not (known.is_floating_point or known.is_complex):
            raise DTypeError(f"{function}: A must be floating-point or complex, got {known}")
        self.result, self.device = known, torch.device("cpu") if like is None else like.device
        self.dtype = working(torch.empty(0, dtype=known, device="cpu")).dtype
        self._operator: LinearOperator
        if self.shape[0] == self.shape[1]:
            self._operator = as_operator(function, A, self.like(self.shape[1]))
        else:
            self._operator = _rectangular(function, A, self.shape)

    def product(self, adjoint: bool = False) -> Product:
        operator = self._operator.adjoint() if adjoint else self._operator
        if transform_level() is None:
            return operator
        return lambda v: values_of(self._function, operator(v))

    def image(self, X: Tensor, adjoint: bool = False) -> Tensor:
        operator = self._operator.adjoint() if adjoint else self._operator
        return torch.stack([operator(v) for v in X.mT], 1)

    def hermitian_image(self, X: Tensor) -> Tensor:
        return self.image(X)  # the function is Hermitian, whatever it captures

    def tracked(self, X: Tensor) -> bool:
        if not torch.is_grad_enabled() or differentiated():
            return differentiated()
        return self._operator(X[:, 0]).requires_grad

    def measured(self, X: Tensor, norm: float, adjoint: bool = False) -> tuple[Tensor, float]:
        product = self.product(adjoint)
        image = torch.stack([widest(product(v)) for v in X.to(self.dtype).mT], 1)
        eps = torch.finfo(self.dtype).eps
        return image, max(1.0, math.sqrt(max(self.shape))) * eps * norm


def operand_of(function: str, A: Any, n: int | None = None, like: Tensor | None = None) -> Operand:
    """Return a matrix of any kind that ``as_operator`` accepts; tensors of one matrix.

    Args:
        function: The public function, for messages.
        A: The matrix.
        n: Order of an operator without a shape.
        like: A vector in the dtype and on the device of an operator's vectors.

    Raises:
        DTypeError: A has no products with vectors, or its dtype is an integer.
        ShapeError: A is not 2-D, or the order of an operator is unknown.
    """
    if isinstance(A, Tensor) and A.layout is torch.strided:
        return _Dense(function, A)
    if hasattr(A, "with_entries"):
        return _Sparse(function, A)
    return _Function(function, A, n, like)


def square(function: str, operand: Operand) -> int:
    """Return the order of a square matrix; raise ``ShapeError`` for another one."""
    if operand.shape[0] != operand.shape[1]:
        raise ShapeError(f"{function}: A must be square, got shape {operand.shape}")
    return operand.shape[0]


def shifted_inverse(function: str, operand: Operand, sigma: float, OPinv: Any) -> Product:
    """Return ``v -> (A - sigma)^-1 v``: by ``OPinv``, or by factors of a dense or sparse matrix.

    Raises:
        FlagError: A is a function, and ``OPinv`` is not given.
        SingularMatrixError: sigma is an eigenvalue of A.
    """
    if OPinv is not None:
        return as_operator(function, OPinv, operand.like(operand.shape[0]), "OPinv")
    if isinstance(operand, _Dense):
        return _dense_inverse(function, operand.values, sigma)
    if isinstance(operand, _Sparse):
        return _sparse_inverse(function, operand, sigma)
    raise FlagError(f"{function}: OPinv must be given with sigma if A is a function")


def _dense_inverse(function: str, a: Tensor, sigma: float) -> Product:
    from trnsolver.errors import SingularMatrixError

    moved = a.clone()
    moved.diagonal().sub_(sigma)
    factors, pivots, failed = torch.linalg.lu_factor_ex(moved)
    if int(failed):
        raise SingularMatrixError(f"{function}: A - sigma must be regular, got sigma {sigma}")
    return lambda v: torch.linalg.lu_solve(factors, pivots, v.unsqueeze(-1)).squeeze(-1)


def _sparse_inverse(function: str, operand: _Sparse, sigma: float) -> Product:
    from trnsolver.errors import SingularMatrixError
    from trnsparse import eye_sparse, splu

    matrix = operand.values
    if sigma:
        matrix = matrix - eye_sparse(operand.shape[0], operand.dtype, operand.device) * sigma
    try:
        factors = splu(matrix)
    except SingularMatrixError as error:
        raise SingularMatrixError(
            f"{function}: A - sigma must be regular, got sigma {sigma}: {error}"
        ) from None
    return lambda v: factors.apply(v.unsqueeze(-1), False).squeeze(-1)


def _rectangular(function: str, A: Any, shape: tuple[int, int]) -> LinearOperator:
    """Return the products of an operator that is not square."""
    for name in ("matvec", "rmatvec"):
        if not callable(getattr(A, name, None)):
            raise DTypeError(
                f"{function}: A must be a tensor, a sparse matrix or have matvec and rmatvec, got "
                f"{type(A).__name__}"
            )
    arrays = isinstance(getattr(A, "dtype", None), np.dtype)

    def called(product: Callable[[Any], Any], length: int) -> Product:
        def call(v: Tensor) -> Tensor:
            found: Any = product(v.cpu().resolve_conj().numpy() if arrays else v)
            if isinstance(found, np.ndarray):
                found = torch.from_numpy(np.ascontiguousarray(found))
            if not isinstance(found, Tensor) or found.shape != (length,):
                raise ShapeError(f"{function}: products with A must be vectors of {length}")
            return found.to(v.device, v.dtype)

        return call

    return LinearOperator(called(A.matvec, shape[0]), called(A.rmatvec, shape[1]))


def _rounding(a: Tensor, terms: int) -> float:
    """Return the relative rounding of sums of products, and of a difference with the sum."""
    return (4 if a.is_complex() else 1) * (terms + 3) * torch.finfo(torch.float64).eps
