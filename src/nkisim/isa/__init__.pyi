# Written by tools/gen_stubs.py.
from typing import Any

from nkisim.memory import NkiTensor
from nkisim.diagnostics import NkiValidationError as NkiValidationError
from nkisim.isa import constants as constants
from nkisim.isa.movement.copies import tensor_copy_dynamic_dst as tensor_copy_dynamic_dst
from nkisim.isa.movement.copies import tensor_copy_dynamic_src as tensor_copy_dynamic_src
from nkisim.isa.registers import register_alloc as register_alloc
from nkisim.isa.registers import register_load as register_load
from nkisim.isa.registers import register_move as register_move
from nkisim.isa.registers import register_store as register_store
from nkisim.isa.registers import scalar_load as scalar_load
from nkisim.isa.registers import scalar_store as scalar_store
from nkisim.isa.registers.scalar import NkiScalar as NkiScalar
from nkisim.isa.registers.virtual import VirtualRegister as VirtualRegister
from nkisim.isa.version import get_nc_sub_version as get_nc_sub_version
from nkisim.isa.version import get_nc_version as get_nc_version
from nkisim.machine import NkiInstruction as NkiInstruction
from nkisim.objects import NKIObject as NKIObject
from nkisim.spec.enums import dependency as dependency
from nkisim.spec.enums import dge_mode as dge_mode
from nkisim.spec.enums import dma_engine as dma_engine
from nkisim.spec.enums import engine as engine
from nkisim.spec.enums import gpsimd_engine as gpsimd_engine
from nkisim.spec.enums import matmul_perf_mode as matmul_perf_mode
from nkisim.spec.enums import nc_version as nc_version
from nkisim.spec.enums import oob_mode as oob_mode
from nkisim.spec.enums import reduce_cmd as reduce_cmd
from nkisim.spec.enums import scalar_engine as scalar_engine
from nkisim.spec.enums import tensor_engine as tensor_engine
from nkisim.spec.enums import unknown_engine as unknown_engine
from nkisim.spec.enums import vector_engine as vector_engine

__all__ = [
    "NKIObject",
    "NkiInstruction",
    "NkiScalar",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "constants",
    "core_barrier",
    "dependency",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_load",
    "scalar_store",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]

def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: NkiTensor | float | int,
    imm1: NkiTensor | float | int,
    op0: Any,
    op1: Any,
    relu_param: NkiTensor | float | int = ...,
    reverse0: bool = ...,
    reverse1: bool = ...,
    reduce_op: Any = ...,
    reduce_res: NkiTensor | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Return ``op((data <op0> imm0) <op1> imm1)``, and with ``reduce_cmd`` its reduction.

    All is float32; the reduction is of the values before they are rounded into ``dst``. The order
    in which a sum adds them is not specified by the hardware.

    Args:
        dst: Tile that receives the result.
        op: Activation function, applied last.
        data: Tile of the inputs.
        imm0: Second input of ``op0``: a number, or one value per partition.
        imm1: Second input of ``op1``: a number, or one value per partition.
        op0: Operator of the first step, of ``data`` and ``imm0``; ``nl.bypass`` skips
            the step.
        op1: Operator of the second step, of the first result and ``imm1``;
            ``nl.bypass`` skips the step.
        relu_param: Slope of ``nl.prelu`` for negative values, a number or one value per
            partition; other functions ignore it.
        reverse0: Whether the first step is ``imm0 <op0> data``.
        reverse1: Whether the second step has ``imm1`` on the left of ``op1``.
        reduce_op: Operator that combines the results of a partition in the registers;
            None if nothing is reduced.
        reduce_res: Tile (P, 1) that receives the accumulator registers after the call;
            None leaves them unread.
        reduce_cmd: Command to the engine's accumulator registers, one per partition:
            ``idle`` reduces nothing, ``reset`` sets them to the operator's neutral element,
            ``reduce`` combines the results with them, ``reset_reduce`` does both, and
            ``load_reduce`` combines the results with a given value.
        engine: Engine that runs the call; with ``unknown`` it is the first of those
            that can.
        name: Label of the call; it has no effect.
    """

def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: NkiTensor | float | int | None = ...,
    scale: NkiTensor | float | int = ...,
    reduce_op: Any = ...,
    reduce_res: NkiTensor | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Return ``op(data * scale + bias)``, and with ``reduce_cmd`` its sum along the free dimension.

    The sum is of the float32 values, before they are rounded into ``dst``. The order in which it
    adds them is not specified by the hardware.

    Args:
        dst: Tile that receives the result.
        op: Activation function.
        data: Tile of the inputs.
        bias: Number added after the scaling: one value per partition, on gen3 and later
            also a number, or None for 0.
        scale: Factor of ``data``: a number, or one float32 value per partition.
        reduce_op: Operator that combines the results of a partition in the registers,
            ``nl.add``; None if nothing is reduced.
        reduce_res: Tile (P, 1) that receives the accumulator registers after the call;
            None leaves them unread.
        reduce_cmd: Command to the engine's accumulator registers, one per partition:
            ``idle`` reduces nothing, ``reset`` sets them to the operator's neutral element,
            ``reduce`` combines the results with them, ``reset_reduce`` does both, and
            ``load_reduce`` combines the results with a given value.
        engine: Engine that runs the call; with ``unknown`` it is the first of those
            that can.
        name: Label of the call; it has no effect.
    """

