"""Creation of tensors: ndarray, zeros, ones, full and similar, and shared constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from nkisim.diagnostics import NkiCallError, declare, flag
from nkisim.dtypes import encode
from nkisim.isa import dma_copy, memset
from nkisim.language.grids import NkiGrid, like_grid
from nkisim.machine import CORE, commit, current_core
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm, is_on_chip, require_dtype
from nkisim.spec import rules
from nkisim.spec.signatures import checked_call
from nkisim.versions import since

CONSTANT_KIND = declare(
    "A043",
    "constant-kind",
    "A shared constant has a size or type that is not supported.",
    "constants are embedded in the compiled kernel",
    meaningless=True,
)

_TRANSPOSED = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""Values of ``transpose_axes`` by number of dimensions."""


@checked_call("nl.ndarray")
def ndarray(
    shape: Any,
    dtype: Any,
    buffer: MemoryRegion = MemoryRegion.sbuf,
    name: str = "",
    address: tuple[int, ...] | None = None,
) -> NkiTensor:
    """Return a new tensor; its contents are undefined until written.

    Args:
        shape: Extents; on chip the first is the partition dimension, at most 128.
        dtype: A dtype of ``nki.language``.
        buffer: ``nl.sbuf``, ``nl.psum``, ``nl.shared_hbm`` or ``nl.private_hbm``.
        name: For messages; unique in a kernel.
        address: (partition, byte offset) to place an on-chip tensor at; in HBM from NKI 0.7.0 on
            (byte offset,).
    """
    core = CORE.get() or current_core("nl.ndarray")
    if address is not None and len(address) == 1 and is_hbm(buffer) and since("0.7.0"):
        address = None  # HBM tensors have their own storage here
    return core.memory.allocate(shape, dtype, buffer, name, cast(Any, address))


def _filled(where: str, shape: Any, value: Any, dtype: Any, buffer: Any, name: str) -> NkiTensor:
    memory = current_core(where).memory
    tensor = memory.allocate(shape, dtype, buffer, name, where=where)
    number = int(value) if not tensor.dtype.is_float and float(value).is_integer() else value
    if is_on_chip(tensor.buffer):
        memset(tensor, number)
    else:
        tile = memory.allocate((1, 1), tensor.dtype, MemoryRegion.sbuf, where=where)
        memset(tile, number)
        dma_copy(tensor, tile.repeated(tensor.shape))
    return tensor


@checked_call("nl.zeros")
def zeros(
    shape: Any, dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of zeros."""
    return _filled("nl.zeros", shape, 0, dtype, buffer, name)


@checked_call("nl.ones")
def ones(
    shape: Any, dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of ones."""
    return _filled("nl.ones", shape, 1, dtype, buffer, name)


@checked_call("nl.full")
def full(
    shape: Any,
    fill_value: float,
    dtype: Any,
    buffer: MemoryRegion = MemoryRegion.sbuf,
    name: str = "",
) -> NkiTensor:
    """Return a new tensor filled with a value."""
    return _filled("nl.full", shape, fill_value, dtype, buffer, name)


@checked_call("nl.empty_like")
def empty_like(
    x: Any,
    dtype: Any = None,
    buffer: MemoryRegion | None = None,
    name: str = "",
    *,
    transpose_axes: tuple[int, ...] | None = None,
    address: Any = None,
) -> Any:
    """Return a new tensor with the shape and, by default, the dtype and buffer of ``x``.

    Args:
        x: Tensor, or from NKI 0.7.0 on a grid, which gives a grid.
        dtype: Dtype; None is the dtype of ``x``.
        buffer: Memory; None is the memory of ``x``.
        name: For messages.
        transpose_axes: Order of the dimensions for a later ``dma_transpose``: ``(1, 0)``,
            ``(2, 1, 0)`` or ``(3, 1, 2, 0)``.
        address: Place of the tensor, as in ``nl.ndarray``.
    """
    rank = len(x.element_shape if isinstance(x, NkiGrid) else x.shape)
    if transpose_axes is not None and transpose_axes != _TRANSPOSED.get(rank):
        flag(
            rules.BAD_CALL,
            f"nl.empty_like: transpose_axes is {transpose_axes!r} for {rank} dimensions",
            instruction="nl.empty_like",
            operand="transpose_axes",
            seen=repr(transpose_axes),
            allowed=", ".join(map(str, _TRANSPOSED.values())),
            fix="exchange the first and the last dimension",
            error=NkiCallError,
        )
    if isinstance(x, NkiGrid):
        return like_grid(x, dtype, buffer, name, transpose_axes, address)
    shape = tuple(x.shape[axis] for axis in transpose_axes or range(rank))
    return current_core("nl.empty_like").memory.allocate(
        shape, dtype or x.dtype, buffer or x.buffer, name, address, where="nl.empty_like"
    )


@checked_call("nl.zeros_like")
def zeros_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """Return zeros with the shape and, by default, the dtype and buffer of ``x``."""
    return _filled("nl.zeros_like", x.shape, 0, dtype or x.dtype, buffer or x.buffer, name)


@checked_call("nl.shared_constant")
def shared_constant(constant: Any) -> NkiTensor:
    """Return a tensor in shared HBM with the contents of a NumPy array or of a ``.npy`` file."""
    if isinstance(constant, (str, Path)):
        constant = np.load(constant)
    if not isinstance(constant, np.ndarray):
        flag(
            CONSTANT_KIND,
            f"nl.shared_constant takes a NumPy array or the path of a .npy file, got "
            f"{type(constant).__name__}",
            instruction="nl.shared_constant",
            operand="constant",
            seen=type(constant).__name__,
            fix="pass numpy._elements(...)",
        )
    kind = require_dtype(str(constant.dtype), "nl.shared_constant")
    if kind in ("float8_e4m3", "bool"):
        flag(
            CONSTANT_KIND,
            f"nl.shared_constant does not embed {kind} arrays",
            instruction="nl.shared_constant",
            operand="constant",
            seen=kind,
            allowed="8- to 32-bit integers, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32",
            fix="convert the array on the host",
        )
    memory = current_core("nl.shared_constant").memory
    tensor = memory.argument(constant, MemoryRegion.shared_hbm, "")
    tensor.origin.is_argument = False
    return tensor


@checked_call("nl.shared_identity_matrix")
def shared_identity_matrix(n: int, dtype: Any = "uint8", dst: NkiTensor | None = None) -> NkiTensor:
    """Return the n x n identity in SBUF, or write it to ``dst``."""
    memory = current_core("nl.shared_identity_matrix").memory
    kind = require_dtype(dtype, "nl.shared_identity_matrix")
    if not 1 <= n <= 128 or kind.kind == "packed":
        flag(
            CONSTANT_KIND,
            f"nl.shared_identity_matrix of size {n} and dtype {kind} cannot be a tile",
            instruction="nl.shared_identity_matrix",
            operand="n",
            seen=f"{n}, {kind}",
            allowed="1 to 128, any type but the x4 packs",
            fix="build the identity from tiles of 128",
        )
    tile = (
        dst
        if dst is not None
        else memory.allocate((n, n), kind, MemoryRegion.sbuf, where="nl.shared_identity_matrix")
    )
    identity = np.eye(n, dtype=np.float32)
    storage = tile.origin.storage_dtype(tile.dtype)
    commit(tile, identity if storage == np.float32 else encode(identity, tile.dtype))
    return tile
