"""``t[...] = value`` as an instruction."""

from __future__ import annotations

from typing import Any

from nkisim.isa.elementwise import tensor_copy
from nkisim.isa.fill import memset
from nkisim.isa.movement.dma import dma_copy
from nkisim.memory import NkiTensor, is_hbm


def assign(target: NkiTensor, value: Any) -> None:
    """Copy ``value`` into ``target``: by DMA if one is in HBM, else by a copy or fill on chip."""
    if not isinstance(value, NkiTensor):
        memset(target, value)
    elif is_hbm(target.buffer) or is_hbm(value.buffer):
        dma_copy(target, value)
    else:
        tensor_copy(target, value)


NkiTensor.assign = staticmethod(assign)
