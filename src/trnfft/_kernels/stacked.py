"""Fourier transforms of rows whose length has two or three factors, with both parts stacked.

With n = a b d, point (j1, j2, c) = (j1 b + j2) d + c, and k = k1 + a k2 for the first two factors:

    y[j2, c, k1] = inner[j2, k1] * sum over j1 of x[j1, j2, c] exp(-2 pi i j1 k1 / a)
    z[k2, c, k1] = outer[k, c] * sum over j2 of y[j2, c, k1] exp(-2 pi i j2 k2 / b)
    X[k + a b m] = sum over c of z[k, c] exp(-2 pi i c m / d)

Layout   real and imaginary parts of j1 on up to 128 partitions: one product transforms both. In the
         first product the data is stationary, so its result has (j2, s columns) on partitions; the
         second multiplies s columns by one matrix with s copies of the matrix of b. No sum has
         terms of two rows: a NaN stays in its row. From gen3 on, many rows of at most 2048 points
         have the layout of ``stacked_rows``
Limits   complex 2-D operands, float32 or 16-bit; float32 results; the lengths of a geometry
Cost     per point 4 / a + 16 / (b s) + 4 / d cycles of the Tensor engine; operand and result once,
         and the data once more through HBM if d is not 1
Lever    the array is full in every product; Vector multiplies by twiddles in the copy from PSUM,
         GpSimd adds these products, and Scalar copies other results from PSUM; every transfer has
         contiguous runs of a row
Accuracy relative L2 error below 1e-6
"""

from __future__ import annotations

from trnfft._kernels.stacked_geometry import StackedGeometry, many_rows, offsets
from trnfft._kernels.stacked_rows import transform_many_rows
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK
from trnsci.core.tiles.transfers import copy

_BANKS = 2
"""PSUM banks of the first products of one chunk."""

_AHEAD = 1
"""Rows by which the last factor lags: the way through HBM takes as long as two rows."""


@nki.jit
def stacked(
    x_re: Tile, x_im: Tile, constants: Tile, geometry: StackedGeometry
) -> tuple[Tile, Tile]:
    """Return the transforms of all rows, as real and imaginary part.

    Args:
        x_re: (batch, n).
        x_im: The same shape.
        constants: The vector that ``offsets`` describes; it defines direction and scale.
        geometry: The factors.
    """
    batch = x_re.shape[0]
    n = geometry.length
    parts = [x_re, x_im]
    out = []
    for _ in range(2):
        out.append(nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm))
    older = nisa.get_nc_version() == nisa.nc_version.gen2
    if geometry.many is not None and many_rows(geometry.many, batch) and not older:
        transform_many_rows(parts, out, constants, offsets(geometry).many, geometry.many, "full")
        return out[0], out[1]
    tables = load_tables(constants, geometry)
    if geometry.d == 1:
        transform_rows(parts, out, tables, geometry, batch)
        return out[0], out[1]
    between = []
    for _ in range(2):
        between.append(nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.private_hbm))
    for i in range(batch + _AHEAD):
        # Loads come before the stores of this row: a store that waits for data delays later
        # transfers.
        loaded = load_between(between, geometry, i - _AHEAD) if i >= _AHEAD else None
        if i < batch:
            first_two(parts, between, tables, geometry, i)
        if loaded is not None:
            last_factor(loaded, out, tables, geometry, i - _AHEAD)
    return out[0], out[1]


def load_tables(constants: Tile, g: StackedGeometry) -> list[Tile]:
    """Return the tables first, second, inner, outer and last; the last two if they exist."""
    at, rows = offsets(g), g.rows
    shapes = [
        (at.first, (2 * g.a, 2 * g.a), [[2 * g.a, 2 * g.a], [1, 2 * g.a]]),
        (at.second, (rows, 3, rows), [[3 * rows, rows], [rows, 3], [1, rows]]),
        (at.inner, (rows, 2, g.a), [[g.a, rows], [rows * g.a, 2], [1, g.a]]),
    ]
    if g.d > 1:
        width = g.d // g.s * g.a
        shapes.append((at.outer, (rows, 2, width), [[width, rows], [rows * width, 2], [1, width]]))
        shapes.append((at.last, (2 * g.d, 2 * g.d), [[2 * g.d, 2 * g.d], [1, 2 * g.d]]))
    tables = []
    for entry in shapes:
        offset, shape, pattern = entry
        tables.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
        copy(tables[-1], constants.ap(pattern=pattern, offset=offset), second=True)
    return tables


