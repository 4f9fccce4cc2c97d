"""Operators with transpositions and products: transposes, batched products, attention."""

from __future__ import annotations

from typing import Any

import nkisim.isa as nisa
import nkisim.language as nl

from .row_operators import EPS
from .streams import P, blocks, hbm, length, loaded, row_tiles, sbuf, share


def psum(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    """Return a new tile in PSUM."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def _copied(source: Any, dtype: Any = None) -> Any:
    """Copy to a new tile in SBUF."""
    tile = sbuf(source.shape, source.dtype if dtype is None else dtype)
    nisa.tensor_copy(dst=tile, src=source)
    return tile


def _transposed(tile: Any) -> Any:
    """Return the transposition of a tile, in SBUF."""
    turned = psum(tile.shape[::-1], tile.dtype)
    nisa.nc_transpose(dst=turned, data=tile)
    return _copied(turned)


def matrix_transpose(x: Any) -> Any:
    """Transpose, by DMA; int8 by the Tensor engine."""
    rows, columns = x.shape
    out = hbm((columns, rows), x.dtype)
    for block in share(columns // P):
        part = slice(block * P, (block + 1) * P)
        for down in blocks(rows, 2048):
            tile = sbuf((P, length(down)), x.dtype)
            if x.dtype == nl.int8:
                for step in blocks(length(down), P):
                    source = x[down.start + step.start : down.start + step.stop, part]
                    turned = psum((P, length(step)), nl.bfloat16)
                    nisa.nc_transpose(dst=turned, data=_copied(loaded(source), nl.bfloat16))
                    nisa.tensor_copy(dst=tile[:, step], src=turned)
            else:
                nisa.dma_transpose(dst=tile, src=x[down, part])
            nisa.dma_copy(dst=out[part, down], src=tile)
    return out


def batched_matmul(a: Any, b: Any, columns: int = P) -> Any:
    """Products of batches, by tiles of 128 x 128 x ``columns``."""
    batches, m, k = a.shape
    n = b.shape[2]
    out = hbm((batches, m, n), a.dtype)
    for batch in share(batches):
        left: dict[tuple[int, int], Any] = {}
        for rows in blocks(m, P):
            whole = loaded(a[batch, rows])
            for depth in blocks(k, P):
                left[rows.start, depth.start] = _transposed(whole[:, depth])
        right = {depth.start: loaded(b[batch, depth]) for depth in blocks(k, P)}
        for rows in blocks(m, P):
            for part in blocks(n, columns):
                total = psum((length(rows), length(part)))
                for depth in blocks(k, P):
                    nisa.nc_matmul(
                        dst=total,
                        stationary=left[rows.start, depth.start],
                        moving=right[depth.start][:, part],
                    )
                nisa.dma_copy(dst=out[batch, rows, part], src=_copied(total, a.dtype))
    return out


def positive(x: Any) -> Any:
    """x + 1 where x > 0, else exp(x)."""
    out = hbm(x.shape, x.dtype)
    for tile in row_tiles(x.shape[0]):
        data = loaded(x[tile])
        above, below = sbuf(data.shape, nl.float32), sbuf(data.shape, nl.float32)
        nisa.tensor_scalar(dst=above, data=data, op0=nl.add, operand0=1.0)
        nisa.activation(dst=below, op=nl.exp, data=data)
        choice = sbuf(data.shape, nl.uint8)
        nisa.tensor_scalar(dst=choice, data=data, op0=nl.greater, operand0=0.0)
        parts = [sbuf(data.shape, nl.float32) for _ in range(2)]
        for part, values, other in zip(parts, (above, below), (False, True), strict=True):
            nisa.select_reduce(
                dst=part, predicate=choice, on_true=values, on_false=0.0, reverse_pred=other
            )
        result = sbuf(data.shape, x.dtype)
        nisa.tensor_tensor(dst=result, data1=parts[0], data2=parts[1], op=nl.add)
        nisa.dma_copy(dst=out[tile], src=result)
    return out


def keys_by_values(keys: Any, values: Any, rows: int = 64) -> Any:
    """keys.T @ [values, 1]; the columns are shared by the cores, ``rows`` at a time."""
    m, d = keys.shape
    out = hbm((d, d + 1), keys.dtype)
    mine = share(d + 1)
    width = len(mine)
    loads = min(mine.stop, d) - mine.start
    for part in blocks(d, rows):
        total = psum((length(part), width))
        for depth in blocks(m, P):
            key = loaded(keys[depth, part])
            value = sbuf((length(depth), width), values.dtype)
            if loads < width:
                nisa.memset(dst=value[:, loads:width], value=1.0)
            nisa.dma_copy(dst=value[:, 0:loads], src=values[depth, mine.start : mine.start + loads])
            nisa.nc_matmul(dst=total, stationary=key, moving=value)
        nisa.dma_copy(dst=out[part, mine.start : mine.stop], src=_copied(total, keys.dtype))
    return out


def queries_by_sums(queries: Any, sums: Any, rows: int = 64) -> Any:
    """queries @ sums, whose last column divides the others; ``rows`` at a time."""
    m, d = queries.shape
    out = hbm((m, d), queries.dtype)
    for tile in share(-(-m // rows)):
        part = slice(tile * rows, min((tile + 1) * rows, m))
        count = length(part)
        total = psum((count, d + 1))
        for depth in blocks(d, P):
            query = _transposed(loaded(queries[part, depth]))
            nisa.nc_matmul(dst=total, stationary=query, moving=loaded(sums[depth]))
        found = _copied(total)
        divisor, inverse = sbuf((count, 1), nl.float32), sbuf((count, 1), nl.float32)
        nisa.tensor_scalar(dst=divisor, data=found[:, d : d + 1], op0=nl.add, operand0=EPS)
        nisa.reciprocal(dst=inverse, data=divisor)
        result = sbuf((count, d), queries.dtype)
        nisa.tensor_scalar(dst=result, data=found[:, 0:d], op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[part], src=result)
    return out


def flash_attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one head of 128 columns; both cores do the same work.

    The blocks of keys are a loop on the device, whose tiles are allocated before all loops. Whole
    blocks are masked: a query attends to every key of its own block.
    """
    n, head = q.shape
    out = hbm(q.shape, q.dtype)
    narrow, wide = q.dtype, nl.float32
    query, key, value, result = (sbuf((P, head), narrow) for _ in range(4))
    turned_query, turned_key = (sbuf((head, P), narrow) for _ in range(2))
    scores, weights = sbuf((P, P), wide), sbuf((P, P), narrow)
    turned_weights, sums = sbuf((P, P), narrow), sbuf((P, head), wide)
    found, highest, new, factor, partial, total = (sbuf((P, 1), wide) for _ in range(6))
    flipped, flipped_weights = psum((head, P), narrow), psum((P, P), narrow)
    product, added = psum((P, P)), psum((P, head))

    def block(i: Any) -> None:
        nisa.dma_copy(dst=key, src=k[nl.ds(i * P, P), :])
        nisa.dma_copy(dst=value, src=v[nl.ds(i * P, P), :])
        nisa.nc_transpose(dst=flipped, data=key)
        nisa.tensor_copy(dst=turned_key, src=flipped)
        nisa.nc_matmul(dst=product, stationary=turned_query, moving=turned_key, accumulate=False)
        nisa.tensor_copy(dst=scores, src=product)
        nisa.tensor_reduce(dst=found, op=nl.maximum, data=scores, axis=1)
        nisa.tensor_tensor(dst=new, data1=highest, data2=found, op=nl.maximum)
        nisa.tensor_tensor(dst=factor, data1=highest, data2=new, op=nl.subtract)
        nisa.tensor_copy(dst=highest, src=new)
        nisa.tensor_scalar(dst=scores, data=scores, op0=nl.subtract, operand0=new)
        nisa.activation(dst=factor, op=nl.exp, data=factor)
        nisa.activation(dst=weights, op=nl.exp, data=scores)
        nisa.tensor_reduce(dst=partial, op=nl.add, data=weights, axis=1)
        nisa.scalar_tensor_tensor(
            dst=total,
            data=total,
            op0=nl.multiply,
            operand0=factor,
            op1=nl.add,
            operand1=partial,
        )
        nisa.nc_transpose(dst=flipped_weights, data=weights)
        nisa.tensor_copy(dst=turned_weights, src=flipped_weights)
        nisa.nc_matmul(dst=added, stationary=turned_weights, moving=value, accumulate=False)
        nisa.scalar_tensor_tensor(
            dst=sums, data=sums, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=added
        )

    for tile in range(n // P):
        rows = slice(tile * P, (tile + 1) * P)
        nisa.dma_copy(dst=query, src=q[rows])
        nisa.nc_transpose(dst=flipped, data=query)
        nisa.tensor_copy(dst=turned_query, src=flipped)
        nisa.memset(dst=sums, value=0.0)
        nisa.memset(dst=total, value=0.0)
        nisa.memset(dst=highest, value=-3e38)
        nl.fori_loop(0, tile + 1, block)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=result, data=sums, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[rows], src=result)
    return out
