"""The sparse matrix classes: each format's storage together with conversions to the other formats.

The classes refer to each other as results of conversions, so they are declared in one module. The
arrays of a format and the operations that stay within it are in ``trnsparse.formats._storage``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from torch import Tensor

from trnsci.core.arguments import broadcast
from trnsci.core.errors import FlagError, OperandError
from trnsparse._patterns.conversions import compressed, transposed
from trnsparse._patterns.index import copied, expanded
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.algebra import added_to_dense, multiplied
from trnsparse.formats._storage.base import StoredMatrix, check_same_shape, is_scalar
from trnsparse.formats._storage.bsr import BSRStorage
from trnsparse.formats._storage.coo import COOStorage
from trnsparse.formats._storage.csc import CSCStorage
from trnsparse.formats._storage.csr import CSRStorage
from trnsparse.formats._storage.ell import ELLStorage
from trnsparse.formats._storage.selection import select

_FORMATS = ("bsr", "coo", "csc", "csr", "ell")


class SparseMatrix(StoredMatrix):
    """Base class of the sparse formats: a matrix of which only some entries are stored.

    Attributes:
        shape: Rows and columns.
        format: Name of the format, as in SciPy.
    """

    format: ClassVar[str]

    # -- formats -----------------------------------------------------------------------------------

    def asformat(self, format: str, **options: Any) -> Any:
        """Return the matrix in the format of that name: csr, csc, coo, bsr or ell."""
        if format not in _FORMATS:
            raise FlagError(f"format must be one of {', '.join(_FORMATS)}, got {format!r}")
        return getattr(self, f"to_{format}")(**options)

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in CSR format, columns in order and without duplicates."""
        return CSRMatrix._of(*self._by_rows()).sum_duplicates()

    def to_coo(self) -> COOMatrix:
        """Return the matrix in COO format, ordered by row."""
        return COOMatrix._of_rows(*self._by_rows())

    def to_csc(self) -> CSCMatrix:
        """Return the matrix in CSC format."""
        return CSCMatrix._of(*transposed(*self._by_rows()))

    def to_bsr(self, block_size: int = 128, threshold: float = 0.0) -> BSRMatrix:
        """Return the matrix in dense blocks, without those whose entries are within threshold."""
        return BSRMatrix.from_csr(self.to_csr(), block_size, threshold)

    def to_ell(self) -> ELLMatrix:
        """Return the matrix with all rows padded to the length of the longest."""
        return ELLMatrix.from_csr(self.to_csr())

    def to_scipy(self) -> Any:
        """Return SciPy's sparse array of the same format.

        Its data share memory with the values unless SciPy would have to sort or sum entries; its
        indices are always copies.
        """
        return self.to_csr().to_scipy()

    def to_torch_sparse(self) -> Tensor:
        """Return torch's sparse tensor of the same layout, on the same memory where possible."""
        return self.to_csr().to_torch_sparse()

    # -- operators ---------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return self.matmul(other)
        if isinstance(other, SparseMatrix):
            return self.to_csr().spgemm(other.to_csr())
        return NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            return NotImplemented
        transposed = self.T
        return transposed.matmul(other) if other.ndim == 1 else transposed.matmul(other.mT).mT

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseMatrix):
            return self.to_csr().added(other.to_csr())
        return self._with_dense(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, SparseMatrix):
            return self.to_csr().added(other.to_csr(), 1.0, -1.0)
        return self + -other if isinstance(other, Tensor) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self._with_dense(other, -1)

    def _with_dense(self, other: Any, sign: int) -> Any:
        if not isinstance(other, Tensor) or is_scalar(other):
            return NotImplemented
        return added_to_dense(*self._stored(), other, sign)

    def __neg__(self) -> Self:
        return self._with_data(-self._data)

    def __mul__(self, other: Any) -> Any:
        if is_scalar(other):
            return self._with_data(self._data * other)
        if isinstance(other, (SparseMatrix, Tensor)):
            return self.to_csr().multiply(other)
        return NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with_data(self._data / other) if is_scalar(other) else NotImplemented

    def __pow__(self, exponent: float) -> CSRMatrix:
        return self.power(exponent)

    # Without this, NumPy's operators would convert a matrix element by element.
    __array_ufunc__ = None

    def power(self, exponent: float) -> CSRMatrix:
        """Return the matrix with every entry raised to a positive power."""
        if exponent <= 0:
            raise FlagError(
                f"power: exponent must be positive, got {exponent}; others turn zeros into entries"
            )
        merged = self.to_csr().sum_duplicates()
        return merged._with_data(merged.values**exponent)

    def __getitem__(self, key: Any) -> Any:
        return self.to_csr().selected(key)

    @abstractmethod
    def transpose(self) -> Any:
        """Return the transpose."""

    @property
    def T(self) -> Any:
        """The transpose; that of CSR is CSC on the same memory, and that of CSC is CSR."""
        return self.transpose()

    @property
    def H(self) -> Any:
        """The conjugate transpose."""
        transposed = self.T
        if not self.dtype.is_complex:
            return transposed
        return transposed._with_data(transposed._data.conj())