def transform_rows(
    parts: list[Tile], out: list[Tile], tables: list[Tile], g: StackedGeometry, batch: int
) -> None:
    """Transform rows whose length has two factors."""
    n, a, b = g.length, g.a, g.b
    step = _BANKS * (BANK // (2 * a))
    for r0 in range(0, batch, step):
        count = min(step, batch - r0)
        data = nl.ndarray((2 * a, count, b), dtype=nl.float32, buffer=nl.sbuf)
        stationary = []
        for p in range(2):
            rows = parts[p].ap(pattern=[[b, a], [n, count], [1, b]], offset=r0 * n)
            copy(data[p * a : (p + 1) * a, 0:count, 0:b], rows, second=p > 0)
        for i in range(count):
            stationary.append(data[0 : 2 * a, i, 0:b])
        sums = multiplied_twice(stationary, tables, g)
        result = nl.ndarray((b, 2, count * a), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.copy, data=sums)
        blocks = result.reshape((b, 2, count, a))
        for p in range(2):
            places = out[p].ap(pattern=[[a, b], [n, count], [1, a]], offset=r0 * n)
            copy(places, blocks[0:b, p], second=p > 0)


def first_two(
    parts: list[Tile], between: list[Tile], tables: list[Tile], g: StackedGeometry, i: int
) -> None:
    """Transform row ``i`` by its first two factors, in the order (k2, c, column group, k1)."""
    a, b, d, s = g.a, g.b, g.d, g.s
    data = nl.ndarray((2 * a, b * d), dtype=nl.float32, buffer=nl.sbuf)
    for p in range(2):
        rows = parts[p].ap(pattern=[[b * d, a], [1, b * d]], offset=i * g.length)
        copy(data[p * a : (p + 1) * a, 0 : b * d], rows, second=p > 0)
    groups, step = d // s, _BANKS * (BANK // (2 * a))
    result = nl.ndarray((g.rows, 2, groups * a), dtype=nl.float32, buffer=nl.sbuf)
    for g0 in range(0, groups, step):
        g1 = min(g0 + step, groups)
        stationary = []
        for j in range(g0, g1):
            stationary.append(data.ap(pattern=[[b * d, 2 * a], [d, b], [1, s]], offset=j * s))
        sums = multiplied_twice(stationary, tables, g)
        width = (g1 - g0) * a
        table = []
        for part in range(2):
            table.append(
                tables[3].ap(
                    pattern=[[2 * groups * a, g.rows], [0, 2], [1, width]],
                    offset=part * groups * a + g0 * a,
                )
            )
        dst = []
        for part in range(2):
            dst.append(result[0 : g.rows, part, g0 * a : g1 * a])
        twiddled(dst, sums, table)
    for p in range(2):
        places = between[p].ap(pattern=[[groups * a, g.rows], [1, groups * a]], offset=i * g.length)
        copy(places, result[0 : g.rows, p], second=p > 0)


def load_between(between: list[Tile], g: StackedGeometry, i: int) -> Tile:
    """Return row ``i`` after its first two factors, stacked: (2 d, a b)."""
    a, b, d = g.a, g.b, g.d
    data = nl.ndarray((2 * d, b, a), dtype=nl.float32, buffer=nl.sbuf)
    for p in range(2):
        rows = between[p].ap(pattern=[[a, d], [d * a, b], [1, a]], offset=i * g.length)
        copy(data[p * d : (p + 1) * d, 0:b, 0:a], rows, second=p > 0)
    return data.reshape((2 * d, a * b))


def last_factor(
    data: Tile, out: list[Tile], tables: list[Tile], g: StackedGeometry, i: int
) -> None:
    """Transform row ``i`` by its last factor."""
    d, width = g.d, g.a * g.b
    result = nl.ndarray((2 * d, width), dtype=nl.float32, buffer=nl.sbuf)
    for c0 in range(0, width, BANK):
        c1 = min(c0 + BANK, width)
        sums = nl.ndarray((2 * d, c1 - c0), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=sums, stationary=tables[4], moving=data[0 : 2 * d, c0:c1])
        nisa.activation(dst=result[0 : 2 * d, c0:c1], op=nl.copy, data=sums)
    for p in range(2):
        places = out[p].ap(pattern=[[width, d], [1, width]], offset=i * g.length)
        copy(places, result[p * d : (p + 1) * d, 0:width], second=p > 0)


def multiplied_twice(stationary: list[Tile], tables: list[Tile], g: StackedGeometry) -> Tile:
    """Return the first two products of some groups of columns: PSUM (rows, 2, groups * a)."""
    return second_product(first_product(stationary, tables, g), tables, g)


def first_product(stationary: list[Tile], tables: list[Tile], g: StackedGeometry) -> Tile:
    """Return y of some groups of columns, (rows, 2, groups * a)."""
    a, rows, count = g.a, g.rows, len(stationary)
    per_bank = BANK // (2 * a)
    banks = (count + per_bank - 1) // per_bank
    first = nl.ndarray((rows, banks, BANK), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        at = (i % per_bank) * 2 * a
        nisa.nc_matmul(
            dst=first[0:rows, i // per_bank, at : at + 2 * a],
            stationary=stationary[i],
            moving=tables[0][0 : stationary[i].shape[0]],  # real parts alone, or both
        )
    width = count * a
    y = nl.ndarray((rows, 2, width), dtype=nl.float32, buffer=nl.sbuf)
    whole = count // per_bank
    for run in ((0, whole, per_bank), (whole, 1, count - whole * per_bank)):
        bank, some, groups = run
        if some * groups == 0:
            continue
        data = first.ap(
            pattern=[[banks * BANK, rows], [a, 2], [BANK, some], [2 * a, groups], [1, a]],
            offset=bank * BANK,
        )
        table = []
        dst = []
        for p in range(2):
            table.append(
                tables[2].ap(
                    pattern=[[2 * a, rows], [0, 2], [0, some], [0, groups], [1, a]], offset=p * a
                )
            )
            places = [[2 * width, rows], [per_bank * a, some], [a, groups], [1, a]]
            dst.append(y.ap(pattern=places, offset=p * width + bank * per_bank * a))
        twiddled(dst, data, table)
    return y


def second_product(y: Tile, tables: list[Tile], g: StackedGeometry) -> Tile:
    """Return the transform of y over j2: PSUM (rows, 2, groups * a)."""
    rows, width = g.rows, y.shape[2]
    second = nl.ndarray(
        (rows, 2, BANK * ((width + BANK - 1) // BANK)), dtype=nl.float32, buffer=nl.psum
    )
    for w in range(0, width, BANK):
        end = min(w + BANK, width)
        # Each matrix multiplies both parts before the next is loaded.
        for product in ((0, 1, 0, False), (1, 1, 1, False), (0, 0, 1, True), (1, 2, 0, True)):
            part, which, moving, again = product
            nisa.nc_matmul(
                dst=second[0:rows, part, w:end],
                stationary=tables[1][0:rows, which, 0:rows],
                moving=y[0:rows, moving, w:end],
                accumulate=again,
            )
    return second[0:rows, 0:2, 0:width]


def twiddled(dst: list[Tile], data: Tile, table: list[Tile]) -> None:
    """Multiply (rows, 2, ...) in PSUM by the cosines and sines of a table."""
    rows = data.shape[0]
    by_cos = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_sin = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=by_cos, data1=data, data2=table[0], op=nl.multiply, engine=nisa.engine.vector
    )
    nisa.tensor_tensor(
        dst=by_sin, data1=data, data2=table[1], op=nl.multiply, engine=nisa.engine.vector
    )
    add = nisa.engine.gpsimd
    if nisa.get_nc_version() == nisa.nc_version.gen2:  # there both engines take turns in SBUF
        add = nisa.engine.vector
    nisa.tensor_tensor(
        dst=dst[0], data1=by_cos[0:rows, 0], data2=by_sin[0:rows, 1], op=nl.subtract, engine=add
    )
    nisa.tensor_tensor(
        dst=dst[1], data1=by_cos[0:rows, 1], data2=by_sin[0:rows, 0], op=nl.add, engine=add
    )
