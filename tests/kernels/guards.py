"""Legal kernels that an over-strict reader would flag; none of them may have a finding.

The names are those of the guards in the fault catalogue: ``G01_copy_casts`` is one face of G01.
"""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN4, bf16, f8, f16, f32, guard, u32
from tiles import stored

# -- dtypes --------------------------------------------------------------------------------------


@guard(f32(64, 32))
def G01_copy_casts(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=tile)
    nisa.activation(dst=tile, op=nl.exp, data=half)
    nisa.tensor_tensor(dst=half, data1=half, data2=tile, op=nl.add)
    nisa.tensor_scalar(dst=tile, data=half, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@guard(f32(64, 32))
def G01_dma_casts(a):
    out = nl.ndarray((64, 32), dtype=nl.float16, buffer=nl.shared_hbm)
    half = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=half, src=a)
    nisa.dma_copy(dst=out, src=half)
    return out


@guard(f32(8, 257))
def G01_exact_positions(a):
    """All positions up to 256, and multiples of 128 beyond, are exact in bfloat16."""
    positions = nl.ndarray((8, 257), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.iota(dst=positions, pattern=[[1, 257]])
    starts = nl.ndarray((8, 257), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.iota(dst=starts, pattern=[[128, 257]], offset=-128 * 256)
    return stored(nl.add(nl.add(positions, starts), nl.load(a)))


@guard(bf16(64, 32), f16(64, 128))
def G02_bf16_with_fp16(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    return stored(acc)


@guard(bf16(64, 32), f8(64, 128))
def G02_bf16_with_fp8(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    return stored(acc)


@guard(bf16(64, 128))
def G10_bf16_transpose_in_psum(a):
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(a))
    return stored(turned)


@guard(bf16(64, 32), bf16(64, 1024), targets=GEN4)
def G11_wide_bf16_matmul(a, b):
    acc = nl.ndarray((32, 1024), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    return stored(acc)


@guard(np.array([[2**24 + 1, 2**24 + 3]] * 64, np.int32))
def G13_large_integers_on_gpsimd(counters):
    tile = nl.load(counters)
    threes = nl.full((64, 2), 3, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=threes, op=nl.multiply)
    return stored(tile)


@guard(np.array([[0x7FFFFFFF, 0x01234567]] * 64, np.uint32))
def G14_bits_of_large_integers(words):
    tile = nl.load(words)
    nisa.tensor_scalar(tile, tile, nl.bitwise_xor, 0x5DEECE6D, op1=nl.left_shift, operand1=3)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(words), op=nl.bitwise_or)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.right_shift, operand0=5)
    return stored(tile)


@guard(f32(64, 32))
def G15_memset_values(a):
    zeros = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    ones = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0)
    nisa.memset(dst=ones, value=1.0)
    nisa.memset(dst=counts, value=0)
    nisa.tensor_tensor(dst=zeros, data1=zeros, data2=nl.load(a), op=nl.add)
    return stored(zeros), stored(ones), stored(counts)


@guard(f32(64, 32))
def G19_lowest_fill_in_float32(scores):
    tile = nl.load(scores)
    lowest = -3.4028235e38
    nisa.affine_select(tile, [[-1, 32]], 1, tile, lowest, cmp_op=nl.greater_equal)
    return stored(tile)


@guard(bf16(64, 32), f32(64, 1))
def G22_float32_column_with_bf16_data(a, scale):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=nl.load(scale))
    return stored(tile)


@guard(np.where(np.eye(64, 32) > 0, np.float32(np.nan), f32(64, 32)))
def G25_nan_from_the_inputs(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


# -- shapes and views ----------------------------------------------------------------------------


@guard(f32(64, 128))
def G03_slice_of_a_slice(a):
    tile = nl.load(a)
    return stored(tile[0:64][:, 0:32])


@guard(f32(100, 300))
def G04_partial_last_tiles(a):
    out = nl.ndarray((100, 300), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in range(0, 100, 64):
        for c in range(0, 300, 128):
            rows, cols = min(64, 100 - r), min(128, 300 - c)
            tile = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
            block = tile[0:rows, 0:cols]
            nisa.dma_copy(dst=block, src=a[r : r + rows, c : c + cols])
            nisa.activation(dst=block, op=nl.exp, data=block)
            nisa.dma_copy(dst=out[r : r + rows, c : c + cols], src=block)
    return out


@guard(f32(128, 32))
def G07_legal_starts(a):
    tile = nl.load(a)
    for start in (32, 64, 96):
        rows = tile[start : start + 32]
        nisa.activation(dst=rows, op=nl.exp, data=rows)
    nisa.activation(dst=tile[64:128], op=nl.copy, data=tile[64:128])
    return stored(tile)


@guard(f32(128, 32))
def G07_one_input_crosses_quadrants(a):
    tile = nl.load(a)
    nisa.tensor_copy(dst=tile[32:64], src=tile[96:128])
    return stored(tile)


@guard(f32(128, 32))
def G07_dma_at_any_partition(a):
    tile = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:5], src=a[0:5])
    nisa.dma_copy(dst=tile[5:128], src=a[5:128])
    return stored(tile)


