"""Plans of matrix products on a NeuronCore: tiling, memory and predicted time."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Literal, overload

from trnblas._precise.ladder import level_bound
from trnblas._precise.model import SliceWork, doublefloat_work, float16x3_work
from trnblas._precise.slicing import PROMISE, bound, fewest_slices
from trnblas.level3 import gemm
from trnsci.core.arguments import flag, whole
from trnsci.core.backend.plan import Cost, Plan
from trnsci.core.backend.precision import PrecisionLevel, check_level
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.tiles.hardware import BANK, CORES, ITEMSIZE, TILE, resolve_generation
from trnsci.core.tiles.tiling import Tiling, column_tiles, fewest_bytes, row_tiles
from trnsci.core.tiles.tiling_gemm import gemm_tiling

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["GemmPlan", "SlicedGemmPlan", "plan_gemm"]

_KIB = 1024


@dataclass(frozen=True)
class _ProductPlan(Plan):
    """A product of two matrices.

    Attributes:
        rows: M.
        columns: N.
        depth: K.
        trans_a: Whether A is passed transposed.
        trans_b: Whether B is passed transposed.
    """

    rows: int
    columns: int
    depth: int
    trans_a: bool
    trans_b: bool

    @property
    def _flops(self) -> int:
        return 2 * self.rows * self.columns * self.depth

    @property
    def _shapes(self) -> str:
        return f"({self.rows}, {self.depth}) x ({self.depth}, {self.columns})"

    def _executed(
        self, dtype: str, precision: PrecisionLevel | None, A: Tensor, B: Tensor
    ) -> Tensor:
        """Return ``op(A) @ op(B)``; raise unless they have the shapes of the plan and a dtype."""
        for name, operand, shape, transposed in (
            ("A", A, (self.rows, self.depth), self.trans_a),
            ("B", B, (self.depth, self.columns), self.trans_b),
        ):
            wanted = shape[::-1] if transposed else shape
            if tuple(operand.shape) != wanted:
                raise ShapeError(
                    f"execute: {name} must have shape {wanted}, got {tuple(operand.shape)}"
                )
            if dtype_name(operand.dtype) != dtype:
                raise DTypeError(f"execute: {name} must be {dtype}, got {operand.dtype}")
        return gemm(1.0, A, B, transA=self.trans_a, transB=self.trans_b, precision=precision)


@dataclass(frozen=True)
class GemmPlan(_ProductPlan):
    """Tiling, memory use and data movement of one GEMM; printing it shows a table.

    Attributes:
        rows: M.
        columns: N.
        depth: K.
        trans_a: Whether A is passed transposed; it then needs no transpose on chip.
        trans_b: Whether B is passed transposed; it then needs a transpose on chip.
        tiling: The blocks and their cost.
        precision: ``"bfloat16"`` if float32 operands are rounded to it, ``"float32"``, or None.
    """

    tiling: Tiling
    precision: PrecisionLevel | None = None

    @property
    def cost(self) -> Cost:
        """Flops and HBM bytes of one execution; reading C adds its size."""
        return Cost(self._flops, self._hbm_bytes)

    @property
    def _hbm_bytes(self) -> int:
        wider = 2 if self.precision == "bfloat16" else 0  # the result is in float32
        return self.tiling.hbm_bytes + wider * self.rows * self.columns

    @property
    def fewest_bytes(self) -> int:
        """Lower bound on the HBM bytes of any schedule on this generation."""
        t = self.tiling
        return fewest_bytes(self.rows, self.columns, self.depth, t.dtype, t.generation)

    def execute(self, A: Tensor, B: Tensor) -> Tensor:
        """Return ``op(A) @ op(B)``, computed by the current backend.

        Raises:
            ShapeError: The shapes are not those of the plan.
            DTypeError: The dtype is not that of the plan.
        """
        dtype = "float32" if self.precision else self.tiling.dtype
        return self._executed(dtype, self.precision, A, B)

    def decisions(self) -> list[tuple[str, str]]:
        """Return the rows of the plan's table."""
        t, core = self.tiling, CORES[self.tiling.generation]
        m, n = (1, self.rows) if self._as_row else (self.rows, self.columns)
        tiles = f"{row_tiles(m)} x {column_tiles(n)} x {row_tiles(self.depth)}"
        ratio = self._hbm_bytes / self.fewest_bytes
        return [
            ("product", self._shapes),
            ("operands", self._operands()),
            ("target", f"{t.generation}, {t.dtype}, float32 sums"),
            *self._bound(),
            ("tiles", f"{tiles} of {TILE} x {BANK} x {TILE}"),
            ("blocks", self._blocks()),
            ("PSUM banks", f"{t.psum_banks} of {core.psum_banks}, {t.blocks.group} at once"),
            ("SBUF", _share(t.sbuf_bytes, t.sbuf_limit)),
            (
                "HBM",
                f"{self._hbm_bytes:,} bytes, {ratio:.2f} x the fewest possible; C adds its size",
            ),
            ("products", f"{t.products:,} nc_matmul, {t.transposes:,} tiles transposed on chip"),
            ("work", f"{self.cost.flops:,} flop, {self.cost.intensity:.0f} flop per byte"),
            ("model", self._times()),
        ]

    @property
    def _as_row(self) -> bool:
        """Whether a single column is computed as a row."""
        return self.columns == 1 and self.rows > 1

    def _bound(self) -> list[tuple[str, str]]:
        if self.precision is None:
            return []
        return [("error", _relative(level_bound(self.precision, self.depth)))]

    def _operands(self) -> str:
        a = "A passed transposed, loaded as it is" if self.trans_a else "A transposed on chip"
        b = "B passed transposed, transposed on chip" if self.trans_b else "B loaded as it is"
        return f"{a}; {b}"

    def _blocks(self) -> str:
        cut = self.tiling.blocks
        sizes = f"{cut.row_tiles} row, {cut.column_tiles} column, {cut.depth_tiles} depth tiles"
        if cut.depth_tiles < row_tiles(self.depth):
            return f"{sizes}; the result stays in SBUF"
        stays = "A" if (cut.resident == "a") != self._as_row else "B"
        return f"{sizes}{' of the transposed product' * self._as_row}; {stays} stays in SBUF"

    def _times(self) -> str:
        t = self.tiling
        busy = f"Tensor {t.tensor_ns / 1e3:.1f}, Vector {t.vector_ns / 1e3:.1f}, "
        return f"{t.time_ns / 1e3:.1f} us predicted: {busy}DMA {t.dma_ns / 1e3:.1f} us busy"


