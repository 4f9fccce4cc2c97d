"""The transform of vectors that are longer than the memory of a rank, in four steps.

A vector of ``rows * columns`` points is a matrix in row-major order. Ranks transform its columns,
multiply by twiddle factors, exchange columns for rows, and transform these. The result is the
transpose of the spectrum as a matrix (Bailey, FFTs in external or hierarchical memory, 1990).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnfft import transforms
from trnfft._paths.arguments import Norm, checked_norm
from trnfft.complex_tensor import ComplexTensor
from trnfft.distributed.four_steps import Matrix, factors, to_columns, to_vector, twiddled
from trnfft.distributed.nd import check_dtype, split_of
from trnsci.core.arguments import whole
from trnsci.core.distributed.agreement import agreement, gradients
from trnsci.core.distributed.collectives import exchange
from trnsci.core.distributed.groups import ranks_of_mesh
from trnsci.core.distributed.layout import even_sizes, local_of, mesh_of, with_local
from trnsci.core.errors import FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

_LONGEST = 2**31 - 1
"""Limit of the exactly reduced angles of twiddle factors."""


def fft(x: DTensor, norm: Norm = None, *, transposed: bool = False, check: bool = True) -> DTensor:
    """Return the Fourier transform of vectors that are split over the ranks.

    Vectors are along the last dimension; other dimensions are a batch. Ranks transform the columns
    of a matrix with :func:`trnfft.fft`, multiply by twiddle factors, and transform its rows. That
    takes three all-to-all, or two if the result is transposed. Work and memory are balanced if the
    length is a product of two multiples of the number of ranks. With a prime length one rank holds
    all points. All ranks must compute gradients together.

    Args:
        x: Real or complex DTensor, split along its last dimension.
        norm: Normalization, as :func:`trnfft.fft`.
        transposed: Whether the result is a matrix (..., columns, rows), split along its last
            dimension. In row-major order it is the spectrum in natural order. By default the result
            has the shape and the placements of ``x``.
        check: Whether ranks compare their arguments first.

    Raises:
        FlagError: norm is not one of torch's, the mesh has more than two dimensions, placements are
            not Shard, or none splits the last dimension.
        ShapeError: There are no points or more than 2**31 - 1, or a rank's part has another size
            than ``torch.chunk`` gives.
        DTypeError: x is not a DTensor, or not float32, float64, complex64 or complex128.
        BackendError: There is no process group, or the mesh does not contain this rank.
        RankError: Ranks gave different arguments, or a rank has ended.
    """
    return _transformed("fft", x, norm, transposed, check)


def ifft(x: DTensor, norm: Norm = None, *, transposed: bool = False, check: bool = True) -> DTensor:
    """Return the inverse of :func:`fft`.

    Args:
        x: Spectra: vectors in natural order, or matrices of a transposed :func:`fft`.
        norm: Normalization, as :func:`trnfft.ifft`.
        transposed: Whether the last two dimensions of ``x`` are the matrix of a transposed
            :func:`fft`. The result has vectors along its last dimension in both cases.
        check: Whether ranks compare their arguments first.

    Raises:
        FlagError, ShapeError, DTypeError, BackendError, RankError: As :func:`fft`.
    """
    return _transformed("ifft", x, norm, transposed, check)


def _transformed(kind: str, x: DTensor, norm: Norm, transposed: bool, check: bool) -> DTensor:
    from torch.distributed.tensor import Shard

    function = f"trnfft.distributed.{kind}"
    with agreement(function, x, check=check) as describe:
        mesh = mesh_of(function, x=x)
        every = ranks_of_mesh(function, mesh)
        checked_norm(function, norm)
        split = split_of(function, "x", x.placements, x.ndim, mesh.ndim)
        vectors = vectors_of(function, kind, x, mesh.shape, split, transposed)
        local = local_of(function, "x", x)
        describe(
            f"x of shape {tuple(x.shape)} in {x.dtype}, {gradients(x)}, dimensions {split} "
            f"split, norm {norm}, transposed {transposed}"
        )
    ranks, before, after = every[vectors.mesh_dim], vectors.before, vectors.after
    if vectors.from_matrix:
        found = local.movedim((-2, -1), (0, 1))
    else:
        found = to_columns(local.movedim(-1, 0), before, ranks)
    found = _along(kind, found, 0, norm)
    points = before.rows * before.columns
    found = twiddled(found, points, before.columns_of(ranks.rank), kind == "ifft")
    sizes = [even_sizes(size, ranks.size) for size in (before.columns, before.rows)]
    found = exchange(found, ranks, 1, 0, *sizes)
    found = _along(kind, found, 1, norm).transpose(0, 1)
    if vectors.to_matrix:
        found = found.movedim((0, 1), (-2, -1))
    else:
        found = to_vector(found, after, ranks).movedim(0, -1)
    shape = vectors.result_shape
    dims = [len(shape) - 1 if at == vectors.mesh_dim else dim for at, dim in enumerate(split)]
    return with_local(found.contiguous(), mesh, [Shard(dim) for dim in dims], shape)


def _along(kind: str, x: Tensor, dim: int, norm: Norm) -> Tensor:
    found: Any = getattr(transforms, kind)(x, None, dim, norm)
    return found.to_torch_complex() if isinstance(found, ComplexTensor) else found


@dataclass(frozen=True)
class Vectors:
    """Vectors of a call.

    Attributes:
        batch: Shape of the batch.
        before: The operand as a matrix.
        mesh_dim: The mesh dimension that splits it.
        from_matrix: Whether the operand is that matrix.
        to_matrix: Whether the result is the matrix ``after``.
    """

    batch: tuple[int, ...]
    before: Matrix
    mesh_dim: int
    from_matrix: bool
    to_matrix: bool

    @property
    def after(self) -> Matrix:
        """The result as a matrix."""
        return Matrix(self.before.columns, self.before.rows, self.before.ranks)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        rows, columns = self.after.rows, self.after.columns
        return (*self.batch, rows, columns) if self.to_matrix else (*self.batch, rows * columns)


def vectors_of(
    function: str,
    kind: str,
    x: Tensor,
    grid: tuple[int, ...],
    split: tuple[int, ...],
    transposed: bool,
) -> Vectors:
    """Return the vectors of a call; the values of x are not read.

    Raises:
        DTypeError: The transform does not accept the dtype.
        FlagError: The last dimension is not split, or the rows of a matrix are split.
        ShapeError: There are no points or too many.
    """
    check_dtype(function, kind, x.dtype)
    from_matrix = transposed and kind == "ifft"
    if from_matrix and x.ndim < 2:
        raise ShapeError(
            f"{function}: x must have two dimensions or more if transposed, got {tuple(x.shape)}"
        )
    last = x.ndim - 1
    if last not in split or (from_matrix and last - 1 in split):
        raise FlagError(
            f"{function}: x of shape {tuple(x.shape)} must be split along its last dimension"
            f"{' and not along the one before' if from_matrix else ''}, got dimensions {split} "
            f"split; fftn with dim=-1 transforms vectors that each rank holds whole"
        )
    batch = tuple(x.shape[: -2 if from_matrix else -1])
    points = x.shape[-2] * x.shape[-1] if from_matrix else x.shape[-1]
    whole(function, "the length of the vectors", points, 1, _LONGEST, error=ShapeError)
    ranks = grid[split.index(last)]
    rows, columns = (x.shape[-2], x.shape[-1]) if from_matrix else factors(points, ranks)
    matrix = Matrix(rows, columns, ranks)
    return Vectors(batch, matrix, split.index(last), from_matrix, transposed and kind == "fft")
