"""Allocation: the bytes and the name behind one ``nl.ndarray`` or kernel argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.dtypes import DType
from nkisim.memory.lifetime import Lifetime
from nkisim.memory.region import is_on_chip
from nkisim.memory.storage import Storage

__all__ = ["Allocation", "wide"]

_FLOAT32 = np.dtype(np.float32)


class Allocation:
    """One ``nl.ndarray`` or kernel argument: its bytes and its name.

    Attributes:
        storage: The bytes, possibly shared with other explicitly placed tensors.
        life: What was allocated where and when it was used; outlives the bytes.
        region: Memory that it is in.
        row_bytes: Bytes of the tensor in one partition; all of them in HBM.
        start: First byte in the storage.
        precise: Whether narrow floats are kept in their own type, not as float32.
        is_argument: True for arrays that the caller passed in.
        written: True once something wrote to it.
    """

    __slots__ = (
        "__weakref__",
        "is_argument",
        "life",
        "precise",
        "region",
        "row_bytes",
        "start",
        "storage",
        "written",
    )

    def __init__(
        self,
        storage: Storage,
        life: Lifetime,
        row_bytes: int,
        start: int = 0,
        precise: bool = True,
        is_argument: bool = False,
    ) -> None:
        self.storage = storage
        self.life = life
        self.region = life.region
        self.row_bytes = row_bytes
        self.start = start
        self.precise = precise
        self.is_argument = is_argument
        self.written = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape that was asked for."""
        return self.life.shape

    @property
    def dtype(self) -> DType:
        """Element type that was asked for."""
        return self.life.dtype

    @property
    def name(self) -> str:
        """Name that was given, or the empty string."""
        return self.life.name

    @property
    def pitch(self) -> int:
        """Bytes from one partition to the next in the storage; everything in HBM."""
        return self.storage.pitch

    def storage_dtype(self, dtype: DType) -> np.dtype[Any]:
        """Return the NumPy type that holds ``dtype`` here."""
        return dtype.numpy if self.precise else wide(dtype)

    def itemsize(self, dtype: DType) -> int:
        """Return the bytes of one element of ``dtype`` here."""
        return dtype.itemsize if self.precise else self.storage_dtype(dtype).itemsize

    def elements(self, itemsize: int) -> int:
        """Return how many elements of ``itemsize`` bytes the tensor holds."""
        rows = self.shape[0] if is_on_chip(self.region) else 1
        return rows * self.row_bytes // itemsize


def wide(dtype: DType) -> np.dtype[Any]:
    """Return the storage type when bfloat16 and float8 are kept as float32."""
    return _FLOAT32 if dtype.kind == "float" and dtype.numpy != np.float16 else dtype.numpy