class CSRMatrix(CSRStorage, SparseMatrix):
    """A sparse matrix by compressed rows (CSR).

    Args:
        values: Stored entries, (nnz,); (..., nnz) for a batch of matrices on one pattern.
        col_indices: The column of each entry, (nnz,), int64 or int32.
        row_ptrs: Index of the first entry of each row, then nnz, (m + 1,).
        shape: Rows and columns.
        validate: Whether to check that the arguments describe a matrix.

    Columns of a row may be in any order. Duplicates are allowed and are summed;
    ``sum_duplicates`` returns the matrix in order and without duplicates.

    Raises:
        ShapeError: Lengths, pointers or columns do not fit the shape.
        DTypeError: Values are integers, or indices are not.
        DeviceError: The tensors are on several devices.

    Example:
        >>> A = CSRMatrix.from_dense(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
        >>> A @ torch.tensor([1.0, 1.0])
        tensor([1., 5.])
    """

    format = "csr"

    def to_csr(self) -> CSRMatrix:
        """Return this matrix."""
        return self

    @property
    def T(self) -> CSCMatrix:
        """The transpose in CSC format, on the same memory; ``transpose`` returns a copy by rows."""
        return self.transposed_view()

    def transposed_view(self) -> CSCMatrix:
        """Return the transpose in CSC format, on the same memory."""
        made = CSCMatrix._of(self.values, self.pattern)
        made._product_cache = self._matrix
        return made

    def multiply(self, other: Any) -> CSRMatrix:
        """Return the elementwise product with a number, a dense or a sparse matrix.

        A dense operand broadcasts to the shape: a row (n,) or (1, n) scales columns, a column
        (m, 1) rows. Entries that are not stored stay zero.
        """
        if isinstance(other, SparseMatrix):
            check_same_shape("multiply", self, other)
            first, second = self.sum_duplicates(), other.to_csr().sum_duplicates()
            return self._of(*multiplied(first.values, first.pattern, second.values, second.pattern))
        if isinstance(other, Tensor) and other.ndim:
            if broadcast(other.shape[-2:], self.shape) != self.shape:
                raise OperandError(
                    f"multiply: the dense operand must broadcast to {self.shape}, "
                    f"got {tuple(other.shape)}"
                )
            dense = other.expand(*other.shape[:-2], *self.shape)
            return self._with_data(
                self.values * dense[..., self.pattern.row_indices, self.col_indices]
            )
        return self._with_data(self.values * other)

    def selected(self, key: Any) -> Any:
        """Return ``self[key]``: rows, parts of rows, or single elements."""
        return select(self, key)


class CSCMatrix(CSCStorage, SparseMatrix):
    """A sparse matrix by compressed columns (CSC).

    Args:
        values: Stored entries, (nnz,); (..., nnz) for a batch of matrices on one pattern.
        row_indices: The row of each entry, (nnz,), int64 or int32.
        col_ptrs: Index of the first entry of each column, then nnz, (n + 1,).
        shape: Rows and columns.
        validate: Whether to check that the arguments describe a matrix.

    Raises:
        ShapeError: Lengths, pointers or rows do not fit the shape.
        DTypeError: Values are integers, or indices are not.
        DeviceError: The tensors are on several devices.
    """

    format = "csc"

    def to_csc(self) -> CSCMatrix:
        """Return this matrix."""
        return self

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in CSR format."""
        return CSRMatrix._of(*transposed(self.values, self.pattern)).sum_duplicates()

    def to_coo(self) -> COOMatrix:
        """Return the matrix in COO format, ordered by row."""
        return COOMatrix._of_rows(*transposed(self.values, self.pattern))

    def sum_duplicates(self) -> Self:
        """Return the matrix with rows in order and no duplicates; itself if it has none."""
        merged = self.transpose().sum_duplicates()
        return self if merged.pattern is self.pattern else self._of(merged.values, merged.pattern)

    def transpose(self) -> CSRMatrix:
        """Return the transpose in CSR format, on the same memory."""
        return CSRMatrix._of(self.values, self.pattern)


class COOMatrix(COOStorage, SparseMatrix):
    """A sparse matrix as coordinates (COO), in any order; duplicates are summed.

    Args:
        values: Stored entries, (nnz,); (..., nnz) for a batch of matrices on one pattern.
        row_indices: The row of each entry, (nnz,), int64 or int32.
        col_indices: The column of each entry.
        shape: Rows and columns.
        validate: Whether to check that the arguments describe a matrix.

    Raises:
        ShapeError: Lengths or indices do not fit.
        DTypeError: Values are integers, or indices are not.
        DeviceError: The tensors are on several devices.
    """

    format = "coo"

    @classmethod
    def _of_rows(cls, values: Tensor, pattern: Pattern) -> Self:
        rows = expanded(pattern.pointers, pattern.entries)
        return cls(values, rows, copied(pattern.indices), pattern.shape, validate=False)

    def to_coo(self) -> COOMatrix:
        """Return this matrix."""
        return self

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in CSR format; duplicates are summed."""
        return CSRMatrix._of(*compressed(self.values, *self._current, self.shape))

    def to_csc(self) -> CSCMatrix:
        """Return the matrix in CSC format; duplicates are summed."""
        return CSCMatrix._of(*compressed(self.values, *self._current[::-1], self.shape[::-1]))


