"""Plans of matrix products on a NeuronCore: tiling, memory and predicted time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnblas.level3 import gemm
from trnsci.core.dtypes import dtype_name
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.plan import Cost, Plan
from trnsci.core.tiles.hardware import BANK, CORES, ITEMSIZE, TILE
from trnsci.core.tiles.tiling import Tiling, column_tiles, fewest_bytes, row_tiles
from trnsci.core.tiles.tiling_gemm import gemm_tiling

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["GemmPlan", "plan_gemm"]

_KIB = 1024


@dataclass(frozen=True)
class GemmPlan(Plan):
    """Tiling, memory use and data movement of one GEMM; printing it shows a table.

    Attributes:
        rows: M.
        columns: N.
        depth: K.
        trans_a: Whether A is passed transposed; it then needs no transpose on chip.
        trans_b: Whether B is passed transposed; it then needs a transpose on chip.
        tiling: The blocks and their cost.
    """

    rows: int
    columns: int
    depth: int
    trans_a: bool
    trans_b: bool
    tiling: Tiling

    @property
    def cost(self) -> Cost:
        """Flops and HBM bytes of one execution; reading C adds its size."""
        return Cost(2 * self.rows * self.columns * self.depth, self.tiling.hbm_bytes)

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
        shape_a, shape_b = (self.rows, self.depth), (self.depth, self.columns)
        for name, operand, shape, transposed in (
            ("A", A, shape_a, self.trans_a),
            ("B", B, shape_b, self.trans_b),
        ):
            wanted = shape[::-1] if transposed else shape
            if tuple(operand.shape) != wanted:
                raise ShapeError(
                    f"execute: {name} must have shape {wanted}, got {tuple(operand.shape)}"
                )
            if dtype_name(operand.dtype) != self.tiling.dtype:
                raise DTypeError(
                    f"execute: {name} must be {self.tiling.dtype}, got {operand.dtype}"
                )
        return gemm(1.0, A, B, transA=self.trans_a, transB=self.trans_b)

    def decisions(self) -> list[tuple[str, str]]:
        """Return the rows of the plan's table."""
        t, core = self.tiling, CORES[self.tiling.generation]
        m, n = (1, self.rows) if self._as_row else (self.rows, self.columns)
        tiles = f"{row_tiles(m)} x {column_tiles(n)} x {row_tiles(self.depth)}"
        ratio = t.hbm_bytes / self.fewest_bytes
        return [
            ("product", f"({self.rows}, {self.depth}) x ({self.depth}, {self.columns})"),
            ("operands", self._operands()),
            ("target", f"{t.generation}, {t.dtype}, float32 sums"),
            ("tiles", f"{tiles} of {TILE} x {BANK} x {TILE}"),
            ("blocks", self._blocks()),
            ("PSUM banks", f"{t.psum_banks} of {core.psum_banks}, {t.blocks.group} at once"),
            ("SBUF", _share(t.sbuf_bytes, t.sbuf_limit)),
            ("HBM", f"{t.hbm_bytes:,} bytes, {ratio:.2f} x the fewest possible; C adds its size"),
            ("products", f"{t.products:,} nc_matmul, {t.transposes:,} tiles transposed on chip"),
            ("work", f"{self.cost.flops:,} flop, {self.cost.intensity:.0f} flop per byte"),
            ("model", self._times()),
        ]

    @property
    def _as_row(self) -> bool:
        """Whether a single column is computed as a row."""
        return self.columns == 1 and self.rows > 1

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


def plan_gemm(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype | str = "float32",
    *,
    transA: bool = False,
    transB: bool = False,
    generation: str | None = None,
) -> GemmPlan:
    """Return the plan of ``op(A) @ op(B)`` with op(A) (M, K) and op(B) (K, N).

    Args:
        M: Rows of the result.
        N: Columns of the result.
        K: Length of the sums.
        dtype: float32 or bfloat16, as a torch dtype or its name.
        transA: Whether A is passed as (K, M).
        transB: Whether B is passed as (N, K).
        generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name such as ``"trn2"``; None
            selects the environment's target. Without one, times are those of gen3 (trn2), and the
            tiling fits the SBUF of every generation.

    Raises:
        ShapeError: M, N or K is below 1.
        DTypeError: The dtype has no kernel.
        ValueError: The generation is unknown.

    Example:
        >>> plan_gemm(2048, 2048, 2048, generation="gen2").tiling.hbm_bytes == 3 * 2**24
        True
    """
    name = dtype_name(dtype)
    if name not in ITEMSIZE:
        raise DTypeError(f"plan_gemm: dtype must be {' or '.join(ITEMSIZE)}, got {dtype}")
    if min(M, N, K) < 1:
        raise ShapeError(f"plan_gemm: M, N and K must be at least 1, got {M}, {N} and {K}")
    tiling = gemm_tiling(
        M,
        N,
        K,
        name,
        generation,
        a_layout="rows" if transA else "columns",
        b_layout="columns" if transB else "rows",
    )
    return GemmPlan(M, N, K, transA, transB, tiling)


def _share(used: int, limit: int) -> str:
    return f"{used / _KIB:.1f} of {limit / _KIB:.1f} KiB per partition ({used / limit:.0%})"
