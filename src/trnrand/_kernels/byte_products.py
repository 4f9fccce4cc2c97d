"""Products of 32-bit words and a 32-bit constant, all 64 bits, by the terms of ``byte_terms``.

Layout   bytes as float16, one pass of the Tensor engine for each term: the stationary operand is
         the identity times the term's factor, PSUM has the sums of A / 2^32, c_4 + 2^8 c_5 and
         c_6 + 2^8 c_7
Limits   every factor except the factors of A is exact in float16, and every sum below 2^24, so both
         sums are exact; the constants of Philox satisfy this
Cost     for each word 12 passes of the Tensor engine, 4 bytes converted by Scalar, the low word by
         GpSimd's wrapping product, and three Vector instructions
Lever    no chain of carries, and four engines at work; with 16-bit halves a product takes 8
         instructions of GpSimd and 7 of Vector
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trnrand._kernels.byte_terms import Term
from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.hardware import TILE

Tile = Any
"""An NKI tensor; shape and dtype are checked when the kernel is traced."""


class Words(NamedTuple):
    """Words of any stride.

    Attributes:
        words: uint32 (rows, columns).
        upper: Their upper 16 bits, uint16.
    """

    words: Tile
    upper: Tile


def new_words(rows: int, columns: int) -> Words:
    """Return unwritten words."""
    tile = nl.ndarray((rows, columns), dtype=nl.uint32, buffer=nl.sbuf)
    return Words(tile, halves(tile, nl.uint16))


def load_factors(constants: tuple[tuple[Term, ...], ...]) -> list[list[Tile]]:
    """Return the stationary operand of each term of some constants, float16 (128, 128)."""
    place = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=place, pattern=[[1, TILE]], offset=0, channel_multiplier=-1)
    factors = []
    for found in constants:
        tiles = nl.ndarray((TILE, len(found), TILE), dtype=nl.float16, buffer=nl.sbuf)
        own = []
        for i in range(len(found)):
            own.append(tiles[0:TILE, i, 0:TILE])
            nisa.tensor_scalar(
                dst=own[i],
                data=place,
                op0=nl.equal,
                operand0=0.0,
                op1=nl.multiply,
                operand1=found[i][2],
            )
        factors.append(own)
    return factors


def product(
    word: Tile, found: tuple[Term, ...], constant: Tile, factors: list[Tile], low: Words
) -> Tile:
    """Return the high word of every word times a constant, and write the low word.

    Args:
        word: Words, uint32 (rows, columns) with 2 to 512 columns.
        found: Terms of the constant.
        constant: The constant as a view of the shape of ``word``.
        factors: Stationary operands of the terms.
        low: Where to write the low word.
    """
    rows, columns = word.shape
    split = nl.ndarray((rows, 4, columns), dtype=nl.float16, buffer=nl.sbuf)
    in_bytes = word.view(nl.uint8).reshape((rows, columns, 4))
    nisa.activation(
        dst=split,
        op=nl.copy,
        data=in_bytes.ap(pattern=[[4 * columns, rows], [1, 4], [4, columns]]),
    )
    sums = []
    begun = []
    for _ in range(3):
        sums.append(nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum))
        begun.append(False)
    for i in range(len(found)):
        which, byte, _ = found[i]
        nisa.nc_matmul(
            dst=sums[which],
            stationary=factors[i][0:rows, 0:rows],
            moving=split[0:rows, byte, 0:columns],
            accumulate=begun[which],
        )
        begun[which] = True
    nisa.tensor_tensor(
        dst=low.words, data1=word, data2=constant, op=nl.multiply, engine=nisa.engine.gpsimd
    )
    carry = nl.ndarray((rows, columns), dtype=nl.int32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=carry,
        data=low.upper,
        op0=nl.multiply,
        operand0=-(2.0**-16),
        op1=nl.add,
        operand1=sums[0],
    )
    high = nl.ndarray((rows, columns), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=high, data1=sums[1], data2=carry, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(
        dst=halves(high, nl.uint16),
        data1=sums[2],
        data2=halves(high, nl.int16),
        op=nl.add,
        engine=nisa.engine.vector,
    )
    return high.view(nl.uint32)


def halves(word: Tile, dtype: Any) -> Tile:
    """Return the upper 16 bits of words as a view."""
    return word.view(dtype)[0 : word.shape[0], 1 : 2 * word.shape[1] : 2]
