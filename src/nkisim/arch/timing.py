"""Times and rates of a NeuronCore generation, each with its source and confidence.

Sources: A1, A2, A3 are AWS's architecture guides of the three generations; ISA is the ``nki.isa``
reference (costs: the edition of SDK 2.26); DMA the DMA overview, DMA bandwidth and DGE guides;
KOPT the kernel-optimization tutorial with its profiler pictures; EXPLORER the Neuron Explorer
guide of SDK 2.32; PROBES published timings of isolated instructions on Trainium 2; PROFILES
published kernel profiles on Trainium 2; GRID the measured grid of blocked matrix products of
``docs/profiling/calibration.md``; LOOPS published times of long loops of transfers on Trainium 2
with NKI 0.6.0; OPERATORS published times of operators on both cores of Trainium 2 with NKI 0.7.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from nkisim.arch.generation import Generation

Confidence = Literal["documented", "measured", "fitted", "assumed"]
"""Confidence of a constant, from the highest to the lowest."""


class Constant(float):
    """A number with its source.

    Attributes:
        source: Where it comes from.
        confidence: How it is known.
    """

    __slots__ = ("confidence", "source")

    source: str
    confidence: Confidence

    def __new__(cls, value: float, source: str, confidence: Confidence) -> Constant:
        """Return a number with its source."""
        self = super().__new__(cls, value)
        self.source = source
        self.confidence = confidence
        return self


def _documented(value: float, source: str) -> Constant:
    return Constant(value, source, "documented")


def _measured(value: float, source: str) -> Constant:
    return Constant(value, source, "measured")


def _fitted(value: float, source: str) -> Constant:
    return Constant(value, source, "fitted")


def _assumed(value: float, why: str) -> Constant:
    return Constant(value, why, "assumed")


class Timing(NamedTuple):
    """The constants of a generation: rates in GHz or bytes per ns, times in ns.

    Attributes:
        tensor_ghz, vector_ghz, scalar_ghz, gpsimd_ghz: Clocks.
        least_cycles: Shortest interval between two instructions of an engine.
        dynamic_cycles: Shortest interval if an address is in a register.
        vector_issue_cycles, scalar_issue_cycles: Cycles added to each instruction.
        gpsimd_start_cycles: Cycles before a GpSimd instruction streams.
        reciprocal_cycles: Cycles per element of ``reciprocal``.
        matmul_issue_cycles: Cycles added to each product.
        matmul_tail: From the last column of a product until its result can be read.
        matmul_tail_float32: ``matmul_tail`` of a float32 product, which takes four passes; half of
            the moving stream is added to it.
        transpose_tail: From the last column of a transposition until its result can be read.
        transpose_issue_cycles: Cycles added to each transposition that passes bits through.
        tensor_start_rate: Share of the full rate at which the Tensor engine starts.
        tensor_ramp: Work after which it reaches the full rate.
        vector_tail, scalar_tail, scalar_copy_tail, gpsimd_tail: From the end of the stream until
            the result can be read.
        accumulator_cycles: Cycles of reading the accumulator registers.
        table_load: Loading another table of activation functions.
        handoff: From a result to the start of an instruction on another engine.
        barrier: ``core_barrier`` once both cores have reached it.
        dma_engine_rate: Bytes per ns of one DMA engine.
        dma_core_rate: Bytes per ns of all transfers of a core.
        dma_reached: Share of these rates that long transfers reach.
        dma_hardware_issue, dma_prebuilt_issue: Time that the start of a transfer occupies its
            queue, with descriptors from hardware or prepared in memory.
        dma_software_issue, dma_software_row: The same with descriptors from software, and the time
            that each row adds.
        dma_software_fixed: The same with descriptors from software, if it does not depend on the
            rows from 32 on.
        dma_software_few: Time that each row then adds to ``dma_software_issue`` below that.
        dma_indirect_issue: The same with rows that an index tile selects.
        dma_dispatch_load, dma_dispatch_store: From the trigger to the first byte.
        dma_overhead: Time that a transfer of eight rows occupies a DMA engine, in addition to the
            time of its bytes.
        dma_descriptor: Least time of one descriptor on its engine.
        dma_notify_load, dma_notify_store: From the last byte to the consumer.
        dma_transpose_rate: Share of the rate for a transposing load from HBM.
        dma_transpose_reached, dma_transpose_wide_reached: The share that was measured, with
            elements of at most two bytes and with wider ones.
        dma_transpose_sbuf_rate: Share of the rate for a transposition within SBUF.
        dma_compute_rate: Share of the rate of ``dma_compute``.
        hbm_stack_rate: Bytes per ns that an HBM stack reads and writes for its cores together.
        hbm_stack_cores: Cores that share a stack.
        collective_start: Fixed time of a collective, in addition to its steps and bytes.
        link_rate: Bytes per ns between a core and the next.
        calibration_error: Relative error of predictions, with which ranges contain 85 % of the
            published times of a kernel that is not among those that constants were fitted to.
        host: Time of one call on the host, in addition to the time on the device.
    """

    tensor_ghz: Constant
    vector_ghz: Constant
    scalar_ghz: Constant
    gpsimd_ghz: Constant
    least_cycles: Constant
    dynamic_cycles: Constant
    vector_issue_cycles: Constant
    scalar_issue_cycles: Constant
    gpsimd_start_cycles: Constant
    reciprocal_cycles: Constant
    matmul_issue_cycles: Constant
    matmul_tail: Constant
    matmul_tail_float32: Constant
    transpose_tail: Constant
    transpose_issue_cycles: Constant
    tensor_start_rate: Constant
    tensor_ramp: Constant
    vector_tail: Constant
    scalar_tail: Constant
    scalar_copy_tail: Constant
    gpsimd_tail: Constant
    accumulator_cycles: Constant
    table_load: Constant
    handoff: Constant
    barrier: Constant
    dma_engine_rate: Constant
    dma_core_rate: Constant
    dma_reached: Constant
    dma_software_issue: Constant
    dma_software_row: Constant
    dma_software_fixed: Constant
    dma_software_few: Constant
    dma_hardware_issue: Constant
    dma_prebuilt_issue: Constant
    dma_indirect_issue: Constant
    dma_dispatch_load: Constant
    dma_dispatch_store: Constant
    dma_overhead: Constant
    dma_descriptor: Constant
    dma_notify_load: Constant
    dma_notify_store: Constant
    dma_transpose_rate: Constant
    dma_transpose_reached: Constant
    dma_transpose_wide_reached: Constant
    dma_transpose_sbuf_rate: Constant
    dma_compute_rate: Constant
    hbm_stack_rate: Constant
    hbm_stack_cores: Constant
    collective_start: Constant
    link_rate: Constant
    calibration_error: Constant
    host: Constant

    def constants(self) -> dict[str, Constant]:
        """Return the constants by name."""
        return self._asdict()


_SHARED: dict[str, Constant] = {
    "least_cycles": _documented(64, "ISA"),
    "dynamic_cycles": _documented(600, "ISA"),
    "gpsimd_start_cycles": _documented(150, "ISA"),
    "accumulator_cycles": _documented(64, "A1"),
    "handoff": _assumed(40, "15 to 100 ns seen in DMA pictures and PROFILES"),
    "barrier": _measured(600, "PROFILES"),
    "gpsimd_tail": _measured(50, "PROBES"),
    "dma_prebuilt_issue": _measured(10, "DMA pictures"),
    "dma_notify_load": _measured(315, "PROBES"),
    "dma_notify_store": _measured(355, "PROBES"),
    "dma_transpose_sbuf_rate": _documented(0.5, "A2"),
    "dma_compute_rate": _documented(0.5, "A3"),
    "dma_software_issue": _measured(200, "LOOPS: loads of one row"),
    "dma_software_row": _fitted(2, "LOOPS: 0.45 us for 128 rows"),
    "dma_software_few": _fitted(15, "LOOPS: 0.2 us for one row; OPERATORS: 0.66 us for 32"),
    "dma_software_fixed": _measured(670, "OPERATORS: 0.66 to 0.73 us; KOPT: 0.61 us"),
    "collective_start": _fitted(4300, "PROFILES: 8 KiB all_reduce over 4 ranks in 13.3 us"),
    "calibration_error": _fitted(
        0.15, "OPERATORS and GRID: enough for 85 % of the rows of 85 % of them, in steps of 5 %"
    ),
    "host": _measured(54_000, "42 to 66 us on Trainium 1"),
}

_GEN2 = Timing(
    **_SHARED,
    tensor_ghz=_documented(2.8, "A1"),
    vector_ghz=_documented(1.12, "A1"),
    scalar_ghz=_documented(1.4, "A1"),
    gpsimd_ghz=_documented(1.4, "A1"),
    vector_issue_cycles=_assumed(0, "a published scan kernel leaves less than 5 %"),
    scalar_issue_cycles=_assumed(0, "as Vector"),
    reciprocal_cycles=_documented(8, "ISA"),
    matmul_issue_cycles=_fitted(64, "one published bfloat16 product on Trainium 1"),
    matmul_tail=_measured(142, "KOPT pictures"),
    matmul_tail_float32=_assumed(142, "as bfloat16"),
    transpose_tail=_assumed(240, "as gen3"),
    transpose_issue_cycles=_assumed(64, "as a product, which it is on gen2"),
    tensor_start_rate=_assumed(1.0, "the limit is documented from Trainium 2 on"),
    tensor_ramp=_assumed(0, "no ramp"),
    vector_tail=_measured(300, "KOPT pictures"),
    scalar_tail=_measured(160, "KOPT pictures"),
    scalar_copy_tail=_assumed(160, "as other functions"),
    table_load=_assumed(1283, "as gen3"),
    dma_engine_rate=_documented(17, "DMA"),
    dma_core_rate=_documented(272, "DMA"),
    dma_reached=_assumed(1.0, "not measured apart from dma_overhead"),
    dma_overhead=_fitted(230, "one product of many small transfers"),
    dma_hardware_issue=_assumed(600, "not available on gen2"),
    dma_indirect_issue=_measured(1000, "PROFILES"),
    dma_dispatch_load=_assumed(1000, "upper end of the DMA pictures"),
    dma_dispatch_store=_assumed(900, "upper end of the DMA pictures"),
    dma_descriptor=_assumed(22, "24 descriptors of 4 to 8 bytes in 0.53 us"),
    dma_transpose_rate=_assumed(0.5, "not available on gen2"),
    dma_transpose_reached=_assumed(0.5, "not available on gen2"),
    dma_transpose_wide_reached=_assumed(0.38, "not available on gen2"),
    hbm_stack_rate=_documented(410, "A1: 820 GB/s for two cores"),
    hbm_stack_cores=_documented(1, "A1"),
    link_rate=_assumed(192, "384 GB/s per device, shared by its cores"),
)

_GEN3_DMA: dict[str, Constant] = {
    "dma_hardware_issue": _documented(600, "A2, DGE; measured 599 and 609"),
    "dma_indirect_issue": _measured(1035, "PROFILES"),
    "dma_dispatch_load": _measured(751, "PROBES"),
    "dma_dispatch_store": _measured(566, "PROBES"),
    "dma_reached": _measured(0.89, "OPERATORS: 256 KiB in 0.81 us and 512 KiB in 1.60 us"),
    "dma_overhead": _fitted(20, "OPERATORS: rows of 2 KiB and of 4 KiB; GRID within 1 %"),
    "dma_descriptor": _assumed(10, "rows of 256 bytes still ran at 21 bytes per ns"),
    "dma_transpose_rate": _documented(0.9, "A2"),
    "dma_transpose_reached": _measured(0.55, "OPERATORS: 5.2 us for 1 MiB, without the store"),
    "dma_transpose_wide_reached": _measured(0.38, "OPERATORS: 7.5 us for 1 MiB, 4-byte elements"),
}

_GEN3 = Timing(
    **_SHARED,
    **_GEN3_DMA,
    tensor_ghz=_documented(2.4, "A2"),
    vector_ghz=_documented(0.96, "A2"),
    scalar_ghz=_documented(1.2, "A2"),
    gpsimd_ghz=_documented(1.2, "A2"),
    vector_issue_cycles=_assumed(100, "A1; 110 to 144 in PROBES and PROFILES"),
    scalar_issue_cycles=_assumed(100, "A1; 110 in PROBES"),
    reciprocal_cycles=_measured(6, "PROBES"),
    matmul_issue_cycles=_fitted(8, "a bfloat16 table and the float32 tutorial"),
    matmul_tail=_measured(203, "PROBES"),
    matmul_tail_float32=_measured(180, "PROBES"),
    transpose_tail=_measured(240, "PROBES"),
    transpose_issue_cycles=_measured(20, "PROBES; bfloat16, and float32 of 128 x 128"),
    tensor_start_rate=_documented(0.5, "EXPLORER"),
    tensor_ramp=_documented(3000, "EXPLORER"),
    vector_tail=_measured(156, "PROBES"),
    scalar_tail=_measured(293, "PROBES"),
    scalar_copy_tail=_measured(190, "PROBES"),
    table_load=_measured(1283, "PROBES, DMA pictures"),
    dma_engine_rate=_documented(23, "DMA"),
    dma_core_rate=_documented(368, "DMA"),
    hbm_stack_rate=_fitted(736, "620 to 781 GB/s of a pair in PROFILES; documented 750"),
    hbm_stack_cores=_documented(2, "A2"),
    link_rate=_assumed(160, "1.28 TB/s per device, shared by its cores"),
)

_GEN4 = Timing(
    **_SHARED,
    **_GEN3_DMA,
    tensor_ghz=_documented(2.4, "A3"),
    vector_ghz=_documented(1.2, "A3"),
    scalar_ghz=_documented(1.2, "A3"),
    gpsimd_ghz=_documented(1.2, "A3"),
    vector_issue_cycles=_assumed(100, "as gen3"),
    scalar_issue_cycles=_assumed(100, "as gen3"),
    reciprocal_cycles=_assumed(6, "as gen3"),
    matmul_issue_cycles=_assumed(8, "as gen3"),
    matmul_tail=_assumed(203, "as gen3"),
    matmul_tail_float32=_assumed(180, "as gen3"),
    transpose_tail=_assumed(240, "as gen3"),
    transpose_issue_cycles=_assumed(20, "as gen3"),
    tensor_start_rate=_documented(0.5, "EXPLORER"),
    tensor_ramp=_documented(3000, "EXPLORER"),
    vector_tail=_assumed(125, "cycles of gen3 at this clock"),
    scalar_tail=_assumed(293, "as gen3"),
    scalar_copy_tail=_assumed(190, "as gen3"),
    table_load=_assumed(1283, "as gen3"),
    dma_engine_rate=_documented(33, "DMA"),
    dma_core_rate=_documented(528, "DMA"),
    hbm_stack_rate=_assumed(1056, "both cores at their rate; documented 1,175"),
    hbm_stack_cores=_documented(2, "A3"),
    link_rate=_assumed(320, "2.56 TB/s per device, shared by its cores"),
)

TIMINGS = {2: _GEN2, 3: _GEN3, 4: _GEN4}


def timing_of(generation: Generation) -> Timing:
    """Return the constants of a generation."""
    return TIMINGS[generation.number]
