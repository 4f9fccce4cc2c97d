"""Transfers between HBM and SBUF: load, store, load_transpose2d; and device_print."""

from __future__ import annotations

from typing import Any

from nkisim.diagnostics import REPLAYED, declare, flag
from nkisim.isa import dma_copy, dma_transpose
from nkisim.language.tiles import converted, fresh
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm, require_dtype
from nkisim.removed import refuse_argument
from nkisim.spec.signatures import Removal, checked_call

STORE_FROM_PSUM = declare(
    "M025",
    "store-from-psum",
    "nl.store stores a PSUM tile.",
    "0.3.0 stores SBUF tiles only",
    meaningless=True,
)
TRANSPOSED_LOAD_SOURCE = declare(
    "M028",
    "transposed-load-source",
    "nl.load_transpose2d reads an HBM tensor that the kernel allocated.",
    "the back end fails on it; only kernel arguments work",
)
STORE_VALUE = declare(
    "A037",
    "store-value",
    "nl.store is called without a tile to store.",
    "0.3.0 takes nl.store(dst, value) with a tensor view and a tile",
    meaningless=True,
)
PRINT_ARGUMENTS = declare(
    "A044",
    "device-print-arguments",
    "nl.device_print is called with the arguments of an earlier release.",
    "0.3.0 takes (print_prefix, tensor)",
    meaningless=True,
)


def _hbm_source(function: str, src: Any) -> NkiTensor:
    if not isinstance(src, NkiTensor):
        fix = "pass a kernel argument or an HBM tensor, sliced to the tile"
        refuse_argument(f"nl.{function}", "src", src, "an HBM tensor", fix, wanted="a tensor")
    return src


@checked_call("nl.load")
def load(src: Any, dtype: Any = None) -> NkiTensor:
    """Return a new SBUF tile with the contents of an HBM view; a vector becomes one column."""
    source = _hbm_source("load", src)
    shape = (*source.shape, *(1,) * (2 - source.ndim))
    kind = source.dtype if dtype is None else require_dtype(dtype, "nl.load")
    tile = current_core("nl.load").memory.allocate(shape, kind, MemoryRegion.sbuf, where="nl.load")
    dma_copy(tile, source)
    return tile


@checked_call("nl.store", misfit=STORE_VALUE)
def store(dst: Any, value: Any) -> None:
    """Write an SBUF tile to an HBM view."""
    if not isinstance(value, NkiTensor) or not isinstance(dst, NkiTensor):
        flag(
            STORE_VALUE,
            f"nl.store takes (dst, value) with two tensors, got {type(dst).__name__} and "
            f"{type(value).__name__}",
            instruction="nl.store",
            operand="value",
            seen=f"{type(dst).__name__}, {type(value).__name__}",
            allowed="an HBM tensor and an SBUF tile",
            fix="nl.store(out[rows, columns], value=tile)",
        )
    if value.buffer is MemoryRegion.psum:
        flag(
            STORE_FROM_PSUM,
            f"nl.store cannot store a psum tile: {value.describe()}",
            instruction="nl.store",
            operand="value",
            seen=value.describe(),
            allowed="sbuf",
            fix="nisa.tensor_copy it to an SBUF tile first",
        )
    dma_copy(dst, value)


@checked_call("nl.load_transpose2d")
def load_transpose2d(src: Any, dtype: Any = None) -> NkiTensor:
    """Return a new SBUF tile with the transpose of a two-dimensional HBM view."""
    source = _hbm_source("load_transpose2d", src)
    if is_hbm(source.buffer) and not source.origin.is_argument:
        flag(
            TRANSPOSED_LOAD_SOURCE,
            f"nl.load_transpose2d reads {source.describe()}, which the kernel allocated",
            instruction="nl.load_transpose2d",
            operand="src",
            seen=source.describe(),
            allowed="kernel arguments",
            fix="nisa.dma_transpose, or nl.load and a transpose on the Tensor engine",
        )
    flat = source
    while flat.ndim > 2 and flat.shape[-1] == 1:
        flat = flat[..., 0]
    tile = fresh(tuple(reversed(flat.shape)), source.dtype)
    dma_transpose(tile, flat)
    return converted(tile, dtype, "nl.load_transpose2d")


@checked_call(
    "nl.device_print",
    {
        old: Removal(PRINT_ARGUMENTS, f"{new}=", new)
        for old, new in (("prefix", "print_prefix"), ("x", "tensor"))
    },
)
def device_print(print_prefix: str, tensor: Any) -> None:
    """Print a prefix and the values of a tensor to standard output, immediately."""
    core = current_core("nl.device_print")
    if isinstance(tensor, NkiTensor):
        with core.tracked("device_print", read=tensor):
            pass
    if REPLAYED.get() is None:  # a stranger's program prints nothing
        print(f"{print_prefix} {tensor!r}")
