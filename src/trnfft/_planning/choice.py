"""Factorization of long transforms, and the constants of their kernels.

Tables are computed with NumPy in float64 from exact angles and rounded to float32 once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trnfft._kernels.angles import chirp, dft_matrix, roots, twiddles
from trnfft._kernels.four_step_geometry import Geometry, chirp_lengths, chunk_columns
from trnfft._kernels.stacked_geometry import RowsGeometry, StackedGeometry
from trnsci.core.tiles.hardware import TILE

Table = npt.NDArray[np.float32]
_Wide = npt.NDArray[np.float64]

DFT_BEST = 512
"""Largest length for which one product with the DFT matrix is fastest. It takes n / 4 passes of the
array for each row of a full batch. A factorization takes as many for 512 points and fewer for 1024,
and does not read a matrix of 8 n^2 bytes."""

DFT_LARGEST = 1024
"""Largest length whose DFT matrix fits in SBUF; prime lengths up to it need no chirp."""

LARGEST_IMAGE = 1024
"""Largest extent of an image that one launch transforms along both dimensions."""

LARGEST_RANK = 5
"""Largest number of dimensions of one launch; a kernel has a fixed number of operands."""

_TENSOR_CYCLES_PER_NS = 2.4 / 4  # float32 takes four passes
_DMA_BYTES_PER_NS = 368.0
_FULL_RUN = 512
"""Least number of contiguous bytes at which DMA reaches its full rate."""


def find_geometry(n: int) -> Geometry | None:
    """Return the factors of the four-step transform of ``n`` points with the least modelled time.

    None means that ``n`` is not a product of two to four factors of at most 128.
    """
    best = min(_candidates(n), key=lambda g: (_stage_ns(g), g), default=None)
    if best is None:
        best = min(_candidates_of_two_stages(n), key=lambda g: (_stage_ns(g), g), default=None)
    return best


def padded_length(n: int) -> int:
    """Return the smallest power-of-two length of the convolution of a chirp transform."""
    return max(4, 1 << (2 * n - 2).bit_length())


def _divisors(n: int) -> list[int]:
    return [f for f in range(2, TILE + 1) if n % f == 0]


def _may_begin(n: int, a: int) -> bool:
    """Return whether ``a`` may be the first factor.

    It must be even if ``n`` is, so that point n / 2 of a half spectrum is in column 0.
    """
    return a % 2 == 0 or n % 2 == 1


def _candidates(n: int) -> Iterator[Geometry]:
    """Yield the factorizations of ``n`` into the two factors of one stage."""
    for a in _divisors(n):
        if 1 < n // a <= TILE and _may_begin(n, a):
            yield Geometry(a, n // a)


def _candidates_of_two_stages(n: int) -> Iterator[Geometry]:
    """Yield the factorizations of ``n`` into three factors or, if there are none, into four."""
    factors = _divisors(n)
    found = False
    for a in factors:
        for b in factors:
            if _may_begin(n, a) and n % (a * b) == 0 and 1 < n // (a * b) <= TILE:
                found = True
                yield Geometry(a, b, 1, n // (a * b))
    if found or n > TILE**4:
        return
    for a in factors:
        for b in factors:
            if not _may_begin(n, a) or n % (a * b) != 0 or n // (a * b) > TILE**2:
                continue
            for c in factors:
                rest = n // (a * b)
                if rest % c == 0 and 1 < rest // c <= TILE:
                    yield Geometry(a, b, c, rest // c)


def _stage_ns(g: Geometry) -> float:
    """Return the modelled time of one transform: products plus transfers."""
    n1, n2 = g.a * g.b, g.c * g.d
    cycles = n2 * _column_cycles(g.a, g.b)
    transfer = _transfer_ns(n1 * n2, g.b if n2 == 1 else chunk_columns(g.a, g.b, n2))
    transfer += _transfer_ns(n1 * n2, g.a)
    if n2 > 1:
        cycles += n1 * _column_cycles(g.c, g.d)
        transfer += 2 * _transfer_ns(n1 * n2, chunk_columns(g.c, g.d, n1))
    return cycles / _TENSOR_CYCLES_PER_NS + transfer


def _column_cycles(a: int, b: int) -> int:
    """Return the Tensor engine cycles of one column of a stage, in passes of the array."""
    return 4 * a + (2 * max(2 * a, b) if a > 1 else 0)


def _transfer_ns(points: int, run: int) -> float:
    """Return the time of moving complex points in contiguous runs."""
    slowed = max(1.0, _FULL_RUN / (4 * run))
    return 8 * points * slowed / _DMA_BYTES_PER_NS


def four_step_constants(g: Geometry, inverse: bool, scale: float) -> Table:
    """Return the vector of constants of a geometry; ``scale`` multiplies the results."""
    last = max(i for i, factor in enumerate(g) if factor > 1)
    tables = [
        _matrix(factor, inverse, scale if i == last else 1.0)
        for i, factor in enumerate(g)
        if factor > 1
    ]
    for first, second in ((g.a, g.b), (g.c, g.d)):
        if first > 1:
            tables += twiddles(second, first, inverse)
    if g.d > 1:
        for part in twiddles(g.c * g.d, g.a * g.b, inverse):
            tables.append(part.reshape(g.c * g.d, g.b, g.a).transpose(1, 0, 2))
    return _vector([*tables, _weights(g)])


def stacked_constants(g: StackedGeometry, inverse: bool, scale: float) -> Table:
    """Return the vector of constants of a stacked geometry; ``scale`` multiplies the results."""
    a, b, d, s, _ = g
    second = _matrix(b, inverse, scale if d == 1 else 1.0).transpose(1, 0, 2)
    wide = [np.kron(part, np.eye(s)) for part in second]
    inner = np.repeat(np.stack(twiddles(b, a, inverse)), s, axis=1)
    tables = [_both(a, inverse, 1.0), np.stack(wide, 1), inner]
    if d > 1:
        # Columns are c = group s + i; outer[k2, i, group, k1] is the root of c (k1 + a k2).
        outer = np.stack(twiddles(d, a * b, inverse)).reshape(2, d // s, s, b, a)
        whole = _both(d, inverse, scale).reshape(2, d // s, s, 2 * d)
        tables += [outer.transpose(0, 3, 2, 1, 4), whole.transpose(0, 2, 1, 3)]
    if g.many is not None:
        tables += _many_rows(g.many, inverse, scale)
    return _vector(tables)


def _many_rows(g: RowsGeometry, inverse: bool, scale: float) -> list[_Wide]:
    """Return the matrices of many rows at once."""
    a, b = g.a, g.b
    columns = np.eye(g.columns)
    # roots[j2, k2, k1] is the root of j2 (k1 + a k2); the last group has bins of the one before.
    whole = [part.reshape(b, b, a) for part in dft_matrix(a * b, inverse, rows=b)]
    starts = [min(i * g.bins, a - g.bins) for i in range(g.groups[1])]
    depth, matrices = b * g.bins, []
    for start in starts:
        blocks = np.zeros((2, g.bins, b, b, g.bins))
        for i in range(g.bins):
            blocks[:, i, :, :, i] = [scale * part[:, :, start + i] for part in whole]
        matrices.append(_real_form(*blocks.reshape(2, depth, depth)))
    real, imaginary = (np.kron(part, columns).astype(np.float64) for part in dft_matrix(a, inverse))
    return [_real_form(real, imaginary), np.stack(matrices, 1)]


def real_rows_constants(g: RowsGeometry, inverse: bool, scale: float, hermitian: bool) -> Table:
    """Return the matrices of ``stacked_rows`` for a real operand, or a real result (``hermitian``).

    For a real result they are the transposed matrices of the opposite direction. Each entry is
    multiplied by 2 if it represents its conjugate, too; each point of a bin is counted once.
    """
    a, b, extent, bins = g.a, g.b, g.extent, g.bins
    directed = inverse != hermitian
    real, imaginary = dft_matrix(a, directed)
    counts = scale * (_counts(a) if hermitian else np.ones(extent))
    parts = real[:, :extent] * counts, (imaginary[:, :extent] * counts)[:, 1 : a - extent + 1]
    real, imaginary = dft_matrix(a * b, directed, rows=b)
    m = np.arange(g.mirrored)
    matrices = []
    for i in range(g.groups[1]):
        start = min(i * bins, extent - bins)
        block = np.zeros((2, bins, b, 2, 2, g.mirrored, bins))
        for place, which in np.ndindex(bins, 2):
            row = bins - 1 - place if which else place
            k2, sign = (b - 1 - m, -1) if which else (m, 1)
            # A real result sums over each k2 once; the middle k2 of an odd b is in both halves.
            used = (k2 >= g.mirrored) | (not hermitian or not which)
            points = start + row + a * k2
            cos, sin = real[:, points] * used, imaginary[:, points] * used
            block[0, row, :, :, which, :, place] = np.stack([cos, sign * sin], 1)
            if 2 * (start + row) % a:  # else the bin's imaginary part is 0
                block[1, row, :, :, which, :, place] = np.stack([-sin, sign * cos], 1)
        matrices.append(block.reshape(2 * b * bins, -1))
    columns = np.kron(np.hstack(parts), np.eye(g.columns)).astype(np.float64)
    if hermitian:
        columns, matrices = columns.T, [matrix.T for matrix in matrices]
    return _vector([columns, np.stack(matrices, 1)])


def _both(factor: int, inverse: bool, scale: float) -> _Wide:
    """Return the real form of the DFT matrix of a factor, by blocks of real and imaginary parts."""
    return scale * _real_form(*dft_matrix(factor, inverse))


def _real_form(real: _Wide, imaginary: _Wide) -> _Wide:
    """Return the matrix that multiplies rows of a real and an imaginary part as a complex one."""
    return np.block([[real, imaginary], [-imaginary, real]])


def _weights(g: Geometry) -> _Wide:
    """Return the weights of points 0 and n / 2 of a half spectrum scaled for conjugate pairs."""
    weights = np.ones(g.a)
    weights[0] = 0.5
    if g.a % 2 == 0:
        weights[g.a // 2] = 0.5
    return weights


def bluestein_constants(n: int, g: Geometry, inverse: bool, scale: float, kind: str) -> Table:
    """Return the constants of a chirp transform on a geometry of at least 2 n - 1 points."""
    points = g.length
    taken, given = chirp_lengths(n, kind)
    real, imaginary = chirp(n, inverse)
    filter_ = np.zeros(points, np.complex128)
    filter_[:n] = real - 1j * imaginary
    filter_[points - n + 1 :] = filter_[1:n][::-1]
    spectrum = np.fft.fft(filter_)
    counted = _counts(n) if kind == "hermitian" else 1.0
    last = scale / points
    inside = four_step_constants(g, False, 1.0)[: -g.a]
    return np.concatenate(
        [
            inside,
            _vector([real[:taken] * counted, imaginary[:taken] * counted]),
            _vector([spectrum.real, spectrum.imag]),
            _vector([real[:given] * last, -imaginary[:given] * last]),
        ]
    )


def butterfly_constants(n: int, inverse: bool) -> Table:
    """Return exp(-2 pi i k / n) for k < n as (2, n), conjugated for the inverse."""
    k = np.arange(n, dtype=np.int64)
    return np.stack(roots(n, -k if inverse else k)).astype(np.float32)


def two_d_constants(n: int, inverse: bool, scale: float, kind: str = "full") -> Table:
    """Return the matrix of one dimension as (rows, 3, columns): -sin, cos and sin parts.

    It is n x n for ``kind="full"``, n x (n // 2 + 1) for ``"half"`` and (n // 2 + 1) x n for
    ``"hermitian"``, with weights of two for points that also represent their conjugate.
    """
    matrix, half = _matrix(n, inverse, scale), n // 2 + 1
    if kind == "half":
        matrix = matrix[:, :, :half]
    if kind == "hermitian":
        matrix = matrix[:half] * _counts(n)[:, None, None]
    return matrix.astype(np.float32)


def _counts(n: int) -> _Wide:
    """Return how many points of the full spectrum each point of a half spectrum represents.

    The number is 2 for a point that also represents its conjugate, and 1 for points 0 and n / 2.
    """
    counts = np.full(n // 2 + 1, 2.0)
    counts[0] = 1.0
    if n % 2 == 0:
        counts[n // 2] = 1.0
    return counts


def _matrix(factor: int, inverse: bool, scale: float) -> _Wide:
    """Return a DFT matrix as (factor, 3, factor): -sin, cos and sin parts."""
    real, imaginary = dft_matrix(factor, inverse)
    return scale * np.stack([-imaginary, real, imaginary], axis=1)


def _vector(tables: list[_Wide]) -> Table:
    return np.concatenate([np.ravel(table) for table in tables]).astype(np.float32)
