"""Sparse products at doublefloat: each entry against exact integers, and what the kernel executes.

Kernels are strictly simulated. u = 2**-24; float64 results are rounded by 2**-53.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nkisim
import trnsparse
from each_case import each_case
from oracles.exact_products import errors_by_magnitudes, errors_by_norms
from pairwise import in_turn
from trnsci.core.numbers.conversions import read_only_array_of
from trnsci.core.tiles.hardware import SMALLEST_SBUF
from trnsparse._kernels.doublefloat_spmm import WINDOW, doublefloat_spmm, equal_groups
from trnsparse._kernels.spmm import spmm_segments
from trnsparse._paths import doublefloat

from .harness import GENERATIONS, Count, run

BY_MAGNITUDES = 2.0**-44 + 2.0**-53
BY_NORMS = 2.0**-45 + 2.0**-53


def launcher(generation="gen3"):
    """Return a launch that accepts no finding, and has the names of its kernels."""

    def launch(kernel, *args):
        launch.kernels.append(kernel.__name__)
        arrays = [read_only_array_of(x) if isinstance(x, torch.Tensor) else x for x in args]
        return tuple(map(torch.tensor, run(kernel, generation, *arrays)))

    launch.kernels = []
    return launch


def sparse(rng, rows, columns, density, spread=1.0):
    """A dense array: magnitudes over e**spread, a full row, and empty ones."""
    values = rng.uniform(-1, 1, (rows, columns)) * np.exp(spread * rng.standard_normal(columns))
    kept = rng.random((rows, columns)) < density
    kept[rows // 2] = True
    if rows > 4:
        kept[rows // 3 : rows // 3 + 3 : 2] = False
    return values * kept


def by_rows(dense, b, generation="gen3"):
    """The product of a CSR matrix."""
    A = trnsparse.from_dense(torch.as_tensor(dense))
    launch = launcher(generation)
    operands = A.values, A.row_ptrs, A.col_indices, torch.as_tensor(b)
    found = doublefloat.spmm(launch, *operands)
    assert launch.kernels == ["doublefloat_spmm"]
    return found.numpy()


def in_blocks(dense, b, size, generation="gen3"):
    A = trnsparse.BSRMatrix.from_dense(torch.as_tensor(dense), size)
    launch = launcher(generation)
    operands = A.blocks, A.block_row_ptrs, A.block_col_indices, torch.as_tensor(b)
    found = doublefloat.bsr_spmm(launch, *operands, dense.shape[0])
    assert launch.kernels == ["doublefloat_gemm"]
    return found.numpy()


# -- rows ------------------------------------------------------------------------------------------


@each_case("generation", GENERATIONS)
@each_case("shape", [(300, 260, 1), (130, 150, 5)], ids=str)
def test_products_by_rows_on_every_generation(generation, shape):
    rows, columns, width = shape
    rng = np.random.default_rng(shape)
    a, b = sparse(rng, rows, columns, 0.03), rng.standard_normal((columns, width))
    assert errors_by_magnitudes(by_rows(a, b, generation), a, b).max() <= BY_MAGNITUDES


@each_case(
    ("rows", "columns", "width"),
    [
        *((1, 1, 1), (1, 129, 2), (127, 128, 1), (128, 127, 3), (129, 130, 1), (257, 64, 2)),
        *((3, 1, 513), (5, 9, 512), (2, 300, 40), (130, 2, 129), (128 * 5, 3, 1)),
    ],
)
def test_shapes_around_tiles(rows, columns, width):
    rng = np.random.default_rng((rows, columns, width))
    a, b = sparse(rng, rows, columns, 0.3), rng.standard_normal((columns, width))
    assert errors_by_magnitudes(by_rows(a, b), a, b).max() <= BY_MAGNITUDES


@each_case("lengths", [(127, 128, 129), (1, 256, 257), (0, 0, 300), (640, 0, 3)], ids=str)
def test_rows_beyond_128_entries_are_sums_of_pieces(lengths):
    rng = np.random.default_rng(lengths)
    a = np.zeros((3, 640))
    for row, length in enumerate(lengths):
        a[row, rng.permutation(640)[:length]] = rng.standard_normal(length)
    b = rng.standard_normal((640, 2))
    assert errors_by_magnitudes(by_rows(a, b), a, b).max() <= BY_MAGNITUDES + 5 * 2.0**-53


HOSTILE = {
    "rows of any size": lambda a: a * 10.0 ** np.linspace(-140, 140, len(a))[:, None],
    "columns of any size": lambda a: a * 10.0 ** np.linspace(-140, 140, a.shape[1]),
    "beyond float32": lambda a: a * 1e120,
    "below float32": lambda a: a * 1e-120,
    "subnormal": lambda a: a * 2.0**-1060,
    "one large entry in each row": lambda a: np.where(np.arange(a.shape[1]) == 4, 2.0**90, a),
    "few bits": lambda a: np.round(4 * a),
    "twenty-fourth bit": lambda a: np.where(a, 1 + 2.0**-24 + 2.0**-48 * np.round(8 * a), 0.0),
    "just below one": lambda a: np.where(a, 1 - 2.0**-53, 0.0),
}


@each_case(("name", "width"), in_turn(HOSTILE, [1, 3]))
def test_hostile_rows(name, width):
    """Each with numbers of one size, with its own inverse sizes, and with columns far apart."""
    assert_hostile_rows(name, width)


@pytest.mark.slow
@each_case(("name", "width"), in_turn(HOSTILE, [3, 1]))
def test_hostile_rows_of_the_other_width(name, width):
    assert_hostile_rows(name, width)


def assert_hostile_rows(name, width):
    rng = np.random.default_rng(len(name))
    a = HOSTILE[name](sparse(rng, 40, 60, 0.2))
    size = 1e200 if name == "subnormal" else 1.0
    plain = size * rng.standard_normal((60, width))
    graded = plain * 10.0 ** rng.integers(-90, 90, (60, width)) if size == 1.0 else plain
    cancelling = plain / np.where(a[20] == 0, 1.0, a[20])[:, None] if size == 1.0 else plain
    for b in (plain, graded, cancelling):
        assert errors_by_magnitudes(by_rows(a, b), a, b).max() <= BY_MAGNITUDES


def test_sums_that_cancel_to_the_last_bits():
    """1e8 cancels: the result has eight digits fewer, as the bound of |A| |B| says, and no more."""
    rng = np.random.default_rng(0)
    half = rng.standard_normal((50, 30)) * 1e8
    a = np.concatenate([half, -half, rng.standard_normal((50, 1))], 1)
    b = np.concatenate([x := rng.standard_normal((30, 2)), x, np.ones((1, 2))])
    assert errors_by_magnitudes(by_rows(a, b), a, b).max() <= BY_MAGNITUDES


def test_integers_that_fit_are_exact():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-(2**20), 2**20, (40, 30)), rng.integers(-(2**19), 2**19, (30, 2))
    found = by_rows(a.astype(float), b.astype(float))
    assert np.array_equal(found, (a @ b).astype(float))


def test_windows_of_entries_and_tiles_of_several_groups():
    """Slots beyond a window, which no run of groups crosses; groups of 0, 1 and 9 slots."""
    rng = np.random.default_rng(1)
    a = sparse(rng, 128 * 9, 600, 0.0)
    a[:, :1] = 1.0
    a[: 128 * 5, 10:90] = rng.standard_normal((128 * 5, 80))
    a[128 * 5 : 128 * 6, 30:38] = rng.standard_normal((128, 8))
    a[-200:] = 0
    b = rng.standard_normal((600, 1))
    assert errors_by_magnitudes(by_rows(a, b), a, b).max() <= BY_MAGNITUDES + 2.0**-53
    runs = equal_groups((9, 9, 9, 2, 1, 1, 1, 1, 0, 0), 64)
    assert [run[:] for run in runs] == [
        (*(0, 1, 9, 8),),
        (*(1, 1, 9, 8),),
        (*(2, 1, 9, 8),),
        (*(3, 1, 2, 2),),
        (*(4, 4, 1, 1),),
        (*(8, 2, 0, 1),),
    ]
    assert max(run.groups * min(run.length, run.size) for run in runs) <= WINDOW


def operands(groups, length, width):
    """Operands of groups of equal rows."""
    values, index = np.zeros((128, groups * length), np.float32), np.uint32
    b = np.zeros((200, 2 * width), np.float32)
    rows = groups * 128
    return values, values, values.astype(index), b, (length,) * groups, rows


@each_case("width", [1, 512])
def test_a_product_takes_a_gather_for_each_slot(width):
    """Both planes of a row are one gather, as in float32; a window takes three loads."""
    count = Count(doublefloat_spmm, "gen3", *operands(4, 7, width))
    stores = 2 * 4
    assert count.instructions["dma_copy"] == 4 * 7 + 3 + stores


@each_case("width", [1, 64, 512])
def test_tiles_fit_in_the_smallest_sbuf(width):
    simulation = nkisim.simulate(doublefloat_spmm, strictness="strict", target="gen2", values=False)
    simulation(*operands(8, 128, width))
    assert not simulation.report.findings
    assert SMALLEST_SBUF <= 192 * 1024


@pytest.mark.slow
@each_case(("width", "most"), [(1, 1.5), (64, 4.0)])
def test_predicted_ratios_to_float32(width, most):
    """Of 1,024 rows of seven entries on gen3; with one column both wait for their gathers."""
    wide = operands(8, 7, width)
    values, _, index, _, slots, rows = wide
    groups = tuple((128,) * length for length in slots)
    plain = values, index, None, np.zeros((200, max(width, 2)), np.float32), groups, rows
    single = nkisim.profile(spmm_segments, "gen3", advice=False)(*plain)
    double = nkisim.profile(doublefloat_spmm, "gen3", advice=False)(*wide)
    assert double.latency_us <= most * single.latency_us


# -- blocks ----------------------------------------------------------------------------------------


def blocks(rng, rows, columns, size):
    """A dense array of which about half of the blocks are zero, one row of blocks among them."""
    a = rng.standard_normal((rows, columns))
    grid = rng.random((-(-rows // size), -(-columns // size))) < 0.5
    grid[len(grid) // 2] = False
    grid[0, -1] = True
    return a * np.kron(grid, np.ones((size, size)))[:rows, :columns]


SHAPES = [(1, 5, 7, 1), (3, 20, 17, 1), (64, 200, 130, 1), (128, 300, 260, 3), (130, 140, 270, 2)]


@each_case(("shape", "generation"), in_turn(SHAPES, GENERATIONS), ids=str)
def test_products_in_blocks_on_every_generation(shape, generation):
    assert_block_product(shape, generation)


@pytest.mark.slow
@each_case("generation", GENERATIONS)
@each_case("shape", SHAPES, ids=str)
def test_every_product_in_blocks_on_every_generation(shape, generation):
    assert_block_product(shape, generation)


def assert_block_product(shape, generation):
    """A vector has a bound by magnitudes, a matrix by norms."""
    size, rows, columns, width = shape
    rng = np.random.default_rng(shape)
    a, b = blocks(rng, rows, columns, size), rng.standard_normal((columns, width))
    found = in_blocks(a, b, size, generation)
    errors, bound = errors_by_norms(found, a, b), BY_NORMS
    if width == 1:
        errors, bound = errors_by_magnitudes(found, a, b), BY_MAGNITUDES
    assert errors.max() <= bound


@each_case(("name", "width"), in_turn(HOSTILE, [1, 3]))
def test_hostile_blocks(name, width):
    assert_hostile_blocks(name, width)


@pytest.mark.slow
@each_case(("name", "width"), in_turn(HOSTILE, [3, 1]))
def test_hostile_blocks_of_the_other_width(name, width):
    assert_hostile_blocks(name, width)


def assert_hostile_blocks(name, width):
    """With entries of a vector, and columns of a matrix, far apart."""
    rng = np.random.default_rng(len(name))
    a = HOSTILE[name](blocks(rng, 24, 30, 8))
    b = rng.standard_normal((30, width))
    if name == "subnormal":
        b = b * 1e200
    else:
        b = b * 10.0 ** rng.integers(-90, 90, (30, 1) if width == 1 else (1, width))
    found = in_blocks(a, b, 8)
    assert errors_by_norms(found, a, b).max() <= BY_NORMS
    if width == 1:
        assert errors_by_magnitudes(found, a, b).max() <= BY_MAGNITUDES


@each_case("width", [1, 2])
def test_block_rows_beyond_a_contraction_of_4096_are_sums_of_pieces(width):
    rng = np.random.default_rng(width)
    a, b = rng.standard_normal((2, 4100)), rng.standard_normal((4100, width))
    found = in_blocks(a, b, 2)
    assert errors_by_norms(found, a, b).max() <= BY_NORMS
    if width == 1:
        assert errors_by_magnitudes(found, a, b).max() <= BY_MAGNITUDES
