"""Tensor allocation in the memories of one core, with a log of all allocations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from nkisim.arch import Generation
from nkisim.diagnostics import flag, user_line
from nkisim.dtypes import DType
from nkisim.memory import rules
from nkisim.memory.layout import Form
from nkisim.memory.log import Address, AllocationLog, Lifetime, Origin, wide
from nkisim.memory.region import MemoryRegion, is_on_chip
from nkisim.memory.requests import is_tuple_of_ints, require_dtype, require_region, whole_shape
from nkisim.memory.storage import Sharing, Storage
from nkisim.memory.tensor import NkiTensor
from nkisim.memory.tensor.geometry import View

_SBUF = MemoryRegion.sbuf

Request = tuple[tuple[int, ...], DType, MemoryRegion, tuple[int, ...] | None]
"""Shape, type, memory and address of a tile."""

_FORMS: dict[tuple[int, bool], dict[Request, Form]] = {}
"""Cached forms of legal tiles, by generation and by whether types are stored precisely."""

_MOST_FORMS = 1 << 12
"""Largest number of cached forms per generation and precision; a full cache is cleared."""


class _Placed:
    """The owner of a tensor that shares its bytes with others; freed with its last view."""

    __slots__ = ("__weakref__",)


class SharedHbm:
    """HBM tensors that the cores of one rank share, matched by the order of their allocation.

    Attributes:
        follow: Creates the access tracker of a storage, from its size.
    """

    def __init__(self, follow: Callable[..., Sharing]) -> None:
        self.follow = follow
        self._tensors: list[NkiTensor] = []
        self._private: dict[CoreMemory, list[NkiTensor]] = {}

    def allocate(self, number: int, made: NkiTensor, *, values: bool) -> NkiTensor:
        """Return the ``number``-th shared tensor, allocated by the first core that requests it."""
        if number == len(self._tensors):
            self._tensors.append(made)
            made._storage.shared = self.follow(made._storage.data.size, values=values)
            return made
        known = self._tensors[number]
        name, other = made.life.name, known.life.name
        if (known.shape, known.dtype, other) != (made.shape, made.dtype, name):
            flag(
                rules.SHARED_MISMATCH,
                f"shared_hbm tensor {number} is {made.dtype} {made.shape} `{name}` here and "
                f"{known.dtype} {known.shape} `{other}` on the other core",
                operand=made.name,
                seen=f"{made.dtype} {made.shape}",
                allowed=f"{known.dtype} {known.shape}",
                fix="create shared tensors in the same order with the same shapes on both cores",
                notes=(f"the other core made it at {known.life.line[0]}:{known.life.line[1]}",),
            )
        return NkiTensor(known.life, known._storage, known._owner, known.form)

    def keep_private(self, memory: CoreMemory, made: NkiTensor) -> None:
        """Store a tensor of one core until the end of the run, for ``twin_of``."""
        self._private.setdefault(memory, []).append(made)

    def twin_of(self, view: View) -> NkiTensor | None:
        """Return the other core's tensor of the same allocation line and shape, or None."""
        place = (view.origin.made, view.origin.form.shape)
        for memory, kept in self._private.items():
            number = next((i for i, made in enumerate(kept) if made.life is view.life), None)
            if number is None:
                continue
            for other, theirs in self._private.items():
                twin = theirs[number] if other is not memory and number < len(theirs) else None
                if twin is not None and (twin.origin.made, twin.shape) == place:
                    return twin
        return None

    def unmatched(self, counts: list[int]) -> list[NkiTensor]:
        """Return the shared tensors that only some cores have allocated."""
        return self._tensors[min(counts) :]


