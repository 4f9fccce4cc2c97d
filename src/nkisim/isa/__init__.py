"""``nki.isa``: one function per instruction of a NeuronCore."""

from nkisim.diagnostics import NkiValidationError
from nkisim.isa import constants
from nkisim.isa.activations.activate2 import activate2
from nkisim.isa.activations.activation import activation, activation_reduce, exponential
from nkisim.isa.elementwise import (
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_scalar,
    tensor_tensor,
)
from nkisim.isa.fill import iota, memset
from nkisim.isa.movement.copies import assign as _assign  # implements `t[...] = value`
from nkisim.isa.movement.copies import tensor_copy_dynamic_dst, tensor_copy_dynamic_src
from nkisim.isa.movement.dma import dma_compute, dma_copy, dma_transpose
from nkisim.isa.movement.gather import (
    local_gather,
    nc_n_gather,
    nc_stream_shuffle,
    nonzero_with_count,
    sequence_bounds,
)
from nkisim.isa.products.matmul import nc_matmul
from nkisim.isa.products.mx import nc_matmul_mx, quantize_mx
from nkisim.isa.products.transpose import nc_transpose
from nkisim.isa.random.rng import (
    dropout,
    rand2,
    rand_get_state,
    rand_set_state,
    rng,
    set_rng_seed,
)
from nkisim.isa.reductions.normalisation import bn_aggr, bn_stats
from nkisim.isa.reductions.reduce import (
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar_reduce,
)
from nkisim.isa.reductions.scan import tensor_scalar_cumulative, tensor_tensor_scan
from nkisim.isa.reductions.search import max8, nc_find_index8, nc_match_replace8, topk
from nkisim.isa.registers import (
    register_alloc,
    register_load,
    register_move,
    register_store,
    scalar_load,
    scalar_store,
)
from nkisim.isa.registers.scalar import NkiScalar
from nkisim.isa.registers.virtual import VirtualRegister
from nkisim.isa.select import (
    affine_select,
    range_select,
    select_reduce,
    tensor_copy_predicated,
)
from nkisim.isa.sync import core_barrier, sendrecv
from nkisim.isa.version import get_nc_sub_version, get_nc_version
from nkisim.machine import NkiInstruction
from nkisim.objects import NKIObject
from nkisim.removed import by_version, hide_modules
from nkisim.spec.enums import (
    dependency,
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)

del _assign

__getattr__ = by_version("nki.isa", globals())
hide_modules(globals(), keep=("constants",))
del by_version, hide_modules
