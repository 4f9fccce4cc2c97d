"""Likely meanings of functions, arguments and methods that NKI does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from nkisim.versions import has, in_force
from nkisim.ways import undecided

Kind = Literal[
    "binary", "unary", "reduce", "formula", "instruction", "function", "move", "matmul", "transpose"
]

_REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}
"""By the operator of a reduction, the function of ``nki.language``."""

_CALLS = {
    "binary": "nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=nl.{op})",
    "unary": "nisa.activation(dst=dst, op=nl.{op}, data=a)",
    "reduce": "nisa.tensor_reduce(dst=dst, op=nl.{op}, data=a, axis=1)",
    "formula": "nisa.tensor_copy(dst=dst, src={op})",
    "instruction": "{op}",
    "move": "nisa.dma_copy(dst=dst, src=a)",
    "matmul": "nisa.nc_matmul(dst=dst, stationary=a, moving=b)",
    "transpose": "nisa.nc_transpose(dst=dst, data=a)",
}
"""By the kind of a meaning, the instruction that writes the result into ``dst``."""

_REMEDIES = {
    "binary": "nisa.tensor_tensor(dst, data1, data2, op=nl.{op}) for two tiles, "
    "nisa.tensor_scalar(dst, data, op0=nl.{op}, operand0=...) for a number or a (P, 1) tile",
    "unary": "nisa.activation(dst=..., op=nl.{op}, data=...)",
    "reduce": "nisa.tensor_reduce(dst=..., op=nl.{op}, data=..., axis=1)",
    "formula": "{op}",
    "instruction": "{op}",
    "function": "nl.{op}",
    "move": "nisa.dma_copy(dst, src) to or from HBM, nisa.tensor_copy(dst, src) on chip",
    "matmul": "nisa.nc_matmul(dst, stationary, moving) into a PSUM tile; stationary is the first "
    "matrix transposed",
    "transpose": "nisa.nc_transpose(dst, data)",
}


class Intent(NamedTuple):
    """The meaning of a name.

    Attributes:
        kind: The kind of operation.
        op: Its operator, or the function with the same arguments, in ``nki.language``; for other
            kinds an expression of the operands ``a``, ``b`` and ``c``, or an instruction.
    """

    kind: Kind
    op: str = ""

    def remedy(self) -> str:
        """Return the call to make instead, for a message."""
        if self == _DIVIDED:
            return f"{self.expression}, since no engine has nl.divide"
        return _REMEDIES[self.kind].format(op=self.op)

    @property
    def expression(self) -> str:
        """The value as an expression of ``a``, ``b`` and ``c``; empty if there is none."""
        if self == _DIVIDED:
            return "nl.multiply(a, nl.reciprocal(b))"
        operands = {"binary": "a, b", "unary": "a", "reduce": "a, axis=1"}.get(self.kind)
        return f"nl.{self.function}({operands})" if operands else self.op * (self.kind == "formula")

    @property
    def call(self) -> str:
        """The instruction that writes the value into ``dst``; empty if there is none."""
        if self == _DIVIDED:
            return _CALLS["formula"].format(op=self.expression)
        return _CALLS.get(self.kind, "").format(op=self.op)

    @property
    def operands(self) -> int:
        """The number of operands."""
        return len(set(re.findall(r"\b[abc]\b", self.call)))

    @property
    def function(self) -> str:
        """The function of ``nki.language`` with the same arguments; empty if there is none."""
        if self == _DIVIDED:
            return ""
        if self.kind == "formula":  # of the operands in their order
            plain = re.fullmatch(r"nl\.(\w+)\((?:a|a, b|a, b, c|a, axis=1)\)", self.op)
            return plain[1] if plain else ""
        if self.kind == "reduce":
            return _REDUCTIONS[self.op]
        same = self.kind in ("matmul", "transpose")
        return self.kind if same else self.op * (self.kind in ("binary", "unary", "function"))


_DIVIDED = Intent("binary", "divide")

INTENTS: dict[Kind, dict[str, str]] = {
    "binary": {
        "add": "add plus sum_of tensor_add add_tensors add_ iadd vadd vec_add adds add_scalar "
        "scalar_add tensor_scalar_add tensor_tensor_add elementwise_add eltwise_add",
        "subtract": "subtract sub minus tensor_sub sub_ isub vsub subs sub_scalar scalar_sub "
        "tensor_scalar_sub tensor_subtract elementwise_sub eltwise_sub",
        "multiply": "multiply mul times tensor_mul mult hadamard scale mul_ imul vmul muls "
        "mul_scalar scalar_mul tensor_scalar_mul tensor_tensor_mul tensor_multiply scalar_multiply "
        "elementwise_mul elementwise_multiply eltwise_mul hadamard_product multiply_scalar",
        "divide": "divide div true_divide tensor_div fdiv div_ vdiv div_rn fdividef "
        "scalar_div div_scalar tensor_divide elementwise_div",
        "maximum": "maximum max2 tensor_max fmax fmaxf vmax elementwise_max clamp_min clip_min",
        "minimum": "minimum min2 tensor_min fmin fminf vmin elementwise_min clamp_max clip_max",
        "power": "power pow powf float_power tensor_pow elementwise_pow",
        "equal": "equal eq is_equal equals cmp_eq",
        "not_equal": "not_equal ne neq cmp_ne",
        "less": "less lt less_than cmp_lt",
        "less_equal": "less_equal le lte leq cmp_le",
        "greater": "greater gt greater_than cmp_gt",
        "greater_equal": "greater_equal ge gte geq is_ge cmp_ge",
        "bitwise_and": "bitwise_and band bitand bit_and",
        "bitwise_or": "bitwise_or bor bitor bit_or",
        "bitwise_xor": "bitwise_xor xor bxor bitxor bit_xor",
        "left_shift": "left_shift shl lshift shift_left bitwise_left_shift logical_shift_left",
        "right_shift": "right_shift shr rshift shift_right bitwise_right_shift logical_shift_right",
        "logical_and": "logical_and land and_",
        "logical_or": "logical_or lor or_",
        "logical_xor": "logical_xor lxor",
    },
    "unary": {
        "exp": "exp expf exp_ exponentiate fast_expf activation_exp",
        "log": "log ln logf natural_log fast_logf",
        "sqrt": "sqrt sqrtf square_root sqrt_rn",
        "rsqrt": "rsqrt rsqrtf inv_sqrt inverse_sqrt reciprocal_sqrt invsqrt",
        "tanh": "tanh tanhf tanh_",
        "sigmoid": "sigmoid sigmoid_ logistic expit",
        "gelu": "gelu gelu_ gelu_erf gelu_exact",
        "gelu_apprx_tanh": "gelu_tanh gelu_new gelu_approx gelu_approx_tanh",
        "gelu_apprx_sigmoid": "quick_gelu gelu_sigmoid",
        "relu": "relu relu_ rectify relu_activation",
        "silu": "silu silu_ swish",
        "softplus": "softplus log1pexp",
        "sin": "sin sinf sine",
        "erf": "erf erff",
        "square": "square sq pow2 squared",
        "abs": "abs absolute fabs fabsf abs_ absval",
        "sign": "sign sgn signum",
        "mish": "mish",
        "arctan": "arctan atan atanf",
        "reciprocal": "recip rcp frcp_rn reciprocal_ one_over",
    },
    "reduce": {
        "add": "sum reduce_sum reduce_add row_sum rowsum sum_reduce sum_rows tensor_sum",
        "maximum": "max reduce_max amax row_max rowmax max_reduce tensor_reduce_max",
        "minimum": "min reduce_min amin row_min rowmin min_reduce tensor_reduce_min",
        "multiply": "prod reduce_prod reduce_mul row_prod",
    },
    "formula": {
        "nl.negative(a)": "negative neg negate unary_minus",
        "nl.cos(a)": "cos cosf cosine",
        "nl.tan(a)": "tan tanf",
        "nl.ceil(a)": "ceil ceilf round_up",
        "nl.floor(a)": "floor floorf round_down",
        "nl.trunc(a)": "trunc truncf fix",
        "nl.invert(a)": "invert bitwise_not bitwise_invert bitnot",
        "nl.equal(a, 0.0)": "logical_not lnot not_",
        "nl.subtract(nl.exp(a), 1.0)": "expm1 exp_minus_one",
        "nl.log(nl.add(a, 1.0))": "log1p log_one_plus",
        "nl.exp(nl.multiply(a, 0.6931471805599453))": "exp2 exp2f",
        "nl.exp(nl.multiply(a, 2.302585092994046))": "exp10 exp10f",
        "nl.multiply(nl.log(a), 1.4426950408889634)": "log2 log2f",
        "nl.multiply(nl.log(a), 0.4342944819032518)": "log10 log10f",
        "nl.minimum(nl.maximum(a, b), c)": "clip clamp clamp_ clip_by_value",
        "nl.minimum(nl.relu(a), 6.0)": "relu6",
        "nl.minimum(nl.maximum(a, -1.0), 1.0)": "hardtanh hard_tanh",
        "nl.add(nl.multiply(a, b), c)": "fma fmaf muladd multiply_add mul_add madd mad",
        "nl.add(nl.multiply(b, a), c)": "axpy saxpy",
        "nl.add(a, nl.multiply(b, c))": "addcmul",
        "nl.square(nl.subtract(a, b))": "squared_difference square_diff sqdiff",
        "nl.abs(nl.subtract(a, b))": "abs_diff absdiff",
        "nl.subtract(b, a)": "rsub rsubtract reverse_subtract",
        "nl.subtract(1.0, a)": "one_minus",
        "nl.multiply(nl.square(a), a)": "cube cubed pow3",
        "nl.sqrt(nl.add(nl.square(a), nl.square(b)))": "hypot hypotf",
        "nl.log(nl.sigmoid(a))": "logsigmoid log_sigmoid",
        "nl.multiply(nl.subtract(nl.exp(a), nl.exp(nl.negative(a))), 0.5)": "sinh sinhf",
        "nl.multiply(nl.add(nl.exp(a), nl.exp(nl.negative(a))), 0.5)": "cosh coshf",
        "nl.subtract(a, nl.trunc(a))": "frac",
        "nl.subtract(a, nl.floor(a))": "fract",
        "nl.not_equal(a, a)": "isnan is_nan",
        "nl.multiply(a, 0.017453292519943295)": "deg2rad radians",
        "nl.multiply(a, 57.29577951308232)": "rad2deg degrees",
        "nl.where(a, b, c)": "where select ifelse if_else mux ternary",
        "nl.where(b, c, a)": "masked_fill masked_fill_",
        "nl.mean(a, axis=1)": "mean reduce_mean row_mean average avg",
        "nl.var(a, axis=1)": "var variance reduce_var row_var",
        "nl.sqrt(nl.var(a, axis=1))": "std stddev",
        "nl.max(nl.abs(a), axis=1)": "absmax abs_max max_abs",
        "nl.sum(nl.square(a), axis=1)": "sum_of_squares sumsq square_sum",
        "nl.sqrt(nl.sum(nl.square(a), axis=1))": "l2_norm l2norm row_norm norm vector_norm",
        "nl.sum(nl.abs(a), axis=1)": "l1_norm l1norm",
        "nl.sum(nl.multiply(a, b), axis=1)": "vecdot row_dot rowwise_dot",
        "nl.sum(nl.not_equal(a, 0.0), axis=1)": "count_nonzero",
        "nl.max(nl.not_equal(a, 0.0), axis=1)": "any",
        "nl.mean(nl.square(nl.subtract(a, b)), axis=1)": "mse_loss mse",
        "nl.maximum(a, nl.multiply(a, 0.01))": "leaky_relu leakyrelu",
        "nl.where(nl.greater(a, 0.0), a, nl.subtract(nl.exp(a), 1.0))": "elu",
        "nl.minimum(nl.maximum(nl.add(nl.multiply(a, 1 / 6), 0.5), 0.0), 1.0)": "hardsigmoid",
        "nl.multiply(a, nl.minimum(nl.maximum(nl.add(nl.multiply(a, 1 / 6), 0.5), 0.0), 1.0))": (
            "hardswish"
        ),
        "nl.multiply(a, nl.reciprocal(nl.add(nl.abs(a), 1.0)))": "softsign",
        "nl.add(a, nl.multiply(c, nl.subtract(b, a)))": "lerp",
        "nl.subtract(1.0, nl.erf(a))": "erfc",
        "nl.less_equal(nl.abs(a), 3.4028234663852886e+38)": "isfinite",
    },
    "instruction": {
        "nisa.memset(dst=dst, value=a)": "fill full set fill_ set_value fill_value fill_constant",
        "nisa.memset(dst=dst, value=0.0)": "zeros zero memzero zero_ zero_fill set_zero fill_zero",
        "nisa.memset(dst=dst, value=1.0)": "ones ones_ fill_ones set_ones",
        "nisa.tensor_partition_reduce(dst=dst, op=nl.add, data=a)": "partition_sum column_sum "
        "colsum sum_partitions cross_partition_sum partition_all_reduce",
        "nisa.tensor_tensor_scan(dst=dst, data0=nl.ones(a.shape, dtype=nl.float32), data1=a, "
        "initial=0.0, op0=nl.multiply, op1=nl.add)": "cumsum prefix_sum inclusive_scan",
        "nisa.tensor_tensor_scan(dst=dst, data0=a, data1=nl.zeros(a.shape, dtype=nl.float32), "
        "initial=1.0, op0=nl.multiply, op1=nl.add)": "cumprod cumulative_product",
        "nisa.tensor_tensor_scan(dst=dst, data0=nl.zeros(a.shape, dtype=nl.float32), data1=a, "
        "initial=-3.4e38, op0=nl.add, op1=nl.maximum)": "cummax cumulative_max",
        "nisa.max8(dst=dst, src=a)": "top8 max_8 top_8",
    },
    "function": {
        "ndarray": "empty alloc allocate alloc_tile make_tile new_tile create_tile alloc_tensor "
        "create_tensor tensor",
        "zeros": "zeros_tile zero_tile",
        "program_id": "get_program_id block_id block_idx pid core_id get_core_id",
        "num_programs": "num_blocks grid_size num_cores get_num_programs",
        "affine_range": "parallel_range prange parallel_for",
        "sequential_range": "serial_range seq_range for_range",
        "static_range": "unrolled_range unroll_range",
        "ds": "dslice dynamic_slice dyn_slice",
        "device_print": "print printf debug_print",
        "broadcast_to": "broadcast expand bcast broadcast_tensor",
        "expand_dims": "unsqueeze",
        "load_transpose2d": "load_transposed load_transpose transpose_load",
        "rand": "uniform random_uniform",
        "random_seed": "seed manual_seed set_seed",
    },
    "move": {
        "": "copy move memcpy load store dma dma_start dma_load dma_store tensor_load memory_copy "
        "memcpy_async cp_async copy_async async_copy load_tile store_tile dma_transfer dma_memcpy "
        "tensor_store tensor_move copy_tile copy_ load_tensor store_tensor dma_read dma_write"
    },
    "matmul": {
        "": "matmul mm dot gemm bmm matmult mat_mul dot_general mma wmma mma_sync matrix_multiply "
        "tensor_matmul nc_mm"
    },
    "transpose": {
        "": "transpose permute swapaxes t permute_dims trans transpose_tile tensor_transpose "
        "transpose2d"
    },
}
"""Words of NumPy, torch, Triton, CUDA and older NKI, and invented ones, by what they mean."""

_BY_NAME = {
    name: Intent(kind, op)
    for kind, meanings in INTENTS.items()
    for op, names in meanings.items()
    for name in [*names.split(), *([op] if kind == "unary" else [])]
}

_NOT_OF_TILES = {"load", "store", "ndarray"}  # NumPy's are other functions

ARGUMENTS = {
    "dst": "out output result dest destination target res y o",
    "data": "x input in_ tensor inp src a operand tile data_tile",
    "src": "source x input in_ tensor data from_",
    "data1": "x a lhs left input1 in1 src1 tensor1",
    "data2": "y b rhs right input2 in2 src2 tensor2",
    "op": "fn func function act activation operator operation opcode",
    "op0": "op fn func operator operation",
    "operand0": "scalar value operand const constant imm b y",
    "stationary": "lhs lhsT a x left weights w",
    "moving": "rhs b y right activations",
    "accumulate": "acc accum accumulation accumulate_flag psum_accumulate",
    "value": "val fill constant scalar",
    "axis": "dim dims axes",
    "scale": "multiplier alpha",
    "buffer": "memory mem location space",
}
"""Common wrong names of a parameter, for instructions that have that parameter."""

METHODS = {
    "T": "nisa.nc_transpose(dst, data), or nl.load_transpose2d for a load",
    "transpose": "nisa.nc_transpose(dst, data), or nl.load_transpose2d for a load",
    "sum": "nl.sum(tensor, axis=1), or nisa.tensor_reduce(dst, op=nl.add, data, axis=1)",
    "max": "nl.max(tensor, axis=1), or nisa.tensor_reduce(dst, op=nl.maximum, data, axis=1)",
    "min": "nl.min(tensor, axis=1), or nisa.tensor_reduce(dst, op=nl.minimum, data, axis=1)",
    "mean": "nl.mean(tensor, axis=1), or nisa.bn_stats and nisa.bn_aggr",
    "copy": "nisa.tensor_copy(dst, src)",
    "fill": "nisa.memset(dst, value)",
    "item": "nisa.register_load, for a number that decides",
    "numpy": "return the tensor; the host gets an array",
    "tolist": "return the tensor; the host gets an array",
    "flatten": ".reshape(shape), which keeps the partitions",
    "ravel": ".reshape(shape), which keeps the partitions",
    "squeeze": ".reshape(shape)",
    "unsqueeze": ".reshape(shape)",
    "to": "nisa.tensor_copy into a tile of the other dtype or memory",
    "dot": "nisa.nc_matmul(dst, stationary, moving)",
    "matmul": "nisa.nc_matmul(dst, stationary, moving)",
    "repeat": "nl.broadcast_to(tensor, shape)",
    "expand": "nl.broadcast_to(tensor, shape)",
}
"""Methods of other libraries' tensors, and their replacements."""


