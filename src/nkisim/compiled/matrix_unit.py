"""Products of bfloat16 and 8-bit float matrices on the matrix unit of Intel processors (AMX).

``stationary.T @ moving`` takes about a sixth of the time that BLAS needs in float32. Operands are
first packed into the unit's layout, and are worth keeping so for as long as they are used; 8-bit
floats, all of them exact in bfloat16, are converted on the way.

What the unit computes: products are exact; of every 32 rows it sums those of even and those of odd
rows apart, adds the two sums, and adds that to the sum of the rows before, all in float32 and
rounded to nearest even. It takes subnormal operands for zero, so those are not packed, and gives
zero for subnormal results. So a product differs from that of BLAS by the order of summation, which
BLAS leaves open as well, and by at most 2^-126 for each product and sum.

Importing this module imports no numba. Ask ``available`` before calling anything else.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, cast

import numpy as np

from nkisim.compiled import numba_loaded
from nkisim.compiled.processor import compiles_for
from nkisim.compiled.tile_layout import SIDE, TILE, packed_shape

__all__ = ["Packed", "available", "multiply", "pack_moving", "pack_stationary"]

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]

# What the compiled code uses: the unit itself, and wide registers to fill it.
_FEATURES = {"+amx-tile", "+amx-bf16", "+avx512bw", "+avx512vbmi"}

# Linux's arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA): a process has to ask for the tiles.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18

_NO_TABLE = np.empty(0, np.uint16)


class Packed(NamedTuple):
    """An operand as the unit wants it.

    Attributes:
        address: Where its tiles begin.
        tiles: How many of them lie below each other.
        columns: Columns of the operand, filled up with zeros.
        memory: What holds the tiles.
    """

    address: int
    tiles: int
    columns: int
    memory: Array


def available() -> bool:
    """Whether numba is loaded and this processor has a matrix unit that works."""
    return numba_loaded() and _works()


def pack_stationary(stored: Array, table: Array | None = None) -> Packed | None:
    """Return a stationary operand as the unit wants it, or None if it holds a subnormal.

    Args:
        stored: Matrix (K, M) of stored elements: uint16 for bfloat16, uint8 for 8-bit floats. Its
            columns are dense, its rows lie any distance apart.
        table: What each 8-bit pattern is in bfloat16: 256 uint16, of which the first is zero. None
            for bfloat16.

    Raises:
        ValueError: Columns are not dense, or ``table`` has not the entries needed.
    """
    return _packed(stored, table, transpose=True)


def pack_moving(stored: Array, table: Array | None = None) -> Packed | None:
    """Return a moving operand (K, N) as the unit wants it; otherwise as ``pack_stationary``."""
    return _packed(stored, table, transpose=False)


def multiply(stationary: Packed, moving: Packed, out: Array, *, add: bool) -> None:
    """Write ``stationary.T @ moving`` to ``out``, or add it to what is there.

    Args:
        stationary: Packed operand (K, M).
        moving: Packed operand (K, N).
        out: Matrix (M, N) of float32 with dense columns; its rows lie any distance apart. From a
            multiple of 64 bytes on it is written in two thirds of the time.
        add: Whether to add; then the sum over K begins with what is there.

    Raises:
        ValueError: Columns of ``out`` are not dense, or the operands do not fit it or each other.
    """
    rows, columns = out.shape
    tiles = stationary.tiles
    if tiles != moving.tiles or stationary.columns < rows or moving.columns < columns:
        raise ValueError("multiply: the operands do not fit each other or out")
    if columns > 1 and out.strides[1] != out.itemsize:
        raise ValueError("multiply: out has no dense columns")
    _product()(stationary.address, moving.address, tiles, out, add)


def _packed(stored: Array, table: Array | None, transpose: bool) -> Packed | None:
    strips, words = packed_shape(*stored.shape)
    memory = np.empty(strips * words + 15, np.uint32)
    pack = _packing(stored.itemsize, transpose)
    address = pack(stored, _NO_TABLE if table is None else table, memory)
    return Packed(address, 4 * words // TILE, strips * SIDE, memory) if address else None


@cache
def _packing(itemsize: int, transpose: bool) -> Callable[[Array, Array, Array], int]:
    from nkisim.compiled.tile_packing import packing

    return packing(itemsize, transpose)


@cache
def _product() -> Callable[[int, int, int, Array, bool], None]:
    from nkisim.compiled.tile_product import product

    return product()


@cache
def _works() -> bool:
    """Whether everything the unit needs is there, and a small product comes out right."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return _compiled_for() and _permitted() and _multiplies()


def _compiled_for() -> bool:
    """Whether numba compiles, and for a processor with all that is used."""
    return compiles_for(_FEATURES)


def _permitted() -> bool:
    """Ask Linux for the unit's registers; refused by old kernels and some containers."""
    call = ctypes.CDLL(None).syscall
    arguments = (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return cast(int, call(*map(ctypes.c_long, arguments))) == 0


def _multiplies() -> bool:
    """Whether a product of small integers, ragged at every edge, is exact."""
    from numba.core.errors import NumbaError

    values = np.arange(-800, 790, dtype=np.float32).reshape(30, 53) % 256
    stored = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    out = np.ones((20, 33), np.float32)
    try:
        stationary, moving = pack_stationary(stored[:, :20]), pack_moving(stored[:, 20:])
        if stationary is None or moving is None:
            return False
        multiply(stationary, moving, out, add=True)
    except (NumbaError, RuntimeError):  # a numba or an LLVM that cannot compile this
        return False
    # At most 30 * 255^2, below 2^24.
    return np.array_equal(out, values[:, :20].T @ values[:, 20:] + 1)
