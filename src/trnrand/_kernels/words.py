"""Exact arithmetic on tiles of 32-bit words: bits, wrapping sums, block counters.

Layout   one word per element, uint32, in SBUF; blocks of a request are ordered along the free axis
         first, then over the partitions
Limits   bitwise operators run on the Vector engine and are exact. Sums of whole words run
         on the GpSimd engine, with wrapping 32-bit integers. Integer arithmetic on the
         Vector engine goes through float32 and is used below 2^24 only.
"""

from __future__ import annotations

from typing import Any

from trnrand._kernels.operands import START
from trnsci.core.nki import nisa, nl

Tile = Any
"""An NKI tensor; shape and dtype are checked when the kernel is traced."""


def new_words(x: Tile) -> Tile:
    """Return an unwritten tile of words with the rows and columns of ``x``."""
    return nl.ndarray((x.shape[0], x.shape[1]), dtype=nl.uint32, buffer=nl.sbuf)


def column(parameters: Tile, index: int, x: Tile) -> Tile:
    """Return a word of the operand as (P, 1), for the partitions of ``x``."""
    return parameters[0 : x.shape[0], index : index + 1]


def spread(parameters: Tile, index: int, x: Tile) -> Tile:
    """Return a word of the operand as a view with the rows and columns of ``x``."""
    return parameters.ap(pattern=[[parameters.shape[1], x.shape[0]], [0, x.shape[1]]], offset=index)


def bits(
    x: Tile, op0: Any, operand0: Any, op1: Any = None, operand1: Any = None, dst: Tile = None
) -> Tile:
    """Return ``x`` after one or two bitwise operators with a number or a word per partition."""
    result = new_words(x) if dst is None else dst
    nisa.tensor_scalar(dst=result, data=x, op0=op0, operand0=operand0, op1=op1, operand1=operand1)
    return result


def xored(x: Tile, y: Tile, dst: Tile = None) -> Tile:
    """Return ``x ^ y``."""
    return _combined(x, y, nl.bitwise_xor, nisa.engine.vector, dst)


def added(x: Tile, y: Tile, dst: Tile = None) -> Tile:
    """Return ``x + y`` modulo 2^32."""
    return _combined(x, y, nl.add, nisa.engine.gpsimd, dst)


def _combined(x: Tile, y: Tile, op: Any, engine: Any, dst: Tile) -> Tile:
    result = new_words(x) if dst is None else dst
    nisa.tensor_tensor(dst=result, data1=x, data2=y, op=op, engine=engine)
    return result


def rotated_xor(x: Tile, places: int, y: Tile) -> Tile:
    """Return ``x`` rotated left by ``places``, xored with ``y``."""
    above = bits(x, nl.left_shift, places)
    below = bits(x, nl.right_shift, 32 - places)
    return xored(xored(above, y), below)


def counters(parameters: Tile, first: int, rows: int, columns: int) -> tuple[Tile, Tile]:
    """Return the low and high words of consecutive block indices.

    Element (p, j) is block ``first + p*columns + j`` after the operand's first one. ``first`` and
    all offsets in a launch are below 2^31.
    """
    local = nl.ndarray((rows, columns), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.iota(dst=local, pattern=[[1, columns]], offset=first, channel_multiplier=columns)
    low = added(local, spread(parameters, START, local))
    # The offset's top bit is 0, so the sum carries if and only if the start's top bit is 1 and its
    # own is 0: then (sum ^ start) & start has its top bit set.
    start = column(parameters, START, local)
    carry = bits(low, nl.bitwise_xor, start, nl.bitwise_and, start)
    carry = bits(carry, nl.right_shift, 31)
    return low, added(carry, spread(parameters, START + 1, local))