CONDITION = (
    "the value is known only on the device: compute both results and select by a mask, with "
    "nl.where or nisa.tensor_copy_predicated; to repeat work, load it with nisa.register_load and "
    "write `while register:` or nl.dynamic_range(register)"
)
"""The replacements of a Python condition on the contents of a tensor."""

DTYPE_NAMES = {
    "f32": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "f8": "float8_e4m3",
    "fp8": "float8_e4m3",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
}
"""Short names of dtypes, and the names that ``nki.language`` has."""

NAMES = DTYPE_NAMES | {
    **dict.fromkeys(("single", "float", "fp32_t"), "float32"),
    **dict.fromkeys(("half", "float_16"), "float16"),
    **dict.fromkeys(("bfloat", "bf16_t"), "bfloat16"),
    **dict.fromkeys(("tf32", "fp32r"), "tfloat32"),
    **dict.fromkeys(("fp8_e4m3", "float8e4"), "float8_e4m3"),
    **dict.fromkeys(("fp8_e5m2", "float8e5"), "float8_e5m2"),
    **dict.fromkeys(("int", "integer"), "int32"),
    **dict.fromkeys(("uint", "unsigned"), "uint32"),
    **dict.fromkeys(("SBUF", "sram", "SRAM", "smem"), "sbuf"),
    **dict.fromkeys(("PSUM", "psum_buf"), "psum"),
    **dict.fromkeys(("HBM", "dram", "DRAM", "gmem"), "shared_hbm"),
}
"""Names of dtypes and memories that ``nki.language`` does not have, and those that it has."""


