"""The cost of Tensor, Scalar and GpSimd instructions against figures from the hardware documents.

Expected figures are cycles and ns that were computed by hand; the clocks, overheads and tails are
written out, so that a wrong constant is found as well as a wrong formula.
"""

import nkisim.isa as nisa
import nkisim.language as nl

from ...each_case import each_case
from .cost_cases import (
    ALL,
    GHZ,
    ISSUE,
    LATER,
    Case,
    check_cost,
    moved_by_register,
    psum,
    sbuf,
    spread,
)

FUNCTION_TAIL = {"trn1": 160, "trn2": 293, "trn3": 293}
COPY_TAIL = {"trn1": 160, "trn2": 190, "trn3": 190}
PRODUCT_TAIL = {"trn1": 142, "trn2": 203, "trn3": 203}
FLOAT32_TAIL = {"trn1": 142, "trn2": 180, "trn3": 180}
TRANSPOSE_TAIL = 240
GPSIMD_TAIL = 50


CASES = []


def case(name, targets, engine, cycles, call, tail=None, nki="", **fields):
    CASES.append(Case(name, targets, engine, cycles, call, tail, nki, fields))


# -- Tensor ----------------------------------------------------------------------------------------


def product(k=128, m=128, n=512, dtype=nl.bfloat16, moving=None, **options):
    def call():
        left, right = sbuf(k, m, dtype=dtype), sbuf(k, n, dtype=moving or dtype)
        out = psum(n, m, dtype=dtype) if options.get("is_transpose") else psum(m, n)
        nisa.nc_matmul(dst=out, stationary=left, moving=right, **options)

    return call


def half_stream(passes, columns):
    """Tail of a product of several passes: half of the stream comes on top."""
    return lambda t: FLOAT32_TAIL[t] + 0.5 * passes * columns / GHZ["tensor"][t]


def full_rate(cycles):
    """Operations of the whole array in so many cycles."""
    return cycles * 2 * 128 * 128


case(
    "a bfloat16 product",
    ALL,
    "tensor",
    lambda t: 512 + (64 if t == "trn1" else 8),
    product(),
    tail=PRODUCT_TAIL.get,
    flops=2 * 128 * 128 * 512,
    full_rate_flops=lambda t: full_rate(512 + (64 if t == "trn1" else 8)),
    columns=512,
    stationary_columns=128,
    array=0,
)
case(
    "a float32 product in four passes",
    ("trn1",),
    "tensor",
    4 * 512 + 64,
    product(dtype=nl.float32),
    tail=half_stream(4, 512),
    flops=2 * 128 * 128 * 512,
)
case(
    "a float32 product in four passes",
    LATER,
    "tensor",
    4 * 512 + 16,
    product(dtype=nl.float32),
    tail=half_stream(4, 512),
    flops=2 * 128 * 128 * 512,
)
case("a tfloat32 product", LATER, "tensor", 520, product(dtype=nl.tfloat32), PRODUCT_TAIL.get)
# One pass multiplies 10 fraction bits of each operand; float32 on one side is not rounded to them.
for pair in ((nl.float32, nl.tfloat32), (nl.tfloat32, nl.float32)):
    case(
        f"a product of {pair[0]} and {pair[1]}",
        LATER,
        "tensor",
        4 * 512 + 16,
        product(dtype=pair[0], moving=pair[1]),
        tail=half_stream(4, 512),
    )
for flag in ("is_stationary_onezero", "is_moving_onezero"):
    case(
        f"a float32 product with {flag}",
        LATER,
        "tensor",
        2 * 512 + 16,
        product(dtype=nl.float32, **{flag: True}),
        tail=half_stream(2, 512),
    )
case(
    "a bfloat16 product with a flag for float32",
    LATER,
    "tensor",
    520,
    product(is_moving_onezero=True),
    tail=PRODUCT_TAIL.get,
)
# Few columns: a product streams at least its stationary columns from gen3 on, 64 columns on gen2.
case("wide stationary", LATER, "tensor", 128 + 8, product(n=16), PRODUCT_TAIL.get, columns=16)
case("few columns", ("trn1",), "tensor", 64 + 64, product(n=16), PRODUCT_TAIL.get)
case("few columns in float32", ("trn1",), "tensor", 4 * 64 + 64, product(n=16, dtype=nl.float32))
case("the shortest interval", LATER, "tensor", 64, product(m=16, n=32), PRODUCT_TAIL.get)
case("one row", LATER, "tensor", 520, product(k=1), flops=2 * 1 * 128 * 512)


