"""Operators over rows: softmax, norms and the position of the largest element.

Tiles of 128 rows are shared by the cores; their columns come in blocks. Sums are float32.
"""

from __future__ import annotations

from typing import Any

import nkisim.isa as nisa
import nkisim.language as nl

from .streams import BLOCK, P, blocks, hbm, length, loaded, row_tiles, sbuf

EPS = 1e-5


def _scalar(dst: Any, data: Any, op: Any, operand: Any, **more: Any) -> None:
    nisa.tensor_scalar(dst=dst, data=data, op0=op, operand0=operand, **more)


def _column(rows: int) -> Any:
    return sbuf((rows, 1), nl.float32)


def _combined(a: Any, b: Any, op: Any) -> Any:
    """Return ``a op b`` of columns of one value per row."""
    found = _column(a.shape[0])
    nisa.tensor_tensor(dst=found, data1=a, data2=b, op=op)
    return found


def _with(a: Any, op: Any, operand: Any, **more: Any) -> Any:
    found = _column(a.shape[0])
    _scalar(found, a, op, operand, **more)
    return found


def softmax(x: Any, columns: int = BLOCK) -> Any:
    """exp(x - max) / sum, in two passes over the blocks of a row."""
    out = hbm(x.shape, x.dtype)
    for tile in row_tiles(x.shape[0]):
        rows = length(tile)
        highest, total = _column(rows), _column(rows)
        nisa.memset(dst=highest, value=-3e38)
        nisa.memset(dst=total, value=0.0)
        for part in blocks(x.shape[1], columns):
            block = loaded(x[tile, part])
            found = _column(rows)
            nisa.tensor_reduce(dst=found, op=nl.maximum, data=block, axis=1)
            new = _combined(highest, found, nl.maximum)
            factor = _combined(highest, new, nl.subtract)
            nisa.activation(dst=factor, op=nl.exp, data=factor)
            total = _combined(total, factor, nl.multiply)
            values = sbuf(block.shape, nl.float32)
            _scalar(values, block, nl.subtract, new)
            nisa.activation(dst=values, op=nl.exp, data=values)
            sums = _column(rows)
            nisa.tensor_reduce(dst=sums, op=nl.add, data=values, axis=1)
            total = _combined(total, sums, nl.add)
            nisa.tensor_copy(dst=highest, src=new)
        inverse = _column(rows)
        nisa.reciprocal(dst=inverse, data=total)
        for part in blocks(x.shape[1], columns):
            block = loaded(x[tile, part])
            values = sbuf(block.shape, nl.float32)
            _scalar(values, block, nl.subtract, highest)
            nisa.activation(dst=values, op=nl.exp, data=values)
            result = sbuf(block.shape, x.dtype)
            _scalar(result, values, nl.multiply, inverse)
            nisa.dma_copy(dst=out[tile, part], src=result)
    return out


def _inverse_root(x: Any) -> Any:
    """Return 1 / sqrt(x): a square root, a reciprocal, two Newton steps."""
    half = _with(x, nl.multiply, 0.5)
    root, found = _column(x.shape[0]), _column(x.shape[0])
    nisa.activation(dst=root, op=nl.sqrt, data=x)
    nisa.reciprocal(dst=found, data=root)
    for _ in range(2):
        product = _combined(_combined(found, found, nl.multiply), half, nl.multiply)
        change = _with(product, nl.multiply, -1.0, op1=nl.add, operand1=1.5)
        found = _combined(found, change, nl.multiply)
    return found


def rmsnorm(x: Any, weight: Any, columns: int = BLOCK) -> Any:
    """x weight / sqrt(mean of squares + eps), in two passes."""
    out = hbm(x.shape, x.dtype)
    width = x.shape[1]
    every = loaded(weight.ap([[0, P], [1, width]]))
    for tile in row_tiles(x.shape[0]):
        rows = length(tile)
        total = _column(rows)
        nisa.memset(dst=total, value=0.0)
        for part in blocks(width, columns):
            block = loaded(x[tile, part])
            squares, found = sbuf(block.shape, nl.float32), _column(rows)
            nisa.activation_reduce(
                dst=squares, op=nl.square, data=block, reduce_op=nl.add, reduce_res=found
            )
            total = _combined(total, found, nl.add)
        mean = _with(total, nl.multiply, 1 / width, op1=nl.add, operand1=EPS)
        scale = _inverse_root(mean)
        for part in blocks(width, columns):
            block = loaded(x[tile, part])
            result = sbuf(block.shape, x.dtype)
            nisa.scalar_tensor_tensor(
                dst=result,
                data=block,
                op0=nl.multiply,
                operand0=scale,
                op1=nl.multiply,
                operand1=every[0:rows, part],
            )
            nisa.dma_copy(dst=out[tile, part], src=result)
    return out


def l2_norm(x: Any, columns: int = BLOCK) -> Any:
    """x / sqrt(sum of squares + eps); the blocks of a row stay in SBUF."""
    out = hbm(x.shape, x.dtype)
    parts = list(blocks(x.shape[1], columns))
    for tile in row_tiles(x.shape[0]):
        rows = length(tile)
        held = [loaded(x[tile, part]) for part in parts]
        sums = sbuf((rows, len(parts)), nl.float32)
        for b, block in enumerate(held):
            nisa.activation_reduce(
                dst=sbuf(block.shape, nl.float32),
                op=nl.square,
                data=block,
                reduce_op=nl.add,
                reduce_res=sums[:, b : b + 1],
            )
        total = sums
        if len(parts) > 1:
            total = _column(rows)
            nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        more = _with(total, nl.add, EPS)
        scale = _column(rows)
        _scalar(scale, more, nl.rsqrt, 0.0)
        for part, block in zip(parts, held, strict=True):
            result = sbuf(block.shape, x.dtype)
            _scalar(result, block, nl.multiply, scale)
            nisa.dma_copy(dst=out[tile, part], src=result)
    return out


