"""The last call that the Tensor engine takes, and what is said of the first that it does not.

The limits are those of the instruction reference; what is found is compared word by word.
"""

import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case

from .boundaries import BF16, F8, F32, GEN2, GEN3, GEN4, tile, told

ROW = nisa.matmul_perf_mode.double_row
CONTRACTED = "Matmul contraction dimension"
HALF = "S036 nc_matmul_mx"
ARRAY = "S035 nc_matmul"
SPREAD = "S037 nc_matmul_mx stationary_scale must be"


def matmul(k=32, m=16, n=24, dst=None, dtype=BF16, into=F32, moving=None, start=0, **settings):
    def call():
        nisa.nc_matmul(
            dst=tile(dst or (m, n), into, nl.psum),
            stationary=tile((k, m), dtype, start=start),
            moving=tile((moving or k, n), dtype, start=start),
            **settings,
        )

    return call


def double_row(stationary=(32, 2, 16), moving=(32, 2, 24), dtype=F8, dst=(16, 24), **settings):
    def call():
        nisa.nc_matmul(
            dst=tile(dst, F32, nl.psum),
            stationary=tile(stationary, dtype),
            moving=tile(moving, dtype),
            perf_mode=ROW,
            **settings,
        )

    return call


def banked(first, columns):
    """A product into some columns of two banks."""

    def call():
        banks = tile((16, 1024), F32, nl.psum)
        nisa.nc_matmul(
            dst=banks[:, first : first + columns],
            stationary=tile((32, 16), BF16),
            moving=tile((32, columns), BF16),
        )

    return call


def mx_matmul(
    k=32, m=16, n=24, dst=None, into=F32, scales=None, at=(0, 0), moving=None, **settings
):
    def call():
        kind = nl.float8_e4m3fn_x4
        rows = scales or k
        nisa.nc_matmul_mx(
            dst=tile(dst or (m, n), into, nl.psum),
            stationary=tile((k, m), kind),
            moving=tile((moving or k, n), kind),
            stationary_scale=tile((rows, m), nl.uint8, start=at[0]),
            moving_scale=tile((rows, n), nl.uint8, start=at[1]),
            **settings,
        )

    return call


