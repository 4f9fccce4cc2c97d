"""Products in float32 that sum row by row, as BLAS libraries do: the same bits in less time.

``stationary.T @ moving`` of matrices of at most a few hundred rows. BLAS libraries keep a block of
sums in registers and go through the rows of both operands once, so a sum begins with the first row
and ends with the last, fused with the products where the processor can. What they spend beside that
on each call, packing both operands and choosing how to go about it, is saved here: operands are
packed once, from the type they are stored in, and kept for as long as they are used.

That BLAS does it that way for operands of a size is not taken for granted. Before the first product
of a size both are asked for one; where they do not agree to the bit, BLAS remains. All types with
fewer bits than float32 have products that are exact in it, so one trial is good for all of them.

Importing this module imports no numba. Ask ``agrees`` before calling anything else.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from nkisim.compiled.helper import helper_for
from nkisim.compiled.panel_layout import HEIGHT, MOST_ROWS, WIDTH, packed_elements
from nkisim.compiled.processor import float_lanes

__all__ = [
    "HEIGHT",
    "WIDTH",
    "agrees",
    "bytes_multiplier",
    "multiply",
    "pack",
    "pack_and_multiply",
    "packed_elements",
    "pass_like",
]

Array = np.ndarray

_AS_LONG = 16  # multiply-adds take as long as to add one element of a tile to another


@lru_cache(maxsize=4096)
def agrees(depth: int, rows: int, columns: int, narrow: bool = True) -> bool:
    """Whether products of this size have the bits that BLAS gives them; numba must be loaded.

    ``narrow`` tells whether elements have fewer bits than float32.
    """
    # BLAS has other routines for vectors.
    if min(rows, columns) < 2 or depth > MOST_ROWS or not float_lanes():
        return False
    rng = np.random.default_rng(0)
    stored, values = [], []
    for width in (rows, columns):
        x = rng.standard_normal((depth, width), np.float32)
        # Zeros of either sign, products and sums that are subnormal, and such that overflow.
        x *= rng.choice(np.array([1, 1, 1, 0, -0.0, 2**-64, 2**64], np.float32), (1, width))
        stored.append((x.view(np.uint32) >> 16).astype(np.uint16) if narrow else x)
        values.append((stored[-1].astype(np.uint32) << 16).view(np.float32) if narrow else x)
    moving = np.empty(packed_elements(depth, columns), stored[1].dtype)
    pack(stored[1], moving, WIDTH)
    out = np.empty((rows, columns), np.float32)
    pack_and_multiply(stored[0], moving, out, False)
    with np.errstate(all="ignore"):
        wanted = np.matmul(values[0].T, values[1])
    return out.tobytes() == wanted.tobytes()


def pass_like(products: int) -> int:
    """Return over how many elements a pass takes as long as so many multiply-adds."""
    return products // _AS_LONG


def pack(x: Array, packed: Array, width: int) -> bool:
    """Fill ``packed`` with the panels of an operand; False if it holds infinity or NaN.

    Args:
        x: Matrix of float32, or of bfloat16 as uint16, with dense columns.
        packed: As many elements as ``packed_elements`` says, flat; float32, or for a moving operand
            of bfloat16 uint16.
        width: HEIGHT for a stationary, WIDTH for a moving operand.
    """
    return bool(_packing(width, 8 * x.itemsize, 8 * packed.itemsize)(x, packed))


def multiply(stationary: Array, moving: Array, depth: int, out: Array, add: bool) -> None:
    """Write the product of two packed operands of ``depth`` rows to ``out``, or add it.

    ``out`` has dense columns; its rows may be apart.
    """
    helper = helper_for(pass_like(depth * out.size))
    _product(8 * moving.itemsize)(stationary, moving, depth, out, add, helper)


def pack_and_multiply(x: Array, moving: Array, out: Array, add: bool) -> bool:
    """Multiply with a stationary operand that is not packed; False if it has infinity or NaN."""
    helper = helper_for(pass_like(len(x) * out.size))
    run = _packing_product(8 * x.itemsize, 8 * moving.itemsize)
    return bool(run(x, moving, out, add, helper))


@cache
def bytes_multiplier() -> Any:
    """Return ``product_of_bytes``: what multiplies without arrays of its operands."""
    from nkisim.compiled.panel_product import product_of_bytes

    return product_of_bytes()


@cache
def _packing_product(bits: int, moving_bits: int) -> Any:
    from nkisim.compiled.panel_product import packing_product

    return packing_product(bits, moving_bits)


@cache
def _packing(width: int, bits: int, packed_bits: int) -> Any:
    from nkisim.compiled.panel_product import packing

    return packing(width, bits, packed_bits)


@cache
def _product(bits: int) -> Any:
    from nkisim.compiled.panel_product import product

    return product(bits)