def doubled():
    left = sbuf(128, 2, 128, dtype=nl.float8_e4m3)
    right = sbuf(128, 2, 512, dtype=nl.float8_e4m3)
    nisa.nc_matmul(
        dst=psum(128, 512),
        stationary=left,
        moving=right,
        perf_mode=nisa.matmul_perf_mode.double_row,
    )


case(
    "a double-row product",
    LATER,
    "tensor",
    512 + 8,
    doubled,
    tail=PRODUCT_TAIL.get,
    flops=2 * 256 * 128 * 512,
    full_rate_flops=full_rate(520),
    columns=512,
    stationary_columns=128,
)


def packed():
    left, right = (sbuf(128, n, dtype=nl.float8_e4m3fn_x4) for n in (128, 512))
    scales = [sbuf(128, n, dtype=nl.uint8) for n in (128, 512)]
    nisa.nc_matmul_mx(psum(128, 512), left, right, *scales)


case("an MX product", ("trn3",), "tensor", 520, packed, PRODUCT_TAIL.get, flops=2 * 512 * 128 * 512)


def transposed(p, f, dtype):
    return lambda: nisa.nc_transpose(
        dst=psum(f, p, dtype=dtype), data=sbuf(p, f, dtype=dtype), engine=nisa.engine.tensor
    )


for p, f in ((128, 128), (128, 32), (32, 128)):
    case(
        f"a bfloat16 transposition of {p} x {f}",
        LATER,
        "tensor",
        128 + 20,
        transposed(p, f, nl.bfloat16),
        tail=TRANSPOSE_TAIL,
        flops=0,
        full_rate_flops=full_rate(148),
    )
# 3 x 128 + 20 cycles are the measured 168 ns; the result is ready 424 ns + P / 2.4 after the start.
for wide in (nl.float32, nl.int32):
    case(f"a {wide} transposition", LATER, "tensor", 404, transposed(128, 128, wide), 424, flops=0)
case(
    "a transposition by a product",
    ("trn1",),
    "tensor",
    4 * 128 + 64,
    transposed(128, 128, nl.float32),
    flops=0,
)
case(
    "a product as a transposition",
    LATER,
    "tensor",
    128 + 20,
    product(n=128, is_transpose=True),
    tail=TRANSPOSE_TAIL,
    flops=0,
)

# Blocks of 32 x 32 are numbered by rows; (row, column), (height, width) and the blocks they cover.
TILES = (
    ((0, 0), (32, 32), {0}),
    ((32, 0), (32, 32), {4}),
    ((0, 96), (32, 32), {3}),
    ((96, 96), (32, 32), {15}),
    ((64, 0), (64, 128), set(range(8, 16))),
    ((0, 64), (128, 64), {2, 3, 6, 7, 10, 11, 14, 15}),
    ((0, 0), (128, 128), set()),
)


def in_part(position, size):
    def call():
        left, right = sbuf(128, size[1], dtype=nl.bfloat16), sbuf(128, 512, dtype=nl.bfloat16)
        rows = slice(position[0], position[0] + size[0])
        nisa.nc_matmul(
            dst=psum(128, 512)[position[1] : position[1] + size[1]],
            stationary=left[rows],
            moving=right[rows],
            tile_position=position,
            tile_size=size,
        )

    return call


for position, size, blocks in TILES:
    case(
        f"a product at {position} of {size}",
        LATER,
        "tensor",
        520,
        in_part(position, size),
        tail=PRODUCT_TAIL.get,
        array=sum(1 << block for block in blocks),
        full_rate_flops=full_rate(520) * (len(blocks) or 16) / 16,
        flops=2 * size[0] * size[1] * 512,
    )


def product_at_a_register(n, dtype=nl.bfloat16):
    def call():
        tile = sbuf(128, 4096, dtype=dtype)
        moving = tile.ap([[4096, 128], [1, n]], scalar_offset=nisa.register_alloc(0))
        nisa.nc_matmul(psum(128, n), stationary=sbuf(128, 128, dtype=dtype), moving=moving)

    return call


# An address from a register: at least 600 cycles.
case("a short dynamic product", LATER, "tensor", 600, product_at_a_register(128))
case(
    "a long dynamic product", LATER, "tensor", 4 * 512 + 16, product_at_a_register(512, nl.float32)
)

# -- Scalar ----------------------------------------------------------------------------------------


