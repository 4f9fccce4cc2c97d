"""The DMA of a call: what triggers it, and the descriptors that it needs."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from nkisim.machine import Event
from nkisim.memory import NkiTensor
from nkisim.memory.region import is_hbm, is_on_chip
from nkisim.spec.enums import dge_mode as DgeMode
from nkisim.spec.enums import engine as Engine

DMA_ENGINES = 16
PARTITIONS_PER_ENGINE = 8
_LEAST_BYTES_PER_ENGINE = 512


class Transfer(NamedTuple):
    """One DMA.

    Attributes:
        nbytes: Bytes of its wider side, which determines its time.
        hbm_bytes: Bytes that are read from HBM and written to HBM, as they are stored there.
        descriptors: Number of contiguous runs.
        run_bytes: Bytes of one of them.
        shares: Work of each DMA engine that takes part, relative to the busiest of them.
        trigger: Engine that starts it.
        mode: Origin of the descriptors: ``"software"``, ``"hardware"`` or ``"prebuilt"``.
        stores: Whether it writes to HBM.
        rows: Partitions that it accesses; between HBM and HBM, the DMA engines.
        first_engine: The first DMA engine, by the partitions; -1 where any can take part.
        indirect: Whether an index tile names rows.
        transposes, computes: Whether it is a ``dma_transpose`` or a ``dma_compute``.
        itemsize: Bytes of the widest element.
        converts: Whether it changes the type of elements.
    """

    nbytes: int
    hbm_bytes: int
    descriptors: int
    run_bytes: int
    shares: tuple[float, ...]
    trigger: Engine
    mode: str
    stores: bool
    rows: int = 128
    first_engine: int = 0
    indirect: bool = False
    transposes: bool = False
    computes: bool = False
    itemsize: int = 4
    converts: bool = False

    @property
    def busiest(self) -> float:
        """Share of the busiest DMA engine in the whole transfer."""
        return 1 / sum(self.shares)


def transfer_of(event: Event, *, prebuilt: bool) -> Transfer:
    """Return the DMA of an event.

    Args:
        event: The instruction.
        prebuilt: Whether descriptors that the compiler may choose were made before the run.
    """
    arguments = event.arguments
    (_, target), sources = event.writes[0], [tensor for _, tensor in event.reads]
    indirect = any(
        tensor.indirection is not None and tensor.indirection.kind == "vector"
        for tensor in _tensors(arguments)
    )
    trigger, mode = _trigger(arguments, prebuilt, indirect)
    sides = (target, *sources)
    # A gathered operand is its whole table in the event; the other side has the moved elements.
    elements = min(t.size for t in sides)
    read = sum(elements * t.itemsize for t in sources)
    nbytes = max(read, elements * target.itemsize)
    run = min(
        _run_elements(t.shape, t.form.strides, t.itemsize, is_on_chip(t.buffer)) for t in sides
    )
    itemsize = max(t.itemsize for t in sides)
    transposes = event.instruction == "dma_transpose"
    if transposes:
        run = max(run, 64 // itemsize)  # the DMA engine transposes blocks, not elements
    first_engine, rows, shares = _engines(nbytes, *sides)
    return Transfer(
        nbytes=nbytes,
        hbm_bytes=sum(elements * t.itemsize for t in sides if is_hbm(t.buffer)),
        descriptors=max(1, math.ceil(elements * max(len(sources), 1) / max(run, 1))),
        run_bytes=run * itemsize,
        shares=shares,
        first_engine=first_engine,
        trigger=trigger,
        mode=mode,
        stores=is_hbm(target.buffer),
        rows=rows,
        indirect=indirect,
        transposes=transposes,
        computes=event.instruction == "dma_compute",
        itemsize=itemsize,
        converts=any(t.dtype != target.dtype for t in sources),
    )


def _tensors(arguments: Mapping[str, Any]) -> list[NkiTensor]:
    found = []
    for value in arguments.values():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, NkiTensor):
                found.append(part)
    return found


def _trigger(arguments: Mapping[str, Any], prebuilt: bool, indirect: bool) -> tuple[Any, str]:
    """Return the engine that triggers a transfer, and the origin of its descriptors.

    Those that the compiler may choose are ``prebuilt`` or made by software.
    """
    mode = arguments.get("dge_mode", DgeMode.unknown)
    engine = arguments.get("engine", Engine.unknown)
    if mode is DgeMode.hwdge:
        return (Engine.sync if engine is Engine.unknown else engine), "hardware"
    if (mode is DgeMode.none or (mode is DgeMode.unknown and prebuilt)) and not indirect:
        return (Engine.sync if engine is Engine.unknown else engine), "prebuilt"
    return Engine.gpsimd, "software"


@functools.lru_cache(maxsize=4096)
def _run_elements(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, on_chip: bool
) -> int:
    """Return the elements of a contiguous run; on chip a run ends with its partition."""
    run = 1
    free = list(zip(shape, strides, strict=True))[1 if on_chip else 0 :]
    for extent, stride in reversed(free):
        if extent == 1:
            continue
        if stride != run * itemsize:
            break
        run *= extent
    return run


def _engines(nbytes: int, *tensors: NkiTensor) -> tuple[int, int, tuple[float, ...]]:
    """Return the first DMA engine, the rows, and the shares of the engines.

    An engine serves eight partitions of SBUF, so the last one may have fewer rows than the others.
    Within SBUF the side that uses fewer engines counts. Between HBM and HBM the bytes are shared by
    any engines, at least 512 bytes each; the first one is -1.
    """
    on_chip = [t for t in tensors if is_on_chip(t.buffer)]
    if not on_chip:
        count = min(DMA_ENGINES, max(1, math.ceil(nbytes / _LEAST_BYTES_PER_ENGINE)))
        most = max(_LEAST_BYTES_PER_ENGINE, nbytes / DMA_ENGINES)
        last = min(1.0, max(nbytes - (count - 1) * most, 1) / most)
        return -1, count, (1.0,) * (count - 1) + ((last,) if count > 1 else (1.0,))
    found = [_rows_by_engine(t.start_partition, max(t.shape[0], 1)) for t in on_chip]
    first, rows = min(found, key=lambda side: len(side[1]))
    return first, sum(rows), tuple(count / max(rows) for count in rows)


def _rows_by_engine(start: int, count: int) -> tuple[int, list[int]]:
    """Return the first DMA engine of some partitions, and the partitions of each."""
    first = start // PARTITIONS_PER_ENGINE
    last = min((start + count - 1) // PARTITIONS_PER_ENGINE, DMA_ENGINES - 1)
    width = PARTITIONS_PER_ENGINE
    return first, [
        min(start + count, (e + 1) * width) - max(start, e * width) for e in range(first, last + 1)
    ]
