"""Device memory: tensors, access patterns, allocation, and the state of each byte."""

from nkisim.memory.allocation import CoreMemory, SharedHbm
from nkisim.memory.log import Lifetime
from nkisim.memory.psum import AccumulationState
from nkisim.memory.region import MemoryRegion, is_hbm, is_on_chip, is_psum, is_sbuf
from nkisim.memory.requests import require_dtype
from nkisim.memory.storage import Storage
from nkisim.memory.tensor import NkiTensor as NkiTensor  # annotates a user's functions
from nkisim.memory.tensor.geometry import Indirection
from nkisim.memory.tensor.indexing import DynSlice
from nkisim.memory.written_map import Region