class CoreMemory:
    """SBUF, PSUM and HBM of one core, and a log of what was allocated in them.

    Attributes:
        generation: Generation that defines their sizes.
        precise: Whether narrow floats are stored in their own type, not as float32.
        values: False when no values are computed.
        shared_count: Number of shared tensors that this core has allocated.
        log: The allocations, in order.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        precise: bool,
        values: bool = True,
        shared: SharedHbm | None = None,
        whole_log: bool = True,
    ) -> None:
        self.generation = generation
        self.precise = precise
        self.values = values
        self.shared_count = 0
        self._shared = shared
        self.log = AllocationLog(generation, whole=whole_log)
        self._arenas: dict[MemoryRegion, Storage] = {}
        self._names: dict[str, tuple[str, int]] = {}
        self._origins: dict[tuple[Form, tuple[str, int]], Origin] = {}
        self._forms = _FORMS.setdefault((generation.number, precise), {})

    def allocate(
        self,
        shape: Sequence[int],
        dtype: Any,
        region: Any,
        name: str = "",
        address: Address | None = None,
        *,
        where: str = "nl.ndarray",
    ) -> NkiTensor:
        """Return a new, unwritten tensor.

        Raises:
            NkiValidationError: The shape, dtype, buffer or address cannot exist on the target.
        """
        made = user_line()
        form = None
        known = type(dtype) is DType and type(region) is MemoryRegion and is_tuple_of_ints(shape)
        if known and (address is None or is_tuple_of_ints(address)):
            request: Any = (shape, dtype, region, address)
            form = self._forms.get(request)
        if form is None:
            return self._new(shape, dtype, region, name, address, made, where)
        if name:
            self._remember_name(name, made, where)
        # A legal tile on chip: equal tiles of one source line share one Origin.
        origin = None if name else self._origins.get((form, made))
        if origin is None:
            row_bytes = math.prod(form.shape[1:]) * form.itemsize
            origin = Origin(form, name, address, made, row_bytes, self.precise)
            if not name:
                self._origins[form, made] = origin
        life = Lifetime(origin)
        owner: object
        if address is not None:
            storage, owner = self._arena(form.buffer), _Placed()
            life.placed = True
        else:
            owner = storage = Storage.fresh(
                form.shape[0], origin.row_bytes, form.buffer is not _SBUF
            )
        self.log.add(life, owner)
        return NkiTensor(life, storage, owner, form)

    def _new(
        self,
        shape: Any,
        dtype: Any,
        region: Any,
        name: str,
        address: Any,
        made: tuple[str, int],
        where: str,
    ) -> NkiTensor:
        """Return a new tensor of an uncached form, and flag the rules that it violates."""
        region, extents = require_region(region, where), whole_shape(shape, where)
        kind = require_dtype(dtype, where)
        if name:
            self._remember_name(name, made, where)
        itemsize = self._itemsize(kind)
        if is_on_chip(region):
            storage, start, legal = self._place(extents, kind, region, address, where)
            row_bytes = math.prod(extents[1:]) * itemsize
        else:
            row_bytes = math.prod(extents) * itemsize
            storage, start, legal = Storage.fresh(1, row_bytes), 0, False
        form = _whole(extents, kind, region, itemsize, start, storage.pitch)
        origin = Origin(form, name, address, made, row_bytes, self.precise)
        placed = storage is self._arenas.get(region)
        tensor = _first_view(origin, storage, _Placed() if placed else storage)
        tensor.life.placed = placed
        if legal and (placed or address is None):
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[extents, kind, region, address] = form
        if self._shared is not None and region is MemoryRegion.shared_hbm:
            tensor = self._shared.allocate(self.shared_count, tensor, values=self.values)
            self.shared_count += 1
        elif self._shared is not None and not is_on_chip(region):
            self._shared.keep_private(self, tensor)
        self.log.add(tensor.life, tensor._owner)
        return tensor

    def twin_of(self, view: View) -> NkiTensor | None:
        """Return the other core's tensor that corresponds to this one, or None."""
        return None if self._shared is None else self._shared.twin_of(view)

    def argument(
        self,
        array: np.ndarray,
        region: MemoryRegion,
        name: str,
        dtype: DType | None = None,
        lent: bool = False,
    ) -> NkiTensor:
        """Return an HBM tensor with the elements of a host array; every byte counts as written.

        A ``lent`` array is copied only at the first write, if its elements already have the storage
        type. Without values nothing is copied.
        """
        found = require_dtype(dtype or str(array.dtype), f"argument {name}")
        kind = found.numpy if self.precise else wide(found)
        nbytes = array.size * kind.itemsize
        if lent and self.values and array.dtype == kind:
            data = np.asarray(array).reshape(-1).view(np.uint8)
            storage = Storage(data, nbytes or 1, complete=True, borrowed=True)
        else:
            storage = Storage.fresh(1, nbytes, written=True)
            if self.values:
                held = storage.data.view(kind).reshape(array.shape)
                np.copyto(held, array, casting="unsafe")
        if self._shared is not None:
            storage.shared = self._shared.follow(nbytes, written=True, values=self.values)
        form = _whole(array.shape, found, region, kind.itemsize)
        origin = Origin(form, name, None, ("", 0), nbytes, self.precise, is_argument=True)
        tensor = _first_view(origin, storage, storage)
        self.log.add(tensor.life, tensor._owner)
        return tensor

    def _itemsize(self, dtype: DType) -> int:
        return dtype.itemsize if self.precise else wide(dtype).itemsize

    def _place(
        self, shape: tuple[int, ...], dtype: DType, region: MemoryRegion, address: Any, where: str
    ) -> tuple[Storage, int, bool]:
        """Return the storage of an on-chip tile, its start, and whether it is legal."""
        generation = self.generation
        if len(shape) < 2:
            flag(
                rules.ON_CHIP_RANK,
                "SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and "
                "free-dim), "
                f"got shape {shape}",
                instruction=where,
                seen=shape,
                allowed="(partitions, free, ...)",
                fix="use (n, 1) or (1, n), depending on which dimension is the partition",
            )
        if shape[0] > generation.partitions:
            flag(
                rules.PARTITION_LIMIT,
                f"{where} partition dimension {shape[0]} exceeds maximum {generation.partitions}",
                instruction=where,
                seen=shape[0],
                allowed=f"at most {generation.partitions}",
                fix="tile the first dimension by nl.tile_size.pmax and put the rest in the free "
                "dimensions",
                data={"rows": int(shape[0])},
            )
        elements, itemsize = math.prod(shape[1:]), self._itemsize(dtype)
        device_bytes, row_bytes = elements * dtype.itemsize, elements * itemsize
        usable = generation.sbuf_usable_bytes if region is _SBUF else generation.psum_bytes
        legal = device_bytes <= usable and 0 not in shape and len(shape) <= 5
        if device_bytes > usable:
            flag(
                rules.TILE_TOO_LARGE,
                f"tile {shape} of {dtype} needs {device_bytes} bytes per partition, "
                f"{region.value} has {usable} on {generation}",
                instruction=where,
                seen=device_bytes,
                allowed=f"at most {usable}",
                fix="split the free dimension",
                data={"columns": int(shape[1]) if len(shape) == 2 else None},
                cause=(tuple(shape), dtype),
            )
        if address is not None:
            legal &= self._address_is_legal(shape, dtype, device_bytes, region, address, where)
            # Elements that are stored wider than on the device do not fit its addresses: own bytes.
            if row_bytes == device_bytes:
                arena = self._arena(region)
                return arena, address[0] * arena.pitch + address[1], legal
        psum = region is not _SBUF
        return Storage.fresh(shape[0], row_bytes, psum=psum), 0, legal

    def _address_is_legal(
        self, shape: Any, dtype: DType, nbytes: int, region: MemoryRegion, address: Any, where: str
    ) -> bool:
        generation = self.generation
        partition, offset = address
        psum = region is MemoryRegion.psum
        limit = generation.psum_bytes if psum else generation.sbuf_bytes
        end = (partition + shape[0], offset + nbytes)
        grain = 4 if psum else dtype.itemsize
        inside = min(address) >= 0 and end[0] <= generation.partitions and end[1] <= limit
        aligned = partition % 32 == 0 and offset % grain == 0
        if not inside:
            flag(
                rules.ADDRESS_OUTSIDE,
                f"address {address} with shape {shape} ends at partition {end[0]}, byte {end[1]}; "
                f"{region.value} ends at partition {generation.partitions}, byte {limit}",
                instruction=where,
                seen=address,
                allowed=f"inside {generation.partitions} partitions of {limit} bytes",
                fix="place the tensor inside the memory",
            )
        if not aligned:
            flag(
                rules.ADDRESS_MISALIGNED,
                f"address {address} is misaligned for {dtype} in {region.value}",
                instruction=where,
                seen=address,
                allowed=f"partition 0, 32, 64 or 96 and a byte offset that is a multiple of "
                f"{grain}",
                fix="align the address",
            )
        return inside and aligned and is_tuple_of_ints(address)

    def _arena(self, region: MemoryRegion) -> Storage:
        """Return the storage that explicitly placed tensors of a memory share."""
        if region not in self._arenas:
            generation = self.generation
            psum = region is MemoryRegion.psum
            pitch = generation.psum_bytes if psum else generation.sbuf_bytes
            self._arenas[region] = Storage.fresh(generation.partitions, pitch, psum=psum)
        return self._arenas[region]

    def _remember_name(self, name: str, made: tuple[str, int], where: str) -> None:
        known = self._names.get(name)
        if known is None:
            self._names[name] = made
        else:
            flag(
                rules.DUPLICATE_NAME,
                f"{where}: the name {name!r} is used twice",
                instruction=where,
                operand=name,
                seen=f"first at {known[0]}:{known[1]}",
                fix="make names unique, for instance with the loop index",
            )


def _first_view(origin: Origin, storage: Storage, owner: object) -> NkiTensor:
    """Return the tensor that covers a whole new allocation."""
    return NkiTensor(Lifetime(origin), storage, owner, origin.form)


def _whole(
    shape: Any, dtype: DType, region: MemoryRegion, itemsize: int, start: int = 0, pitch: int = 0
) -> Form:
    """Return the form of a tensor that covers a whole allocation."""
    strides = _dense_strides(shape, itemsize)
    if is_on_chip(region):
        strides = (pitch, *strides[1:])
    return Form(shape, dtype, region, start, strides, itemsize, whole=True)


@lru_cache(maxsize=4096)
def _dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
