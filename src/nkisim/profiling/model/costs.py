"""The time of one instruction on its engine: occupancy, and delay until its result can be read.

An instruction's declaration names the formula of its cost; the constants are those of the
generation. Equal calls cost the same, so a cost is computed once per signature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from nkisim.arch import Generation
from nkisim.arch.timing import Timing, timing_of
from nkisim.machine import Event
from nkisim.memory import NkiTensor
from nkisim.memory.region import is_psum
from nkisim.profiling.model import streams
from nkisim.profiling.model.assumptions import Assumptions
from nkisim.profiling.model.transfers import (
    DMA_ENGINES,
    PARTITIONS_PER_ENGINE,
    Transfer,
    transfer_of,
)
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.cost import Cost
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import matmul_perf_mode as PerfMode

_ARRAY = 128
"""Rows and columns of the systolic array."""

_BLOCK = 32
"""Rows and columns of its smallest part that computes on its own."""

_FAST_VECTOR = frozenset({"tensor_copy", "tensor_scalar", "tensor_tensor", "scalar_tensor_tensor"})
"""Vector instructions that read two or four elements per cycle and lane from gen3 on."""

_TWO_INPUTS = {
    "tensor_tensor": ("data1", "data2"),
    "scalar_tensor_tensor": ("data", "operand1"),
    "tensor_copy_predicated": ("src", "predicate"),
    "select_reduce": ("on_true", "predicate"),
}
"""Vector instructions that stream two operands, which share a port unless one is in PSUM."""

_SELECTIONS = frozenset({"tensor_copy_predicated", "select_reduce"})

_EVERY_TABLE = frozenset({"copy", "square", "relu", "prelu", "abs", "sign", "identity"})
_ACTIVATIONS = frozenset({"activation", "activation_reduce", "activate2"})
_TABLES = {
    "rsqrt": "rsqrt",
    "sigmoid": "sigmoid",
    "tanh": "sigmoid",
    "silu": "silu",
    "silu_dx": "silu",
    "exp": "exp",
    "softplus": "softplus",
    "mish": "softplus",
    "log": "log",
    "sin": "sin",
    "arctan": "sin",
    "sqrt": "sqrt",
    "erf": "erf",
    "erf_dx": "erf",
    "reciprocal": "reciprocal",
}

_GPSIMD_ELEMENT_CYCLES = {"tensor_tensor": 2.0, "tensor_scalar": 4.0, "rng": 2.0}
_POWER_CYCLES = 32.0

_GPSIMD_LANES = 16
"""Partitions of a core of the GpSimd engine."""


class Work(NamedTuple):
    """Cost of an instruction.

    Attributes:
        engine: Engine that it occupies; ``dma`` for a transfer.
        busy: Occupancy of the engine, in ns; of a transfer, of its busiest DMA engine.
        tail: Time from then until the result can be read, in ns.
        issue: Of a transfer, the occupancy of what makes its descriptors, in ns.
        link: Whether it is a collective, which occupies the links between cores.
        narrow: Whether it is a Vector instruction on one column.
        flops: Floating-point operations of a product, else 0.
        full_rate_flops: Operations that the Tensor engine could do in that time, else 0.
        table: Set of activation functions that it needs, or "".
        transfer: The DMA, if it is one.
        fast_vector: Whether Vector uses the port that it shares with GpSimd.
        columns, stationary_columns: Columns of the operands of a product, else 0.
        passes: How often the moving operand passes the array.
        array: Parts of the systolic array that a product occupies, as bits of a mask; 0 for all.
    """

    engine: Engine
    busy: float
    tail: float
    flops: float = 0.0
    full_rate_flops: float = 0.0
    table: str = ""
    transfer: Transfer | None = None
    fast_vector: bool = False
    columns: float = 0.0
    stationary_columns: float = 0.0
    passes: float = 1.0
    array: int = 0
    issue: float = 0.0
    link: bool = False
    narrow: bool = False


def work_of(
    event: Event,
    generation: Generation,
    assumptions: Assumptions,
    *,
    prebuilt: bool,
    cores: int = 1,
) -> Work:
    """Return the cost of an event.

    Args:
        event: The instruction or the collective.
        generation: The target.
        assumptions: The value of each assumption of the model.
        prebuilt: Whether descriptors that the compiler may choose were made before the run.
        cores: Cores of the program; two of them share an HBM stack from gen3 on.
    """
    timing = timing_of(generation)
    if event.instruction not in INSTRUCTIONS:
        return _collective(event, timing, assumptions)
    cost = INSTRUCTIONS[event.instruction].cost
    if event.engine is Engine.dma or (cost is not None and cost.formula == "transfer"):
        moved = transfer_of(event, prebuilt=prebuilt)
        return _transfer(moved, timing, assumptions, min(cores, int(timing.hbm_stack_cores)))
    if event.instruction == "core_barrier":
        return Work(event.engine, float(timing.barrier), 0.0)
    if event.engine is Engine.tensor:
        return _product(event, generation, timing)
    if event.engine is Engine.gpsimd:
        return _gpsimd(event, cost, timing, assumptions)
    if event.engine is Engine.scalar:
        return _scalar(event, cost, generation, timing)
    return _vector(event, cost, generation, timing, assumptions)


def _collective(event: Event, timing: Timing, assumptions: Assumptions) -> Work:
    """Return the cost of a collective: steps around a ring, and bytes on the links."""
    ranks = event.arguments["ranks"]
    single = event.instruction.startswith("collective_permute")
    passes = 2 if event.instruction == "all_reduce" else 1
    steps = min(1, ranks - 1) if single else passes * (ranks - 1)
    sides = [sum(t.size * t.itemsize for _, t in side) for side in (event.reads, event.writes)]
    nbytes = max(sides) * steps / max(ranks - 1, 1) * (1 if single else (ranks - 1) / ranks)
    hops = steps * assumptions["collective_hop_us"] * 1e3
    busy = timing.collective_start + hops + nbytes / timing.link_rate
    return Work(Engine.dma, busy, 0.0, link=True)


def _transfer(
    moved: Transfer, timing: Timing, assumptions: Assumptions, cores_on_stack: int
) -> Work:
    share = float(timing.dma_reached)
    if moved.transposes:
        share = _transpose_rate(moved, timing, assumptions)
    elif moved.computes:
        share = timing.dma_compute_rate
    # A copy from HBM to HBM counts twice for the stack and once for the DMA engines.
    stack = timing.hbm_stack_rate / cores_on_stack / DMA_ENGINES
    rate = timing.dma_engine_rate * share
    if moved.hbm_bytes > moved.nbytes:
        rate = min(rate, stack * moved.nbytes / moved.hbm_bytes)
    descriptors = moved.descriptors * moved.busiest * timing.dma_descriptor
    # An engine that serves fewer than eight rows has fewer descriptors to fetch.
    rows = min(1.0, moved.rows * moved.busiest / PARTITIONS_PER_ENGINE)
    overhead = timing.dma_overhead * (rows if moved.first_engine >= 0 else 1.0)
    busy = overhead + max(moved.nbytes * moved.busiest / rate, descriptors)
    notify = timing.dma_notify_store if moved.stores else timing.dma_notify_load
    issue = _issue(moved, timing, assumptions)
    return Work(Engine.dma, busy, float(notify), transfer=moved, issue=issue)


def _transpose_rate(moved: Transfer, timing: Timing, assumptions: Assumptions) -> float:
    """Return the share of the rate of a copy that a transposing transfer reaches."""
    if moved.hbm_bytes == 0:
        return timing.dma_transpose_sbuf_rate
    if assumptions["transpose_rate"] == "documented":
        return timing.dma_transpose_rate
    wide = moved.itemsize > 2
    return timing.dma_transpose_wide_reached if wide else timing.dma_transpose_reached


def _issue(moved: Transfer, timing: Timing, assumptions: Assumptions) -> float:
    """Return how long the descriptors of a transfer occupy what makes them."""
    if moved.mode == "hardware":
        return float(timing.dma_hardware_issue)
    if moved.mode == "prebuilt":
        return float(timing.dma_prebuilt_issue)
    if moved.indirect:
        return float(timing.dma_indirect_issue)
    if assumptions["software_descriptors"] == "fixed":
        few = timing.dma_software_issue + timing.dma_software_few * moved.rows
        return float(min(timing.dma_software_fixed, few))
    return timing.dma_software_issue + timing.dma_software_row * moved.rows


def _product(event: Event, generation: Generation, timing: Timing) -> Work:
    """Return the cost of a product or a transposition on the Tensor engine."""
    arguments, ghz = event.arguments, timing.tensor_ghz
    moving = arguments.get("moving", arguments.get("data"))
    stationary = arguments.get("stationary", arguments.get("data"))
    if event.instruction == "nc_transpose":
        columns = float(max(moving.shape[0], moving.free_size))
        stationary_columns = columns
    else:
        doubled = arguments.get("perf_mode") is PerfMode.double_row
        columns = float(moving.free_size // (2 if doubled else 1))
        stationary_columns = float(stationary.free_size // (2 if doubled else 1))
    transposes = event.instruction == "nc_transpose" or bool(arguments.get("is_transpose"))
    passed_through = transposes and generation.number > 2
    passes = _passes(arguments, moving, passed_through)
    width, stationary_width = (
        count * (2.0 if streams.inner_stride(tensor) >= streams.WIDE_STRIDE else 1.0)
        for count, tensor in ((columns, moving), (stationary_columns, stationary))
    )
    if passed_through:
        cycles = passes * max(width, stationary_width) + timing.transpose_issue_cycles
        busy = max(cycles, timing.least_cycles) / ghz
    else:
        busy = product_ns(width, stationary_width, passes, generation)
    if _dynamic(event):
        busy = max(busy, timing.dynamic_cycles / ghz)
    array, share = _array_tile(arguments)
    if transposes:
        tail = timing.transpose_tail + (184.0 if passes > 1 else 0.0)
        peak = _peak(busy, timing) * share
        return Work(Engine.tensor, busy, float(tail), 0.0, peak, array=array)
    tail = float(timing.matmul_tail)
    if passes > 1:
        tail = timing.matmul_tail_float32 + 0.5 * passes * columns / ghz
    depth = stationary.shape[0] * (2 if arguments.get("perf_mode") is PerfMode.double_row else 1)
    if event.instruction == "nc_matmul_mx":
        depth *= 4
    flops = 2.0 * depth * stationary_columns * columns
    return Work(
        Engine.tensor,
        busy,
        tail,
        flops,
        _peak(busy, timing) * share,
        columns=columns,
        stationary_columns=stationary_columns,
        passes=passes,
        array=array,
    )


def product_ns(
    columns: float, stationary_columns: float, passes: float, generation: Generation
) -> float:
    """Return the occupancy of the Tensor engine by a product.

    Args:
        columns: Columns of the moving operand.
        stationary_columns: Columns of the stationary operand, whose load hides behind the product
            before unless it is longer.
        passes: How often the moving operand passes the array.
        generation: The target.
    """
    timing = timing_of(generation)
    hidden = stationary_columns if generation.number > 2 else 64.0
    issue = timing.matmul_issue_cycles * (2 if passes > 1 and generation.number > 2 else 1)
    cycles = passes * max(columns, hidden) + issue
    return max(cycles, timing.least_cycles) / timing.tensor_ghz


def _passes(arguments: Mapping[str, Any], moving: NkiTensor, passed_through: bool) -> float:
    """Return how often the moving operand passes the array: four times if one is float32."""
    pair = (moving, arguments.get("stationary", moving))
    if not any(_passes_in_parts(operand) for operand in pair):
        return 1.0
    if passed_through:
        return 3.0  # a measured transposition of 128 x 128
    one_zero = arguments.get("is_stationary_onezero") or arguments.get("is_moving_onezero")
    return 2.0 if one_zero else 4.0


def _passes_in_parts(operand: NkiTensor) -> bool:
    """Return whether one pass of the array is too narrow for an operand's elements."""
    dtype = operand.dtype
    return dtype.itemsize == 4 and dtype.kind != "packed" and dtype != "tfloat32"