@guard(f32(64, 100))
def G28_destination_sliced_to_size(a):
    wide = nl.zeros((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=wide[:, 0:100], op=nl.exp, data=nl.load(a))
    return stored(wide)


@guard(f32(1, 32))
def G21_stride_zero_reads(row):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=row.ap([[0, 64], [1, 32]]))
    wide = nl.ndarray((64, 4, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=tile.ap([[32, 64], [0, 4], [1, 32]]))
    return stored(wide)


# -- memory --------------------------------------------------------------------------------------


@guard(f32(64, 100))
def G05_only_the_written_part_is_read(a):
    tile = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:100], src=a)
    return stored(tile[:, 0:100])


@guard(f32(64, 32))
def G06_in_place(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    return stored(tile)


@guard(bf16(2, 64, 32), bf16(2, 64, 256))
def G08_automatic_accumulation(a, b):
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    for n in (0, 128):
        acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
        for k in range(2):
            nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k, :, n : n + 128]))
        tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


@guard(bf16(2, 64, 32), bf16(2, 64, 128))
def G08_two_loops_into_one_sum(a, b):
    """Nothing reads the sum between the two loops, so that both add to it."""
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    for k in range(2):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]))
    for k in range(2):
        nisa.nc_matmul(acc, nl.load(a[1 - k]), nl.load(b[k]))
    return stored(acc)


@guard(bf16(64, 32), bf16(64, 96))
def G08_overlapping_parts(a, b):
    """The sums of a convolution: products into shifted, overlapping parts of one tile."""
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    stationary, moving = nl.load(a), nl.load(b)
    for shift in (0, 16, 32):
        nisa.nc_matmul(acc[:, shift : shift + 96], stationary, moving)
    return stored(acc)


@guard(bf16(64, 32), bf16(64, 256))
def G08_parts_read_one_by_one(a, b):
    """Each part is read after its own sum, and none is added to later."""
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)
    for n in (0, 128):
        part = acc[:, n : n + 128]
        nisa.nc_matmul(part, nl.load(a), nl.load(b[:, n : n + 128]))
        tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=part)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


@guard(bf16(64, 32), bf16(64, 256))
def G35_tiles_at_one_address(a, b):
    """Each allocation begins a sum of its own, wherever it is placed."""
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    for n in (0, 128):
        acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
        nisa.nc_matmul(acc, nl.load(a), nl.load(b[:, n : n + 128]))
        tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


@guard(bf16(2, 64, 32), bf16(2, 64, 256))
def G09_accumulate_flag(a, b):
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for n in (0, 128):
        for k in range(2):
            moving = nl.load(b[k, :, n : n + 128])
            nisa.nc_matmul(acc, nl.load(a[k]), moving, accumulate=(k > 0))
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


@guard(bf16(2, 64, 32), bf16(2, 64, 128))
def G09_first_call_outside_the_loop(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a[0]), nl.load(b[0]), accumulate=False)
    for k in range(1, 2):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=True)
    return stored(acc)


@guard(f32(64, 32), f32(64, 32))
def G12_same_bytes_on_other_partitions(a, b):
    out = nl.ndarray((64, 2, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    upper = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    lower = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(64, 0))
    nisa.dma_copy(dst=upper, src=a)
    nisa.dma_copy(dst=lower, src=b)
    nisa.dma_copy(dst=out[:, 0], src=upper)
    nisa.dma_copy(dst=out[:, 1], src=lower)
    return out


@guard(f32(64, 32), f32(64, 32))
def G12_one_after_the_other(a, b):
    out = nl.ndarray((64, 2, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    first = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    nisa.dma_copy(dst=first, src=a)
    nisa.dma_copy(dst=out[:, 0], src=first)
    second = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    nisa.dma_copy(dst=second, src=b)
    nisa.dma_copy(dst=out[:, 1], src=second)
    return out


@guard(f32(64, 32))
def G20_hbm_to_hbm(a):
    out = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out


@guard(f32(64, 32), warns="W004")
def G26_unused_tiles_and_unread_writes(a):
    tile = nl.load(a)
    spare = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile)
    assert spare.shape == copy.shape
    return stored(tile)


@guard(f32(64, 32))
def G29_read_modify_write_of_an_output(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    tile = nl.load(out)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@guard(f32(64, 33))
def G30_shift_by_one_through_dma(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[:, 1:33])
    return stored(tile)


# -- Python that the front end takes -------------------------------------------------------------


@guard(f32(64, 32), None)
def G16_optional_argument(a, bias=None):
    tile = nl.load(a)
    if bias is not None:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=nl.load(bias))
    return stored(tile)


@guard(f32(64, 128))
def G17_static_control_flow(a):
    width, steps = divmod(a.shape[1], 2**5)
    tile = nl.load(a)
    while steps < 3:
        steps += 1
        if steps == 2:
            continue
        op = nl.exp if steps in (0, 1) else nl.tanh
        assert isinstance(width, int), f"width {width}"
        nisa.activation(dst=tile, op=op, data=tile)
    return stored(tile)


@guard(f32(64, 32), f32(64, 32), f32(64, 32))
def G18_loop_over_a_tuple_of_tensors(a, b, c):
    total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for x in (a, b, c):
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(x), op=nl.add)
    return stored(total)


class Scale(nl.NKIObject):
    """A setting and the tile that it belongs to."""

    factor: float
    tile: object


def scaled(setting):
    """Multiply the setting's tile by its factor."""
    tile = setting.tile
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=setting.factor)
    return tile


