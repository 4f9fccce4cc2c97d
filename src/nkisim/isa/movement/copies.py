"""Assignment ``t[...] = value``, and the dynamic copies that NKI 0.3.0 deprecates.

``tensor_copy`` takes the same dynamic access patterns.
"""

from __future__ import annotations

from typing import Any

from nkisim.isa.elementwise import tensor_copy
from nkisim.isa.fill import memset
from nkisim.isa.movement.dma import dma_copy
from nkisim.memory import NkiTensor, is_hbm
from nkisim.removed import flag_dynamic_copy
from nkisim.spec import rules
from nkisim.spec.enums import engine as Engine
from nkisim.spec.signatures import Removal, checked_call


def assign(target: NkiTensor, value: Any) -> None:
    """Copy ``value`` into ``target``: by DMA if one is in HBM, else by a copy or fill on chip."""
    if not isinstance(value, NkiTensor):
        memset(target, value)
    elif is_hbm(target.buffer) or is_hbm(value.buffer):
        dma_copy(target, value)
    else:
        tensor_copy(target, value)


NkiTensor.assign = staticmethod(assign)


_DTYPE = {"dtype": Removal(rules.REMOVED_DTYPE, "allocate dst with the wanted dtype")}


@checked_call("tensor_copy_dynamic_dst", _DTYPE, tiles=("dst", "src"))
def tensor_copy_dynamic_dst(
    dst: Any, src: Any, engine: Engine | str = Engine.unknown, name: str | None = None
) -> None:
    """Copy a tile into a view at a dynamic offset.

    Args:
        dst: View that receives the copy.
        src: Tile that is copied.
        engine: Engine that runs the call, as for ``tensor_copy``.
        name: Label of the call; it has no effect.
    """
    flag_dynamic_copy("tensor_copy_dynamic_dst")
    tensor_copy(dst, src, engine, name)


@checked_call("tensor_copy_dynamic_src", _DTYPE, tiles=("dst", "src"))
def tensor_copy_dynamic_src(
    dst: Any, src: Any, engine: Engine | str = Engine.unknown, name: str | None = None
) -> None:
    """Copy a view at a dynamic offset into a tile.

    Args:
        dst: Tile that receives the copy.
        src: View that is copied.
        engine: Engine that runs the call, as for ``tensor_copy``.
        name: Label of the call; it has no effect.
    """
    flag_dynamic_copy("tensor_copy_dynamic_src")
    tensor_copy(dst, src, engine, name)
