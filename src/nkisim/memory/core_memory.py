"""The memories of one core: where tensors come from, and a log of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from nkisim.arch import Generation
from nkisim.diagnostics import Spot, flag, line_of, user_spot
from nkisim.dtypes import DType
from nkisim.memory import rules
from nkisim.memory.allocation import Allocation, wide
from nkisim.memory.form import Form
from nkisim.memory.lifetime import Address, Lifetime
from nkisim.memory.region import MemoryRegion, is_on_chip
from nkisim.memory.requests import is_tuple_of_ints, require_dtype, require_region, whole_shape
from nkisim.memory.storage import Sharing, Storage
from nkisim.memory.tensor import NkiTensor
from nkisim.recycling import LEAST, LEAST_LENT, placeholder

__all__ = ["CoreMemory", "SharedHbm"]

_empty, _BYTE, _SBUF = np.empty, np.dtype(np.uint8), MemoryRegion.sbuf  # at hand, for speed

_FORMS: dict[tuple[int, bool], dict[tuple[tuple[int, ...], DType, MemoryRegion], Form]] = {}
"""Forms of the tiles allocated so far, by generation and by whether types are kept precisely."""


class SharedHbm:
    """HBM tensors that the cores of one rank share, matched by the order of their allocation.

    Attributes:
        follow: Makes what follows the accesses to a storage, from its size.
    """

    def __init__(self, follow: Callable[..., Sharing]) -> None:
        self.follow = follow
        self._allocations: list[Allocation] = []
        self._private: dict[int, list[Allocation]] = {}

    def allocate(self, number: int, made: Allocation, *, values: bool) -> Allocation:
        """Return the ``number``-th shared tensor; the first core to ask makes it."""
        if number == len(self._allocations):
            self._allocations.append(made)
            made.storage.shared = self.follow(made.storage.data.size, values=values)
            return made
        known = self._allocations[number]
        if (known.shape, known.dtype, known.name) != (made.shape, made.dtype, made.name):
            flag(
                rules.SHARED_MISMATCH,
                f"shared_hbm tensor {number} is {made.dtype} {made.shape} `{made.name}` here and "
                f"{known.dtype} {known.shape} `{known.name}` on the other core",
                operand=made.life.label,
                seen=f"{made.dtype} {made.shape}",
                allowed=f"{known.dtype} {known.shape}",
                fix="create shared tensors in the same order with the same shapes on both cores",
                notes=(f"the other core made it at {known.life.line[0]}:{known.life.line[1]}",),
            )
        return known

    def keep_private(self, memory: CoreMemory, made: Allocation) -> None:
        """Keep a tensor of one core to the end of the run: the other has one, and may ask."""
        self._private.setdefault(id(memory), []).append(made)

    def twin_of(self, made: Allocation) -> Allocation | None:
        """Return the other core's own tensor of the same line and shape, None if there is none."""
        for memory, kept in self._private.items():
            number = next((i for i, found in enumerate(kept) if found is made), None)
            if number is None:
                continue
            for other, theirs in self._private.items():
                twin = theirs[number] if other != memory and number < len(theirs) else None
                if twin and (twin.life.made, twin.shape) == (made.life.made, made.shape):
                    return twin
        return None

    def unmatched(self, counts: list[int]) -> list[Allocation]:
        """Return the tensors that not every core made."""
        return self._allocations[min(counts) :]


