"""Forms: the shared description of tensors of equal shape, type and place in their storage."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from nkisim.dtypes import DType
from nkisim.memory.region import MemoryRegion
from nkisim.memory.written_map import Region, Runs

_LAYOUTS: dict[tuple[Any, ...], int] = {}
_MOST_LAYOUTS = 1 << 14
_NUMBERS = itertools.count()


def layout_id(key: tuple[Any, ...]) -> int:
    """Return the unique number of a static layout.

    Equal layouts get equal numbers, unless the cache was full and was cleared between them.
    """
    known = _LAYOUTS.get(key)
    if known is not None:
        return known
    if len(_LAYOUTS) >= _MOST_LAYOUTS:
        _LAYOUTS.clear()
    return _LAYOUTS.setdefault(key, next(_NUMBERS))


def through(path: str) -> Any:
    """Return a property that reads a path of attributes."""
    return property(attrgetter(path))


@dataclass(slots=True, eq=False)
class Form:
    """Description shared by equal tiles, so that a new one only needs its bytes.

    Attributes:
        shape, dtype, buffer, start, strides, itemsize, region, whole: Those attributes of every
            tensor with this form.
        layout: Number of the layout; -1 until first used.
        runs: Dense runs of a tensor with this form; None until first used.
        views: Forms of slices of a tensor with this form, by the bounds of the slice.
    """

    shape: tuple[int, ...]
    dtype: DType
    buffer: MemoryRegion
    start: int
    strides: tuple[int, ...]
    itemsize: int
    whole: bool = field(default=False, kw_only=True)
    region: Region = field(init=False)
    layout: int = field(default=-1, init=False)
    runs: Runs | None = field(default=None, init=False)
    views: dict[tuple[Any, ...], Form] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.region = (self.start, self.shape, self.strides, self.itemsize)
