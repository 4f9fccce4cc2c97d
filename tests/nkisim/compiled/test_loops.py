"""Loops are compiled once and kept; what was kept computes the same in the next process."""

import numpy as np
import pytest
from numba import types

from fresh_process import printed_by
from nkisim.compiled.loops import compiled_loop, compiled_ufunc

# Every compiled function, and how many of them came from numba's cache.
EVERY_LOOP = """
import numba
import numpy as np
from nkisim.compiled import casts, exponential, matrix_unit, panels
from nkisim.compiled import rows, statistics, transposition
from nkisim.dtypes import bfloat16, decode, encode, float8_e4m3
from nkisim.dtypes import rows as passes

wide = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)
narrow = wide.astype(bfloat16.numpy)
out = np.empty_like(wide)
passes.combine_rows(out, narrow, [("multiply", wide, False), ("add", wide[:, :1], True)])
right = [np.array_equal(out, wide[:, :1] + narrow.astype(np.float32) * wide)]
right.append(np.array_equal(passes.row_extremes(narrow, largest=True)[:, 0],
                            narrow.astype(np.float32).max(axis=1)))
right.append(np.array_equal(passes.row_sums(wide), np.add.reduce(wide, axis=1)))
even = wide[:, ::2].astype(np.float64)
right.append(np.allclose(passes.row_deviations(wide)[:, 1], even.var(axis=1) * 256, rtol=1e-12))
loops = [rows.combining(), rows.extremes(), statistics.sums(), statistics.deviations()]
for kind in (np.uint8, np.uint16, np.uint32):
    tile = np.arange(40 * 50).reshape(40, 50).astype(kind)
    turned = np.empty((50, 40), kind)
    passes.transpose_rows(turned, tile)
    right.append(np.array_equal(turned, tile.T))
    loops.append(transposition.transposing(8 * tile.itemsize))
right.append(encode(wide, bfloat16).tobytes() == narrow.tobytes())
eight = encode(wide, float8_e4m3)
right.append(eight.tobytes() == wide.astype(float8_e4m3.numpy).tobytes())
loops.append(casts._looking_up())
if passes.exponential_rows(out, wide):
    right.append(np.array_equal(out, np.exp(wide)))
    loops.append(exponential.exponentials())
if matrix_unit.available():
    table = decode(np.arange(256, dtype=np.uint8).view(float8_e4m3.numpy), float8_e4m3)
    table = (table.view(np.uint32) >> 16).astype(np.uint16)
    whole = np.round(wide[:, :128]).astype(float8_e4m3.numpy)
    for stored, patterns in ((whole.view(np.uint8), table),
                             (whole.astype(bfloat16.numpy).view(np.uint16), None)):
        left, moving = (pack(stored, patterns)
                        for pack in (matrix_unit.pack_stationary, matrix_unit.pack_moving))
        total = np.empty((128, 128), np.float32)
        matrix_unit.multiply(left, moving, total, add=False)
        exact = whole.astype(np.float64)
        right.append(np.array_equal(total, exact.T @ exact))
    loops += [matrix_unit._product()]
    loops += [matrix_unit._packing(size, turn) for size in (1, 2) for turn in (True, False)]
if panels.agrees(128, 128, 128):
    exact = np.round(wide[:, :128]).astype(np.float64)
    for operand in (exact.astype(np.float32), exact.astype(bfloat16.numpy).view(np.uint16)):
        operands = []
        for width, kind in ((panels.HEIGHT, np.dtype(np.float32)), (panels.WIDTH, operand.dtype)):
            operands.append(np.empty(128 * 128, kind))
            right.append(panels.pack(operand, operands[-1], width))
            loops.append(panels._packing(width, 8 * operand.itemsize, 8 * kind.itemsize))
        total = np.empty((128, 128), np.float32)
        panels.multiply(*operands, 128, total, False)
        right.append(np.array_equal(total, exact.T @ exact))
        loops.append(panels._product(8 * operand.itemsize))
        total[...] = 0
        right.append(panels.pack_and_multiply(operand, operands[1], total, True))
        right.append(np.array_equal(total, exact.T @ exact))
        loops.append(panels._packing_product(8 * operand.itemsize, 8 * operand.itemsize))
kept = sum(sum(loop.stats.cache_hits.values()) for loop in loops)
print(json.dumps([right, kept, len(loops)]))
"""


@pytest.mark.slow
def test_loops_come_from_the_cache_in_the_next_process_and_compute_the_same(tmp_path):
    right, kept, _ = printed_by(EVERY_LOOP, NUMBA_CACHE_DIR=str(tmp_path))
    assert all(right)
    assert kept == 0
    right, kept, loops = printed_by(EVERY_LOOP, NUMBA_CACHE_DIR=str(tmp_path))
    assert all(right)
    assert kept == loops


def test_without_a_folder_to_keep_them_in_loops_are_compiled_all_the_same():
    scope = {}
    exec("def halved(x): return x / 2", scope)  # of no file, so numba can keep it nowhere
    assert compiled_loop(scope["halved"], types.float64(types.float64))(3.0) == 1.5
    halves = compiled_ufunc(scope["halved"], "float64(float64)")
    np.testing.assert_array_equal(halves(np.arange(3.0)), [0, 0.5, 1])