def layernorm(x: Any, weight: Any, bias: Any, columns: int = 2 * BLOCK) -> Any:
    """(x - mean) / sqrt(variance + eps) weight + bias, in two passes."""
    out = hbm(x.shape, x.dtype)
    width = x.shape[1]
    ones = sbuf((1, P), nl.float32)
    nisa.memset(dst=ones, value=1.0)
    weights, biases = (_spread(row, ones) for row in (weight, bias))
    for tile in row_tiles(x.shape[0]):
        rows = length(tile)
        total, squared = _column(rows), _column(rows)
        nisa.memset(dst=total, value=0.0)
        nisa.memset(dst=squared, value=0.0)
        for part in blocks(width, columns):
            block = loaded(x[tile, part])
            squares = sbuf(block.shape, nl.float32)
            nisa.activation(dst=squares, op=nl.square, data=block)
            found, found_squares = _column(rows), _column(rows)
            nisa.tensor_reduce(dst=found, op=nl.add, data=block, axis=1)
            nisa.tensor_reduce(dst=found_squares, op=nl.add, data=squares, axis=1)
            total = _combined(total, found, nl.add)
            squared = _combined(squared, found_squares, nl.add)
        mean = _with(total, nl.multiply, 1 / width)
        moment = _with(squared, nl.multiply, 1 / width)
        spread = _combined(moment, _combined(mean, mean, nl.multiply), nl.subtract)
        clamped = _with(spread, nl.maximum, 0.0)
        scale = _inverse_root(_with(clamped, nl.add, EPS))
        shift = _column(rows)
        nisa.scalar_tensor_tensor(
            dst=shift,
            data=mean,
            op0=nl.multiply,
            operand0=-1.0,
            op1=nl.multiply,
            operand1=scale,
        )
        for part in blocks(width, columns):
            block = loaded(x[tile, part])
            scaled = sbuf(block.shape, nl.float32)
            _scalar(scaled, block, nl.multiply, scale, op1=nl.add, operand1=shift)
            nisa.tensor_tensor(
                dst=scaled, data1=scaled, data2=weights[0:rows, part], op=nl.multiply
            )
            result = sbuf(block.shape, x.dtype)
            nisa.tensor_tensor(dst=result, data1=scaled, data2=biases[0:rows, part], op=nl.add)
            nisa.dma_copy(dst=out[tile, part], src=result)
    return out


def _spread(row: Any, ones: Any) -> Any:
    """Return a row of HBM in every partition, by products with a row of ones."""
    width = row.shape[0]
    single = loaded(row.ap([[width, 1], [1, width]]), nl.float32)
    found = sbuf((P, width), nl.float32)
    for part in blocks(width, 512):
        product = nl.ndarray((P, length(part)), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=ones, moving=single[:, part])
        nisa.tensor_copy(dst=found[:, part], src=product)
    return found


def argmax(x: Any) -> Any:
    """Position of the first largest element of each row."""
    width, step = x.shape[1], 256
    out = hbm((x.shape[0], 1), nl.int32)
    parts = list(blocks(width, step))
    count = len(parts)
    for tile in row_tiles(x.shape[0]):
        rows = length(tile)
        largest, places = sbuf((rows, 8 * count), x.dtype), sbuf((rows, 8 * count), nl.uint16)
        for b, part in enumerate(parts):
            block, eight = loaded(x[tile, part]), slice(8 * b, 8 * b + 8)
            nisa.max8(dst=largest[:, eight], src=block)
            nisa.nc_find_index8(dst=places[:, eight], data=block, vals=largest[:, eight])
        firsts = slice(0, 8 * count, 8)
        offsets = sbuf((rows, count), nl.int32)
        nisa.iota(dst=offsets, pattern=[[step, count]], offset=0, channel_multiplier=0)
        wide = [sbuf((rows, count), nl.float32) for _ in range(6)]
        nisa.tensor_copy(dst=wide[0], src=offsets)
        nisa.tensor_copy(dst=wide[1], src=places[:, firsts])
        nisa.tensor_tensor(dst=wide[2], data1=wide[0], data2=wide[1], op=nl.add)
        highest = _column(rows)
        nisa.tensor_reduce(dst=highest, op=nl.maximum, data=largest[:, firsts], axis=1)
        _scalar(wide[3], largest[:, firsts], nl.equal, highest)
        # Other blocks get a position behind the row.
        _scalar(wide[4], wide[3], nl.multiply, -float(width), op1=nl.add, operand1=float(width))
        nisa.tensor_tensor(dst=wide[5], data1=wide[4], data2=wide[2], op=nl.add)
        lowest = _column(rows)
        nisa.tensor_reduce(dst=lowest, op=nl.minimum, data=wide[5], axis=1)
        position = sbuf((rows, 1), nl.int32)
        nisa.tensor_copy(dst=position, src=lowest)
        nisa.dma_copy(dst=out[tile], src=position)
    return out
