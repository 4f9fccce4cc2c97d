"""How orbitals are cut into windows and strips: each element of T once, and panels that fit."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from each_case import each_case
from trnblas._kernels.energy_panels import (
    column_bytes,
    group_size,
    most_functions,
    row_windows,
    window_strips,
    window_width,
)


@each_case(
    ("naux", "dtype", "wanted"),
    [
        (1, "float32", 4),
        (128, "float32", 4),
        (129, "float32", 8),
        (129, "bfloat16", 4),
        (129, "float16", 4),
    ],
)
def test_a_column_of_a_panel_has_an_element_for_each_tile_of_functions(naux, dtype, wanted):
    assert column_bytes(naux, dtype) == wanted


def test_three_panels_of_two_windows_of_128_rows_fit_128_kib():
    assert most_functions("float32") == 128 * (128 * 1024 // (3 * 2 * 128 * 4))
    assert most_functions("bfloat16") == 128 * (128 * 1024 // (3 * 2 * 128 * 2))


@each_case("dtype", ["float32", "bfloat16", "float16"])
@each_case("naux", [1, 128, 1000, 5000])
def test_windows_are_all_rows_or_the_fewest_nearly_equal_ones_that_fit(naux, dtype):
    column = -(-naux // 128) * (4 if dtype == "float32" else 2)
    most = 128 * 1024 // (3 * column)
    for nvir in sorted({1, 127, 300, 2047, 2048, 2049, 2176, 4095, 4097, 9000, most, most + 1}):
        width = window_width(nvir, naux, dtype)
        if nvir <= min(most, 2048):
            assert width == nvir
            continue
        # Two windows are held together.
        largest = min(most, 2048) // 2 // 128 * 128
        rows = math.ceil(nvir / math.ceil(nvir / largest))
        assert width == 128 * math.ceil(rows / 128)
        assert width <= largest


def test_too_many_functions_are_refused():
    most = most_functions("float32")
    assert window_width(300, most, "float32") == 128
    with pytest.raises(AssertionError, match=f"at most {most}, got {most + 1}"):
        window_width(300, most + 1, "float32")


def test_orbitals_that_stay_leave_room_for_two_more():
    b = SimpleNamespace(shape=(99, 100, 200), dtype="float32")  # 8 bytes of a column
    window = (0, 600, 600, 424)  # 1024 columns: 16 panels of 8 KiB
    assert [group_size(n, window, b) for n in (1, 15, 16, 17, 40)] == [1, 15, 16, 14, 14]
    narrow = (0, 100, 0, 0)
    assert [group_size(n, narrow, b) for n in (16, 17, 163, 164)] == [16, 16, 16, 16]
    wide = SimpleNamespace(shape=(99, 100, 128 * 100), dtype="float32")
    assert group_size(9, (0, 300, 0, 0), wide) == 1


@each_case(("nvir", "width"), [(5, 5), (10, 4), (300, 128), (700, 256), (1, 1)])
def test_each_element_of_t_is_in_one_strip_by_itself_or_its_mirror_image(nvir, width):
    counted = np.zeros((nvir, nvir))
    for window in row_windows(nvir, width):
        top, height, side, beside = window
        assert height <= width
        assert beside <= width
        assert side > top or beside == 0
        rows = [*range(top, top + height), *range(side, side + beside)]
        for row, count, first, last, weight in window_strips(window):
            assert row + count <= height
            assert 0 < count <= 128
            assert 0 < last - first <= 512
            strip = np.ix_(rows[row : row + count], rows[first:last])
            counted[strip] += 1
            if weight == 2:
                counted.T[strip] += 1
            else:
                assert (weight, rows[first:last]) == (1, rows[row : row + count])
    assert (counted == 1).all()


def test_strips_of_a_window_with_itself_begin_at_the_diagonal():
    assert window_strips((0, 300, 0, 0)) == [
        (0, 128, 0, 128, 1.0),
        (0, 128, 128, 300, 2.0),
        (128, 128, 128, 256, 1.0),
        (128, 128, 256, 300, 2.0),
        (256, 44, 256, 300, 1.0),
    ]
    assert window_strips((0, 130, 256, 600)) == [
        (0, 128, 130, 386, 2.0),
        (0, 128, 386, 730, 2.0),
        (128, 2, 130, 386, 2.0),
        (128, 2, 386, 730, 2.0),
    ]
