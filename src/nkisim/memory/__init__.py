"""Device memory: tensors, access patterns, allocation, and what is known about each byte."""

from nkisim.memory.allocation import (
    Allocation,
    CoreMemory,
    SharedHbm,
    int_shape,
    require_region,
)
from nkisim.memory.indexing import DynSlice
from nkisim.memory.indirect import Indirection, resolve_scalar, vector_rows
from nkisim.memory.lifetime import Lifetime
from nkisim.memory.objects import NKIObject
from nkisim.memory.psum import AccumulationState, Region
from nkisim.memory.region import MemoryRegion, is_hbm, is_on_chip, is_psum, is_sbuf
from nkisim.memory.storage import Storage
from nkisim.memory.tensor import NkiTensor, require_dtype
from nkisim.memory.written import read_elements, report_unwritten, with_sentinel

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
    "int_shape",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "read_elements",
    "report_unwritten",
    "require_dtype",
    "require_region",
    "resolve_scalar",
    "vector_rows",
    "with_sentinel",
]
