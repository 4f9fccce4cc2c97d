"""Choice of block sizes for a matrix product.

Two schedules are compared, each with every distinct block size that fits:

*Resident operand.* A block of one operand with the whole contraction stays in SBUF while the other
operand is streamed, block by block. With blocks of BM rows, or of BN columns, the HBM traffic is

    A resident:  M K + ceil(M / BM) K N + M N        B resident:  ceil(N / BN) M K + K N + M N

*Resident result.* When the contraction is too long for that, a block of the result stays in SBUF
in float32 and blocks of both operands are streamed:

    ceil(N / BN) M K + ceil(M / BM) K N + M N

*Whole matrices.* Of a batch of matrices of at most 8 KiB per partition, a transfer moves several.
The first and the last group of a batch overlap with no products, so a group has at most 1.5 times
the root of the batch.

Of the tilings within a tenth of the shortest predicted time, the one with the least traffic is
chosen. All tilings need the same products, so operands that fit are not loaded twice to save time.
Of equal ones, the one with more tiles in a block is chosen, up to limits: the Tensor engine waits
for the first transposed tile of each block. ``tools/tune_suite.py`` compares the choice with the
fastest tilings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.tiles.hardware import (
    BANK,
    CORES,
    ITEMSIZE,
    TILE,
    Core,
    Generation,
    generation_stated,
    resolve_generation,
)
from trnsci.core.tiles.tiling import Blocks, Layout, Tiling, column_tiles, row_tiles

_STAGE_BYTES = 4096  # per partition: DMA reaches its full rate at 4 KiB per descriptor
_STREAMED_ROW_TILES = (8, 4, 2, 1)  # 8 tiles of 128 float32 columns are 4 KiB per descriptor
_STREAMED_COLUMN_TILES = (4, 3, 2, 1)
_ABOUT = 1.1
_GROUP_BYTES = 8192  # per partition and operand: transfers of 1 MiB
DEPTH_TILES = (16, 8, 4)  # 4 products per bank: adding them up keeps Vector below Tensor


@dataclass(frozen=True)
class Problem:
    """One product, or a batch of them.

    Attributes:
        rows, columns, depth: M, N and K; for complex matrices M, 2 N and 2 K.
        dtype: Dtype of the operands and the result.
        generation: The generation whose times it is planned for.
        a_layout, b_layout: Position of the contraction in the operands.
        batch: Number of products.
        shared: ``"a"`` or ``"b"`` when the batch has one such operand, else empty.
        stated: Whether the generation was stated; if not, the tiling has to fit every generation.
        parts: Parts of a number: 2 for complex matrices. Their kernel loads K rows of B and makes
            the K rows of i B on chip.
    """

    rows: int
    columns: int
    depth: int
    dtype: str
    generation: Generation
    a_layout: Layout
    b_layout: Layout
    batch: int = 1
    shared: str = ""
    stated: bool = True
    parts: int = 1

    @property
    def depth_tiles(self) -> int:
        """Tiles of the contraction; a tile holds one part of the numbers."""
        return self.parts * row_tiles(self.depth // self.parts)

    @property
    def core(self) -> Core:
        """Parameters of the core it runs on."""
        return CORES[self.generation]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEMSIZE[self.dtype]

    @property
    def transposed(self) -> bool:
        """Whether an operand is transposed on chip."""
        return self.a_layout != "rows" or self.b_layout != "rows"

    @property
    def group_limit(self) -> int:
        """Maximum of column tiles in a group: two groups and the transposes share eight banks."""
        return 3 if self.transposed and self.core.transposes_on_tensor else 4


def gemm_tiling(
    rows: int,
    columns: int,
    depth: int,
    dtype: str = "float32",
    generation: str | None = None,
    *,
    a_layout: Layout = "columns",
    b_layout: Layout = "rows",
    batch: int = 1,
    shared: str = "",
    parts: int = 1,
) -> Tiling:
    """Return the blocks for ``rows x depth`` times ``depth x columns``.

    A product with one column is planned as its transpose, as the kernels compute it.

    Args:
        rows: M, at least 1 like all sizes.
        columns: N.
        depth: K.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name; None uses the
            environment's target, or the times of gen3 with a tiling that fits every generation.
        a_layout: Position of the contraction in the left operand: ``"columns"`` normally,
            ``"rows"`` when it is passed transposed.
        b_layout: Position of the contraction in the right operand: ``"rows"`` normally,
            ``"columns"`` when it is passed transposed.
        batch: Number of products.
        shared: The operand that the whole batch shares, if any.
        parts: 2 for complex matrices, whose parts have this dtype; else 1. Depth tiles and column
            tiles of the blocks count both parts.

    Raises:
        ValueError: A size is below 1, or the dtype or the generation is not known.
    """
    if min(rows, columns, depth, batch) < 1:
        raise ShapeError(
            f"gemm_tiling: sizes must be at least 1, got M={rows}, N={columns}, K={depth}, "
            f"batch={batch}"
        )
    if dtype not in ITEMSIZE:
        raise FlagError(f"gemm_tiling: dtype {dtype!r}, accepted: {', '.join(ITEMSIZE)}")
    if columns == parts == 1 and rows > 1:
        rows, columns, a_layout, b_layout = columns, rows, b_layout, a_layout
        shared = {"a": "b", "b": "a"}.get(shared, "")
    problem = Problem(
        rows,
        parts * columns,
        parts * depth,
        dtype,
        resolve_generation(generation),
        a_layout,
        b_layout,
        batch,
        shared,
        generation_stated(generation),
        parts,
    )
    return _chosen(problem)


@lru_cache(maxsize=1024)
def _chosen(problem: Problem) -> Tiling:
    grouped = _in_groups(problem)
    if grouped is not None:
        return grouped
    return best(price(problem, blocks, buffers) for blocks, buffers in cuts(problem))


def best(candidates: Iterable[Tiling]) -> Tiling:
    """Return the tiling with the least traffic among those with about the shortest time."""
    fitting = [tiling for tiling in candidates if tiling.fits]
    limit = _ABOUT * min(tiling.time_ns for tiling in fitting)
    near = [tiling for tiling in fitting if tiling.time_ns <= limit]
    return min(near, key=lambda t: (t.hbm_bytes, t.time_ns, -_overlap(t.blocks), t.sbuf_bytes))


def _overlap(blocks: Blocks) -> int:
    """Return the tiles of a block that are counted between tilings of equal cost."""
    rows = 2 if blocks.depth_tiles <= 16 else 1
    return min(blocks.row_tiles, rows) * min(blocks.column_tiles, 4)


def cuts(problem: Problem) -> Iterator[tuple[Blocks, int]]:
    """Yield tilings, each with two buffers and with one; most of them fit."""
    m, n = row_tiles(problem.rows), column_tiles(problem.columns)
    k = problem.depth_tiles
    for rows in splits(m):
        for columns in _STREAMED_COLUMN_TILES:
            blocks = _blocks(problem, rows, min(columns, n), k, "a")
            yield from ((blocks, 2), (blocks, 1))
    for columns in splits(n):
        for rows in _STREAMED_ROW_TILES:
            blocks = _blocks(problem, min(rows, m), columns, k, "b")
            yield from ((blocks, 2), (blocks, 1))
    widths = splits(n)
    for depth in DEPTH_TILES:
        for rows in splits(m) if depth < k else ():
            for buffers in (2, 1):
                found = _widest(problem, rows, widths, depth, buffers)
                if found is not None:
                    yield found, buffers


def _widest(
    problem: Problem, rows: int, widths: list[int], depth: int, buffers: int
) -> Blocks | None:
    """Return the widest tiling with a resident result that fits; wider blocks have less traffic."""
    low, high, found = 0, len(widths), None
    while low < high:
        middle = (low + high) // 2
        blocks = _blocks(problem, rows, widths[middle], depth, "")
        if price(problem, blocks, buffers).fits:
            found, low = blocks, middle + 1
        else:
            high = middle
    return found


def _blocks(problem: Problem, rows: int, columns: int, depth: int, resident: str) -> Blocks:
    group = part(columns, problem.group_limit)
    return Blocks(rows, columns, depth, resident, group, stage_tiles(depth, problem.itemsize))


def _in_groups(problem: Problem) -> Tiling | None:
    """Return the tiling with whole matrices of a batch in each transfer, if they are small."""
    if problem.batch == 1 or problem.shared or problem.columns == 1:
        return None
    matrices = min(problem.batch, _GROUP_BYTES // (problem.itemsize * max(_held(problem))))
    if matrices == 0:
        return None
    groups = -(-problem.batch // min(matrices, round(1.5 * problem.batch**0.5)))
    matrices = -(-problem.batch // groups)
    rows, columns = row_tiles(problem.rows), column_tiles(problem.columns)
    blocks = _blocks(problem, rows, columns, problem.depth_tiles, "b")
    return price(problem, blocks._replace(matrices=matrices), 2)


def splits(tiles: int) -> list[int]:
    """Return, in ascending order, the sizes of the larger part of all even splits of tiles."""
    sizes, count = [], 1
    while count <= tiles:
        size = -(-tiles // count)
        sizes.append(size)
        # The next count that gives a smaller part.
        count = count + 1 if size == 1 else -(-tiles // (size - 1))
    return sizes[::-1]


def part(tiles: int, limit: int) -> int:
    """Return the size of the fewest nearly equal parts of at most ``limit`` tiles."""
    return -(-tiles // -(-tiles // limit))


def stage_tiles(depth: int, itemsize: int) -> int:
    """Return the number of contraction tiles that a transposing load loads at once."""
    return min(depth, _STAGE_BYTES // (TILE * itemsize))


def price(problem: Problem, blocks: Blocks, buffers: int) -> Tiling:
    """Return a tiling with its memory use and cost."""
    core, size, batch, parts = problem.core, problem.itemsize, problem.batch, problem.parts
    m, n, k = problem.rows, problem.columns, problem.depth
    mt, nt, kt = row_tiles(m), column_tiles(n), problem.depth_tiles
    b_tiles, b_elements = row_tiles(n // parts), k * n // parts
    row_blocks, column_blocks = -(-mt // blocks.row_tiles), -(-nt // blocks.column_tiles)
    depth_blocks = -(-kt // blocks.depth_tiles)
    a_reads, b_reads = batch * column_blocks, batch * row_blocks
    if blocks.resident == "a":
        a_reads = 1 if problem.shared == "a" else batch
    elif blocks.resident == "b":
        b_reads = 1 if problem.shared == "b" else batch
    transposes = [
        reads * tiles * kt if layout != "rows" else 0
        for reads, tiles, layout in (
            (a_reads, mt, problem.a_layout),
            (b_reads, b_tiles, problem.b_layout),
        )
    ]
    passes = 4 if size == 4 else 1
    tensor_cycles = batch * mt * kt * (passes * n + core.product_cycles * nt)
    evictions = batch * depth_blocks * mt
    vector_cycles = evictions * (max(n, 64 * nt) + core.vector_cycles * nt)
    transposing = sum(transposes) * core.transpose_ns[problem.dtype]
    on_tensor = core.transposes_on_tensor
    group_width = _width(n, nt, blocks.group)
    loads = (
        (a_reads * m * k, problem.a_layout, a_reads * kt // parts * row_blocks, a_reads * mt),
        (
            b_reads * b_elements,
            problem.b_layout,
            b_reads * kt // parts * column_blocks,
            b_reads * b_tiles,
        ),
    )
    dma_ns = _dma_ns(core, batch * m * n * size, batch * mt * -(-n // group_width))
    groups = -(-batch // blocks.matrices) if blocks.matrices else 0
    if groups:
        dma_ns = _dma_ns(core, batch * m * n * size, groups * _transfers(m))
    for elements, layout, straight, strips in loads:
        staged = strips * -(-kt // blocks.stage_tiles)
        if groups:
            extent = k // parts if layout == "rows" else elements // (batch * k)
            straight = staged = groups * _transfers(extent)
        dma_ns += _dma_ns(core, elements * size, straight if layout == "rows" else staged)
    return Tiling(
        blocks=blocks,
        generation=problem.generation,
        dtype=problem.dtype,
        buffers=buffers,
        sbuf_bytes=_sbuf_bytes(problem, blocks, buffers),
        psum_banks=2 * blocks.group + (2 if problem.transposed and on_tensor else 0),
        hbm_bytes=size * (a_reads * m * k + b_reads * b_elements + batch * m * n),
        products=batch * mt * nt * kt,
        transposes=sum(transposes),
        tensor_ns=tensor_cycles / core.tensor_ghz + (transposing if on_tensor else 0),
        vector_ns=vector_cycles / core.vector_ghz + (0 if on_tensor else transposing),
        dma_ns=dma_ns,
        stated=problem.stated,
    )


def _transfers(rows: int) -> int:
    """Return the transfers of whole matrices: full tiles, and the last rows."""
    return min(1, rows // TILE) + (rows % TILE > 0)


def _dma_ns(core: Core, nbytes: int, instructions: int) -> float:
    return max(instructions * core.dma_ns, nbytes / core.dma_bytes_per_ns)


def _width(columns: int, tiles: int, count: int) -> int:
    """Return the maximum number of columns of ``count`` neighbouring column tiles."""
    return min(columns, TILE * -(-count * row_tiles(columns) // tiles))


def _sbuf_bytes(problem: Problem, blocks: Blocks, buffers: int) -> int:
    """Return bytes per partition of both panels, the staging tiles and the output rows."""
    size, nt = problem.itemsize, column_tiles(problem.columns)
    if blocks.matrices:
        # Two groups in flight: both operands as loaded, transposed ones, and the result.
        return 2 * blocks.matrices * size * sum(_held(problem))
    width = _width(problem.columns, nt, blocks.column_tiles)
    rows = min(problem.rows, blocks.row_tiles * TILE)
    a_panel, b_panel = (blocks.depth_tiles * extent * size for extent in (rows, width))
    total = a_panel + b_panel
    whole = blocks.row_tiles >= row_tiles(problem.rows) and blocks.column_tiles >= nt
    if blocks.depth_tiles < problem.depth_tiles:
        total = buffers * total + blocks.row_tiles * width * 4
    elif not (whole and problem.batch == 1):
        total += (buffers - 1) * (b_panel if blocks.resident == "a" else a_panel)
        if problem.batch > 1 and problem.shared != blocks.resident:
            total += (buffers - 1) * (a_panel if blocks.resident == "a" else b_panel)
    if problem.transposed:
        total += 2 * blocks.stage_tiles * TILE * size
    return total + outgoing_bytes(_width(problem.columns, nt, blocks.group), size)


def _held(problem: Problem) -> list[int]:
    """Return elements per partition of a whole result, and of operands as loaded and transposed."""
    m, n, k, kt = problem.rows, problem.columns, problem.depth, problem.depth_tiles
    held = [row_tiles(m) * n, kt * m, kt * n]
    if problem.a_layout != "rows":
        held.append(row_tiles(m) * k)
    if problem.b_layout != "rows":
        held.append(row_tiles(n // problem.parts) * k)
    return held


def outgoing_bytes(width: int, itemsize: int) -> int:
    """Return bytes per partition of two output rows and the tiles that scale them."""
    return 2 * width * itemsize + 2 * min(width, BANK) * 4
