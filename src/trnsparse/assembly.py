"""Matrices from diagonals, from other sparse matrices, and at random."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.arguments import agree, data_type, floating, whole
from trnsci.core.errors import DTypeError, FlagError, OperandError, ShapeError
from trnsci.core.numbers.values import shapes_are_static
from trnsparse._library import no_kernel
from trnsparse._patterns.conversions import row_places
from trnsparse._patterns.index import (
    counted,
    first_of_each,
    on_host,
    outside_transforms,
    pointers,
)
from trnsparse._patterns.layouts import as_scipy_csr, parts_of_scipy
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.algebra import common_batch
from trnsparse.formats import CSRMatrix, SparseMatrix

if TYPE_CHECKING:
    from trnrand import Generator

__all__ = ["diags", "hstack", "kron", "random_sparse", "vstack"]

Diagonal: TypeAlias = Tensor | Sequence[complex] | complex

_INT32_MAX = torch.iinfo(torch.int32).max


def diags(
    diagonals: Diagonal | Sequence[Diagonal],
    offsets: int | Sequence[int] = 0,
    shape: tuple[int, int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> CSRMatrix:
    """Return the matrix with these diagonals, in CSR format.

    Args:
        diagonals: The elements of each diagonal, from its first row on: a tensor (..., length), a
            sequence of numbers, or a number for all of its elements. One diagonal if ``offsets`` is
            an integer.
        offsets: The place of each diagonal: 0 for the main one, k > 0 for the k-th above it, k < 0
            for below. No two are equal.
        shape: Rows and columns; None for the square matrix that the longest diagonal reaches.
        dtype: Dtype of the entries; None for that of the tensors, or torch's default.
        device: Device of the entries; None for that of the tensors, or torch's default.

    Gradients reach diagonals that are tensors; leading dimensions are batches on one pattern.

    Raises:
        ShapeError: The numbers of diagonals and offsets differ, a diagonal has another length than
            its place in the shape, an offset is outside, or the shape cannot be inferred.
        FlagError: Two offsets are equal.
        DTypeError: The entries are integers, or an offset is not an integer.

    Example:
        >>> diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(3, 3)).to_dense()
        tensor([[ 2., -1.,  0.],
                [-1.,  2., -1.],
                [ 0., -1.,  2.]])
    """
    no_kernel("diags")
    each: list[Any] = list(offsets) if isinstance(offsets, Sequence) else [offsets]
    places = [whole("diags", "offsets", k) for k in each]
    many = isinstance(diagonals, Sequence) or (isinstance(diagonals, Tensor) and diagonals.ndim)
    given: Any = diagonals if many and isinstance(offsets, Sequence) else [diagonals]
    if len(given) != len(places) or not given:
        raise ShapeError(
            f"diags: diagonals and offsets must be as many, at least one, got {len(given)} and "
            f"{len(places)}"
        )
    if len(set(places)) < len(places):
        raise FlagError(f"diags: offsets must differ, got {places}")
    entries = dict(zip(places, _entries(list(given), dtype, device), strict=True))
    if shape is None:
        reach = [abs(k) + part.shape[-1] for k, part in entries.items() if part.ndim]
        if not reach:
            raise ShapeError("diags: shape must be given where every diagonal is a number")
        shape = (max(reach), max(reach))
    rows, columns = (whole("diags", "shape", n, least=0, error=ShapeError) for n in shape)
    lengths = {k: min(rows + min(k, 0), columns - max(k, 0)) for k in sorted(places)}
    for k, length in lengths.items():
        part = entries[k]
        if length < 0 or (part.ndim and part.shape[-1] not in (1, length)):
            raise ShapeError(
                f"diags: the diagonal at offset {k} must have the {max(length, 0)} elements of its "
                f"place in shape {(rows, columns)}, got shape {tuple(part.shape)}"
            )
    batch = common_batch("diags", *(part.shape[:-1] for part in entries.values()))
    values = torch.cat([entries[k].expand(*batch, n) for k, n in lengths.items()], -1)
    pattern, order = _diagonal_pattern(lengths, (rows, columns), values.device)
    return CSRMatrix._of(values.index_select(-1, order), pattern)


def kron(A: SparseMatrix, B: SparseMatrix) -> CSRMatrix:
    """Return the Kronecker product of two sparse matrices, in CSR format.

    Block (i, j) of the result is ``A[i, j] * B``. Its entries are all products of an entry of A and
    one of B. Gradients reach both; batches broadcast.

    Raises:
        DTypeError: The dtypes differ, or an operand is not sparse.
        ShapeError: The batches do not broadcast.

    Example:
        >>> kron(eye_sparse(2), diags([1.0, 2.0])).to_dense().diagonal()
        tensor([1., 2., 1., 2.])
    """
    no_kernel("kron")
    a, b = _rows_of("kron", "A", A), _rows_of("kron", "B", B)
    agree("kron", "A", a.values, "B", b.values)
    batch = common_batch("kron", a.batch_shape, b.batch_shape)
    pattern, order = _kronecker_pattern(a.pattern, b.pattern)
    products = a.values.expand(*batch, -1).unsqueeze(-1) * b.values.unsqueeze(-2)
    return CSRMatrix._of(products.flatten(-2).index_select(-1, order), pattern)


def vstack(matrices: Sequence[SparseMatrix]) -> CSRMatrix:
    """Return sparse matrices below each other as one, in CSR format.

    Args:
        matrices: Matrices of any formats with equal columns, of one dtype and device.

    Gradients reach the entries of all; batches broadcast.

    Raises:
        OperandError: The numbers of columns differ, or there is no matrix.
        DTypeError: The dtypes differ, or an operand is not sparse.
    """
    no_kernel("vstack")
    parts = _stack("vstack", matrices, 1)
    return _stacked("vstack", parts, _vertical([part.pattern for part in parts]), None)


def hstack(matrices: Sequence[SparseMatrix]) -> CSRMatrix:
    """Return sparse matrices next to each other as one, in CSR format.

    Args:
        matrices: Matrices of any formats with equal rows, of one dtype and device.

    Gradients reach the entries of all; batches broadcast.

    Raises:
        OperandError: The numbers of rows differ, or there is no matrix.
        DTypeError: The dtypes differ, or an operand is not sparse.
    """
    no_kernel("hstack")
    parts = _stack("hstack", matrices, 0)
    return _stacked("hstack", parts, *_horizontal([part.pattern for part in parts]))


def random_sparse(
    shape: tuple[int, int],
    density: float = 0.01,
    *,
    dtype: torch.dtype = torch.float32,
    generator: Generator | None = None,
    device: torch.device | str | None = None,
) -> CSRMatrix:
    """Return a matrix with entries at random places, uniform on [0, 1), in CSR format.

    Args:
        shape: Rows and columns.
        density: Number of entries over that of all elements, from 0 to 1; the number is rounded.
        dtype: Dtype of the entries; the parts of a complex one are both uniform.
        generator: A generator of trnrand, so that a seed gives the same matrix on every device;
            None for trnrand's default one.
        device: Device of the matrix; None for that of the generator.

    Every set of places is equally likely. The places are drawn first, then the entries.

    Raises:
        FlagError: ``density`` is not from 0 to 1.
        ShapeError: ``shape`` is not that of a matrix.
        DTypeError: ``dtype`` is neither floating point nor complex.

    Example:
        >>> random_sparse((100, 100), 0.05, generator=trnrand.Generator(0)).nnz
        500
    """
    no_kernel("random_sparse")
    data_type("random_sparse", "dtype", dtype)
    floating("random_sparse", "dtype", torch.empty(0, dtype=dtype, device="cpu"))
    if not 0 <= density <= 1:
        raise FlagError(f"random_sparse: density must be from 0 to 1, got {density}")
    if not isinstance(shape, Sequence) or len(shape) != 2:
        raise ShapeError(f"random_sparse: shape must be two integers, got {shape!r}")
    rows, columns = (whole("random_sparse", "shape", n, least=0, error=ShapeError) for n in shape)
    count = round(density * rows * columns)
    keys, values = _drawn(rows * columns, count, dtype, {"generator": generator, "device": device})
    places = torch.div(keys, max(columns, 1), rounding_mode="floor")
    pattern = Pattern(pointers(places, rows), keys - places * columns, (rows, columns))
    pattern.known_canonical = True
    return CSRMatrix._of(values, pattern)


# -- operands --------------------------------------------------------------------------------------


def _entries(
    diagonals: list[Any], dtype: torch.dtype | None, device: torch.device | str | None
) -> list[Tensor]:
    """Return diagonals as tensors of one dtype on one device."""
    tensors = [d for d in diagonals if isinstance(d, Tensor)]
    for other in tensors[1:] if dtype is None or device is None else ():
        agree("diags", "one of diagonals", tensors[0], "another", other)
    if device is None and tensors:
        device = tensors[0].device
    try:
        parts = [torch.as_tensor(d, device=device) for d in diagonals]
        if dtype is None and tensors:
            dtype = tensors[0].dtype
        elif dtype is None:
            dtype = reduce(torch.promote_types, (p.dtype for p in parts), torch.get_default_dtype())
        parts = [part.to(dtype) for part in parts]
    except (TypeError, ValueError, RuntimeError):
        raise DTypeError(
            "diags: diagonals must be tensors, sequences of numbers or numbers"
        ) from None
    for part in parts:
        floating("diags", "diagonals", part)
    return parts


def _rows_of(function: str, name: str, A: SparseMatrix) -> CSRMatrix:
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"{function}: {name} must be a sparse matrix, got {type(A).__name__}")
    return A.to_csr()


def _stack(function: str, matrices: Sequence[SparseMatrix], axis: int) -> list[CSRMatrix]:
    """Return matrices by rows, which have one size along an axis."""
    if not isinstance(matrices, Sequence) or not matrices:
        raise OperandError(f"{function}: matrices must be a sequence of at least one matrix")
    parts = [_rows_of(function, "each matrix", A) for A in matrices]
    for part in parts[1:]:
        agree(function, "the first matrix", parts[0].values, "another", part.values)
        if part.shape[axis] != parts[0].shape[axis]:
            raise OperandError(
                f"{function}: matrices must have equal {('rows', 'columns')[axis]}, "
                f"got shapes {parts[0].shape} and {part.shape}"
            )
    return parts


def _stacked(
    function: str, parts: list[CSRMatrix], pattern: Pattern, order: Tensor | None
) -> CSRMatrix:
    batch = common_batch(function, *(part.batch_shape for part in parts))
    values = torch.cat([part.values.expand(*batch, -1) for part in parts], -1)
    return CSRMatrix._of(values if order is None else values.index_select(-1, order), pattern)


# -- patterns --------------------------------------------------------------------------------------


def _index_dtype(patterns: Sequence[Pattern], shape: tuple[int, int], entries: int) -> torch.dtype:
    """Return the index dtype of a pattern made of others: int32 if they and the result have it."""
    dtype = reduce(torch.promote_types, (p.indices.dtype for p in patterns))
    return dtype if max(*shape, entries) <= _INT32_MAX else torch.int64


def _made(
    ends: Tensor, indices: Tensor, shape: tuple[int, int], patterns: Sequence[Pattern]
) -> Pattern:
    """Return a pattern by the ends of its rows; columns are in order where those of all are."""
    dtype = _index_dtype(patterns, shape, indices.shape[0])
    made = Pattern(functional.pad(ends, (1, 0)).to(dtype), indices.to(dtype), shape)
    made.known_canonical = all(p.known_canonical for p in patterns) or None
    return made


@outside_transforms
def _diagonal_pattern(
    lengths: dict[int, int], shape: tuple[int, int], device: torch.device
) -> tuple[Pattern, Tensor]:
    """Return the pattern of diagonals by increasing offset, and the order of their elements."""
    if device.type == "cpu" and not shapes_are_static():
        from scipy.sparse import diags_array

        first_of = accumulate(lengths.values(), initial=1)  # SciPy leaves out zeros
        parts = [np.arange(i, i + n) for i, n in zip(first_of, lengths.values(), strict=False)]
        places = {"offsets": list(lengths), "shape": shape}
        numbered = diags_array(parts, **places, format="csr", dtype=np.int64)
        order, pattern = parts_of_scipy(numbered, shape, torch.int64)
        pattern.known_canonical = True
        return pattern, order - 1
    offsets = torch.tensor(list(lengths), device=device)
    rows = torch.arange(shape[0], device=device)
    first = torch.searchsorted(offsets, -rows)  # the first diagonal that crosses each row
    ends = torch.cumsum(torch.searchsorted(offsets, shape[1] - rows) - first, 0)
    starts = functional.pad(ends, (1, 0))[:-1] - first
    found = [
        (torch.arange(max(-k, 0), max(-k, 0) + n, device=device), place, k)
        for place, (k, n) in enumerate(lengths.items())
    ]
    order = _inverse(torch.cat([starts[row] + place for row, place, _ in found]))
    indices = torch.cat([row + k for row, _, k in found])[order]
    pattern = Pattern(functional.pad(ends, (1, 0)), indices, shape)
    pattern.known_canonical = True
    return pattern, order


@outside_transforms
def _kronecker_pattern(a: Pattern, b: Pattern) -> tuple[Pattern, Tensor]:
    """Return the pattern of a Kronecker product, and the order of the products by row."""
    shape, counts = (a.rows * b.rows, a.columns * b.columns), counted(b.pointers).to(torch.int64)
    lengths = counted(a.pointers)[:, None] * counts
    ends = torch.cumsum(lengths.flatten(), 0)
    starts = (ends - lengths.flatten()).reshape(lengths.shape)
    # Within a row all entries of a row of b follow each other, for each entry of the row of a.
    places = starts.index_select(0, a.row_indices).index_select(1, b.row_indices)
    places += row_places(a)[:, None] * counts[b.row_indices] + row_places(b)
    order = _inverse(places.flatten())
    indices = (a.indices.to(torch.int64)[:, None] * b.columns + b.indices).flatten()
    return _made(ends, indices[order], shape, (a, b)), order


@outside_transforms
def _vertical(patterns: list[Pattern]) -> Pattern:
    """Return the pattern of matrices below each other."""
    shape = (sum(p.rows for p in patterns), patterns[0].columns)
    ends = torch.cumsum(torch.cat([counted(p.pointers) for p in patterns]).to(torch.int64), 0)
    return _made(ends, torch.cat([p.indices for p in patterns]), shape, patterns)


@outside_transforms
def _horizontal(patterns: list[Pattern]) -> tuple[Pattern, Tensor]:
    """Return the pattern of matrices next to each other, and the order of their entries."""
    widths = list(accumulate((p.columns for p in patterns), initial=0))
    shape, sizes = (patterns[0].rows, widths[-1]), [p.entries for p in patterns]
    if all(on_host(p.indices) for p in patterns):
        from scipy import sparse

        numbers = torch.split(torch.arange(sum(sizes), device="cpu"), sizes)
        parts = [as_scipy_csr(*part) for part in zip(numbers, patterns, strict=True)]
        order, whole = parts_of_scipy(sparse.hstack(parts, format="csr"), shape, torch.int64)
        return _made(whole.pointers[1:], whole.indices, shape, patterns), order
    counts = torch.stack([counted(p.pointers).to(torch.int64) for p in patterns])
    ends = torch.cumsum(counts.sum(0), 0)
    # The entries of a row of each matrix start after those of the matrices before it.
    starts = torch.cumsum(counts, 0) - counts + (ends - counts.sum(0))
    places = [
        start[p.row_indices] + row_places(p) for start, p in zip(starts, patterns, strict=True)
    ]
    order = _inverse(torch.cat(places))
    shifted = [p.indices.to(torch.int64) + w for p, w in zip(patterns, widths[:-1], strict=True)]
    return _made(ends, torch.cat(shifted)[order], shape, patterns), order


def _inverse(places: Tensor) -> Tensor:
    """Return the permutation that moves each element to its place."""
    order = torch.empty_like(places)
    order[places] = torch.arange(places.shape[0], device=places.device)
    return order


def _drawn(
    cells: int, count: int, dtype: torch.dtype, where: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return ``count`` different numbers below ``cells``, in increasing order, and their entries.

    The torch path of trnrand draws them, which has the bits of its kernels.
    """
    import trnrand  # here, so that importing trnsparse does not import it

    least = min(count, cells - count)  # of more than a half, those that are left out are drawn
    parts = 2 if dtype.is_complex else 1
    with trnrand.backend("pytorch"):
        drawn, chosen = trnrand.randint(max(cells, 1), (0,), **where), None
        while chosen is None or chosen.shape[0] < least:
            # Half of all cells takes 1.39 draws for each on average.
            more = least + least // 2 + 16 if least else 0
            drawn = torch.cat([drawn, trnrand.randint(max(cells, 1), (more,), **where)])
            ordered, order = torch.sort(drawn, stable=True)
            chosen = order[first_of_each(ordered)].sort().values  # the first draw of each number
        values = trnrand.uniform(count, parts, dtype=dtype.to_real(), **where)
    keys = drawn[chosen[:least]].sort().values
    if least < count:
        every = torch.ones(cells, dtype=torch.bool, device=keys.device)
        every[keys] = False
        keys = every.nonzero().squeeze(-1)
    return keys, torch.view_as_complex(values) if parts == 2 else values[:, 0]