@guard(f32(64, 32))
def G27_helper_and_object(a):
    return stored(scaled(Scale(factor=2.0, tile=nl.load(a))))


@guard(f32(64, 32))
def G31_sink_of_a_reducing_activation(a):
    tile = nl.load(a)
    sink = nl.ndarray((64, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=sink.ap([[1, 64], [0, 32]]),
        op=nl.square,
        data=tile,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    return stored(total)


@guard(f32(64, 32))
def G31_sink_of_a_fused_reduction(a):
    tile = nl.load(a)
    sink = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    everywhere = sink.ap([[1, 64], [0, 32]])
    nisa.tensor_scalar_reduce(everywhere, tile, nl.multiply, 2.0, nl.add, total)
    return stored(total)


@guard(f32(64, 32))
def G38_broadcast_in_place(a):
    tile = nl.load(a)
    nisa.nc_stream_shuffle(dst=tile[0:32], src=tile[0:1], shuffle_mask=[0] * 32)
    nisa.nc_stream_shuffle(dst=tile[32:64], src=tile[32:33], shuffle_mask=[0] * 32)
    return stored(tile)


@guard(f32(20, 64), warns="M001")
def G39_ragged_tile(a):
    tile = nl.ndarray((32, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:20], src=a)
    squares = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
    nisa.activation(dst=total, op=nl.rsqrt, data=total, scale=1 / 64)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    return stored(tile[0:20])


# -- loops ---------------------------------------------------------------------------------------


@guard(f32(4, 64, 32))
def G40_prefetch(a):
    """The last load of each turn is for the next one; every result but the first is read."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tiles = (
        nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf),
        nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf),
    )
    nisa.dma_copy(dst=tiles[0], src=a[0])
    for k in range(4):
        nisa.dma_copy(dst=tiles[(k + 1) % 2], src=a[min(k + 1, 3)])
        nisa.dma_copy(dst=out[k], src=tiles[k % 2])
    return out


@guard(f32(4, 64, 32))
def G40_sum_of_each_row_block(a):
    """The fill is inside the outer loop, and every sum is stored."""
    out = nl.ndarray((4, 64, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    part = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    for r in range(4):
        nisa.memset(dst=total, value=0.0)
        for c in range(4):
            nisa.tensor_reduce(
                dst=part, op=nl.add, data=nl.load(a[r])[:, 8 * c : 8 * c + 8], axis=1
            )
            nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
        nisa.dma_copy(dst=out[r], src=total)
    return out


@guard(f32(4, 64, 32), f32(8, 32))
def G40_one_row_for_all(a, table):
    """A loop over four blocks reads one of the eight rows of a table."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for k in range(4):
        row = nl.load(table[3:4])
        tile = nl.load(a[k])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nl.store(out[k], tile)
        nl.store(out[k, 0:1], row)
    return out


@guard(f32(4, 64, 32))
def G40_running_state(a):
    """A new tile in each turn, computed from that of the turn before."""
    state = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(4):
        later = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=later, data1=state, data2=nl.load(a[k]), op=nl.add)
        state = later
    return stored(state)


@guard(f32(64, 32))
def G41_quantised(a):
    """Fractions are rounded on purpose on the way to eight bits."""
    tile = nl.load(a)
    narrow = nl.ndarray((64, 32), dtype=nl.int8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=narrow, data=tile, op0=nl.multiply, operand0=3.3)
    return stored(narrow)


@guard(u32(64, 32, below=2**32))
def G41_hash(a):
    """Unsigned arithmetic wraps on purpose."""
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    return stored(tile)


# -- placed tiles, and groups in one bank --------------------------------------------------------


@guard(f32(64, 32))
def G42_unused_part_of_a_pool(a):
    """A tile is placed where an earlier one has bytes that nothing uses."""
    pool = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 256))
    nisa.dma_copy(dst=pool[:, 0:32], src=a)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=pool[:, 0:32], op=nl.add)
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@guard(f32(64, 32))
def G42_interleaved_groups(a):
    """Two sums in even and odd columns share no byte."""
    tile = nl.load(a)
    acc = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)
    for k in range(2):
        nisa.nc_matmul(dst=acc[:, 0:64:2], stationary=tile, moving=tile, accumulate=(k > 0))
        nisa.nc_matmul(dst=acc[:, 1:64:2], stationary=tile, moving=tile, accumulate=(k > 0))
    return stored(acc)