def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    bias: NkiTensor | float | int | None = ...,
    scale: NkiTensor | float | int = ...,
    name: str | None = ...,
) -> None:
    """Return ``op(data * scale + bias)`` and its reduction along the free dimension.

    From NKI 0.6.0 on ``reduce_res`` may be None: the reduction stays in the registers.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        dst: Tile that receives the result.
        op: Activation function.
        data: Tile of the inputs.
        reduce_op: Operator that combines the results of a partition, ``nl.add``.
        reduce_res: Tile (P, 1) that receives the reduction of each partition.
        bias: Number added after the scaling: one value per partition, on gen3 and later
            also a number, or None for 0.
        scale: Factor of ``data``: a number, or one float32 value per partition.
        name: Label of the call; it has no effect.
    """

def affine_select(
    dst: NkiTensor,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: NkiTensor | float | int,
    on_false_value: Any,
    cmp_op: Any = ...,
    offset: Any = ...,
    name: str | None = ...,
) -> None:
    """Select elements whose affine position compares true with 0, and fill the rest.

    Args:
        dst: Tile that receives the result.
        pattern: List of up to four pairs ``[step, count]``, outermost first: element i
            of such a dimension adds i * step to the position, and the counts multiply to
            the elements per partition of ``dst``.
        channel_multiplier: Step from one partition to the next: partition p adds p *
            ``channel_multiplier`` to the position, and p counts from the first partition of
            ``dst``.
        on_true_tile: Tile whose elements are taken where the comparison is true.
        on_false_value: Number that is written where the comparison is false.
        cmp_op: Comparison of the position, on the left, with 0, such as
            ``nl.greater_equal``.
        offset: Position of the first element of partition 0, an integer of 32 bits.
        name: Label of the call; it has no effect.
    """