def scalar(name, targets, cycles, call, function="", tail=COPY_TAIL, **fields):
    """A case of Scalar; ``function`` is the set of functions that it needs."""
    case(
        name,
        targets,
        "scalar",
        lambda t: cycles + ISSUE[t],
        call,
        tail=lambda t: (FUNCTION_TAIL if function else tail)[t] - ISSUE[t] / GHZ["scalar"][t],
        table=function,
        **fields,
    )


def activated(op, count=512, dtype=nl.float32, step=1, **options):
    def call():
        data = spread(sbuf(128, step * count, dtype=dtype), step, count)
        given = {name: make() for name, make in options.items()}
        nisa.activation(dst=sbuf(128, count, dtype=dtype), op=op, data=data, **given)

    return call


FUNCTIONS = {
    "exp": nl.exp,
    "sigmoid": nl.sigmoid,
    "silu": nl.silu,
    "log": nl.log,
    "sin": nl.sin,
    "sqrt": nl.sqrt,
    "rsqrt": nl.rsqrt,
    "softplus": nl.softplus,
    "erf": nl.erf,
    "gelu": nl.gelu,
    "reciprocal": nl.reciprocal,
}
for table, op in FUNCTIONS.items():
    scalar(f"the function {table}", ("trn2",), 512, activated(op), function=table)
for op, table in ((nl.tanh, "sigmoid"), (nl.arctan, "sin"), (nl.mish, "softplus")):
    scalar(f"{op} in {table}", ("trn2",), 512, activated(op), function=table)
for op in (nl.gelu_dx, nl.gelu_apprx_tanh, nl.gelu_apprx_sigmoid):
    scalar(f"{op} in gelu", ("trn2",), 512, activated(op), function="gelu")
for op in (nl.copy, nl.square, nl.relu, nl.abs, nl.sign):
    scalar(f"{op} in every table", ALL, 512, activated(op))
scalar("an exponential of bfloat16", ALL, 512, activated(nl.exp, dtype=nl.bfloat16), "exp")
scalar("a short exponential", ALL, 64, activated(nl.exp, count=8), "exp")
scalar("an exponential with step 5", ALL, 2 * 512, activated(nl.exp, step=5), "exp")
scalar(
    "an exponential with a column",
    ALL,
    512,
    activated(nl.exp, bias=lambda: sbuf(128, 1), scale=lambda: sbuf(128, 1)),
    "exp",
)
scalar(
    "an exponential with its sum",
    ALL,
    512 + 64,
    activated(
        nl.exp,
        reduce_op=lambda: nl.add,
        reduce_res=lambda: sbuf(128, 1),
        reduce_cmd=lambda: nisa.reduce_cmd.reset_reduce,
    ),
    "exp",
)


def activated_and_reduced():
    nisa.activation_reduce(
        dst=sbuf(128, 512),
        op=nl.exp,
        data=sbuf(128, 512),
        reduce_op=nl.add,
        reduce_res=sbuf(128, 1),
    )


scalar("an exponential and its sum", ALL, 512 + 64, activated_and_reduced, "exp")


def scalar_copy(dtype, step=1):
    def call():
        data = spread(sbuf(128, step * 512, dtype=dtype), step)
        nisa.tensor_copy(dst=sbuf(128, 512, dtype=dtype), src=data, engine=nisa.engine.scalar)

    return call


def scalar_scaling(dtype):
    return lambda: nisa.tensor_scalar(
        dst=sbuf(128, 512, dtype=dtype),
        data=sbuf(128, 512, dtype=dtype),
        op0=nl.multiply,
        operand0=2.0,
        engine=nisa.engine.scalar,
    )


scalar("a copy by Scalar", LATER, 512, scalar_copy(nl.float32))
scalar("a scaling by Scalar", LATER, 512, scalar_scaling(nl.float32))
scalar("a bfloat16 copy by Scalar", ("trn2",), 512, scalar_copy(nl.bfloat16))
scalar("a bfloat16 copy by Scalar", ("trn3",), 512 / 2, scalar_copy(nl.bfloat16))
scalar("a bfloat16 scaling by Scalar", ("trn3",), 512 / 2, scalar_scaling(nl.bfloat16))
scalar("a bfloat16 copy by Scalar, step 9", ("trn3",), 512, scalar_copy(nl.bfloat16, step=9))
scalar("a dynamic exponential", LATER, 600, moved_by_register("activation", op=nl.exp), "exp")

# -- GpSimd ----------------------------------------------------------------------------------------


def gpsimd(name, targets, cycles, call, **fields):
    case(name, targets, "gpsimd", 150 + cycles, call, tail=GPSIMD_TAIL, **fields)


