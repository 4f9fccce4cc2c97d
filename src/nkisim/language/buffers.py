"""The buffers of NKI, and predicates on them."""

from __future__ import annotations

from nkisim import memory
from nkisim.memory import MemoryRegion
from nkisim.spec.signatures import checked_call

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
hbm = MemoryRegion.private_hbm

is_hbm = checked_call("nl.is_hbm")(memory.is_hbm)
is_on_chip = checked_call("nl.is_on_chip")(memory.is_on_chip)
is_psum = checked_call("nl.is_psum")(memory.is_psum)
is_sbuf = checked_call("nl.is_sbuf")(memory.is_sbuf)