def bn_aggr(
    dst: NkiTensor,
    data: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return mean and variance from triples of count, mean and variance*count.

    Args:
        dst: Tile (P, 2) that receives mean and variance.
        data: Tile of triples of count, mean and variance*count, as ``bn_stats`` writes
            them.
        name: Label of the call; it has no effect.
    """

def bn_stats(
    dst: NkiTensor,
    data: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return count, mean and variance*count of even, then of odd elements.

    Args:
        dst: Tile (P, 6) that receives the two triples.
        data: Tile of the elements, at most 512 per partition.
        name: Label of the call; it has no effect.
    """

def core_barrier(
    data: NkiTensor,
    cores: Any,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Wait until both cores have reached the barrier; a single core does not wait.

    Args:
        data: Tensor in ``nl.shared_hbm`` whose accesses by the two cores are ordered.
        cores: The cores that wait for each other, ``(0, 1)``.
        engine: Engine that waits; the other engines of the core go on.
        name: Label of the call; it has no effect.
    """

def dma_compute(
    dst: NkiTensor,
    srcs: Any,
    reduce_op: Any,
    scales: Any = ...,
    unique_indices: bool = ...,
    name: str | None = ...,
    oob_mode: oob_mode | str = ...,
) -> None:
    """Write the float32 sum of the sources to ``dst``; one may be gathered by index.

    From NKI 0.4.0 on ``oob_mode.skip`` leaves rows of ``dst`` unchanged whose index is out of
    bounds, in ``dst`` or in a source.

    Args:
        dst: Tensor in HBM or SBUF that receives the sum; its rows may be selected by
            indices.
        srcs: List of 1 to 16 tensors in HBM or SBUF, each with as many elements as
            ``dst``.
        reduce_op: Operator that combines the sources, ``nl.add``.
        scales: One factor per source, each 1.0; None is the same.
        unique_indices: Whether no index of ``dst`` occurs twice; the simulator checks
            this.
        name: Label of the call; it has no effect.
        oob_mode: Effect of an index out of bounds: ``error`` is a fault, ``skip``
            leaves the rows of that index out of the transfer.
    """

def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    oob_mode: oob_mode | str = ...,
    dge_mode: dge_mode | str = ...,
    engine: engine | str = ...,
    name: str | None = ...,
    priority: Any = ...,
) -> None:
    """Copy ``src`` to ``dst``; rows may be gathered or scattered by indices held in SBUF.

    Args:
        dst: Tensor in HBM or SBUF that is written; its rows may be selected by indices.
        src: Tensor in HBM or SBUF with as many elements as ``dst``; its rows may be
            selected by indices.
        oob_mode: Effect of an index out of bounds: ``error`` is a fault, ``skip``
            leaves the rows of that index out of the transfer.
        dge_mode: Generator of the descriptors of the transfer: ``swdge`` (software),
            ``hwdge`` (hardware, gen3 and later), ``none`` for descriptors that are made
            before the kernel runs, or ``unknown`` for the choice of the compiler.
        engine: Engine whose queue starts the transfer, ``sync`` or ``scalar`` with
            ``hwdge``; ``unknown`` leaves it to the compiler.
        name: Label of the call; it has no effect.
        priority: Order among transfers that wait, from 0 (first) to 3 (last), on gen4;
            it changes no values and no predicted time.
    """

def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Any = ...,
    dge_mode: dge_mode | str = ...,
    oob_mode: oob_mode | str = ...,
    name: str | None = ...,
    priority: Any = ...,
) -> None:
    """Copy ``src`` with first and last dimension exchanged; its rows may be gathered.

    Args:
        dst: Tile in SBUF that receives the transposed tensor.
        src: Tensor in HBM or SBUF with 2 to 4 dimensions, of the dtype of ``dst``,
            whose elements have 2 or 4 bytes; in hwdge mode or with gathered rows they have
            2 bytes.
        axes: Order of the dimensions of ``src`` in ``dst``, which their number
            determines: (1, 0), (2, 1, 0) or (3, 1, 2, 0); None is the same.
        dge_mode: Generator of the descriptors of the transfer: ``swdge`` (software),
            ``hwdge`` (hardware, gen3 and later), ``none`` for descriptors that are made
            before the kernel runs, or ``unknown`` for the choice of the compiler.
        oob_mode: Effect of an index out of bounds: ``error`` is a fault, ``skip``
            leaves the rows of that index out of the transfer.
        name: Label of the call; it has no effect.
        priority: Order among transfers that wait, from 0 (first) to 3 (last), on gen4;
            it changes no values and no predicted time.
    """

def dropout(
    dst: NkiTensor,
    data: NkiTensor,
    prob: NkiTensor | float | int,
    name: str | None = ...,
) -> None:
    """Replace elements by zero with probability ``prob``; the others are unchanged, not rescaled.

    An element is dropped when its random number is below ``prob`` * 2^32, so 0 keeps and 1 drops
    everything.

    Args:
        dst: Tile that receives the result.
        data: Tile of the elements, of the dtype of ``dst``.
        prob: Probability of a zero, from 0 to 1: a number, or one value per partition.
        name: Label of the call; it has no effect.
    """

def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: NkiTensor | float | int = ...,
    reduce_res: NkiTensor | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    reduce_init: NkiTensor | float | int = ...,
    name: str | None = ...,
) -> None:
    """Return ``exp(src - max_value)``, and with ``reduce_cmd`` its sum along the free dimension.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        dst: Tile that receives the result.
        src: Tile of the exponents.
        max_value: Number that is subtracted from ``src`` first, as the maximum in a
            softmax: a number, or one float32 value per partition.
        reduce_res: Tile (P, 1) that receives the accumulator registers after the call;
            None leaves them unread.
        reduce_cmd: Command to the engine's accumulator registers, one per partition:
            ``idle`` reduces nothing, ``reset`` sets them to the operator's neutral element,
            ``reduce`` combines the results with them, ``reset_reduce`` does both, and
            ``load_reduce`` combines the results with a given value.
        reduce_init: Value that ``load_reduce`` loads into the registers: a number, or
            one value per partition.
        name: Label of the call; it has no effect.
    """

def iota(
    dst: NkiTensor,
    pattern: Any,
    offset: Any = ...,
    channel_multiplier: Any = ...,
    name: str | None = ...,
) -> None:
    """Write an affine function of the position, computed in int32, as ``dst``'s type.

    Args:
        dst: Tile in SBUF that receives the numbers.
        pattern: List of up to four pairs ``[step, count]``, outermost first: element i
            of such a dimension adds i * step, and the counts multiply to the elements per
            partition of ``dst``.
        offset: Number of the first element of partition 0, an integer of 32 bits.
        channel_multiplier: Step from one partition to the next: partition p adds p *
            ``channel_multiplier``, and p counts from the first partition of ``dst``.
        name: Label of the call; it has no effect.
    """

def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: Any = ...,
    num_valid_indices: Any = ...,
    name: str | None = ...,
) -> None:
    """Gather runs of elements with indices shared by the 16 partitions of each GpSimd core.

    The indices of a core are ordered by partition first. Elements of ``dst`` beyond the gathered
    ones are unchanged.

    Args:
        dst: Tile that receives the result.
        src_buffer: Tile in SBUF that is read, with a multiple of 16 partitions.
        index: Tile of uint16 on the partitions of ``src_buffer``: the columns at which
            runs begin.
        num_elem_per_idx: Number of consecutive elements that one index gathers: 1, 2,
            4, 8, 16 or 32.
        num_valid_indices: Number of indices that each group of 16 partitions uses, at
            most 4096; None uses all.
        name: Label of the call; it has no effect.
    """

def max8(
    dst: NkiTensor,
    src: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return the eight largest values of each partition, in descending order.

    Args:
        dst: Tile (P, 8) that receives the values.
        src: Tile that is searched, with 8 to 16384 elements per partition.
        name: Label of the call; it has no effect.
    """

def memset(
    dst: NkiTensor,
    value: float | int,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Fill a tile with a constant.

    Args:
        dst: Tile that is filled.
        value: Number that every element receives; integer tiles take integers.
        engine: Engine that runs the call; with ``unknown`` it is the first of those
            that can.
        name: Label of the call; it has no effect.
    """

def nc_find_index8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return the first index of each of eight values; equal values take successive occurrences.

    A value that does not occur gives all ones.

    Args:
        dst: Tile (P, 8) of uint16 or uint32 that receives the indices.
        data: Tile that is searched, with 8 to 16384 elements per partition.
        vals: Tile (P, 8) of the values to be found.
        name: Label of the call; it has no effect.
    """

def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: Any,
    dst_idx: NkiTensor | None = ...,
    name: str | None = ...,
) -> None:
    """Replace the first occurrence of each of eight values by ``imm``, and return their indices.

    Equal values are matched from the last slot to the first; slots without a match give all ones.

    Args:
        dst: Tile that receives ``data`` with the replaced elements.
        data: Tile that is searched, with 8 to 16384 elements per partition.
        vals: Tile (P, 8) of the values to be replaced.
        imm: Number that replaces a value.
        dst_idx: Tile (P, 8) of uint16 or uint32 that receives the indices of the
            replaced elements; None if they are not needed.
        name: Label of the call; it has no effect.
    """

def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = ...,
    is_moving_onezero: bool = ...,
    is_transpose: bool = ...,
    accumulate: Any = ...,
    tile_position: Any = ...,
    tile_size: Any = ...,
    perf_mode: matmul_perf_mode | str = ...,
    name: str | None = ...,
) -> None:
    """Write or add ``stationary.T @ moving`` to a PSUM tile.

    From gen3 on ``is_transpose`` passes the bits of ``stationary`` through, in the order of a
    ``moving`` identity or permutation; on gen2 it only labels the product.

    Float32 operands take four passes on the device and give float32 products. With a one/zero hint
    the low parts of that operand are dropped, which is emulated by rounding it to bfloat16.

    A tfloat32 operand takes one pass. The engine multiplies values with 10 fraction bits. Stored
    values with more fraction bits, such as float32 data under ``tile.view(nl.tfloat32)``, are
    rounded to nearest, ties to even. NKI does not document that the engine rounds instead of
    truncating; rounding is assumed because it is the hardware's default elsewhere. The other
    engines read all 32 stored bits, and copies do not change them.

    Args:
        dst: Tile in PSUM with a row for each column of ``stationary`` and a column for
            each column of ``moving``.
        stationary: Tile in SBUF that is loaded into the array, with the contraction
            along its partitions and at most 128 columns.
        moving: Tile in SBUF that streams through the array, on as many partitions as
            ``stationary``.
        is_stationary_onezero: Whether ``stationary`` holds only 0 and 1, a hint that
            saves passes of float32.
        is_moving_onezero: Whether ``moving`` holds only 0 and 1, a hint that saves
            passes of float32.
        is_transpose: Whether ``moving`` is an identity or permutation that only moves
            the elements of ``stationary``.
        accumulate: Whether the product is added to ``dst`` (True) or overwrites it
            (False); None overwrites elements at their first product and adds later ones.
        tile_position: Row and column of the array at which the tile begins, multiples
            of ``tile_size``; empty for the whole array.
        tile_size: Rows and columns of the array that the product uses, each 32, 64 or
            128 (gen2: 64 or 128); empty for the whole array.
        perf_mode: Performance mode; ``double_row`` multiplies pairs of float8 rows in
            one pass, on gen3 and later.
        name: Label of the call; it has no effect.
    """

def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: Any = ...,
    tile_size: Any = ...,
    accumulate: Any = ...,
    name: str | None = ...,
) -> None:
    """Write or add ``stationary.T @ moving`` of scaled blocks to a PSUM tile.

    The contraction runs over the partitions and the four elements of each word. Products are exact
    and are summed in float32, in an order that is not specified. A block with the scale 255 is NaN.

    Args:
        dst: Tile in PSUM with a row for each word of a row of ``stationary`` and a
            column for each word of a row of ``moving``.
        stationary: Tile of packed words in SBUF that is loaded into the array, with the
            contraction along its partitions.
        moving: Tile of packed words in SBUF that streams through the array, on as many
            partitions as ``stationary``.
        stationary_scale: Scales of the blocks of ``stationary``, where ``quantize_mx``
            writes them: byte s is the factor 2^(s - 127).
        moving_scale: Scales of the blocks of ``moving``, where ``quantize_mx`` writes
            them: byte s is the factor 2^(s - 127).
        tile_position: Row of the array at which the tile begins, a multiple of its
            rows, and column 0; None for the whole array.
        tile_size: Rows of the array that the product uses, 32, 64 or 128, and 128
            columns; None for the whole array.
        accumulate: Whether the product is added to ``dst`` (True) or overwrites it
            (False); None overwrites elements at their first product and adds later ones.
        name: Label of the call; it has no effect.
    """

