"""Synchronisation of the two cores of a logical core: core_barrier and sendrecv."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.machine import Core, instruction
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import HBM, ON_CHIP, SBUF, Call, Constraint, In, Named, Out, rules, unconverted
from nkisim.spec.constraints import same_dtype, same_free_size, same_partitions
from nkisim.spec.cost import fixed, transfer
from nkisim.spec.enums import dma_engine as DmaEngine
from nkisim.spec.enums import engine as Engine
from nkisim.spec.signatures import Removal
from nkisim.versions import since

BARRIER = declare(
    "C009",
    "core-barrier",
    "core_barrier has other cores than (0, 1), or only one core reaches it.",
    "the core waits for a signal that never comes",
    meaningless=True,
)
IDLE_BARRIER = declare(
    "C035",
    "idle-barrier",
    "core_barrier has nothing to guard: the kernel runs on one core, or its data is each core's "
    "own.",
    "it costs time, and the other core cannot see the data",
    severity="note",
)
SENDRECV_RANKS = declare(
    "C013",
    "sendrecv-ranks",
    "sendrecv names a core that does not exist or itself, or has no counterpart on the other core.",
    "the exchange never completes",
    meaningless=True,
)
SENDRECV_SIDES = declare(
    "C014",
    "sendrecv-sides",
    "The two sides of a sendrecv differ in shape or dtype.",
    "bytes land where they do not belong",
    meaningless=True,
)
SENDRECV_SIZE = declare(
    "C015",
    "sendrecv-size",
    "sendrecv by gpsimd_dma has too many bytes per partition, or, up to NKI 0.3.0, partitions "
    "that are not a multiple of 16.",
    "the GpSimd engine's own DMA has fixed limits",
    meaningless=True,
)

_GPSIMD_BYTES = {4: 1024, 2: 512, 1: 256}


def _barrier(call: Call) -> None:
    cores = call["cores"]
    if not isinstance(cores, (list, tuple)) or tuple(cores) != (0, 1):
        call.fail(
            BARRIER,
            f"cores is {cores}, only (0, 1) is supported",
            operand="cores",
            seen=cores,
            allowed="(0, 1)",
            fix="synchronise both cores of the logical core",
        )


@instruction(
    engines=(Engine.gpsimd, Engine.vector, Engine.scalar, Engine.tensor, Engine.sync),
    operands={"data": Named(HBM, ON_CHIP)},
    require=(Constraint("cores (0, 1)", (BARRIER,), _barrier),),
    since=3,
    stateful=True,
    synchronises=True,
    cost=fixed(),
    source="nki.isa.core_barrier, 0.3.0",
)
def core_barrier(
    core: Core, data: NkiTensor, cores: Any, engine: Engine = Engine.gpsimd, name: str | None = None
) -> None:
    """Wait until both cores have reached the barrier; a single core does not wait.

    Args:
        data: Tensor in ``nl.shared_hbm`` whose accesses by the two cores are ordered.
        cores: The cores that wait for each other, ``(0, 1)``.
        engine: Engine that waits; the other engines of the core go on.
    """
    member = core.member
    if (member is None or core.num_programs != 2) and since("0.7.0"):
        return  # legal at LNC degree 1: the run has one core
    if member is None or core.num_programs != 2:
        _idle("runs on one core", "one core", "launch with kernel[2], or ask nl.num_programs()")
        return
    if data.buffer is not MemoryRegion.shared_hbm:
        _idle(
            f"guards data in {data.buffer.value}, which the other core cannot see",
            data.describe(),
            "synchronise on a tensor in nl.shared_hbm that both cores use",
        )
    passed = member.count("barrier")
    member.record_sync("core_barrier", passed)
    other = 1 - member.core
    member.wait(
        lambda: member.counted(member.rank, other, "barrier") >= passed,
        f"core {other} at core_barrier number {passed}",
        BARRIER,
    )
    # Data in another buffer was flagged above.
    member.synchronise(data._storage if data.buffer is MemoryRegion.shared_hbm else None)


def _idle(why: str, seen: str, fix: str) -> None:
    flag(
        IDLE_BARRIER,
        f"core_barrier {why}",
        instruction="core_barrier",
        operand="data",
        seen=seen,
        allowed="kernel[2] and data in nl.shared_hbm",
        fix=fix,
    )


def _ranks(call: Call) -> None:
    to, source = call["send_to_rank"], call["recv_from_rank"]
    if to not in (0, 1) or source not in (0, 1):
        call.fail(
            SENDRECV_RANKS,
            f"send_to_rank {to} and recv_from_rank {source} must be 0 or 1",
            operand="send_to_rank",
            seen=f"{to}, {source}",
            allowed="0 or 1",
            fix="use 1 - nl.program_id(0)",
        )


def _gpsimd_size(says: str, partitions: int) -> Constraint:
    """Return the limits of gpsimd_dma, with partitions in multiples of ``partitions``."""

    def check(call: Call) -> None:
        src = call.operand("src")
        if call["dma_engine"] is not DmaEngine.gpsimd_dma:
            return
        nbytes, limit = src.free_size * src.dtype.itemsize, _GPSIMD_BYTES[src.dtype.itemsize]
        if src.shape[0] % partitions or nbytes > limit:
            groups = "" if partitions == 1 else f"a multiple of {partitions} partitions, "
            call.fail(
                SENDRECV_SIZE,
                f"by gpsimd_dma moves {src.shape[0]} partitions of {nbytes} bytes",
                operand="dma_engine",
                seen=f"{src.shape[0]} partitions, {nbytes} bytes",
                allowed=f"{groups}at most {limit} bytes each",
                fix="use nisa.dma_engine.dma",
            )

    return Constraint(says, (SENDRECV_SIZE,), check)


_SENDRECV_REQUIRES = (
    same_dtype("src", "dst"),
    same_partitions("src", "dst"),
    same_free_size("src", "dst"),
    Constraint("ranks 0 and 1", (SENDRECV_RANKS,), _ranks),
)


@instruction(
    engines=(Engine.dma,),
    operands={"src": In(SBUF, flat=True, decides=True), "dst": Out(SBUF, flat=True)},
    require=(*_SENDRECV_REQUIRES, _gpsimd_size("gpsimd_dma: 16n partitions, small rows", 16)),
    since=3,
    arithmetic=unconverted,
    stateful=True,
    synchronises=True,
    cost=transfer(over="src"),
    removed={
        "use_gpsimd_dma": Removal(
            rules.REMOVED_GPSIMD_DMA,
            "dma_engine=nisa.dma_engine.gpsimd_dma, or nisa.dma_engine.dma",
        )
    },
    source="nki.isa.sendrecv, 0.3.0",
    changes={
        "0.4.0": {"require": (*_SENDRECV_REQUIRES, _gpsimd_size("gpsimd_dma: small rows", 1))}
    },
)
def sendrecv(
    core: Core,
    src: Any,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: DmaEngine = DmaEngine.dma,
    name: str | None = None,
) -> Any:
    """Send a tile to the other core and receive one from it; both sides have copied on return.

    Args:
        src: Tile in SBUF that is sent.
        dst: Tile in SBUF that receives, of the shape and dtype that the other core sends.
        send_to_rank: Core that receives ``src``, 0 or 1, other than the running one.
        recv_from_rank: Core that sends to ``dst``, 0 or 1, other than the running one.
        pipe_id: Number of the exchange: calls of the two cores with the same number are paired in
            order.
        dma_engine: Engine of the transfer: ``dma``, or ``gpsimd_dma`` for small tiles.
    """
    member = core.member
    if member is None or core.num_programs != 2:
        flag(
            SENDRECV_RANKS,
            "sendrecv needs two cores, the kernel runs on one",
            instruction="sendrecv",
            seen="one core",
            allowed="kernel[2]",
            fix="launch with kernel[2], or guard the call with nl.num_programs()",
        )
    assert member is not None
    if member.core in (send_to_rank, recv_from_rank):
        flag(
            SENDRECV_RANKS,
            f"sendrecv on core {member.core} sends to {send_to_rank} and receives from "
            f"{recv_from_rank}",
            instruction="sendrecv",
            operand="send_to_rank",
            seen=f"{send_to_rank}, {recv_from_rank}",
            allowed=f"{1 - member.core}",
            fix="use 1 - nl.program_id(0)",
        )
    number = member.count(("sendrecv", pipe_id))
    member.record_sync(f"sendrecv on pipe {pipe_id}", number)
    mail = member.cluster.mail
    mail[member.rank, send_to_rank, pipe_id, number] = np.array(src)
    arrives = (member.rank, member.core, pipe_id, number)
    member.wait(
        lambda: arrives in mail,
        f"a tile from core {recv_from_rank} on pipe {pipe_id}",
        SENDRECV_RANKS,
    )
    received = mail.pop(arrives)
    member.synchronise()
    sides = [(shape[0], math.prod(shape[1:])) for shape in (received.shape, dst.shape)]
    if sides[0] != sides[1] or received.dtype != dst._elements.dtype:
        flag(
            SENDRECV_SIDES,
            f"sendrecv receives {received.dtype} {received.shape} into {dst.describe()}",
            instruction="sendrecv",
            operand="dst",
            seen=f"{received.dtype} {received.shape}",
            allowed=f"{dst.dtype} {dst.shape}",
            fix="exchange tiles of one shape and dtype",
        )
    return received.reshape(dst.shape)