def quantize(rows=32, elements=16, dst=None, scale=None, dtype=BF16, start=0):
    def call():
        nisa.quantize_mx(
            dst=tile(dst or (rows, elements // 4), nl.float8_e5m2_x4),
            src=tile((rows, elements), dtype),
            dst_scale=tile(scale or (rows, elements // 4), nl.uint8, start=start),
        )

    return call


def transpose(data, dst, dtype=F32, source=nl.sbuf, to=nl.psum, **settings):
    def call():
        nisa.nc_transpose(dst=tile(dst, dtype, to), data=tile(data, dtype, source), **settings)

    return call


CALLS = {
    # The Tensor engine: 128 rows and columns, 512 columns that move.
    "K 128": (GEN3, matmul(k=128), ""),
    "M 128": (GEN3, matmul(m=128), ""),
    "M 129": (
        GEN3,
        matmul(m=129, dst=(128, 24)),
        "S029 Matmul stationary free dimension 129 exceeds gemm_stationary_fmax=128",
    ),
    "N 512": (GEN3, matmul(n=512), ""),
    "N 513": (
        GEN3,
        matmul(n=513),
        "S030 Matmul moving free dimension 513 exceeds max 512 for nc_version=nc_version.gen3",
    ),
    "N 4096": (GEN4, matmul(n=4096), ""),
    "N 4097": (
        GEN4,
        matmul(n=4097, dst=(16, 4096)),
        "S030 Matmul moving free dimension 4097 exceeds max 4096 for nc_version=nc_version.gen4",
    ),
    "N 8192": (GEN4, matmul(n=8192, into=BF16), ""),
    "N 8193": (
        GEN4,
        matmul(n=8193, dst=(16, 8192), into=BF16),
        "S030 Matmul moving free dimension 8193 exceeds max 8192 for nc_version=nc_version.gen4",
    ),
    "N 2": (GEN3, matmul(n=2), ""),
    "N 1": (GEN3, matmul(n=1), "S066 nc_matmul moving has a single column (32, 1)"),
    "K differs": (
        GEN3,
        matmul(k=32, moving=31),
        f"S028 {CONTRACTED} mismatch: stationary[0]=32 != moving[0]=31",
    ),
    "rows of dst": (
        GEN3,
        matmul(dst=(15, 24)),
        "S031 nc_matmul dst must be (16, 24), the columns of stationary and moving, got (15, 24)",
    ),
    "columns of dst": (
        GEN3,
        matmul(dst=(16, 23)),
        "S031 nc_matmul dst must be (16, 24), the columns of stationary and moving, got (16, 23)",
    ),
    # Tiles of the array.
    "tile": (GEN3, matmul(tile_position=(0, 0), tile_size=(32, 128)), ""),
    "tile, columns": (
        GEN3,
        matmul(tile_position=(0, 0), tile_size=(32, 32)),
        "S072 nc_matmul uses 32 columns of the array from column 0 on",
    ),
    "tile, gen2": (
        GEN2,
        matmul(tile_position=(0, 0), tile_size=(32, 64)),
        f"{ARRAY} tile_size (32, 64) must be made of (64, 128) on gen2",
    ),
    "tile, columns of gen2": (
        GEN2,
        matmul(tile_position=(0, 0), tile_size=(64, 32)),
        f"{ARRAY} tile_size (64, 32) must be made of (64, 128) on gen2",
    ),
    "tile of 64, gen2": (GEN2, matmul(tile_position=(0, 0), tile_size=(64, 128)), ""),
    "tile of 64, columns of gen2": (
        GEN2,
        matmul(tile_position=(0, 64), tile_size=(64, 64)),
        "S072 nc_matmul uses 64 columns of the array from column 64 on",
    ),
    "tile, K": (
        GEN3,
        matmul(k=33, tile_position=(0, 0), tile_size=(32, 128)),
        f"S032 {CONTRACTED} 33 exceeds the row tile of 32",
    ),
    "tile, M": (
        GEN3,
        matmul(m=33, tile_position=(0, 0), tile_size=(32, 32)),
        "S029 Matmul stationary free dimension 33 exceeds the column tile of 32",
    ),
    "tile, started": (GEN3, matmul(start=64, tile_position=(64, 0), tile_size=(32, 128)), ""),
    "tile, elsewhere": (
        GEN3,
        matmul(start=32, tile_position=(64, 0), tile_size=(32, 32)),
        f"{ARRAY} operands start at partitions [32, 32], the row tile at 64",
    ),
    "tile, step": (
        GEN3,
        matmul(start=32, tile_position=(32, 0), tile_size=(64, 64)),
        f"{ARRAY} tile_position (32, 0) must be a multiple of tile_size (64, 64) below 128",
    ),
    "tile, too far": (
        GEN3,
        matmul(tile_position=(0, 128), tile_size=(32, 32)),
        f"{ARRAY} tile_position (0, 128) must be a multiple of tile_size (32, 32) below 128",
    ),
    "tile, before": (
        GEN3,
        matmul(tile_position=(0, -32), tile_size=(32, 32)),
        f"{ARRAY} tile_position (0, -32) must be a multiple of tile_size (32, 32) below 128",
    ),
    "tile without a place": (
        GEN3,
        matmul(tile_size=(32, 32)),
        f"{ARRAY} tile_position () and tile_size (32, 32) must both have two entries",
    ),
    "place without a tile": (
        GEN3,
        matmul(tile_position=(0, 0)),
        f"{ARRAY} tile_position (0, 0) and tile_size () must both have two entries",
    ),
    # Banks of 2048 bytes.
    "bank, first": (GEN3, banked(0, 512), ""),
    "bank, second": (GEN3, banked(512, 512), ""),
    "bank, end": (GEN3, banked(500, 12), ""),
    "banks, two": (
        GEN3,
        banked(500, 13),
        "M012 nc_matmul dst covers bytes 2000 to 2051 of a partition and crosses a bank boundary",
    ),
    "banks, two of gen4": (GEN4, banked(500, 13), ""),
    # Pairs of float8.
    "pairs": (GEN3, double_row(), ""),
    "pairs of three": (
        GEN3,
        double_row((32, 3, 16)),
        "S034 nc_matmul stationary must have shape [K, 2, columns] in double_row mode, got "
        "(32, 3, 16)",
    ),
    "pairs, flat": (
        GEN3,
        double_row((32, 32)),
        "S034 nc_matmul stationary must have shape [K, 2, columns] in double_row mode, got "
        "(32, 32)",
    ),
    "pairs, turned": (
        GEN3,
        double_row(is_transpose=True),
        "S034 nc_matmul double_row cannot be combined with transpose or column tiling",
    ),
    "pairs, tiled": (
        GEN3,
        double_row(tile_position=(0, 0), tile_size=(32, 64)),
        "S034 nc_matmul double_row cannot be combined with transpose or column tiling",
    ),
    "pairs, rows tiled": (GEN3, double_row(tile_position=(0, 0), tile_size=(32, 128)), ""),
    # Blocks with a scale.
    "mx, K 128": (GEN4, mx_matmul(k=128), ""),
    "mx, K 48": (
        GEN4,
        mx_matmul(k=48),
        f"{HALF} stationary and moving must have 32, 64, 96 or 128 partitions, got 48",
    ),
    "mx, M 128": (GEN4, mx_matmul(m=128), ""),
    "mx, M 15": (
        GEN4,
        mx_matmul(m=15),
        f"{HALF} stationary must have an even number of up to 128 words per partition, got 15",
    ),
    "mx, M 130": (
        GEN4,
        mx_matmul(m=130, dst=(128, 24)),
        f"{HALF} stationary must have an even number of up to 128 words per partition, got 130",
    ),
    "mx, N 512": (GEN4, mx_matmul(n=512), ""),
    "mx, N 513": (
        GEN4,
        mx_matmul(n=513),
        f"{HALF} moving must have at most 512 words per partition into float32, got 513",
    ),
    "mx, N 1024": (GEN4, mx_matmul(n=1024, into=BF16), ""),
    "mx, N 1025": (
        GEN4,
        mx_matmul(n=1025, into=BF16),
        f"{HALF} moving must have at most 1024 words per partition into bfloat16, got 1025",
    ),
    "mx, K differs": (
        GEN4,
        mx_matmul(k=64, moving=32),
        "S028 nc_matmul_mx stationary and moving must have the same partition dimension, got 64 "
        "and 32",
    ),
    "mx, dst": (
        GEN4,
        mx_matmul(dst=(16, 23)),
        "S031 nc_matmul_mx dst must be (16, 24), the words of stationary and moving, got (16, 23)",
    ),
    "mx, four rows": (GEN4, mx_matmul(scales=4), ""),
    "mx, three rows": (
        GEN4,
        mx_matmul(scales=3),
        f"{SPREAD} (4, 16) or (32, 16) for stationary (32, 16), got (3, 16)",
    ),
    "mx, 36 rows": (GEN4, mx_matmul(k=64, scales=36), ""),
    "mx, 35 rows": (
        GEN4,
        mx_matmul(k=64, scales=35),
        f"{SPREAD} (64, 16) for stationary (64, 16), got (35, 16)",
    ),
    "mx, rows below": (GEN4, mx_matmul(scales=4, at=(4, 12)), ""),
    "mx, row 16": (
        GEN4,
        mx_matmul(scales=4, at=(8, 16)),
        "M044 nc_matmul_mx moving_scale starts at row 16 of quadrant 0, moving in quadrant 0",
    ),
    "mx, quadrant": (
        GEN4,
        mx_matmul(scales=4, at=(32, 0)),
        "M044 nc_matmul_mx stationary_scale starts at row 0 of quadrant 1, stationary in quadrant "
        "0",
    ),
    "mx, rows tiled": (GEN4, mx_matmul(tile_position=(0, 0), tile_size=(32, 128)), ""),
    "mx, K of a tile": (
        GEN4,
        mx_matmul(k=64, tile_position=(0, 0), tile_size=(32, 128)),
        "S032 nc_matmul_mx stationary has 64 partitions, the row tile 32",
    ),
    "mx, columns tiled": (
        GEN4,
        mx_matmul(tile_position=(0, 0), tile_size=(32, 64)),
        f"{HALF} tiles the rows of the array only, got tile_position (0, 0) and tile_size (32, 64)",
    ),
    "mx, later columns": (
        GEN4,
        mx_matmul(tile_position=(0, 32), tile_size=(32, 128)),
        f"{HALF} tiles the rows of the array only, got tile_position (0, 32) and tile_size "
        "(32, 128)",
    ),
    "quantised": (GEN4, quantize(128, 4), ""),
    "quantised, rows": (
        GEN4,
        quantize(48),
        "S038 quantize_mx src must have 32, 64, 96 or 128 partitions and a multiple of 4 elements "
        "in each, got (48, 16)",
    ),
    "quantised, elements": (
        GEN4,
        quantize(elements=18),
        "S038 quantize_mx src must have 32, 64, 96 or 128 partitions and a multiple of 4 elements "
        "in each, got (32, 18)",
    ),
    "quantised, dst": (
        GEN4,
        quantize(dst=(32, 5)),
        "S038 quantize_mx dst must be (32, 4) for src (32, 16), got (32, 5)",
    ),
    "quantised, scales": (GEN4, quantize(scale=(4, 4)), ""),
    "quantised, many scales": (
        GEN4,
        quantize(scale=(33, 4)),
        "S037 quantize_mx dst_scale must be (4, 4) or (32, 4) for src (32, 16), got (33, 4)",
    ),
    "quantised, wide scales": (
        GEN4,
        quantize(scale=(4, 5)),
        "S037 quantize_mx dst_scale must be (4, 4) or (32, 4) for src (32, 16), got (4, 5)",
    ),
    # Transposes.
    "turned": (GEN3, transpose((128, 128), (128, 128)), ""),
    "turned, rows": (
        GEN3,
        transpose((128, 129), (128, 128)),
        "S039 nc_transpose data of shape (128, 129) exceeds 128x128, the limit of the tensor "
        "engine",
    ),
    "turned, vector": (GEN3, transpose((32, 32), (32, 32), to=nl.sbuf), ""),
    "turned, vector, rows": (
        GEN3,
        transpose((33, 32), (32, 33), to=nl.sbuf),
        "M020 nc_transpose dst must be in ['psum'] on the tensor engine, got sbuf",
    ),
    "turned, vector, columns": (
        GEN3,
        transpose((32, 33), (33, 32), to=nl.sbuf),
        "M020 nc_transpose dst must be in ['psum'] on the tensor engine, got sbuf",
    ),
    "turned, by vector": (
        GEN3,
        transpose((32, 32), (32, 32), engine=nisa.engine.vector),
        "",
    ),
    "turned, by tensor": (
        GEN3,
        transpose((33, 32), (32, 33), engine=nisa.engine.vector),
        "A046 nc_transpose engine=engine.vector is ignored, the tensor engine runs it",
    ),
    "turned, flat": (GEN3, transpose((16, 4, 8), (32, 16)), ""),
    "turned, permuted": (
        GEN3,
        transpose((16, 4, 8), (8, 64)),
        "S040 nc_transpose dst must be (32, 16) for data of shape (16, 4, 8), got (8, 64)",
    ),
}


@each_case("name", CALLS)
def test_what_is_said_at_a_limit(name):
    target, call, message = CALLS[name]
    wanted = [message] if message else []
    assert told(call, target) == wanted