def nc_n_gather(
    dst: NkiTensor,
    data: NkiTensor,
    indices: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return, in each partition, the elements at the given positions of the flattened data.

    Args:
        dst: Tile in SBUF that receives the elements, of the dtype of ``data``.
        data: Tile in SBUF that is read.
        indices: Tile of uint32 with as many elements per partition as ``dst``:
            positions in the flattened free dimensions of ``data``.
        name: Label of the call; it has no effect.
    """

def nc_stream_shuffle(
    dst: NkiTensor,
    src: NkiTensor,
    shuffle_mask: Any,
    name: str | None = ...,
) -> None:
    """Copy rows within each quadrant of 32 partitions by the mask; 255 leaves a row unchanged.

    Args:
        dst: Tile that receives the rows, of the dtype of ``src``.
        src: Tile whose rows are copied.
        shuffle_mask: List of 32 integers: entry i is the row of the quadrant, 0 to 31,
            that its row i receives, or 255 for none.
        name: Label of the call; it has no effect.
    """

def nc_transpose(
    dst: NkiTensor,
    data: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Transpose a tile bit for bit; on gen2's Tensor engine NaN and infinity contaminate rows.

    The Tensor engine of gen2 multiplies by the identity, which rounds tfloat32 as ``nc_matmul``
    does.

    NKI 0.3.0 ignores ``engine=`` and chooses by shape and memory; later versions use it.

    Args:
        dst: Tile that receives the transpose; the Tensor engine writes to PSUM.
        data: Tile of at most 128 by 128 elements on the Tensor engine, 32 by 32 on the
            Vector engine.
        engine: Engine that transposes, ``tensor`` or ``vector``; with ``unknown`` shape
            and memory decide.
        name: Label of the call; it has no effect.
    """

def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: Any = ...,
    padding_val: Any = ...,
    name: str | None = ...,
) -> None:
    """Write the positions of nonzero elements, padding, and their count, on every 16th partition.

    The other partitions of ``dst`` are unchanged.

    Args:
        dst: Tile of int32 with one element per partition more than ``src``, the last
            for the count.
        src: Tile of float32 or int32 that is searched, on every 16th partition.
        index_offset: Integer that is added to each position.
        padding_val: Integer that fills the elements between the last position and the
            count.
        name: Label of the call; it has no effect.
    """

