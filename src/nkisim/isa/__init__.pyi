# Written by tools/gen_stubs.py.
from typing import Any

from nkisim.memory import NkiTensor
from nkisim.diagnostics import NkiValidationError as NkiValidationError
from nkisim.isa import constants as constants
from nkisim.isa.dynamic_copies import tensor_copy_dynamic_dst as tensor_copy_dynamic_dst
from nkisim.isa.dynamic_copies import tensor_copy_dynamic_src as tensor_copy_dynamic_src
from nkisim.isa.registers import register_alloc as register_alloc
from nkisim.isa.registers import register_load as register_load
from nkisim.isa.registers import register_move as register_move
from nkisim.isa.registers import register_store as register_store
from nkisim.isa.version import get_nc_sub_version as get_nc_sub_version
from nkisim.isa.version import get_nc_version as get_nc_version
from nkisim.isa.virtual_register import VirtualRegister as VirtualRegister
from nkisim.machine import NkiInstruction as NkiInstruction
from nkisim.objects import NKIObject as NKIObject
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
    name: str | None = ...,
) -> None: ...

def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: NkiTensor | float | int | None = ...,
    scale: NkiTensor | float | int = ...,
    reduce_op: Any = ...,
    reduce_res: NkiTensor | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    name: str | None = ...,
) -> None: ...

def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    bias: NkiTensor | float | int | None = ...,
    scale: NkiTensor | float | int = ...,
    name: str | None = ...,
) -> None: ...

def affine_select(
    dst: NkiTensor,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: NkiTensor | float | int,
    on_false_value: Any,
    cmp_op: Any = ...,
    offset: Any = ...,
    name: str | None = ...,
) -> None: ...

def bn_aggr(
    dst: NkiTensor,
    data: NkiTensor,
    name: str | None = ...,
) -> None: ...

def bn_stats(
    dst: NkiTensor,
    data: NkiTensor,
    name: str | None = ...,
) -> None: ...

def core_barrier(
    data: NkiTensor,
    cores: Any,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

def dma_compute(
    dst: NkiTensor,
    srcs: Any,
    reduce_op: Any,
    scales: Any = ...,
    unique_indices: bool = ...,
    name: str | None = ...,
    oob_mode: oob_mode | str = ...,
) -> None: ...

def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    oob_mode: oob_mode | str = ...,
    dge_mode: dge_mode | str = ...,
    engine: engine | str = ...,
    name: str | None = ...,
    priority: Any = ...,
) -> None: ...

def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Any = ...,
    dge_mode: dge_mode | str = ...,
    oob_mode: oob_mode | str = ...,
    name: str | None = ...,
    priority: Any = ...,
) -> None: ...

def dropout(
    dst: NkiTensor,
    data: NkiTensor,
    prob: NkiTensor | float | int,
    name: str | None = ...,
) -> None: ...

def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: NkiTensor | float | int = ...,
    reduce_res: NkiTensor | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    reduce_init: NkiTensor | float | int = ...,
    name: str | None = ...,
) -> None: ...

def iota(
    dst: NkiTensor,
    pattern: Any,
    offset: Any = ...,
    channel_multiplier: Any = ...,
    name: str | None = ...,
) -> None: ...

def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: Any = ...,
    num_valid_indices: Any = ...,
    name: str | None = ...,
) -> None: ...

def max8(
    dst: NkiTensor,
    src: NkiTensor,
    name: str | None = ...,
) -> None: ...

def memset(
    dst: NkiTensor,
    value: float | int,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

def nc_find_index8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    name: str | None = ...,
) -> None: ...

def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: Any,
    dst_idx: NkiTensor | None = ...,
    name: str | None = ...,
) -> None: ...

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
) -> None: ...

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
) -> None: ...

def nc_n_gather(
    dst: NkiTensor,
    data: NkiTensor,
    indices: NkiTensor,
    name: str | None = ...,
) -> None: ...

def nc_stream_shuffle(
    dst: NkiTensor,
    src: NkiTensor,
    shuffle_mask: Any,
    name: str | None = ...,
) -> None: ...

def nc_transpose(
    dst: NkiTensor,
    data: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: Any = ...,
    padding_val: Any = ...,
    name: str | None = ...,
) -> None: ...

def quantize_mx(
    dst: NkiTensor,
    src: NkiTensor,
    dst_scale: NkiTensor,
    name: str | None = ...,
) -> None: ...

def rand2(
    dst: NkiTensor,
    min: NkiTensor | float | int,
    max: NkiTensor | float | int,
    name: str | None = ...,
) -> None: ...

def rand_get_state(
    dst: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

def rand_set_state(
    src_seeds: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

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
) -> None: ...

def reciprocal(
    dst: NkiTensor,
    data: NkiTensor,
    name: str | None = ...,
) -> None: ...

def rng(
    dst: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

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
) -> None: ...

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
) -> None: ...

def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: dma_engine | str = ...,
    name: str | None = ...,
) -> None: ...

def sequence_bounds(
    dst: NkiTensor,
    segment_ids: NkiTensor,
    name: str | None = ...,
) -> None: ...

def set_rng_seed(
    src_seeds: NkiTensor,
    name: str | None = ...,
) -> None: ...

def tensor_copy(
    dst: NkiTensor,
    src: NkiTensor,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

def tensor_copy_predicated(
    dst: NkiTensor,
    src: NkiTensor | float | int,
    predicate: NkiTensor,
    reverse_pred: bool = ...,
    name: str | None = ...,
) -> None: ...

def tensor_partition_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    name: str | None = ...,
) -> None: ...

def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Any,
    negate: bool = ...,
    keepdims: bool = ...,
    name: str | None = ...,
) -> None: ...

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
) -> None: ...

def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: NkiTensor | float | int,
    imm1: NkiTensor | float | int | None = ...,
    reduce_cmd: reduce_cmd | str = ...,
    name: str | None = ...,
) -> None: ...

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
) -> None: ...

def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: engine | str = ...,
    name: str | None = ...,
) -> None: ...

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
) -> None: ...

def topk(
    val_dst: NkiTensor,
    idx_dst: NkiTensor,
    src: NkiTensor,
    n: Any,
    name: str | None = ...,
) -> None: ...
