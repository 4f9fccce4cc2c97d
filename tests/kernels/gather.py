"""Twins about searches, gathers, the shuffle and compactions."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, bf16, f32, guard, i32, ints, twin, u32
from tiles import stored

# -- searches ------------------------------------------------------------------------------------


@twin(f32(4, 20000))
def S048_long(a):
    tile = nl.load(a)  # good
    halves = nl.ndarray((4, 16), dtype=nl.float32, buffer=nl.sbuf)  # good
    top = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=top, src=nl.load(a))  # bad here
    nisa.max8(dst=halves[:, 0:8], src=tile[:, 0:10000])  # good
    nisa.max8(dst=halves[:, 8:16], src=tile[:, 10000:20000])  # good
    nisa.max8(dst=top, src=halves)  # good
    return stored(top)


@twin(f32(64, 32))
def S048_top4(a):
    tile = nl.load(a)
    top = nl.ndarray((64, 4), dtype=nl.float32, buffer=nl.sbuf)  # bad
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.max8(dst=top, src=tile)  # here
    return stored(top)  # bad
    return stored(top[:, 0:4])  # good


@twin(f32(64, 32))
def S048_find(a):
    tile = nl.load(a)
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    where = nl.ndarray((64, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.max8(dst=top, src=tile)
    nisa.nc_find_index8(dst=where, data=tile, vals=top[:, 0:4])  # bad here
    nisa.nc_find_index8(dst=where, data=tile, vals=top)  # good
    return stored(where)


@twin(f32(64, 32))
def S048_replace(a):
    tile = nl.load(a)
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    where = nl.ndarray((64, 32), dtype=nl.uint32, buffer=nl.sbuf)  # bad
    where = nl.ndarray((64, 8), dtype=nl.uint32, buffer=nl.sbuf)  # good
    nisa.max8(dst=top, src=tile)
    nisa.nc_match_replace8(dst=tile, data=tile, vals=top, imm=0.0, dst_idx=where)  # here
    return stored(tile), stored(where)


@twin(f32(64, 32))
def D032_found(a):
    tile = nl.load(a)
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    where = nl.ndarray((64, 8), dtype=nl.int32, buffer=nl.sbuf)  # bad
    where = nl.ndarray((64, 8), dtype=nl.uint32, buffer=nl.sbuf)  # good
    nisa.max8(dst=top, src=tile)
    nisa.nc_find_index8(dst=where, data=tile, vals=top)  # here
    return stored(where)


@twin(f32(64, 32), f32(64, 8))
def D032_replaced(a, values):
    tile = nl.load(a)
    where = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)  # bad
    where = nl.ndarray((64, 8), dtype=nl.uint16, buffer=nl.sbuf)  # good
    nisa.nc_match_replace8(tile, tile, nl.load(values), 0.0, dst_idx=where)  # here
    return stored(tile), stored(where)


# -- gathers -------------------------------------------------------------------------------------


@twin(f32(32, 32), ints("uint16", 16, 2, below=32))
def S049_one_core(a, columns):
    picked = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.local_gather(dst=picked, src_buffer=nl.load(a), index=nl.load(columns))  # bad here
    index = nl.ndarray((32, 2), dtype=nl.uint16, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=index[0:16], src=columns)  # good
    nisa.dma_copy(dst=index[16:32], src=columns)  # good
    nisa.local_gather(dst=picked, src_buffer=nl.load(a), index=index)  # good
    return stored(picked)


@twin(f32(32, 33), ints("uint16", 32, 1, below=30))
def S049_triples(points, first):
    picked = nl.ndarray((32, 48), dtype=points.dtype, buffer=nl.sbuf)  # bad
    picked = nl.ndarray((32, 64), dtype=points.dtype, buffer=nl.sbuf)  # good
    tile, index = nl.load(points), nl.load(first)
    nisa.local_gather(picked, tile, index, num_elem_per_idx=3)  # bad here
    nisa.local_gather(picked, tile, index, num_elem_per_idx=4)  # good
    return stored(picked)


@twin(f32(128, 32), ints("uint16", 128, 1, below=32))
def S049_count(a, columns):
    picked = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)  # bad
    picked = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.sbuf)  # good
    tile, index = nl.load(a), nl.load(columns)
    nisa.local_gather(picked, tile, index, num_valid_indices=128)  # bad here
    nisa.local_gather(picked, tile, index, num_valid_indices=16)  # good
    return stored(picked)


@twin(f32(16, 32), ints("uint16", 16, 257, below=32))
def S049_many(a, columns):
    picked = nl.ndarray((16, 4112), dtype=a.dtype, buffer=nl.sbuf)
    tile, index = nl.load(a), nl.load(columns)
    nisa.local_gather(dst=picked, src_buffer=tile, index=index)  # bad here
    nisa.local_gather(dst=picked[:, 0:4096], src_buffer=tile, index=index[:, 0:256])  # good
    nisa.local_gather(dst=picked[:, 4096:4112], src_buffer=tile, index=index[:, 256:257])  # good
    return stored(picked)


@twin(f32(32, 64), ints("uint16", 32, 2, below=60))
def S049_runs(a, first):
    picked = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)  # bad
    picked = nl.ndarray((32, 32, 4), dtype=a.dtype, buffer=nl.sbuf)  # good
    tile, index = nl.load(a), nl.load(first)
    nisa.local_gather(picked, tile, index, num_elem_per_idx=4)  # here
    return stored(picked)


@twin(f32(32, 32), ints("uint16", 32, 2, below=32))
def S050_runs(a, first):
    picked = nl.ndarray((32, 128), dtype=a.dtype, buffer=nl.sbuf)
    tile, index = nl.load(a), nl.load(first)
    nisa.tensor_scalar(dst=index, data=index, op0=nl.minimum, operand0=28)  # good
    nisa.local_gather(picked, tile, index, num_elem_per_idx=4)  # here
    return stored(picked)


@twin(f32(64, 4, 8), u32(64, 6, below=40), fixed=(f32(64, 4, 8), u32(64, 6, below=32)))
def S050_padded(a, indices):
    picked = nl.ndarray((64, 6), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(picked, nl.load(a), nl.load(indices))  # here
    return stored(picked)


@twin(f32(32, 32), u32(32, 2, below=32))
def D032_local(a, columns):
    picked = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    tile, index = nl.load(a), nl.load(columns)  # bad
    tile, index = nl.load(a), nl.load(columns, dtype=nl.uint16)  # good
    nisa.local_gather(dst=picked, src_buffer=tile, index=index)  # here
    return stored(picked)


@twin(bf16(64, 32), u32(64, 8, below=32))
def D033_gather(a, columns):
    picked = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)  # bad
    picked = nl.ndarray((64, 8), dtype=nl.bfloat16, buffer=nl.sbuf)  # good
    nisa.nc_n_gather(dst=picked, data=nl.load(a), indices=nl.load(columns))  # here
    return stored(picked)


@twin(bf16(32, 32), ints("uint16", 32, 2, below=32))
def D033_local(a, columns):
    picked = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad
    picked = nl.ndarray((32, 32), dtype=nl.bfloat16, buffer=nl.sbuf)  # good
    nisa.local_gather(dst=picked, src_buffer=nl.load(a), index=nl.load(columns))  # here
    return stored(picked)


# -- shuffles ------------------------------------------------------------------------------------


@twin(f32(32, 16))
def S051_one_based(a):
    tile = nl.load(a)
    nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[32] * 32)  # bad here
    nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[31] * 32)  # good
    return stored(tile)


@twin(f32(32, 16))
def S051_negative(a):
    tile = nl.load(a)
    nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[0] * 16 + [-1] * 16)  # bad here
    nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[0] * 16 + [255] * 16)  # good
    return stored(tile)


@twin(f32(64, 16))
def S051_quadrant(a):
    tile = nl.load(a)
    spread = nl.ndarray((64, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=spread, src=tile[32:64], shuffle_mask=[0] * 32)  # bad here
    nisa.nc_stream_shuffle(dst=spread[0:32], src=tile[32:64], shuffle_mask=[0] * 32)  # good
    nisa.nc_stream_shuffle(dst=spread[32:64], src=tile[32:64], shuffle_mask=[0] * 32)  # good
    return stored(spread)


@twin(f32(128, 16))
def S051_half(a):
    tile = nl.load(a)
    swapped = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=swapped, src=tile[64:128], shuffle_mask=[1, 0] * 16)  # bad here
    nisa.nc_stream_shuffle(dst=swapped[0:64], src=tile[64:128], shuffle_mask=[1, 0] * 16)  # good
    nisa.nc_stream_shuffle(dst=swapped[64:128], src=tile[64:128], shuffle_mask=[1, 0] * 16)  # good
    return stored(swapped)


@twin(f32(16, 8))
def S050_shuffle(a):
    tile = nl.load(a)
    last = nl.ndarray((32, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=last, src=tile, shuffle_mask=[31] * 32)  # bad here
    nisa.nc_stream_shuffle(dst=last, src=tile, shuffle_mask=[15] * 32)  # good
    return stored(last)


@twin(f32(32, 16))
def D033_shuffle(a):
    swapped = nl.ndarray((32, 16), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=swapped, src=nl.load(a), shuffle_mask=[1, 0] * 16)  # bad here
    tile = nl.load(a, dtype=nl.bfloat16)  # good
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=[1, 0] * 16)  # good
    return stored(swapped)


@guard(f32(1, 16))
def one_row_is_shuffled_to_every_quadrant(a):
    spread = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.sbuf)
    row = nl.load(a)
    for quadrant in range(4):
        rows = spread[32 * quadrant : 32 * quadrant + 32]
        nisa.nc_stream_shuffle(dst=rows, src=row, shuffle_mask=[0] * 32)
    return stored(spread)


@guard(f32(70, 16))
def rows_are_shuffled_in_place(a):
    tile = nl.load(a)
    nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[1, 0] * 3 + [255] * 26)
    return stored(tile)


# -- compactions ---------------------------------------------------------------------------------


@twin(i32(4, 64, below=4))
def S056_rows(segments):
    bounds = nl.ndarray((4, 2, 64), dtype=nl.int32, buffer=nl.sbuf)  # bad
    nisa.sequence_bounds(dst=bounds, segment_ids=nl.load(segments))  # bad here
    return stored(bounds)  # bad
    out = nl.ndarray((4, 2, 64), dtype=nl.int32, buffer=nl.shared_hbm)  # good
    for i in range(4):  # good
        bounds = nl.ndarray((1, 2, 64), dtype=nl.int32, buffer=nl.sbuf)
        nisa.sequence_bounds(dst=bounds, segment_ids=nl.load(segments[i : i + 1]))
        nisa.dma_copy(dst=out[i : i + 1], src=bounds)
    return out  # good


@twin(i32(1, 64, below=4))
def D032_bounds(segments):
    bounds = nl.ndarray((1, 2, 64), dtype=nl.uint32, buffer=nl.sbuf)  # bad
    bounds = nl.ndarray((1, 2, 64), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.sequence_bounds(dst=bounds, segment_ids=nl.load(segments))  # here
    return stored(bounds)


@twin(np.eye(1, 64, dtype=np.uint8), targets=GEN3_UP)
def D032_flags(mask):
    found = nl.ndarray((1, 65), dtype=nl.int32, buffer=nl.sbuf)
    nisa.nonzero_with_count(dst=found, src=nl.load(mask))  # bad here
    nisa.nonzero_with_count(dst=found, src=nl.load(mask, dtype=nl.int32))  # good
    return stored(found)


@twin(f32(1, 64), targets=GEN3_UP)
def D032_counted(mask):
    found = nl.ndarray((1, 65), dtype=nl.uint32, buffer=nl.sbuf)  # bad
    found = nl.ndarray((1, 65), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.nonzero_with_count(dst=found, src=nl.load(mask))  # here
    return stored(found)


@twin(i32(32, 64, below=2), targets=GEN3_UP)
def S057_count_apart(mask):
    found = nl.ndarray((32, 66), dtype=nl.int32, buffer=nl.sbuf)  # bad
    found = nl.ndarray((32, 65), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.nonzero_with_count(dst=found, src=nl.load(mask))  # here
    return stored(found[0:1])


@twin(
    *(f32(64, 32), np.arange(16, dtype=np.int32)[:, None]),
    options={"nki": "0.7.0", "lnc": 1},
)
def M051(a, rows):
    out, index = nl.ndarray((16, 32), dtype=a.dtype, buffer=nl.shared_hbm), nl.load(rows)

    def body(i):
        tile = nl.zeros((16, 32), dtype=a.dtype, buffer=nl.sbuf)
        table = a.ap([[32, 16], [1, 32]], vector_offset=index, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=table, oob_mode=nisa.oob_mode.skip)  # bad here
        nisa.dma_copy(dst=tile, src=table)  # good
        nisa.dma_copy(dst=out, src=tile)

    nl.fori_loop(0, 2, body)
    return out
