"""Sums of products that are kept in a narrow type: which chains of additions are found."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from tiles import loaded, stored

SHAPE = (64, 96)


def product(a, b):
    block = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=block, stationary=a, moving=b)
    return block


def copied(tile, dtype):
    copy = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile)
    return copy


def summed(a, b, blocks, dtype):
    """A sum in place."""
    total = nl.zeros(SHAPE, dtype=dtype, buffer=nl.sbuf)
    a, b = loaded(a), loaded(b)
    for _ in range(blocks):
        nisa.tensor_tensor(dst=total, data1=total, data2=product(a, b), op=nl.add)
    return stored(total)


def summed_in_turn(a, b, blocks, dtype):
    """A sum that begins with a copy, in new tiles, with copies of products on the left."""
    a, b = loaded(a), loaded(b)
    total = copied(product(a, b), dtype)
    for _ in range(blocks):
        new = nl.ndarray(SHAPE, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=new, data1=copied(product(a, b), nl.bfloat16), data2=total, op=nl.add
        )
        total = copied(new, dtype)
    return stored(total)


def rescaled(a, b, blocks, dtype):
    """A sum that is scaled at each addition, as in an attention that goes over its keys once."""
    total = nl.zeros(SHAPE, dtype=dtype, buffer=nl.sbuf)
    a, b = loaded(a), loaded(b)
    for _ in range(blocks):
        block = product(a, b)
        nisa.scalar_tensor_tensor(
            dst=total, data=total, op0=nl.multiply, operand0=0.5, op1=nl.add, operand1=block
        )
    return stored(total)


@pytest.mark.parametrize("kernel", [summed, summed_in_turn, rescaled])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
def test_three_additions_in_a_narrow_type_are_found(kernel, dtype, blocks):
    a, b = np.ones((32, SHAPE[0]), bfloat16), np.ones((32, SHAPE[1]), bfloat16)
    report = nkisim.check(kernel)(a, b, blocks, getattr(nl, dtype))
    found = [f for f in report.findings if f.rule.id == "D052"]
    assert len(found) == (dtype != "float32" and blocks >= 3)
    assert all(f"{blocks} additions in {dtype}" in f.seen for f in found)


def layers(a, b):
    """A residual stream: each layer reads the sum that the one before it wrote."""
    stream = loaded(a)
    for _ in range(5):
        nisa.tensor_tensor(dst=stream, data1=stream, data2=product(stream, stream), op=nl.add)
    return stored(stream)


def layers_on_copies(a, b):
    stream = loaded(a)
    for _ in range(5):
        copy = copied(stream, nl.bfloat16)
        nisa.tensor_tensor(dst=stream, data1=stream, data2=product(copy, copy), op=nl.add)
    return stored(stream)


def residuals(a, b):
    """Each part of a tile gets one product."""
    total = nl.zeros((32, 6 * 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    a = loaded(a)
    for i in range(6):
        part = total[:, 32 * i : 32 * i + 32]
        nisa.tensor_tensor(dst=part, data1=part, data2=product(a, a), op=nl.add)
    return stored(total)


def cast_at_the_end(a, b):
    """A sum in float32, rounded once, with rounded terms."""
    total = nl.zeros((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    a = loaded(a)
    for _ in range(6):
        nisa.tensor_tensor(
            dst=total, data1=total, data2=copied(product(a, a), nl.bfloat16), op=nl.add
        )
    return stored(copied(total, nl.bfloat16))


def started_again(a, b):
    """One tile for several short sums."""
    total = nl.zeros((32, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    out = nl.ndarray((4, 32, 32), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    a = loaded(a)
    for i in range(4):
        nisa.memset(dst=total, value=0.0)
        for _ in range(2):
            nisa.tensor_tensor(dst=total, data1=total, data2=product(a, a), op=nl.add)
        nisa.dma_copy(dst=out[i], src=total)
    return out


def not_products(a, b):
    """A sum of loaded tiles, next to a product."""
    product(loaded(a), loaded(a))
    total = nl.zeros((32, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    for _ in range(6):
        nisa.tensor_tensor(dst=total, data1=total, data2=loaded(a), op=nl.add)
    return stored(total)


@pytest.mark.parametrize(
    "kernel", [layers, layers_on_copies, residuals, cast_at_the_end, started_again, not_products]
)
def test_other_sums_are_not_found(kernel):
    a = np.full((32, 32), 2.0**-6, bfloat16)
    assert "D052" not in nkisim.check(kernel)(a, a).codes