@dataclass(frozen=True)
class SlicedGemmPlan(_ProductPlan):
    """Slices, work and error of a product in slices; printing it shows a table.

    Attributes:
        rows: M.
        columns: N.
        depth: K.
        trans_a: Whether A is passed transposed.
        trans_b: Whether B is passed transposed.
        precision: ``"float16x3"`` or ``"doublefloat"``.
        dtype: Name of the operands' dtype.
        generation: The NeuronCore of the predicted times.
        bound: Largest error of an entry, relative to the 2-norms of its row and column.
        work: Slices, instructions, bytes and times.
    """

    precision: PrecisionLevel
    dtype: str
    generation: str
    bound: float
    work: SliceWork

    @property
    def cost(self) -> Cost:
        """Flops of the product, and HBM bytes and launches of one execution."""
        return Cost(self._flops, self.work.hbm_bytes, self.work.launches)

    def execute(self, A: Tensor, B: Tensor) -> Tensor:
        """Return ``op(A) @ op(B)`` at this precision, computed by the current backend.

        Raises:
            ShapeError: The shapes are not those of the plan.
            DTypeError: The dtype is not that of the plan.
        """
        return self._executed(self.dtype, self.precision, A, B)

    def decisions(self) -> list[tuple[str, str]]:
        """Return the rows of the plan's table."""
        w = self.work
        busy = {"Tensor": w.tensor_ns, "Vector": w.vector_ns, "GpSimd": w.gpsimd_ns}
        shares = [f"{name} {ns / 1e3:.1f}" for name, ns in (busy | {"DMA": w.dma_ns}).items()]
        return [
            ("product", self._shapes),
            ("target", f"{self.generation}, {self.precision} of {self.dtype}"),
            ("slices", f"{w.slices} of each operand, {w.pairs} pairs, {w.groups} PSUM sums"),
            ("error", _relative(self.bound)),
            ("launches", f"{w.launches}, one for each block of the contraction"),
            ("HBM", f"{w.hbm_bytes:,} bytes"),
            ("products", f"{w.products:,} nc_matmul"),
            ("model", f"{w.time_ns / 1e3:.1f} us predicted: {', '.join(shares)} us busy"),
        ]