class BSRMatrix(BSRStorage, SparseMatrix):
    """A sparse matrix of dense square blocks, by block rows (BSR).

    Args:
        blocks: Stored blocks, (nb, b, b); (..., nb, b, b) for a batch of matrices on one pattern.
        block_col_indices: The block column of each block, (nb,), int64 or int32; any order within
            a block row.
        block_row_ptrs: Index of the first block of each block row, then nb, (ceil(m / b) + 1,).
        shape: Rows and columns of elements. Where they are no multiples of ``block_size``, the
            last blocks extend past the edge; elements there must be finite and have no effect.
        block_size: Rows and columns of a block.
        validate: Whether to check that the arguments describe a matrix.

    Raises:
        ShapeError: Lengths, pointers, columns or blocks do not fit.
        FlagError: ``block_size`` is below 1.
        DTypeError: Values are integers, or indices are not.
        DeviceError: The tensors are on several devices.
    """

    format = "bsr"

    @classmethod
    def from_csr(cls, csr: CSRMatrix, block_size: int = 128, threshold: float = 0.0) -> Self:
        """Return the blocks that contain the entries of a CSR matrix.

        A block whose entries are all within ``threshold`` is not stored. Only the stored blocks
        are dense; no dense matrix is formed.
        """
        return cls._of_entries(csr.values, csr.pattern, block_size, threshold)

    def to_bsr(self, block_size: int | None = None, threshold: float = 0.0) -> BSRMatrix:
        """Return the matrix in blocks of that size; itself if it already has them."""
        if block_size in (None, self.block_size) and threshold == 0.0:
            return self
        return type(self).from_csr(self.to_csr(), block_size or self.block_size, threshold)

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in CSR format, without the zero elements of blocks."""
        return CSRMatrix._of(*self._by_rows())

    def to_scipy(self) -> Any:
        """Return SciPy's ``bsr_array``; data are shared as in ``CSRMatrix.to_scipy``.

        SciPy has no blocks that extend past the edge: such a matrix becomes a ``csr_array``.
        """
        return self._as_scipy() if self._whole_blocks else self.to_csr().to_scipy()

    def to_torch_sparse(self) -> Tensor:
        """Return torch's BSR tensor, or its CSR tensor where blocks extend past the edge."""
        return self._as_torch() if self._whole_blocks else self.to_csr().to_torch_sparse()


class ELLMatrix(ELLStorage, SparseMatrix):
    """A sparse matrix with the same number of slots in every row (ELLPACK).

    Args:
        values: The slots, (m, w); (..., m, w) for a batch of matrices on one pattern.
        col_indices: The column of each slot, (m, w), int64 or int32; -1 marks an empty slot, whose
            value must be finite and has no effect.
        shape: Rows and columns.
        validate: Whether to check that the arguments describe a matrix.

    Raises:
        ShapeError: Sizes or columns do not fit.
        DTypeError: Values are integers, or indices are not.
        DeviceError: The tensors are on several devices.
        NotFiniteError: The value of an empty slot is NaN or infinite.
    """

    format = "ell"

    @classmethod
    def from_csr(cls, csr: CSRMatrix) -> Self:
        """Return the matrix with all rows padded to the length of the longest."""
        return cls._of_entries(csr.values, csr.pattern)

    def to_ell(self) -> ELLMatrix:
        """Return this matrix."""
        return self

    def transpose(self) -> ELLMatrix:
        """Return the transpose, its rows padded to the length of the longest."""
        return type(self).from_csr(self.to_csr().transpose())
