"""What all formats have: shape, dtype, device, operators and the ways into each other.

A format says where its entries are by rows (``_by_rows``); everything that is not worth a way of
its own goes from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Complex
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from trnsci.core.arguments import agree, floating
from trnsci.core.errors import FlagError, OperandError
from trnsparse._paths.dispatch import run_spmm
from trnsparse._patterns.conversions import densified, turned
from trnsparse._patterns.index import expanded
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import RowMatrix

if TYPE_CHECKING:
    from trnsparse.formats.bsr import BSRMatrix
    from trnsparse.formats.coo import COOMatrix
    from trnsparse.formats.csc import CSCMatrix
    from trnsparse.formats.csr import CSRMatrix
    from trnsparse.formats.ell import ELLMatrix

__all__ = ["SparseMatrix", "format_named"]

_FORMATS: dict[str, type[SparseMatrix]] = {}
_DERIVED = ("_kept", "_multiplied")


def format_named(name: str) -> Any:
    """Return the class of a format: formats make each other without importing each other."""
    if name not in _FORMATS:
        raise FlagError(f"format must be one of {', '.join(sorted(_FORMATS))}, got {name!r}")
    return _FORMATS[name]


class SparseMatrix(ABC):
    """A matrix of which only some entries are stored.

    Attributes:
        shape: Rows and columns.
        format: Name of the format, as SciPy spells it.
    """

    shape: tuple[int, int]
    format: ClassVar[str]

    def __init_subclass__(cls, format: str, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.format = format
        _FORMATS[format] = cls

    # -- what a format must say --------------------------------------------------------------------

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
        """Return entries and pattern by rows; an entry may come twice, and then counts twice."""

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of matrices that share the pattern, usually ()."""

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
        """Stored entries; zeros that are stored count."""

    @property
    def density(self) -> float:
        """Stored entries over all elements; 0.0 for a matrix without elements."""
        elements = self.shape[0] * self.shape[1]
        return self.nnz / elements if elements else 0.0

    def __getstate__(self) -> dict[str, Any]:  # copies derive what they need from their own tensors
        return {name: None if name in _DERIVED else x for name, x in vars(self).items()}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self.shape}, nnz={self.nnz}, density={self.density:.4f})"
        )

    # -- dtype, device, gradients ------------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the matrix with another dtype or device, as ``torch.Tensor.to`` takes them.

        Indices keep their dtype. What is there already is not copied.
        """
        data = self._data.to(*args, **kwargs)
        if data is self._data:
            return self
        floating("to", "the dtype of the entries", data)
        moved = self if data.device == self.device else self._moved(data.device)
        return moved._with_data(data)

    def cpu(self) -> Self:
        """Return the matrix on the CPU."""
        return self.to("cpu")

    def detach(self) -> Self:
        """Return the matrix on the same memory, outside of autograd's graph."""
        return self._with_data(self._data.detach())

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have autograd record operations on the entries; return this matrix."""
        self._data.requires_grad_(requires_grad)
        return self

    def clone(self) -> Self:
        """Return a matrix with entries of its own; indices, which nothing changes, are shared."""
        return self._with_data(self._data.clone())

    # -- formats -----------------------------------------------------------------------------------

    def asformat(self, format: str, **options: Any) -> Any:
        """Return the matrix in the format of that name: csr, csc, coo, bsr or ell."""
        format_named(format)
        return getattr(self, f"to_{format}")(**options)

    def to_csr(self) -> CSRMatrix:
        """Return the matrix by rows, columns in order and none twice."""
        return format_named("csr")._of(*self._by_rows()).sum_duplicates()

    def to_coo(self) -> COOMatrix:
        """Return the matrix as coordinates, in the order of rows."""
        values, pattern = self._by_rows()
        rows = expanded(pattern.pointers, pattern.entries)
        return format_named("coo")(values, rows, pattern.indices, self.shape, validate=False)

    def to_csc(self) -> CSCMatrix:
        """Return the matrix by columns."""
        return format_named("csc")._of(*turned(*self._by_rows()))

    def to_bsr(self, block_size: int = 128, threshold: float = 0.0) -> BSRMatrix:
        """Return the matrix in dense blocks, without those whose entries are within threshold."""
        return format_named("bsr").from_csr(self.to_csr(), block_size, threshold)

    def to_ell(self) -> ELLMatrix:
        """Return the matrix with all rows as long as the longest."""
        return format_named("ell").from_csr(self.to_csr())

    def to_dense(self) -> Tensor:
        """Return the dense matrix; entries stored twice are added."""
        return densified(*self._by_rows())

    def to_scipy(self) -> Any:
        """Return SciPy's sparse array of the same format.

        Its data are the memory of the values where nothing that SciPy does to bring entries into
        order would move them; its indices are always its own.
        """
        return self.to_csr().to_scipy()

    def to_torch_sparse(self) -> Tensor:
        """Return torch's sparse tensor of the same layout, on the same memory where it can."""
        return self.to_csr().to_torch_sparse()

    # -- operators ---------------------------------------------------------------------------------

    def _product(self, b: Tensor) -> Tensor:
        return run_spmm(RowMatrix(*self._by_rows()), b)

    def matmul(self, other: Tensor) -> Tensor:
        """Return the product with a dense vector (n,) or matrix (..., n, N)."""
        agree("matmul", "the matrix", self._data, "the dense operand", other)
        shape = other.shape
        if not shape or (shape[0] if len(shape) == 1 else shape[-2]) != self.shape[1]:
            raise OperandError(
                f"matmul: the inner dimensions of a product must agree, "
                f"got {self.shape} and {tuple(other.shape)}"
            )
        return self._product(other)

    def _operator(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        return self.matmul

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return self.matmul(other)
        if isinstance(other, SparseMatrix):
            return self.to_csr().spgemm(other.to_csr())
        return NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            return NotImplemented
        turned = self.transpose()
        return turned.matmul(other) if other.ndim == 1 else turned.matmul(other.mT).mT

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseMatrix):
            return self.to_csr().added(other.to_csr())
        return NotImplemented

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, SparseMatrix):
            return self.to_csr().added(other.to_csr(), 1.0, -1.0)
        return NotImplemented

    def __neg__(self) -> Self:
        return self._with_data(-self._data)

    def __mul__(self, other: Any) -> Any:
        if _is_scalar(other):
            return self._with_data(self._data * other)
        if isinstance(other, SparseMatrix):
            return self.to_csr().multiply(other.to_csr())
        if isinstance(other, Tensor):
            return self.to_csr().multiply(other)
        return NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with_data(self._data / other) if _is_scalar(other) else NotImplemented

    def __pow__(self, exponent: float) -> Any:
        return self.power(exponent)

    def power(self, exponent: float) -> Any:
        """Return the matrix with every entry raised to a positive power."""
        if exponent <= 0:
            raise FlagError(
                f"power: exponent must be positive, got {exponent}; others turn zeros into entries"
            )
        return self.to_csr()._raised(exponent)

    def __getitem__(self, key: Any) -> Any:
        return self.to_csr().selected(key)

    # Without this NumPy would take a matrix apart element by element.
    __array_ufunc__ = None

    @abstractmethod
    def transpose(self) -> Any:
        """Return the transpose."""

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    @property
    def H(self) -> Any:
        """The conjugate transpose."""
        turned = self.transpose()
        return turned._with_data(turned._data.conj()) if self.dtype.is_complex else turned

    def diagonal(self) -> Tensor:
        """Return the main diagonal, zero where nothing is stored."""
        values, pattern = self._by_rows()
        size = min(self.shape)
        chosen = (pattern.row_indices == pattern.indices).nonzero().squeeze(-1)
        zeros = values.new_zeros(*values.shape[:-1], size)
        return zeros.index_add(-1, pattern.indices[chosen], values.index_select(-1, chosen))

    def sum(self, dim: int | None = None) -> Tensor:
        """Return the sum of all entries, or the dense sums over rows (0) or columns (1)."""
        values, pattern = self._by_rows()
        if dim is None:
            return values.sum(-1)
        if dim not in (-2, -1, 0, 1):
            raise FlagError(f"sum: dim must be None, 0 or 1, got {dim!r}")
        over_rows = dim % 2 == 0
        groups = pattern.indices if over_rows else pattern.row_indices
        zeros = values.new_zeros(*values.shape[:-1], self.shape[1 if over_rows else 0])
        return zeros.index_add(-1, groups, values)


def _is_scalar(value: Any) -> bool:
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Complex)