def quantize_mx(
    dst: NkiTensor,
    src: NkiTensor,
    dst_scale: NkiTensor,
    name: str | None = ...,
) -> None:
    """Round blocks of 8 partitions by 4 elements to packed float8 and one scale each.

    The scale of a block with largest magnitude a is 2^(floor(log2 a) - E), where E is the exponent
    of the largest float8: 8 for e4m3fn, 15 for e5m2. It is at least 2^-127, which also is the scale
    of a block of zeros. Elements are divided by the scale, limited to the largest float8 and
    rounded to nearest, ties to even. From NKI 0.5.0 on the scale is twice as large, and no element
    exceeds the largest float8.

    NKI does not document blocks with infinity or NaN. Here both have magnitude 2^128 when the scale
    is chosen, so most finite elements of the block become 0. NaN stays NaN. Infinity becomes the
    largest float8; from 0.5.0 on it becomes infinity, or NaN in e4m3fn.

    Rows of ``dst_scale`` between the scales are unchanged.

    Args:
        dst: Tile of packed float8 in SBUF, with a quarter of the elements per partition
            of ``src``.
        src: Tile of float16 or bfloat16 in SBUF, with a multiple of 32 partitions and
            of 4 elements per partition.
        dst_scale: Tile in SBUF that receives the scales as bytes, on four partitions of
            each quadrant of 32: those from row 0, 4, 8 or 12 on, where the view begins.
        name: Label of the call; it has no effect.
    """

def rand2(
    dst: NkiTensor,
    min: NkiTensor | float | int,
    max: NkiTensor | float | int,
    name: str | None = ...,
) -> None:
    """Write uniform random numbers in [min, max), rounded from float32 to the type of ``dst``.

    Narrow types may round up to ``max``.

    Args:
        dst: Tile that receives the result.
        min: Smallest number: a number, or one float32 value per partition.
        max: Bound above all numbers, larger than ``min``: a number, or one float32
            value per partition.
        name: Label of the call; it has no effect.
    """