def _peak(busy: float, timing: Timing) -> float:
    return busy * timing.tensor_ghz * 2 * _ARRAY * _ARRAY


def _array_tile(arguments: Mapping[str, Any]) -> tuple[int, float]:
    """Return the part of the array that ``tile_position`` and ``tile_size`` choose, and its share.

    The part is a mask of the 16 blocks of 32 x 32, 0 for the whole array. Products in different
    blocks run at the same time.
    """
    size, position = arguments.get("tile_size"), arguments.get("tile_position")
    if not size or not position or len(size) != 2 or not all(size):
        return 0, 1.0
    (height, width), (row, column) = size, position
    mask = 0
    for r in range(int(row) // _BLOCK, -(-(int(row) + int(height)) // _BLOCK)):
        for c in range(int(column) // _BLOCK, -(-(int(column) + int(width)) // _BLOCK)):
            mask |= 1 << (r * (_ARRAY // _BLOCK) + c)
    share = mask.bit_count() / (_ARRAY // _BLOCK) ** 2
    return (mask, share) if share < 1 else (0, 1.0)


def _vector(
    event: Event,
    cost: Cost | None,
    generation: Generation,
    timing: Timing,
    assumptions: Assumptions,
) -> Work:
    count = streams.elements(event, cost)
    streamed = streams.streamed(event)
    tail = timing.vector_tail
    if cost is None or cost.formula == "fixed":
        return Work(event.engine, timing.least_cycles / timing.vector_ghz, float(tail))
    fast = event.instruction in _FAST_VECTOR and generation.number > 2
    rate = _vector_rate(streamed, generation) if fast else 1
    if generation.number == 2 and _is_narrow_sum(event, streamed):
        cycles = count
    elif event.instruction in _FAST_VECTOR:
        cycles = _inputs(event, count) / rate
    elif event.instruction == "reciprocal":
        cycles = timing.reciprocal_cycles * count
    elif (
        event.instruction == "tensor_reduce"
        and generation.number == 2
        and streams.all_bf16(streamed)
    ):
        cycles = count / 2
    elif event.instruction in _SELECTIONS and generation.number > 2:
        cycles = count  # one element per cycle from both ports
    elif event.instruction in _SELECTIONS:
        cycles = _inputs(event, count)
    else:
        cycles = cost.factor * count
    cycles = max(timing.least_cycles, cycles * streams.stride_factor(streamed)) + cost.extra
    if event.instruction == "select_reduce" and event.arguments.get("reduce_res") is not None:
        cycles += timing.accumulator_cycles
    if _dynamic(event):
        cycles = max(cycles, timing.dynamic_cycles)
    # The published tails count from the end of the stream, before the issue of the next one.
    issue = timing.vector_issue_cycles / timing.vector_ghz
    narrow = bool(issue) and all(tensor.free_size == 1 for tensor in streamed)
    port = fast and rate > 1
    if narrow and assumptions["narrow_vector"] == "short":
        return Work(event.engine, issue, 0.0, fast_vector=port, narrow=True)
    busy = cycles / timing.vector_ghz + issue
    return Work(event.engine, busy, tail - issue, fast_vector=port, narrow=narrow)


def _is_narrow_sum(event: Event, streamed: list[NkiTensor]) -> bool:
    """Return whether gen2 reads both operands at the same time: sums and products of bfloat16."""
    op = event.arguments.get("op")
    plain = str(getattr(op, "name", op)) in ("add", "subtract", "multiply")
    narrow = streams.all_bf16(streamed) and streams.contiguous(streamed)
    return event.instruction == "tensor_tensor" and plain and narrow


def _inputs(event: Event, count: float) -> float:
    """Return the elements per lane that a two-input instruction reads through one port."""
    if event.instruction not in _TWO_INPUTS:
        return count
    tensors = [event.arguments[name] for name in _TWO_INPUTS[event.instruction]]
    if any(isinstance(t, NkiTensor) and is_psum(t.buffer) for t in tensors):
        return count  # SBUF and PSUM have separate ports
    return 2 * count


def _vector_rate(streamed: list[NkiTensor], generation: Generation) -> int:
    """Return the elements per cycle and lane that Vector reads from gen3 on."""
    narrow = streams.narrow(streamed)
    if generation.number == 3:
        narrow = narrow and all(t.dtype.itemsize == 2 for t in streamed)
    contiguous = streams.contiguous(streamed)
    in_psum = any(is_psum(t.buffer) for t in streamed)
    if in_psum:
        return 2 if narrow and contiguous else 1
    if narrow and contiguous:
        return 4
    return 2


def _dynamic(event: Event) -> bool:
    return any(
        isinstance(value, NkiTensor) and value.indirection is not None
        for value in event.arguments.values()
    )


def _scalar(event: Event, cost: Cost | None, generation: Generation, timing: Timing) -> Work:
    count = streams.elements(event, cost)
    streamed = streams.streamed(event)
    cycles = count
    copies_or_scales = event.instruction in ("tensor_scalar", "tensor_copy")
    if generation.number > 3 and copies_or_scales and streams.narrow(streamed):
        cycles = count / 2
    slowest = max(map(streams.scalar_stride_factor, streamed), default=1.0)
    cycles = max(timing.least_cycles, cycles * slowest)
    extra = cost.extra if cost is not None else 0.0
    reads = event.arguments.get("reduce_res") is not None
    if event.instruction in ("activation", "activate2") and reads:
        extra += timing.accumulator_cycles
    if _dynamic(event):
        cycles = max(cycles, timing.dynamic_cycles)
    issue = timing.scalar_issue_cycles / timing.scalar_ghz
    busy = (cycles + extra) / timing.scalar_ghz + issue
    op = event.arguments.get("op") if event.instruction in _ACTIVATIONS else None
    name = "" if op is None else str(getattr(op, "name", op))
    copies = op is None or name in _EVERY_TABLE
    tail = timing.scalar_copy_tail if copies else timing.scalar_tail
    table = "" if copies else _TABLES.get(name, "gelu" if name.startswith("gelu") else name)
    return Work(Engine.scalar, busy, tail - issue, table=table)


def _gpsimd(event: Event, cost: Cost | None, timing: Timing, assumptions: Assumptions) -> Work:
    count = streams.elements(event, cost)
    factor = 1.0 if cost is None else cost.factor
    if cost is not None and cost.formula == "search":
        found = event.arguments[cost.result].free_size
        count = float(event.arguments[cost.over]) + found / factor
    elif cost is not None and cost.formula == "runs":
        factor, count = _gathered(event)
    elif cost is None or cost.formula != "startup_stream":
        factor = _GPSIMD_ELEMENT_CYCLES.get(event.instruction, 1.0)
        op = event.arguments.get("op")
        if op is not None and str(getattr(op, "name", op)) == "power":
            factor = _POWER_CYCLES
    if cost is not None and cost.formula == "fixed":
        count = 0.0
    if assumptions["gpsimd_stride"] == "half rate":
        factor *= streams.stride_factor(streams.streamed(event))
    cycles = timing.gpsimd_start_cycles + factor * count
    if event.instruction == "nc_n_gather":
        cycles += timing.gpsimd_start_cycles * (math.ceil(count / 512) - 1)
    if _dynamic(event):
        cycles = max(cycles, timing.dynamic_cycles)
    return Work(Engine.gpsimd, cycles / timing.gpsimd_ghz, float(timing.gpsimd_tail))


def _gathered(event: Event) -> tuple[float, float]:
    """Return the cycles per element of ``local_gather``, fewer for long runs, and the elements."""
    arguments = event.arguments
    run = arguments["num_elem_per_idx"]
    indices = arguments["num_valid_indices"] or _GPSIMD_LANES * arguments["index"].free_size
    cycles = (1 + 7 / run) / min(4 / arguments["dst"].itemsize, run)
    return cycles, float(indices * run)
