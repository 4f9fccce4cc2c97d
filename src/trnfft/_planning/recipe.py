"""Recipes: the algorithm of a transform on a NeuronCore and the constants of its kernel.

A recipe depends only on the lengths, the kind and the norm, so batches of any size share it and its
tables. For a short transform the tables are larger than the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from trnfft._kernels.dft_constants import dft_constants, irfft_constants
from trnfft._kernels.four_step_geometry import Geometry
from trnfft._kernels.stacked_geometry import (
    ImageGeometry,
    RowsGeometry,
    StackedGeometry,
    image_geometry,
    rows_geometry,
    stacked_geometry,
)
from trnfft._planning.choice import (
    DFT_BEST,
    DFT_LARGEST,
    LARGEST_IMAGE,
    LARGEST_RANK,
    bluestein_constants,
    find_geometry,
    four_step_constants,
    padded_length,
    real_rows_constants,
    stacked_constants,
    two_d_constants,
)
from trnfft._planning.norm import Norm, factor_of
from trnsci.core.backend.plan import planned
from trnsci.core.errors import ShapeError

Array = npt.NDArray[np.float32]
Form = Literal["full", "half", "hermitian"]
AnyGeometry = Geometry | StackedGeometry | ImageGeometry

_ONE: dict[str, tuple[Form, bool]] = {
    "fft": ("full", False),
    "ifft": ("full", True),
    "rfft": ("half", False),
    "irfft": ("hermitian", True),
    "hfft": ("hermitian", False),
    "ihfft": ("half", True),
}
KINDS: dict[str, tuple[Form, bool]] = {
    name + several: found for several in ("", "2", "n") for name, found in _ONE.items()
}
"""For each transform: the form of operand and result, and whether the exponent is positive."""


class FFTAlgorithm(Enum):
    """Algorithm of a transform.

    Attributes:
        COOLEY_TUKEY: Factors of at most 128, each a product with its DFT matrix.
        FOUR_STEP: Alias of COOLEY_TUKEY; "four-step" is the name in the literature.
        BLUESTEIN: Convolution with a chirp, by two transforms of ``padded_n`` points.
        DFT_GEMM: One product with the DFT matrix.
        TWO_D: Both dimensions of an image in one launch: by two chained products, or by factors if
            the image is large and its lengths have factors.
        N_D: A chain of products, one for each dimension.
        SEPARABLE: One transform per dimension, each by the algorithm for its length.
    """

    COOLEY_TUKEY = "cooley_tukey"
    FOUR_STEP = "cooley_tukey"
    BLUESTEIN = "bluestein"
    DFT_GEMM = "dft_gemm"
    TWO_D = "two_d"
    N_D = "n_d"
    SEPARABLE = "separable"


@dataclass(frozen=True)
class Recipe:
    """The algorithm and constants of a transform of given lengths.

    Attributes:
        kind: Name of the transform, a key of ``KINDS``.
        sizes: Number of points along each dimension.
        norm: Normalisation, as in torch.
        algorithm: Algorithm of the transform.
        padded_n: Number of points of the inner transforms of BLUESTEIN, else None.
        geometry: Factors of COOLEY_TUKEY, of TWO_D by factors, or of the inner transforms of
            BLUESTEIN. For a full spectrum COOLEY_TUKEY has a StackedGeometry if the length allows
            it.
    """

    kind: str
    sizes: tuple[int, ...]
    norm: Norm
    algorithm: FFTAlgorithm
    padded_n: int | None
    geometry: AnyGeometry | None

    @cached_property
    def form(self) -> Form:
        """Form of the operand and the result: full, half or hermitian."""
        return KINDS[self.kind][0]

    @cached_property
    def inverse(self) -> bool:
        """Whether the exponent has the sign of the inverse transform."""
        return KINDS[self.kind][1]

    @cached_property
    def n(self) -> int:
        """Number of points of one transform."""
        return math.prod(self.sizes)

    @property
    def scale(self) -> float:
        """Factor of the normalisation."""
        return factor_of(self.n, self.inverse, self.norm)

    @property
    def steps(self) -> tuple[Recipe, ...]:
        """The one-dimensional transforms of SEPARABLE in order, else this recipe alone."""
        if self.algorithm is not FFTAlgorithm.SEPARABLE:
            return (self,)
        full = [recipe("ifft" if self.inverse else "fft", (n,), self.norm) for n in self.sizes[:-1]]
        last = recipe(self.kind[:-1], self.sizes[-1:], self.norm)
        return (last, *full) if self.form == "half" else (*full, last)

    @cached_property
    def many(self) -> RowsGeometry | None:
        """Factors of COOLEY_TUKEY for ``stacked_rows``; None if there are none."""
        if isinstance(self.geometry, StackedGeometry):
            return self.geometry.many
        if self.algorithm is not FFTAlgorithm.COOLEY_TUKEY or self.form == "full":
            return None
        return rows_geometry(self.n, True)

    @cached_property
    def constants(self) -> tuple[Array, ...]:
        """The float32 constants of the kernel, in argument order; the arrays are read-only."""
        arrays = self._made()
        for array in arrays:
            array.setflags(write=False)
        return arrays

    def _made(self) -> tuple[Array, ...]:
        if self.algorithm is FFTAlgorithm.SEPARABLE:
            return tuple(array for step in self.steps for array in step.constants)
        if isinstance(self.geometry, ImageGeometry):
            rows, columns = self.geometry
            return (
                stacked_constants(rows, self.inverse, 1.0),
                stacked_constants(columns, self.inverse, self.scale),
            )
        if len(self.sizes) > 1:
            leading = [two_d_constants(n, self.inverse, 1.0) for n in self.sizes[:-1]]
            last = two_d_constants(self.sizes[-1], self.inverse, self.scale, self.form)
            return (*leading, last)
        if self.algorithm is FFTAlgorithm.DFT_GEMM:
            real, imaginary = self._matrix()
            return real.astype(np.float32), imaginary.astype(np.float32)
        assert self.geometry is not None
        if isinstance(self.geometry, StackedGeometry):
            return (stacked_constants(self.geometry, self.inverse, self.scale),)
        if self.algorithm is FFTAlgorithm.BLUESTEIN:
            args = self.n, self.geometry, self.inverse, self.scale, self.form
            return (bluestein_constants(*args),)
        # The scale counts conjugate pairs; points without a conjugate have weight one half.
        scale = 2.0 * self.scale if self.form == "hermitian" else self.scale
        vector = four_step_constants(self.geometry, self.inverse, scale)
        if self.many is not None:
            hermitian = self.form == "hermitian"
            matrices = real_rows_constants(self.many, self.inverse, self.scale, hermitian)
            vector = np.concatenate([vector, matrices])
        return (vector,)

    def _matrix(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the two parts of the matrix of DFT_GEMM."""
        if self.form == "hermitian":
            cos, sin = irfft_constants(self.n, self.scale)
            # The first row of the second part belongs to a real bin, so its sign is unchanged.
            signs = np.where(np.arange(len(sin)) == 0, 1.0, 1.0 if self.inverse else -1.0)
            return cos, sin * signs[:, None]
        real, imaginary = dft_constants(self.n, self.inverse, self.scale)
        bins = self.n // 2 + 1 if self.form == "half" else self.n
        return real[:, :bins], imaginary[:, :bins]