@overload
def plan_gemm(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype | str = "float32",
    *,
    transA: bool = False,
    transB: bool = False,
    generation: str | None = None,
    precision: Literal["bfloat16", "float32"] | None = None,
) -> GemmPlan: ...
@overload
def plan_gemm(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype | str = "float32",
    *,
    transA: bool = False,
    transB: bool = False,
    generation: str | None = None,
    precision: Literal["float16x3", "doublefloat"],
) -> SlicedGemmPlan: ...
def plan_gemm(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype | str = "float32",
    *,
    transA: bool = False,
    transB: bool = False,
    generation: str | None = None,
    precision: PrecisionLevel | None = None,
) -> GemmPlan | SlicedGemmPlan:
    """Return the plan of ``op(A) @ op(B)`` with op(A) (M, K) and op(B) (K, N).

    Args:
        M: Rows of the result.
        N: Columns of the result.
        K: Length of the sums.
        dtype: float32, bfloat16 or float16, as a torch dtype or its name.
        transA: Whether A is passed as (K, M).
        transB: Whether B is passed as (N, K).
        generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name such as ``"trn2"``; None
            selects the environment's target. Without one, times are those of gen3 (trn2), and the
            tiling fits the SBUF of every generation.
        precision: Level of the product, as in ``gemm``; ``"float16x3"`` and ``"doublefloat"`` give
            a ``SlicedGemmPlan``.

    Raises:
        ShapeError: M, N or K is below 1.
        DTypeError: The dtype has no kernel, or none of this precision; or a size is no integer.
        FlagError: transA or transB is no bool, the precision is unknown, or no error bound is
            proved for so large a K.
        ValueError: The generation is unknown.

    Example:
        >>> plan_gemm(2048, 2048, 2048, generation="gen2").tiling.hbm_bytes == 3 * 2**24
        True
    """
    name = dtype_name(dtype)
    accepted = tuple(ITEMSIZE)
    if precision is not None:
        check_level("plan_gemm", precision)
        accepted = ("float32", "float64") if precision == "doublefloat" else ("float32",)
    if name not in accepted:
        raise DTypeError(f"plan_gemm: dtype must be {' or '.join(accepted)}, got {dtype}")
    flag("plan_gemm", "transA", transA)
    flag("plan_gemm", "transB", transB)
    M, N, K = (whole("plan_gemm", name_, size) for name_, size in (("M", M), ("N", N), ("K", K)))
    if min(M, N, K) < 1:
        raise ShapeError(f"plan_gemm: M, N and K must be at least 1, got {M}, {N} and {K}")
    if precision == "float16x3" or precision == "doublefloat":
        target = resolve_generation(generation)
        if precision == "float16x3":
            error, work = level_bound(precision, K), float16x3_work(M, N, K, target)
        else:
            slices = fewest_slices(PROMISE, K)
            error, work = bound(slices, K), doublefloat_work(M, N, K, slices, target)
        return SlicedGemmPlan(M, N, K, transA, transB, precision, name, target, error, work)
    name = "bfloat16" if precision == "bfloat16" else name
    tiling = gemm_tiling(
        M,
        N,
        K,
        name,
        generation,
        a_layout="rows" if transA else "columns",
        b_layout="columns" if transB else "rows",
    )
    return GemmPlan(M, N, K, transA, transB, tiling, precision)


def _relative(error: float) -> str:
    return f"at most {error:.3g}, 2**{log2(error):.1f}, times the 2-norms of row and column"


def _share(used: int, limit: int) -> str:
    return f"{used / _KIB:.1f} of {limit / _KIB:.1f} KiB per partition ({used / limit:.0%})"
