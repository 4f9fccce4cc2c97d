"""``nki.language``: tensors, tile functions, loops, dtypes and buffers."""

from nkisim.dtypes import (
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nkisim.language.control import (
    affine_range,
    ds,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    static_range,
)
from nkisim.language.creation import (
    empty_like,
    full,
    ndarray,
    ones,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from nkisim.language.elementwise import (
    abs,
    abs_max,
    abs_min,
    add,
    arctan,
    average,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bypass,
    copy,
    divide,
    equal,
    erf,
    erf_dx,
    exp,
    fmod,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_sigmoid_dx,
    gelu_apprx_tanh,
    gelu_dx,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mish,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    prelu,
    reciprocal,
    relu,
    right_shift,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    softplus,
    sqrt,
    square,
    subtract,
    tanh,
    where,
)
from nkisim.language.grids import (
    NkiBlockGrid,
    NkiGrid,
    NkiTileGrid,
    alloc_blocks,
    alloc_tiles,
    blocks,
    tiles,
)
from nkisim.language.loops import (
    dynamic_range,
    fori_loop,
    while_loop,
)
from nkisim.language.movement import (
    device_print,
    load,
    load_transpose2d,
    store,
)
from nkisim.language.random import (
    dropout,
    rand,
    random_seed,
)
from nkisim.language.reductions import (
    all,
    matmul,
    max,
    mean,
    min,
    prod,
    rms_norm,
    softmax,
    sum,
    var,
)
from nkisim.language.rounding import ceil, floor, trunc
from nkisim.language.shape import (
    broadcast_to,
    expand_dims,
    gather_flattened,
    transpose,
)
from nkisim.language.target import (
    hbm,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    private_hbm,
    psum,
    sbuf,
    shared_hbm,
    tile_size,
)
from nkisim.language.trigonometry import cos, sin, tan
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.objects import NKIObject
from nkisim.removed import by_version, hide_modules

# Names that kernels use although the documentation does not list them.
bool = bool_
range = range

DType = str  # the type of dtypes in annotations

__getattr__ = by_version("nki.language", globals())
hide_modules(globals())
del by_version, hide_modules