def rand_get_state(
    dst: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Write the generator states of the lanes that ``dst`` covers.

    Up to NKI 0.4.0, without ``engine=``, the number of words selects the engine: 24 the Vector
    engine, 6 GpSimd. From 0.5.0 on GpSimd is the default.

    Args:
        dst: Tile of uint32 with the words of one state per partition: 24 of the Vector
            engine, 6 of GpSimd.
        engine: Engine whose generator is read.
        name: Label of the call; it has no effect.
    """

def rand_set_state(
    src_seeds: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Set the generator states of the lanes that ``src_seeds`` covers.

    Up to NKI 0.4.0, without ``engine=``, the number of words selects the engine: 24 the Vector
    engine, 6 GpSimd. From 0.5.0 on GpSimd is the default.

    Args:
        src_seeds: Tile of uint32 with the words of one state per partition: 24 of the
            Vector engine, 6 of GpSimd.
        engine: Engine whose generator is set.
        name: Label of the call; it has no effect.
    """

def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor | float | int,
    bound1: NkiTensor | float | int,
    reduce_cmd: reduce_cmd | str = ...,
    reduce_res: NkiTensor | None = ...,
    reduce_op: Any = ...,
    range_start: Any = ...,
    on_false_value: Any = ...,
    name: str | None = ...,
) -> None:
    """Select elements whose position passes both comparisons, fill the rest, return the maximum.

    Args:
        dst: Tile that receives the result.
        on_true_tile: Tile of floats whose elements are taken where both comparisons are
            true.
        comp_op0: Comparison of a position, on the left, with ``bound0``, such as
            ``nl.greater_equal``.
        comp_op1: Comparison of a position, on the left, with ``bound1``, such as
            ``nl.less``.
        bound0: Bound of the first comparison: a number, or one float32 value per
            partition.
        bound1: Bound of the second comparison: a number, or one float32 value per
            partition.
        reduce_cmd: Command to the engine's accumulator registers, one per partition:
            ``idle`` reduces nothing, ``reset`` sets them to the operator's neutral element,
            ``reduce`` combines the results with them, ``reset_reduce`` does both, and
            ``load_reduce`` combines the results with a given value.
        reduce_res: Tile (P, 1) that receives the accumulator registers after the call;
            None leaves them unread.
        reduce_op: Operator of the reduction, ``nl.maximum``.
        range_start: Position of the first element of each partition; the last one is
            below 2^24.
        on_false_value: Number that fills the other elements: the smallest finite
            float32, -3.4028235e38.
        name: Label of the call; it has no effect.
    """

def reciprocal(
    dst: NkiTensor,
    data: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return 1/x in float32.

    Args:
        dst: Tile that receives the result.
        data: Tile of the numbers.
        name: Label of the call; it has no effect.
    """

def rng(
    dst: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Write 32 random bits per element; narrower types take the low bits.

    Without ``engine=`` the Vector engine draws, on every generation: it is the one that
    ``set_rng_seed`` seeds and that reaches PSUM. From NKI 0.5.0 on it is the default by name.

    Args:
        dst: Tile of integers that receives the bits.
        engine: Engine whose generator draws, ``vector`` or on gen3 and later
            ``gpsimd``.
        name: Label of the call; it has no effect.
    """

def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: NkiTensor | float | int,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = ...,
    reverse1: bool = ...,
    name: str | None = ...,
) -> None:
    """Return ``(data <op0> operand0) <op1> operand1`` without rounding in between.

    Args:
        dst: Tile that receives the result.
        data: Tile of the first inputs.
        op0: Operator of ``data`` and ``operand0``.
        operand0: Second input of ``op0``: a number, or one float32 value per partition.
        op1: Operator of the first result and ``operand1``.
        operand1: Second input of ``op1``, a tile of the size of ``data``.
        reverse0: Whether ``operand0`` is on the left of ``op0``.
        reverse1: Whether ``operand1`` is on the left of ``op1``.
        name: Label of the call; it has no effect.
    """

def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: NkiTensor | float | int,
    reduce_res: NkiTensor | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    reduce_op: Any = ...,
    reverse_pred: bool = ...,
    name: str | None = ...,
) -> None:
    """Select ``on_true`` or ``on_false`` by predicate, and with ``reduce_cmd`` return the maximum.

    Args:
        dst: Tile that receives the result.
        predicate: Tile of integers of 8 or 16 bits, of the size of ``on_true``; an
            element other than 0 is true.
        on_true: Tile whose elements are taken where the predicate is true.
        on_false: Number that is taken elsewhere, or one value per partition.
        reduce_res: Tile (P, 1) that receives the accumulator registers after the call;
            None leaves them unread.
        reduce_cmd: Command to the engine's accumulator registers, one per partition:
            ``idle`` reduces nothing, ``reset`` sets them to the operator's neutral element,
            ``reduce`` combines the results with them, ``reset_reduce`` does both, and
            ``load_reduce`` combines the results with a given value.
        reduce_op: Operator of the reduction, ``nl.maximum``.
        reverse_pred: Whether ``on_true`` is taken where the predicate is 0 instead.
        name: Label of the call; it has no effect.
    """

