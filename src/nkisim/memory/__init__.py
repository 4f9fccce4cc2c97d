"""Device memory: tensors, access patterns, allocation, and what is known about each byte."""

from nkisim.memory.allocation import Allocation
from nkisim.memory.core_memory import CoreMemory, SharedHbm
from nkisim.memory.indexing import DynSlice
from nkisim.memory.indirect import Indirection
from nkisim.memory.lifetime import Lifetime
from nkisim.memory.objects import NKIObject
from nkisim.memory.psum import AccumulationState, Region
from nkisim.memory.region import MemoryRegion, is_hbm, is_on_chip, is_psum, is_sbuf
from nkisim.memory.requests import require_dtype
from nkisim.memory.storage import Storage
from nkisim.memory.tensor import NkiTensor
from nkisim.memory.written import Unwritten, confirm_garbage, report_unwritten, with_sentinel

__all__ = [
    "AccumulationState",
    "Allocation",
    "CoreMemory",
    "DynSlice",
    "Indirection",
    "Lifetime",
    "MemoryRegion",
    "NKIObject",
    "NkiTensor",
    "Region",
    "SharedHbm",
    "Storage",
    "Unwritten",
    "confirm_garbage",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "report_unwritten",
    "require_dtype",
    "with_sentinel",
]