@planned
def recipe(kind: str, sizes: tuple[int, ...], norm: Norm) -> Recipe:
    """Return the recipe of a transform; equal calls return one object.

    Raises:
        ShapeError: No kernel supports this number of points.
    """
    return Recipe(kind, sizes, norm, *_chosen(sizes, KINDS[kind][0]))


def _chosen(
    sizes: tuple[int, ...], form: Form
) -> tuple[FFTAlgorithm, int | None, AnyGeometry | None]:
    """Return the algorithm for the sizes and the form, its padded length and its factors."""
    if len(sizes) > 1:
        if max(sizes) > LARGEST_IMAGE or len(sizes) > LARGEST_RANK:
            for n in sizes:
                _chosen((n,), form)
            return FFTAlgorithm.SEPARABLE, None, None
        if len(sizes) > 2:
            return FFTAlgorithm.N_D, None, None
        if form == "hermitian":
            return FFTAlgorithm.TWO_D, None, None
        height, width = sizes
        return FFTAlgorithm.TWO_D, None, image_geometry(height, width, form == "half")
    n = sizes[0]
    if n <= DFT_BEST:
        return FFTAlgorithm.DFT_GEMM, None, None
    geometry: Geometry | StackedGeometry | None = find_geometry(n)
    stacked = stacked_geometry(n) if form == "full" else None
    # One stage of a four-step transform needs no pass over HBM.
    if stacked is not None and (stacked.d == 1 or geometry is None or geometry.d > 1):
        geometry = stacked
    if geometry is not None:
        return FFTAlgorithm.COOLEY_TUKEY, None, geometry
    if n <= DFT_LARGEST:
        return FFTAlgorithm.DFT_GEMM, None, None
    padded = padded_length(n)
    geometry = find_geometry(padded)
    if geometry is None:
        raise ShapeError(f"plan: no kernel transforms {n} points, which have a large prime factor")
    return FFTAlgorithm.BLUESTEIN, padded, geometry