def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: dma_engine | str = ...,
    name: str | None = ...,
) -> None:
    """Send a tile to the other core and receive one from it; both sides have copied on return.

    Args:
        src: Tile in SBUF that is sent.
        dst: Tile in SBUF that receives, of the shape and dtype that the other core
            sends.
        send_to_rank: Core that receives ``src``, 0 or 1, other than the running one.
        recv_from_rank: Core that sends to ``dst``, 0 or 1, other than the running one.
        pipe_id: Number of the exchange: calls of the two cores with the same number are
            paired in order.
        dma_engine: Engine of the transfer: ``dma``, or ``gpsimd_dma`` for small tiles.
        name: Label of the call; it has no effect.
    """

def sequence_bounds(
    dst: NkiTensor,
    segment_ids: NkiTensor,
    name: str | None = ...,
) -> None:
    """Return start and end of the segment of each element; padding (id 0) has start n, end -1.

    Args:
        dst: Tile (1, 2, n): row 0 receives the starts, row 1 the ends.
        segment_ids: Tile (1, n) of float32 or int32: the segment of each element, 0 for
            padding.
        name: Label of the call; it has no effect.
    """

def set_rng_seed(
    src_seeds: NkiTensor,
    name: str | None = ...,
) -> None:
    """Seed the Vector engine: all lanes, from the bits of one 32-bit word.

    Args:
        src_seeds: Tile (1, 1) of 32 bits with the seed.
        name: Label of the call; it has no effect.
    """

def tensor_copy(
    dst: NkiTensor,
    src: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Copy a tile: bit for bit when the types agree, through float32 otherwise.

    Args:
        dst: Tile that receives the copy.
        src: Tile that is copied.
        engine: Engine that runs the call; with ``unknown`` it is the first of those
            that can.
        name: Label of the call; it has no effect.
    """

def tensor_copy_predicated(
    dst: NkiTensor,
    src: NkiTensor | float | int,
    predicate: NkiTensor,
    reverse_pred: bool = ...,
    name: str | None = ...,
) -> None:
    """Copy elements where the predicate is true; the others are unchanged.

    Args:
        dst: Tile whose elements are replaced where the predicate is true.
        src: Tile of the size and dtype of ``dst``, or a number.
        predicate: Tile of uint8, uint16 or uint32, of the size of ``dst``; an element
            other than 0 is true.
        reverse_pred: Whether elements are replaced where the predicate is 0 instead.
        name: Label of the call; it has no effect.
    """

def tensor_partition_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    name: str | None = ...,
) -> None:
    """Reduce across partitions into one; from NKI 0.5.0 on also with ``nl.average``.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        dst: Tile (1, N) that receives one result per column.
        op: Operator of the reduction.
        data: Tile whose partitions are combined.
        name: Label of the call; it has no effect.
    """

def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Any,
    negate: bool = ...,
    keepdims: bool = ...,
    name: str | None = ...,
) -> None:
    """Reduce the trailing free dimensions in float32, or bit by bit.

    Sums add one element after the other, from the first on, with one rounding each.

    Args:
        dst: Tile that receives the result, with the dimensions that are not reduced.
        op: Operator of the reduction.
        data: Tile of the elements.
        axis: Reduced dimension, or a tuple of them: the last dimensions of ``data``,
            without the partitions.
        negate: Whether the result is negated.
        keepdims: Whether ``dst`` has extent 1 for each reduced dimension; otherwise
            ``dst`` lacks these dimensions, with the same values.
        name: Label of the call; it has no effect.
    """

def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: NkiTensor | float | int | None,
    reverse0: bool = ...,
    op1: Any = ...,
    operand1: NkiTensor | float | int | None = ...,
    reverse1: bool = ...,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Apply one or two operators with a number or one value per partition.

    Bitwise operators of 8- and 16-bit integers compute in 32 bits; the result keeps the lowest
    bits. NKI does not document the width of the value between ``op0`` and ``op1``.

    Args:
        dst: Tile that receives the result.
        data: Tile of the first inputs.
        op0: Operator of ``data`` and ``operand0``.
        operand0: Second input of ``op0``: a number, or one float32 value per partition.
        reverse0: Whether ``operand0`` is on the left of ``op0``.
        op1: Operator of the first result and ``operand1``; None if there is no second
            step.
        operand1: Second input of ``op1``: a number, or one float32 value per partition.
        reverse1: Whether ``operand1`` is on the left of ``op1``.
        engine: Engine that runs the call; with ``unknown`` it is ``vector``, or
            ``gpsimd`` for ``nl.rsqrt`` of tiles in SBUF.
        name: Label of the call; it has no effect.
    """

def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: NkiTensor | float | int,
    imm1: NkiTensor | float | int | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    name: str | None = ...,
) -> None:
    """Return the running values of ``reg = (src[i] <op0> imm0) <op1> reg``; registers persist.

    Args:
        dst: Tile that receives the register after each element.
        src: Tile of the elements, taken along the free dimension.
        op0: Operator of an element and ``imm0``.
        op1: Operator of that result and the register.
        imm0: Second input of ``op0``: a number, or one float32 value per partition.
        imm1: Value that ``load_reduce`` loads into the registers: a number, or one
            float32 value per partition; None is 0.
        reduce_cmd: Command to the engine's accumulator registers, one per partition:
            ``idle`` reduces nothing, ``reset`` sets them to the operator's neutral element,
            ``reduce`` combines the results with them, ``reset_reduce`` does both, and
            ``load_reduce`` combines the results with a given value.
        name: Label of the call; it has no effect.
    """