def nearest(name: str, accepted: Iterable[str], least: float = 0.6) -> str:
    """Return the accepted name that is spelled most like a name, or an empty string.

    ``least`` is the smallest similarity, from 0 to 1.
    """
    import difflib

    found = difflib.get_close_matches(name, list(accepted), 1, least)
    return found[0] if found else ""


def intent_of(name: str) -> Intent | None:
    """Return the likely meaning of a function that does not exist."""
    lowered = name.lower()
    for prefix in ("tensor_", "nc_", "elementwise_", "vector_", "scalar_", "activation_"):
        if lowered not in _BY_NAME and lowered.startswith(prefix):
            lowered = lowered.removeprefix(prefix)
    return _BY_NAME.get(lowered)


def language_name(name: str) -> str:
    """Return the function of ``nki.language`` that does what one of NumPy, math or torch does.

    Empty where the version in force has none.
    """
    there = has(in_force(), "nki.language", name)
    found = name if there or name not in _BY_NAME else _BY_NAME[name].function
    known = found not in _NOT_OF_TILES and has(in_force(), "nki.language", found)
    return found if known else ""


def counterpart(name: str) -> str:
    """Return what does to a tile what a function of NumPy, math or torch does to an array.

    Names a function of ``nki.language`` and an instruction, where there are such; else empty.
    """
    if text := undecided(name):
        return text
    found = language_name(name)
    intent = None if name in _NOT_OF_TILES else intent_of(found or name)
    remedy = "" if intent is None else intent.remedy()
    listed = [f"nl.{found}"] if found and intent != _DIVIDED else []
    return ", or ".join([*listed, *([remedy] if remedy not in ("", *listed) else [])])


def argument_meant(name: str, accepted: list[str]) -> str:
    """Return the parameter that an unknown argument probably means, or an empty string."""
    for parameter in accepted:
        if name in ARGUMENTS.get(parameter, "").split():
            return parameter
    return ""