class CoreMemory:
    """SBUF, PSUM and HBM of one core, and a log of what was allocated in them.

    Attributes:
        generation: Whose sizes they have.
        precise: Whether narrow floats are kept in their own type, not as float32.
        values: False when no numbers are computed; tiles then share bytes that nobody looks at.
        shared_count: How many of the tensors that two cores share this core has made.
        log: Every allocation, in order.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        precise: bool,
        values: bool = True,
        shared: SharedHbm | None = None,
    ) -> None:
        self.generation = generation
        self.precise = precise
        self.values = values
        self.shared_count = 0
        self._shared = shared
        self.log: list[Lifetime] = []
        self._arenas: dict[MemoryRegion, Storage] = {}
        self._names: dict[str, Spot] = {}
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
        # The frames of user_spot, of this method, of a function of nkisim and of its wrapper.
        made = user_spot(4)
        if address is None and type(dtype) is DType and is_tuple_of_ints(shape):
            form = self._forms.get((shape, dtype, region))
            if form is not None:
                # A tile like one that was allocated before, which broke no rule.
                if name:
                    self._remember_name(name, made, where)
                life = Lifetime(region, shape, dtype, name, None, made)
                self.log.append(life)
                pitch = form.strides[0]
                nbytes = shape[0] * pitch
                if region is _SBUF and nbytes < LEAST:  # where every step is felt
                    storage = Storage(_empty(nbytes, _BYTE), pitch)
                else:
                    storage = self._storage(shape[0], pitch, region)
                return NkiTensor(Allocation(storage, life, pitch, 0, self.precise), form)
        region = require_region(region, where)
        extents = whole_shape(shape, where)
        found = require_dtype(dtype, where)
        if name:
            self._remember_name(name, made, where)
        if is_on_chip(region):
            allocation = self._on_chip(extents, found, region, name, address, where, made)
        else:
            allocation = self._in_hbm(extents, found, region, name, made)
            if self._shared is not None and region is MemoryRegion.shared_hbm:
                allocation = self._shared.allocate(
                    self.shared_count, allocation, values=self.values
                )
                self.shared_count += 1
            elif self._shared is not None:
                self._shared.keep_private(self, allocation)
        self.log.append(allocation.life)
        tensor = _whole(allocation)
        if is_on_chip(region) and address is None and self._is_legal(extents, found, region):
            self._forms[extents, found, region] = tensor.form
        return tensor

    def twin_of(self, made: Allocation) -> Allocation | None:
        """Return the other core's own tensor in the place of this one, None if there is none."""
        return None if self._shared is None else self._shared.twin_of(made)

    def _storage(self, partitions: int, pitch: int, region: MemoryRegion) -> Storage:
        """Return the storage of an on-chip tile that lies alone."""
        psum = region is not _SBUF
        if self.values:
            return Storage.fresh(partitions, pitch, psum=psum)
        return Storage(placeholder(partitions * pitch), pitch, psum=psum)

    def _is_legal(self, shape: tuple[int, ...], dtype: DType, region: MemoryRegion) -> bool:
        """Tell whether an on-chip tile that could be allocated broke no rule either."""
        nbytes = math.prod(shape[1:]) * dtype.itemsize
        return 0 not in shape and len(shape) <= 5 and nbytes <= self._usable_bytes(region)

    def _usable_bytes(self, region: MemoryRegion) -> int:
        """Return the bytes that a kernel may use in one partition."""
        psum = region is MemoryRegion.psum
        return self.generation.psum_bytes if psum else self.generation.sbuf_usable_bytes

    def argument(
        self,
        array: np.ndarray,
        region: MemoryRegion,
        name: str,
        dtype: DType | None = None,
        lent: bool = False,
    ) -> NkiTensor:
        """Return an HBM tensor with a copy of a host array; every byte counts as written.

        What is ``lent`` may be copied at the first write only. Without values nothing is copied.
        """
        found = dtype or require_dtype(str(array.dtype), f"argument {name}")
        storage_dtype = found.numpy if self.precise else wide(found)
        nbytes = array.size * storage_dtype.itemsize
        storage = Storage.fresh(1, nbytes, written=True)
        if lent and self.values and nbytes >= LEAST_LENT and array.dtype == storage_dtype:
            storage.borrow(np.asarray(array).reshape(-1).view(np.uint8))
        elif self.values:
            held = storage.data.view(storage_dtype).reshape(array.shape)
            np.copyto(held, array, casting="unsafe")
        allocation = Allocation(
            storage,
            Lifetime(region, array.shape, found, name, None, ("", 0)),
            nbytes,
            precise=self.precise,
            is_argument=True,
        )
        if self._shared is not None:
            storage.shared = self._shared.follow(nbytes, written=True, values=self.values)
        self.log.append(allocation.life)
        return _whole(allocation)

    def _in_hbm(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        region: MemoryRegion,
        name: str,
        made: Spot,
    ) -> Allocation:
        itemsize = dtype.itemsize if self.precise else wide(dtype).itemsize
        nbytes = math.prod(shape) * itemsize
        life = Lifetime(region, shape, dtype, name, None, made)
        return Allocation(Storage.fresh(1, nbytes), life, nbytes, 0, self.precise)

    def _on_chip(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        region: MemoryRegion,
        name: str,
        address: Address | None,
        where: str,
        made: Spot,
    ) -> Allocation:
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
            )
        elements = math.prod(shape[1:])
        device_bytes = elements * dtype.itemsize
        row_bytes = device_bytes if self.precise else elements * wide(dtype).itemsize
        usable = self._usable_bytes(region)
        if device_bytes > usable:
            flag(
                rules.TILE_TOO_LARGE,
                f"tile {shape} of {dtype} needs {device_bytes} bytes per partition, "
                f"{region.value} has {usable} on {generation}",
                instruction=where,
                seen=device_bytes,
                allowed=f"at most {usable}",
                fix="split the free dimension",
            )
        arena, start = None, 0
        if address is not None:
            self._check_address(shape, dtype, device_bytes, region, address, where)
            # Widened elements do not fit the device's addresses; such a tensor has its own bytes.
            if row_bytes == device_bytes:
                arena = self._arena(region)
                start = address[0] * arena.pitch + address[1]
        storage = self._storage(shape[0], row_bytes, region) if arena is None else arena
        life = Lifetime(region, shape, dtype, name, address, made)
        return Allocation(storage, life, row_bytes, start, self.precise)

    def _check_address(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        nbytes: int,
        region: MemoryRegion,
        address: Address,
        where: str,
    ) -> None:
        generation = self.generation
        partition, offset = address
        psum = region is MemoryRegion.psum
        limit = generation.psum_bytes if psum else generation.sbuf_bytes
        end = (partition + shape[0], offset + nbytes)
        if partition < 0 or offset < 0 or end[0] > generation.partitions or end[1] > limit:
            flag(
                rules.ADDRESS_OUTSIDE,
                f"address {address} with shape {shape} ends at partition {end[0]}, byte {end[1]}; "
                f"{region.value} ends at partition {generation.partitions}, byte {limit}",
                instruction=where,
                seen=address,
                allowed=f"inside {generation.partitions} partitions of {limit} bytes",
                fix="place the tensor inside the memory",
            )
        grain = 4 if psum else dtype.itemsize
        if partition % 32 or offset % grain:
            flag(
                rules.ADDRESS_MISALIGNED,
                f"address {address} is misaligned for {dtype} in {region.value}",
                instruction=where,
                seen=address,
                allowed=f"partition 0, 32, 64 or 96 and a byte offset that is a multiple of "
                f"{grain}",
                fix="align the address",
            )

    def _arena(self, region: MemoryRegion) -> Storage:
        """Return the storage that explicitly placed tensors of a memory share."""
        if region not in self._arenas:
            generation = self.generation
            psum = region is MemoryRegion.psum
            pitch = generation.psum_bytes if psum else generation.sbuf_bytes
            self._arenas[region] = Storage.fresh(generation.partitions, pitch, psum=psum)
        return self._arenas[region]

    def _remember_name(self, name: str, made: Spot, where: str) -> None:
        known = self._names.setdefault(name, made)
        if known is not made:
            flag(
                rules.DUPLICATE_NAME,
                f"{where}: the name {name!r} is used twice",
                instruction=where,
                operand=name,
                seen="first at {}:{}".format(*line_of(known)),
                fix="make names unique, for instance with the loop index",
            )


def _whole(allocation: Allocation) -> NkiTensor:
    """Return the tensor that covers a whole allocation."""
    shape, dtype = allocation.shape, allocation.dtype
    itemsize = allocation.itemsize(dtype)
    strides = _dense_strides(shape, itemsize)
    if is_on_chip(allocation.region):
        strides = (allocation.storage.pitch, *strides[1:])
    return NkiTensor(
        allocation, Form(shape, dtype, allocation.start, strides, itemsize, whole=True)
    )


@lru_cache(maxsize=4096)
def _dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