def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: NkiTensor | float | int | None,
    reduce_op: Any,
    reduce_res: NkiTensor | None = ...,
    reverse0: bool = ...,
    name: str | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    reduce_init: NkiTensor | float | int | None = ...,
    reduce_res_negate: bool = ...,
) -> None:
    """Return ``data <op0> operand0`` and its reduction along the free dimension.

    From NKI 0.4.0 on ``reduce_cmd`` chains calls on the Vector engine's accumulator registers;
    ``reset_reduce`` starts from 0 with any operator, as 0.4.0 and 0.5.0 document it, and from the
    operator's neutral element from 0.6.0 on. From then on the result may stay in the registers
    (``reduce_res=None``), and ``reduce_res_negate`` negates the written result, not the registers.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        dst: Tile that receives the result.
        data: Tile of the first inputs.
        op0: Operator of ``data`` and ``operand0``.
        operand0: Second input of ``op0``: a number, or one float32 value per partition.
        reduce_op: Operator that combines the results of a partition.
        reduce_res: Tile (P, 1) that receives the reduction; from NKI 0.6.0 on None
            leaves it in the registers.
        reverse0: Whether ``operand0`` is on the left of ``op0``.
        name: Label of the call; it has no effect.
        reduce_cmd: Initial value of the reduction: the neutral element or 0 with
            ``reset_reduce``, the registers with ``reduce``, ``reduce_init`` with
            ``load_reduce``.
        reduce_init: Value that ``load_reduce`` loads into the registers: a number, or
            one float32 value per partition.
        reduce_res_negate: Whether ``reduce_res`` receives the negated reduction.
    """

def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None:
    """Combine two tiles element by element.

    Tiles that are all int32 or uint32 and in SBUF run on the GpSimd engine, exactly and wrapping;
    on the Vector engine the same arithmetic goes through float32.

    Args:
        dst: Tile that receives the result.
        data1: Tile on the left of the operator.
        data2: Tile on the right of the operator, of the size of ``data1``.
        op: Operator of two inputs.
        engine: Engine that runs the call; with ``unknown`` it is ``gpsimd`` for 32-bit
            integers in SBUF and ``nl.power``, else ``vector``.
        name: Label of the call; it has no effect.
    """

def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: NkiTensor | float | int,
    op0: Any,
    op1: Any,
    reverse0: bool = ...,
    reverse1: bool = ...,
    name: str | None = ...,
) -> None:
    """Return ``r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i]``, started at ``initial``.

    Args:
        dst: Tile that receives the running values.
        data0: Tile of the left inputs of ``op0``.
        data1: Tile of the right inputs of ``op1``.
        initial: Value before the first element: a number, or one float32 value per
            partition.
        op0: Operator of an element of ``data0`` and the running value.
        op1: Operator of that result and an element of ``data1``.
        reverse0: Whether the running value is on the left of ``op0``.
        reverse1: Whether the element of ``data1`` is on the left of ``op1``.
        name: Label of the call; it has no effect.
    """

def topk(
    val_dst: NkiTensor,
    idx_dst: NkiTensor,
    src: NkiTensor,
    n: Any,
    sorted: bool = ...,
    name: str | None = ...,
) -> None:
    """Return the K largest of ``n`` values and their indices, for each group of 16 partitions.

    A group holds one list: element i is on its partition i % 16, in column i // 16. K is the number
    of elements per partition of ``val_dst``. Values ascend. Among equal values the call takes the
    smallest indices, and returns the smallest index last. All 16 partitions of a group receive the
    result. The documentation does not state which partitions do; its example returns whole tiles.

    From NKI 0.7.0 on the results have the layout of the list: result j is on partition j % 16, in
    column j // 16, and the other elements are not written. Without ``sorted`` NKI promises no
    order; the order is the same as in 0.6.0.

    Args:
        val_dst: Tile (P, K) of bfloat16 in SBUF that receives the values.
        idx_dst: Tile (P, K) of uint32 in SBUF that receives the indices.
        src: Tile of bfloat16 in SBUF, with a multiple of 16 partitions.
        n: Number of elements in the list of a group, 8 to 65535.
        sorted: Whether values descend; assumed, the documentation leaves the order
            open.
        name: Label of the call; it has no effect.
    """
