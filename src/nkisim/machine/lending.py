"""Copies that are put off until they are needed: tiles that read the caller's bytes.

A kernel mostly loads its arguments into tiles that it only reads. While it runs, nobody writes to
the caller's arrays: what a kernel writes to an argument goes to a copy, and to the caller at the
end. So a tile that is loaded whole, before anything else was done with it, can have the caller's
bytes themselves, and a copy when something is written to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nkisim.memory import NkiTensor, is_on_chip
from nkisim.recycling import LEAST_LENT

__all__ = ["copied", "make_lender"]


def copied(x: np.ndarray, out: np.ndarray) -> None:
    """Copy elements to another tensor of their type and shape."""
    out[...] = x


def make_lender(src: NkiTensor, dst: NkiTensor) -> Callable[[NkiTensor, NkiTensor], bool] | None:
    """Return what puts off copies between tensors of these layouts, or None.

    It answers False where the copy has to be made at once: of an argument that was written to, or
    into a tile of which somebody may have seen other bytes.
    """
    of, to = src.runs, dst.runs
    nbytes = to.nbytes
    if not (src.origin.is_argument and is_on_chip(dst.buffer) and nbytes >= LEAST_LENT):
        return None
    if not (of.dense and to.dense and src.trusted):
        return None

    def lend(src: NkiTensor, dst: NkiTensor) -> bool:
        of, to = src.storage, dst.storage
        if of.room is None or to.version or to.room is not None or to.data.size != nbytes:
            return False
        to.borrow(of.data[src.start : src.start + nbytes])
        return True

    return lend
