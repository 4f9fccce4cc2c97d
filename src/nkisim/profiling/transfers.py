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

__all__ = ["DMA_ENGINES", "Transfer", "transfer_of"]

DMA_ENGINES = 16
_PARTITIONS_PER_ENGINE = 8
_LEAST_BYTES_PER_ENGINE = 512


class Transfer(NamedTuple):
    """One DMA.

    Attributes:
        nbytes: Bytes that it moves.
        hbm_bytes: Those of them that are read from or written to HBM.
        descriptors: Number of contiguous runs.
        run_bytes: Bytes of one of them.
        engines: DMA engines that take part.
        first_engine: The first of them, by the partitions; -1 where any can take part.
        trigger: Engine that starts it.
        mode: Origin of the descriptors: ``"software"``, ``"hardware"`` or ``"prebuilt"``.
        stores: Whether it writes to HBM.
        indirect: Whether an index tile names rows.
        transposes, computes: Whether it is a ``dma_transpose`` or a ``dma_compute``.
        converts: Whether it changes the type of elements.
        merged: Number of transfers that share its fixed costs; 1 except in a changed program.
    """

    nbytes: int
    hbm_bytes: int
    descriptors: int
    run_bytes: int
    engines: int
    trigger: Engine
    mode: str
    stores: bool
    first_engine: int = 0
    indirect: bool = False
    transposes: bool = False
    computes: bool = False
    converts: bool = False
    merged: int = 1


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
    # A gathered operand is its whole table in the event; the other side has the moved elements.
    moved = min((t.size * t.itemsize for t in (target, *sources)), default=0)
    runs = [_run_bytes(t.shape, t.form.strides, t.itemsize, is_on_chip(t.buffer)) for t in sources]
    run = min(
        [
            _run_bytes(
                target.shape, target.form.strides, target.itemsize, is_on_chip(target.buffer)
            ),
            *runs,
        ]
    )
    transposes = event.instruction == "dma_transpose"
    if transposes:
        run = max(run, 64)  # the DMA engine transposes blocks, not elements
    sides = [is_hbm(t.buffer) for t in (target, *sources)]
    first_engine, engines = _engines(moved, target, *sources)
    return Transfer(
        nbytes=moved * max(len(sources), 1),
        hbm_bytes=moved * sum(sides),
        descriptors=max(1, math.ceil(moved * max(len(sources), 1) / max(run, 1))),
        run_bytes=run,
        engines=engines,
        first_engine=first_engine,
        trigger=trigger,
        mode=mode,
        stores=is_hbm(target.buffer),
        indirect=indirect,
        transposes=transposes,
        computes=event.instruction == "dma_compute",
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
def _run_bytes(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, on_chip: bool
) -> int:
    """Return the bytes of a contiguous run; on chip a run ends with its partition."""
    run = itemsize
    free = list(zip(shape, strides, strict=True))[1 if on_chip else 0 :]
    for extent, stride in reversed(free):
        if extent == 1:
            continue
        if stride != run:
            break
        run *= extent
    return run


def _engines(nbytes: int, *tensors: NkiTensor) -> tuple[int, int]:
    """Return the first DMA engine and their number: one for eight partitions of SBUF.

    Between HBM and HBM the bytes are shared by any engines; the first one is -1.
    """
    on_chip = [t for t in tensors if is_on_chip(t.buffer)]
    if not on_chip:
        return -1, min(DMA_ENGINES, max(1, nbytes // _LEAST_BYTES_PER_ENGINE))
    narrow = min(on_chip, key=lambda tensor: tensor.shape[0])
    first = narrow.start_partition // _PARTITIONS_PER_ENGINE
    last = (narrow.start_partition + max(narrow.shape[0], 1) - 1) // _PARTITIONS_PER_ENGINE
    return first, min(last, DMA_ENGINES - 1) - first + 1