def combined(op, dtype):
    return lambda: nisa.tensor_tensor(
        dst=sbuf(128, 512, dtype=dtype),
        data1=sbuf(128, 512, dtype=dtype),
        data2=sbuf(128, 512, dtype=dtype),
        op=op,
    )


def gathered(count):
    return lambda: nisa.nc_n_gather(
        dst=sbuf(128, count), data=sbuf(128, 64), indices=sbuf(128, count, dtype=nl.uint32)
    )


def masked():
    nisa.affine_select(
        dst=sbuf(128, 512),
        pattern=[[1, 512]],
        channel_multiplier=-1,
        on_true_tile=sbuf(128, 512),
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )


ON_GPSIMD = {"engine": nisa.engine.gpsimd}
gpsimd("numbers", ALL, 512, lambda: nisa.iota(sbuf(128, 512, dtype=nl.int32), [[1, 512]]))
gpsimd("a mask", ALL, 512, masked)
gpsimd("an integer sum", ALL, 2 * 512, combined(nl.add, nl.int32))
gpsimd("a power", ALL, 32 * 512, combined(nl.power, nl.float32))
gpsimd("a fill by GpSimd", ALL, 512, lambda: nisa.memset(sbuf(128, 512), value=1.0, **ON_GPSIMD))
gpsimd(
    "a copy by GpSimd",
    ALL,
    512,
    lambda: nisa.tensor_copy(dst=sbuf(128, 512), src=sbuf(128, 512), **ON_GPSIMD),
)
gpsimd(
    "a reciprocal root by GpSimd",
    ALL,
    4 * 512,
    lambda: nisa.tensor_scalar(
        dst=sbuf(128, 512), data=sbuf(128, 512), op0=nl.rsqrt, operand0=0.0, **ON_GPSIMD
    ),
)
gpsimd(
    "random bits by GpSimd",
    LATER,
    2 * 512,
    lambda: nisa.rng(dst=sbuf(128, 512, dtype=nl.uint32), **ON_GPSIMD),
)
# A gather takes 4 cycles per element, and another start for every 512.
gpsimd("a gather", ALL, 4 * 512, gathered(512))
gpsimd("a gather of one more", ALL, 150 + 4 * 513, gathered(513))
gpsimd("a gather of three groups", ALL, 2 * 150 + 4 * 1536, gathered(1536))


def gathered_runs(run, dtype, **options):
    return lambda: nisa.local_gather(
        sbuf(128, 16 * 8 * run, dtype=dtype),
        src_buffer=sbuf(128, 256, dtype=dtype),
        index=sbuf(128, 8, dtype=nl.uint16),
        num_elem_per_idx=run,
        **options,
    )


# With runs of e elements of b bytes: (28 + 4 e) / (4 e min(4 / b, e)) cycles per element.
gpsimd("single elements", ALL, 128 * 8, gathered_runs(1, nl.float32))
gpsimd("single narrow elements", ALL, 128 * 8, gathered_runs(1, nl.bfloat16))
gpsimd("runs of four", ALL, 512 * 2.75, gathered_runs(4, nl.float32))
gpsimd("narrow runs of four", ALL, 512 * 2.75 / 2, gathered_runs(4, nl.bfloat16))
gpsimd("some runs", ALL, 320 * 2.75, gathered_runs(4, nl.float32, num_valid_indices=80))
gpsimd(
    "a sum over partitions",
    ALL,
    16 * 512,
    lambda: nisa.tensor_partition_reduce(dst=sbuf(1, 512), op=nl.add, data=sbuf(128, 512)),
)
gpsimd(
    "bounds of sequences",
    ALL,
    8 * 512,
    lambda: nisa.sequence_bounds(
        dst=sbuf(1, 1024, dtype=nl.int32), segment_ids=sbuf(1, 512, dtype=nl.int32)
    ),
)
gpsimd(
    "positions of nonzeros",
    LATER,
    4 * 512,
    lambda: nisa.nonzero_with_count(
        dst=sbuf(16, 513, dtype=nl.int32), src=sbuf(16, 512, dtype=nl.int32)
    ),
)
gpsimd(
    "a search for the largest",
    LATER,
    4 * 40 + 8,
    lambda: nisa.topk(
        val_dst=sbuf(16, 8, dtype=nl.bfloat16),
        idx_dst=sbuf(16, 8, dtype=nl.uint32),
        src=sbuf(16, 3, dtype=nl.bfloat16),
        n=40,
    ),
    nki="0.6.0",
)


@each_case("case", CASES, group=lambda case: case.engine)
def test_an_instruction_costs_its_cycles_and_its_tail(case):
    check_cost(case)
