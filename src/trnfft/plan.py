"""Plans: how a transform will run on a NeuronCore, what it takes, and the constants it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from trnfft._arguments import Norm, checked_norm
from trnfft._kernels.dft_constants import dft_constants, irfft_constants
from trnfft._kernels.four_step_geometry import Geometry
from trnfft._planning import (
    DFT_BEST,
    DFT_LARGEST,
    LARGEST_IMAGE,
    bluestein_constants,
    find_geometry,
    four_step_constants,
    padded_length,
    two_d_constants,
)
from trnfft._work import Problem, Work, bluestein_work, dft_work, four_step_work, two_d_work
from trnsci.core.arguments import whole
from trnsci.core.dtypes import dtype_name
from trnsci.core.errors import DimensionError, DTypeError, FlagError, ShapeError
from trnsci.core.hardware import ITEMSIZE, Generation, resolve_generation
from trnsci.core.plan import Cost, Plan, forget_plans, planned

if TYPE_CHECKING:
    import torch

    from trnfft._kinds import Spectrum

__all__ = ["FFTAlgorithm", "FFTPlan", "clear_plan_cache", "create_plan", "plan"]

Kind = Literal["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2"]
Array = npt.NDArray[np.float32]

_SHAPES: dict[str, tuple[str, bool]] = {
    "fft": ("full", False),
    "ifft": ("full", True),
    "rfft": ("half", False),
    "irfft": ("hermitian", True),
    "hfft": ("hermitian", False),
    "ihfft": ("half", True),
    "fft2": ("full", False),
    "ifft2": ("full", True),
    "rfft2": ("half", False),
    "irfft2": ("hermitian", True),
}
"""What each kind reads and writes, and whether its angles are those of the inverse."""

_PARTS = {"complex64": "float32"}


class FFTAlgorithm(Enum):
    """How a transform is computed.

    Attributes:
        COOLEY_TUKEY: By factors of at most 128, each a product with its DFT matrix.
        FOUR_STEP: The same, by the name that the literature gives it.
        BLUESTEIN: As a convolution with a chirp, by two transforms of ``padded_n`` points.
        DFT_GEMM: As one product with the DFT matrix.
        TWO_D: As two chained products, for both dimensions of an image.
    """

    COOLEY_TUKEY = "cooley_tukey"
    FOUR_STEP = "cooley_tukey"
    BLUESTEIN = "bluestein"
    DFT_GEMM = "dft_gemm"
    TWO_D = "two_d"


@dataclass(frozen=True)
class FFTPlan(Plan):
    """How one transform runs; printing it shows a table.

    Attributes:
        n: Points of the transform; of an image, those of both dimensions.
        algorithm: How it is computed.
        inverse: Whether the sign of its angles is that of the inverse.
        padded_n: Points of the inner transforms of BLUESTEIN, else None.
        sizes: Points along each transformed dimension.
        shape: Shape of the operand.
        dim: Dimensions that are transformed, from the front.
        dtype: Of the parts of the operand, ``"float32"`` or ``"bfloat16"``.
        kind: The transform.
        norm: Its normalisation, as in torch.
        generation: The NeuronCore.
        geometry: The factors of COOLEY_TUKEY, or of the inner transforms of BLUESTEIN.
    """

    n: int
    algorithm: FFTAlgorithm
    inverse: bool
    padded_n: int | None = None
    sizes: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    dim: tuple[int, ...] = ()
    dtype: str = "float32"
    kind: str = "fft"
    norm: Norm = None
    generation: Generation = "gen2"
    geometry: Geometry | None = None

    def __post_init__(self) -> None:
        """Complete a plan that was made from its length alone."""
        if not self.sizes:
            known: dict[str, Any] = {"sizes": (self.n,), "shape": (self.n,), "dim": (0,)}
            known["kind"] = "ifft" if self.inverse else "fft"
            if self.algorithm in (FFTAlgorithm.COOLEY_TUKEY, FFTAlgorithm.BLUESTEIN):
                known["geometry"] = find_geometry(self.padded_n or self.n)
            for name, value in known.items():
                object.__setattr__(self, name, value)

    @property
    def is_power_of_2(self) -> bool:
        """Whether n is a power of two."""
        return self.n & (self.n - 1) == 0

    @property
    def cost(self) -> Cost:
        """What one execution takes: one launch."""
        return Cost(self._work.flops, self._work.hbm_bytes, 1)

    @property
    def error_bound(self) -> float:
        """Relative L2 error that operands without structure stay below; float32 throughout."""
        return self._work.error

    @property
    def factors(self) -> tuple[int, ...]:
        """Sizes of the DFT matrices of one pass through the transform."""
        if self.geometry is None:
            return self.sizes
        return tuple(factor for factor in self.geometry if factor > 1)

    @property
    def scale(self) -> float:
        """What multiplies the sums."""
        norm = self.norm or "backward"
        if norm == "ortho":
            return 1.0 / math.sqrt(self.n)
        return 1.0 / self.n if (norm == "forward") != self.inverse else 1.0

    @property
    def batch(self) -> int:
        """Transforms in the operand."""
        moved = math.prod(self.shape[d] for d in self.dim)
        return math.prod(self.shape) // moved if moved else 0

    def decisions(self) -> list[tuple[str, str]]:
        """Return the rows of the plan's table."""
        cost = self.cost
        inner = "" if self.padded_n is None else f", two transforms of {self.padded_n} points"
        return [
            ("transform", f"{self.kind} of {' x '.join(map(str, self.sizes))} points"),
            ("operand", f"{self.shape}, dim {self.dim}, {self.dtype}, norm {self.norm}"),
            ("algorithm", f"{self.algorithm.value}{inner}"),
            ("factors", " x ".join(map(str, self.factors))),
            ("target", f"{self.generation}, float32 sums"),
            ("launches", f"{cost.launches}"),
            ("HBM", f"{cost.hbm_bytes:,} bytes"),
            ("work", f"{cost.flops:,} flop, {cost.intensity:.1f} flop per byte"),
            ("error", f"below {self.error_bound:.1e} expected, relative in the L2 norm"),
        ]

    def execute(self, x: Spectrum) -> Spectrum | torch.Tensor:
        """Return the transform of ``x``, by the backend in use.

        Raises:
            ShapeError: The plan is for another shape.
            DTypeError: The plan is for another dtype.
        """
        if tuple(x.shape) != self.shape:
            raise ShapeError(f"execute: x must have shape {self.shape}, got {tuple(x.shape)}")
        name = _part_name(x.dtype)
        if name != self.dtype:
            raise DTypeError(f"execute: parts of x must be {self.dtype}, got {name}")
        from trnfft import nd, transforms

        if len(self.dim) == 2:
            transform: Callable[..., Any] = getattr(nd, self.kind)
            return transform(x, self.sizes, self.dim, self.norm)
        return getattr(transforms, self.kind)(x, self.n, self.dim[0], self.norm)

    def constants(self) -> tuple[Array, ...]:
        """Return the float32 arrays that the kernel takes, in its order, made once for the plan."""
        return self._constants

    @cached_property
    def _constants(self) -> tuple[Array, ...]:
        arrays = self._made()
        for array in arrays:
            array.setflags(write=False)
        return arrays

    def _made(self) -> tuple[Array, ...]:
        kind = _SHAPES[self.kind][0]
        if self.algorithm is FFTAlgorithm.TWO_D:
            rows = two_d_constants(self.sizes[0], self.inverse, 1.0)
            return rows, two_d_constants(self.sizes[1], self.inverse, self.scale, kind)
        if self.algorithm is FFTAlgorithm.DFT_GEMM:
            real, imaginary = self._matrix(kind)
            return real.astype(np.float32), imaginary.astype(np.float32)
        assert self.geometry is not None
        if self.algorithm is FFTAlgorithm.BLUESTEIN:
            args = self.n, self.geometry, self.inverse, self.scale, kind
            return (bluestein_constants(*args),)
        # A half spectrum is weighted by one half where a point stands for itself alone.
        scale = 2.0 * self.scale if kind == "hermitian" else self.scale
        return (four_step_constants(self.geometry, self.inverse, scale),)

    def _matrix(self, kind: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the two parts of the matrix of DFT_GEMM."""
        if kind == "hermitian":
            cos, sin = irfft_constants(self.n, self.scale)
            # The first row of the second part is that of a real bin, and keeps its sign.
            signs = np.where(np.arange(len(sin)) == 0, 1.0, 1.0 if self.inverse else -1.0)
            return cos, sin * signs[:, None]
        real, imaginary = dft_constants(self.n, self.inverse, self.scale)
        bins = self.n // 2 + 1 if kind == "half" else self.n
        return real[:, :bins], imaginary[:, :bins]

    @cached_property
    def _work(self) -> Work:
        length = self.shape[self.dim[-1]]
        kind = _SHAPES[self.kind][0]
        problem = Problem(self.batch, length, self.sizes[-1], kind, ITEMSIZE[self.dtype])
        if self.algorithm is FFTAlgorithm.TWO_D:
            return two_d_work(problem, self.sizes[0], problem.points[0])
        if self.geometry is None:
            return dft_work(problem)
        if self.algorithm is FFTAlgorithm.BLUESTEIN:
            return bluestein_work(problem, self.geometry)
        return four_step_work(problem, self.geometry)


def plan(
    shape: Sequence[int],
    dim: int | Sequence[int] | None = None,
    dtype: torch.dtype | str = "float32",
    kind: Kind = "fft",
    *,
    n: int | Sequence[int] | None = None,
    norm: Norm = None,
    generation: str | None = None,
) -> FFTPlan:
    """Return the plan of a transform of operands of one shape; equal calls return one object.

    Args:
        shape: Shape of the operand.
        dim: Dimension to transform, two of them for an image; None takes the last.
        dtype: float32 or bfloat16, or complex64 for parts of float32, as a torch dtype or a name.
        kind: The transform, by the name of its function.
        n: Points, as the function takes them; None derives them from the shape.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``.
        generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name such as ``"trn2"``; None
            takes NEURON_PLATFORM_TARGET_OVERRIDE, and gen2 without it.

    Raises:
        ShapeError: There are no points, or an image is too large for one launch.
        DimensionError: There is no such dimension.
        DTypeError: The dtype has no kernel.
        FlagError: The kind or the norm is not known.
        ValueError: The generation is not known.

    Example:
        >>> plan((32, 4096)).factors
        (32, 128)
    """
    if kind not in _SHAPES:
        raise FlagError(f"plan: kind must be one of {', '.join(_SHAPES)}, got {kind!r}")
    checked_norm("plan", norm)
    name = _part_name(dtype)
    if name not in ITEMSIZE:
        raise DTypeError(f"plan: dtype must be float32, bfloat16 or complex64, got {dtype}")
    extents = tuple(whole("plan", "shape", extent) for extent in shape)
    if any(extent < 1 for extent in extents):
        raise ShapeError(f"plan: shape must be positive in each dimension, got {extents}")
    dims = _dims(extents, dim, kind)
    sizes = _sizes(extents, dims, n, kind)
    return _cached(sizes, extents, dims, name, kind, norm, resolve_generation(generation))


def create_plan(n: int, inverse: bool = False) -> FFTPlan:
    """Return the plan of one float32 transform of ``n`` points; equal calls return one object.

    Raises:
        ShapeError: n is below 1; it is a ValueError too.
    """
    n = whole("create_plan", "n", n)
    if n < 1:
        raise ShapeError(f"create_plan: n must be at least 1, got {n}")
    return plan((n,), kind="ifft" if inverse else "fft")


def clear_plan_cache() -> None:
    """Forget all plans and, once their holders drop them, their constants."""
    forget_plans("trnfft")


@planned
def _cached(
    sizes: tuple[int, ...],
    shape: tuple[int, ...],
    dim: tuple[int, ...],
    dtype: str,
    kind: str,
    norm: Norm,
    generation: Generation,
) -> FFTPlan:
    algorithm, padded, geometry = _chosen(sizes)
    return FFTPlan(
        math.prod(sizes),
        algorithm,
        _SHAPES[kind][1],
        padded,
        sizes,
        shape,
        dim,
        dtype,
        kind,
        norm,
        generation,
        geometry,
    )


def _chosen(sizes: tuple[int, ...]) -> tuple[FFTAlgorithm, int | None, Geometry | None]:
    """Return the algorithm for the sizes, its padded length and its factors."""
    if len(sizes) == 2:
        if max(sizes) > LARGEST_IMAGE:
            raise ShapeError(
                f"plan: an image takes up to {LARGEST_IMAGE} points a dimension, got {sizes}; "
                "plan each dimension for itself"
            )
        return FFTAlgorithm.TWO_D, None, None
    n = sizes[0]
    if n <= DFT_BEST:
        return FFTAlgorithm.DFT_GEMM, None, None
    geometry = find_geometry(n)
    if geometry is not None:
        return FFTAlgorithm.COOLEY_TUKEY, None, geometry
    if n <= DFT_LARGEST:
        return FFTAlgorithm.DFT_GEMM, None, None
    padded = padded_length(n)
    geometry = find_geometry(padded)
    if geometry is None:
        raise ShapeError(f"plan: no kernel transforms {n} points, which have a large prime factor")
    return FFTAlgorithm.BLUESTEIN, padded, geometry


def _part_name(dtype: torch.dtype | str) -> str:
    name = dtype_name(dtype)
    return _PARTS.get(name, name)


def _dims(shape: tuple[int, ...], dim: int | Sequence[int] | None, kind: str) -> tuple[int, ...]:
    """Return the dimensions of a transform from the front."""
    wanted = 2 if kind.endswith("2") else 1
    if dim is None:
        dim = range(-wanted, 0)
    given = [dim] if isinstance(dim, int) else list(dim)
    if len(given) != wanted:
        raise ShapeError(f"plan: {kind} takes {wanted} dimension(s), got dim {dim}")
    for d in given:
        if not -len(shape) <= d < len(shape):
            raise DimensionError(f"plan: dim {d} is not one of the {len(shape)} dimensions")
    dims = tuple(d % len(shape) for d in given)
    if len(set(dims)) != wanted:
        raise ShapeError(f"plan: dim must not repeat a dimension, got {dim}")
    return dims


def _sizes(
    shape: tuple[int, ...], dims: tuple[int, ...], n: int | Sequence[int] | None, kind: str
) -> tuple[int, ...]:
    """Return the points along each transformed dimension."""
    if n is None:
        sizes = [shape[d] for d in dims]
        if _SHAPES[kind][0] == "hermitian":
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        sizes = [n] if isinstance(n, int) else list(n)
    if len(sizes) != len(dims) or min(sizes) < 1:
        raise ShapeError(f"plan: n must give {len(dims)} size(s) of at least 1, got {sizes}")
    return tuple(sizes)


# ``trnfft.plan`` is this function, and code that knows the module by that name finds it there.
vars(plan).update({name: globals()[name] for name in __all__ if name != "plan"})
