"""State and operations common to all formats: shape, dtype, device, gradients, dense products.

A format provides its entries by rows (``_by_rows``); operations without a faster path of their own
start from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Complex
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from trnsci.core.arguments import agree, also_spelled, floating
from trnsci.core.errors import OperandError
from trnsci.core.numbers.values import readable
from trnsparse._paths.rows import run_spmm
from trnsparse._patterns.conversions import densified
from trnsparse._patterns.index import group_sums
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.reductions import axis_of, extremes, lines_of, positions
from trnsparse._products.row_products import RowMatrix

_DERIVED = ("_pattern_cache", "_product_cache")


class StoredMatrix(ABC):
    """A sparse matrix with the operations that need no other format."""

    shape: tuple[int, int]
    _entry_ndim: ClassVar[int] = 1
    """Dimensions of the tensor of entries without those of a batch."""

    # -- provided by each format -------------------------------------------------------------------

    @property
    @abstractmethod
    def _data(self) -> Tensor:
        """The tensor of stored entries."""

    @abstractmethod
    def _with_data(self, data: Tensor) -> Self:
        """Return the matrix of this pattern with other entries."""

    @abstractmethod
    def _moved(self, device: torch.device) -> Self:
        """Return the matrix with entries and indices on a device."""

    @abstractmethod
    def _by_rows(self) -> tuple[Tensor, Pattern]:
        """Return entries and pattern by rows; duplicates are allowed and are summed."""

    def _stored(self) -> tuple[Tensor, Pattern]:
        """Return all stored elements by rows, also the zeros of blocks, and their pattern."""
        return self._by_rows()

    # -- entries -----------------------------------------------------------------------------------

    @property
    def entries(self) -> Tensor:
        """The tensor of stored entries, in the layout of the format."""
        return self._data

    def with_entries(self, entries: Tensor) -> Self:
        """Return the matrix of this pattern with other entries, of the shape of ``entries``."""
        if entries.shape != self._data.shape:
            raise OperandError(
                f"with_entries: entries must have shape {tuple(self._data.shape)}, "
                f"got {tuple(entries.shape)}"
            )
        return self._with_data(entries)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of matrices that share the pattern, usually ()."""
        return tuple(self._data.shape[: -self._entry_ndim])

    # -- attributes --------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the entries."""
        return self._data.dtype

    @property
    def device(self) -> torch.device:
        """The device of the entries and indices."""
        return self._data.device

    @property
    def requires_grad(self) -> bool:
        """Whether autograd records operations on the entries."""
        return self._data.requires_grad

    @property
    def grad(self) -> Tensor | None:
        """The gradient by the entries, if one was accumulated."""
        return self._data.grad

    @property
    def ndim(self) -> int:
        """Two, as for a dense matrix."""
        return 2

    @property
    @abstractmethod
    def nnz(self) -> int:
        """Number of stored entries, explicit zeros included."""

    @property
    def density(self) -> float:
        """Number of stored entries over that of all elements; 0.0 for a matrix without elements."""
        elements = self.shape[0] * self.shape[1]
        return self.nnz / elements if elements else 0.0

    def __getstate__(self) -> dict[str, Any]:  # caches are not copied
        return {name: None if name in _DERIVED else x for name, x in vars(self).items()}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self.shape}, nnz={self.nnz}, density={self.density:.4f})"
        )

    # -- dtype, device, gradients ------------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the matrix with another dtype or device; arguments as in ``torch.Tensor.to``.

        Indices keep their dtype. Without a change of dtype or device nothing is copied.
        """
        data = self._data.to(*args, **kwargs)
        if data is self._data:
            return self
        floating("to", "the entries", data)
        moved = self if data.device == self.device else self._moved(data.device)
        return moved._with_data(data)

    def cpu(self) -> Self:
        """Return the matrix on the CPU."""
        return self.to("cpu")

    def detach(self) -> Self:
        """Return the matrix on the same memory, detached from autograd's graph."""
        return self._with_data(self._data.detach())

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have autograd record operations on the entries; return this matrix."""
        self._data.requires_grad_(requires_grad)
        return self

    def clone(self) -> Self:
        """Return a matrix with copied entries; indices are shared."""
        return self._with_data(self._data.clone())

    # -- dense results -----------------------------------------------------------------------------

    def to_dense(self) -> Tensor:
        """Return the dense matrix; duplicates are summed."""
        return densified(*self._by_rows())

    def _product(self, b: Tensor) -> Tensor:
        return run_spmm(RowMatrix(*self._by_rows()), b)

    def matmul(self, other: Tensor) -> Tensor:
        """Return the product with a dense vector (n,) or matrix (..., n, N).

        The same as ``@``, which ``torch.compile(fullgraph=True)`` does not trace.
        """
        self._check_operand(other)
        return self._product(other)

    def product_like(self, b: Tensor) -> Callable[[Tensor], Tensor]:
        """Return ``v -> self @ v`` for operands of the shape, dtype and device of b.

        The operand is validated here, not in each product. While the function is used, the tensors
        of the matrix must not be replaced.
        """
        self._check_operand(b)
        return self._products_like(b)

    def _products_like(self, b: Tensor) -> Callable[[Tensor], Tensor]:
        return self._product

    def _check_operand(self, other: Tensor) -> None:
        agree("matmul", "the matrix", self._data, "the dense operand", other)
        shape, ndim = other.shape, other.ndim
        if ndim == 0 or shape[0 if ndim == 1 else -2] != self.shape[1]:
            raise OperandError(
                f"matmul: the inner dimensions of a product must agree, "
                f"got {self.shape} and {tuple(other.shape)}"
            )

    def diagonal(self) -> Tensor:
        """Return the main diagonal, zero where nothing is stored."""
        values, pattern = self._by_rows()
        size = min(self.shape)
        chosen = (pattern.row_indices == pattern.indices).nonzero().squeeze(-1)
        zeros = values.new_zeros(*values.shape[:-1], size)
        return zeros.index_add(-1, pattern.indices[chosen], values.index_select(-1, chosen))

    @also_spelled("dim", "axis")
    def sum(self, dim: int | None = None) -> Tensor:
        """Return the sum of all elements, or the sums over rows (0) or columns (1)."""
        axis, (values, pattern) = axis_of("sum", dim), self._stored()
        if axis is None:
            return values.sum(-1)
        groups = pattern.indices if axis == 0 else pattern.row_indices
        return group_sums(values, groups, self.shape[1 - axis])

    @also_spelled("dim", "axis")
    def max(self, dim: int | None = None) -> Tensor:
        """Return the largest element, or those over rows (0) or columns (1), as a dense tensor.

        Elements that are not stored count as zeros, and duplicates by their sum. NaN is the result
        where there is one. A gradient is divided between equal elements, as by ``torch.amax``; the
        part of those that are not stored is lost.

        Raises:
            DTypeError: The entries are complex.
            DimensionError: There is no element.
        """
        return self._along("max", dim, extremes, True)

    @also_spelled("dim", "axis")
    def min(self, dim: int | None = None) -> Tensor:
        """Return the smallest element, or those over rows (0) or columns (1), like ``max``."""
        return self._along("min", dim, extremes, False)

    @also_spelled("dim", "axis")
    def argmax(self, dim: int | None = None) -> Tensor:
        """Return the index of the largest element, or its row (0) or column (1), int64.

        Elements that are not stored count as zeros. Without ``dim`` the index is that in the
        flattened matrix. The first of equal elements counts, and the first NaN.

        Raises:
            DTypeError: The entries are complex.
            DimensionError: There is no element.
        """
        readable("argmax", "the matrix", self._data)
        return self._along("argmax", dim, positions, True)

    def _along(
        self, function: str, dim: int | None, reduced: Callable[..., Tensor], largest: bool
    ) -> Tensor:
        found = reduced(*lines_of(function, *self._stored(), dim), largest)
        return found.squeeze(-1) if dim is None else found


def is_scalar(value: Any) -> bool:
    """Return whether ``value`` is a Python number or a tensor without dimensions."""
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Complex)


def check_same_shape(function: str, a: StoredMatrix, b: StoredMatrix) -> None:
    """Raise unless two matrices have the same shape."""
    if a.shape != b.shape:
        raise OperandError(
            f"{function}: both matrices must have one shape, got {a.shape} and {b.shape}"
        )
