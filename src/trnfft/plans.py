"""Plans of transforms on a NeuronCore: algorithm, cost, error bound and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from trnfft import nd, transforms
from trnfft._kernels.stacked_geometry import ImageGeometry, RowsGeometry, StackedGeometry, many_rows
from trnfft._library import LIBRARY
from trnfft._paths.arguments import Norm, checked_norm
from trnfft._paths.kinds import Spectrum
from trnfft._planning.doublefloat import doublefloat_plan
from trnfft._planning.recipe import KINDS, AnyGeometry, FFTAlgorithm, Recipe, recipe
from trnfft._planning.tables import clear_tables
from trnfft._planning.work import (
    Problem,
    Work,
    added,
    bluestein_work,
    dft_work,
    four_step_work,
    many_rows_work,
    n_d_work,
    stacked_image_work,
    stacked_work,
    two_d_work,
)
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.arguments import integers, several
from trnsci.core.backend.explanation import Prediction, explain
from trnsci.core.backend.plan import Cost, Plan, forget_plans, planned
from trnsci.core.errors import DimensionError, DTypeError, FlagError, ShapeError
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.tiles.hardware import (
    DEFAULT_GENERATION,
    ITEMSIZE,
    Generation,
    resolve_generation,
)

__all__ = ["FFTAlgorithm", "FFTPlan", "clear_plan_cache", "plan"]

# fmt: off
Kind = Literal[
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft",
    "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2",
    "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn",
]
# fmt: on
Array = npt.NDArray[np.float32]

_PARTS = {"complex64": "float32", "complex32": "float16"}


@dataclass(frozen=True)
class FFTPlan(Plan):
    """The plan of one transform; printing it shows a table.

    Attributes:
        n: Number of points of the transform, over all of its dimensions.
        algorithm: Algorithm of the transform.
        inverse: Whether the exponent has the sign of the inverse transform.
        padded_n: Number of points of the inner transforms of BLUESTEIN, else None.
        sizes: Number of points along each transformed dimension.
        shape: Shape of the operand.
        dim: Transformed dimensions, as nonnegative indices.
        dtype: Dtype of the parts of the operand, ``"float32"``, ``"bfloat16"`` or
            ``"float16"``.
        kind: Name of the transform.
        norm: Normalisation, as in torch.
        generation: Generation of the NeuronCore.
        geometry: Factors of COOLEY_TUKEY or TWO_D, or of the inner transforms of BLUESTEIN.
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
    generation: Generation = DEFAULT_GENERATION
    geometry: AnyGeometry | None = None

    def __post_init__(self) -> None:
        """Fill in the fields of a plan constructed from its length alone."""
        if not self.sizes:
            known: dict[str, Any] = {"sizes": (self.n,), "shape": (self.n,), "dim": (0,)}
            known["kind"] = "ifft" if self.inverse else "fft"
            if self.algorithm in (FFTAlgorithm.COOLEY_TUKEY, FFTAlgorithm.BLUESTEIN):
                known["geometry"] = recipe(known["kind"], (self.n,), self.norm).geometry
            for name, value in known.items():
                object.__setattr__(self, name, value)

    @property
    def is_power_of_2(self) -> bool:
        """Whether n is a power of two."""
        return self.n & (self.n - 1) == 0

    @property
    def cost(self) -> Cost:
        """Cost of one execution; one launch, or one per dimension for SEPARABLE."""
        return Cost(self._work.flops, self._work.hbm_bytes, len(self._recipe.steps))

    @property
    def error_bound(self) -> float:
        """Bound of the relative L2 error in float32, for operands without structure."""
        return self._work.error

    @property
    def doublefloat_bound(self) -> float | None:
        """Bound of the error at ``doublefloat``, relative to the 2-norm of the result.

        It holds for every operand, and for each entry. None where that level has no single launch.
        """
        if transforms.doublefloat_refusal(self.kind, self.sizes):
            return None
        return doublefloat_plan(self.kind, self.sizes, self.norm).bound

    @property
    def factors(self) -> tuple[int, ...]:
        """Sizes of the DFT matrices of one transform."""
        if self.geometry is None:
            return self.sizes
        if isinstance(self.geometry, ImageGeometry):
            return (*self.geometry.rows[:2], *self.geometry.columns[:2])
        many = _many(self._recipe, self.batch, self.generation)
        if many is not None:
            return many.a, many.b
        if isinstance(self.geometry, StackedGeometry):
            return tuple(factor for factor in self.geometry[:3] if factor > 1)
        return tuple(factor for factor in self.geometry if factor > 1)

    @property
    def scale(self) -> float:
        """Factor of the normalisation."""
        return self._recipe.scale

    @property
    def batch(self) -> int:
        """Number of transforms in the operand."""
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
            ("doublefloat", _bound_text(self.doublefloat_bound)),
            ("model", str(self._time)),
        ]

    def execute(self, x: Spectrum) -> Spectrum | torch.Tensor:
        """Return the transform of ``x``, computed by the current backend.

        Raises:
            ShapeError: ``x`` does not have the shape of the plan.
            DTypeError: ``x`` does not have the dtype of the plan.
        """
        if tuple(x.shape) != self.shape:
            raise ShapeError(f"execute: x must have shape {self.shape}, got {tuple(x.shape)}")
        name = _part_name(x.dtype)
        if name != self.dtype:
            raise DTypeError(f"execute: parts of x must be {self.dtype}, got {name}")
        if self.kind[-1] in "2n":
            return getattr(nd, self.kind)(x, self.sizes, self.dim, self.norm)
        return getattr(transforms, self.kind)(x, self.n, self.dim[0], self.norm)

    def constants(self) -> tuple[Array, ...]:
        """Return the float32 constants of the kernel, in argument order.

        Plans that differ only in the batch share them.
        """
        return self._recipe.constants

    @cached_property
    def _recipe(self) -> Recipe:
        return recipe(self.kind, self.sizes, self.norm)

    @cached_property
    def _time(self) -> Prediction:
        """Predicted device time of an execution; the operand is real for half spectra only."""

        def call() -> Any:
            x = torch.empty(self.shape, dtype=getattr(torch, self.dtype))
            return self.execute(x if self._recipe.form == "half" else ComplexTensor(x, x))

        with LIBRARY.backend("simulator"):
            return explain(call).predict(self.generation)

    @cached_property
    def _work(self) -> Work:
        if self.algorithm is FFTAlgorithm.SEPARABLE:
            return self._work_by_dimension()
        length = self.shape[self.dim[-1]]
        problem = self._problem(self.batch, length, self._recipe, ITEMSIZE[self.dtype])
        if self.algorithm is FFTAlgorithm.TWO_D and self.geometry is None:
            return two_d_work(problem, self.sizes[0], problem.points[0])
        if self.algorithm is FFTAlgorithm.N_D:
            return n_d_work(problem, self.sizes, problem.points[0])
        return _work_of(problem, self._recipe, self.generation)

    def _work_by_dimension(self) -> Work:
        extents = [self.shape[d] for d in self.dim]
        # A half spectrum begins with its last dimension, which halves the work of the others.
        order = list(range(len(extents)))
        if self._recipe.form == "half":
            order = [order[-1], *order[:-1]]
        total, itemsize = Work(0, 0, 0.0), ITEMSIZE[self.dtype]
        for place, step in zip(order, self._recipe.steps, strict=True):
            others = math.prod(extents) // extents[place]
            problem = self._problem(self.batch * others, extents[place], step, itemsize)
            total = added(total, _work_of(problem, step, self.generation))
            extents[place], itemsize = problem.points[1], 4
        return total

    @staticmethod
    def _problem(batch: int, length: int, step: Recipe, itemsize: int) -> Problem:
        return Problem(batch, length, step.sizes[-1], step.form, itemsize)


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
        dim: Dimensions to transform; by default the last, the last two for kinds such as
            ``"fft2"``, or all for kinds such as ``"fftn"``.
        dtype: float32, bfloat16 or float16, or complex64 for parts of float32, as a torch dtype or
            a name.
        kind: Name of the transform's function.
        n: Length or lengths, as in that function; by default derived from the shape.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``.
        generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name such as ``"trn2"``; by
            default the environment's target, or gen3 (trn2).

    Raises:
        ShapeError: There are no points, or no kernel supports this number of points.
        DimensionError: A dimension does not exist.
        DTypeError: No kernel supports the dtype, or shape, dim or n are no integers.
        FlagError: The kind or the norm is not valid.
        ValueError: The generation is not valid.

    Example:
        >>> plan((32, 4096)).factors
        (32, 128)
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise FlagError(f"plan: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    checked_norm("plan", norm)
    name = _part_name(dtype)
    if name not in ITEMSIZE:
        accepted = ", ".join([*ITEMSIZE, "complex32"])
        raise DTypeError(f"plan: dtype must be {accepted} or complex64, got {dtype}")
    extents = integers("plan", "shape", shape, 1)
    dims = _dims(extents, dim, kind)
    sizes = _sizes(extents, dims, n, kind)
    return _cached(sizes, extents, dims, name, kind, norm, resolve_generation(generation))


def clear_plan_cache() -> None:
    """Clear the cache of plans and constants; plans still in use keep their constants."""
    forget_plans("trnfft")
    clear_tables()


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
    found = recipe(kind, sizes, norm)
    return FFTPlan(
        found.n,
        found.algorithm,
        found.inverse,
        found.padded_n,
        sizes,
        shape,
        dim,
        dtype,
        kind,
        norm,
        generation,
        found.geometry,
    )


def _bound_text(bound: float | None) -> str:
    return "one launch for each dimension, or none" if bound is None else f"error below {bound:.1e}"


def _many(step: Recipe, batch: int, generation: Generation) -> RowsGeometry | None:
    """Return the factors of ``stacked_rows`` if the kernel uses it for this batch, else None."""
    return step.many if generation != "gen2" and many_rows(step.many, batch) else None


def _work_of(problem: Problem, step: Recipe, generation: Generation) -> Work:
    """Return the work of a transform by factors, or of one product with the DFT matrix."""
    if step.geometry is None:
        return dft_work(problem)
    if isinstance(step.geometry, ImageGeometry):
        return stacked_image_work(problem, step.geometry)
    many = _many(step, problem.batch, generation)
    if many is not None:
        return many_rows_work(problem, many)
    if isinstance(step.geometry, StackedGeometry):
        return stacked_work(problem, step.geometry)
    if step.algorithm is FFTAlgorithm.BLUESTEIN:
        return bluestein_work(problem, step.geometry)
    return four_step_work(problem, step.geometry)


def _part_name(dtype: torch.dtype | str) -> str:
    name = dtype_name(dtype)
    return _PARTS.get(name, name)


def _dims(shape: tuple[int, ...], dim: int | Sequence[int] | None, kind: str) -> tuple[int, ...]:
    """Return the dimensions of a transform as nonnegative indices."""
    wanted = {"2": 2, "n": 0}.get(kind[-1], 1)
    if dim is None:
        dim = range(-(wanted or len(shape)), 0)
    given = several("plan", "dim", dim)
    wanted = wanted or max(len(given), 1)
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
    """Return the number of points along each transformed dimension."""
    if n is None:
        sizes = [shape[d] for d in dims]
        if KINDS[kind][0] == "hermitian":
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        sizes = several("plan", "n", n)
    if len(sizes) != len(dims) or min(sizes) < 1:
        raise ShapeError(f"plan: n must give {len(dims)} size(s) of at least 1, got {sizes}")
    return tuple(sizes)
