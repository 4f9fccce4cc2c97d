"""Likely meanings of functions, arguments and methods that NKI does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal, NamedTuple

from nkisim.versions import has, in_force

Kind = Literal["binary", "unary", "reduce", "move", "matmul", "transpose", "fill", "select"]


class Intent(NamedTuple):
    """The meaning of a name: a kind of operation and its operator in ``nki.language``."""

    kind: Kind
    op: str = ""

    def remedy(self) -> str:
        """Return the call to make instead, for a message."""
        return {
            "binary": f"nisa.tensor_tensor(dst, data1, data2, op=nl.{self.op}) for two tiles, "
            f"nisa.tensor_scalar(dst, data, op0=nl.{self.op}, operand0=...) for a number or a "
            "(P, 1) tile",
            "unary": f"nisa.activation(dst=..., op=nl.{self.op}, data=...)",
            "reduce": f"nisa.tensor_reduce(dst=..., op=nl.{self.op}, data=..., axis=1)",
            "move": "nisa.dma_copy(dst, src) to or from HBM, nisa.tensor_copy(dst, src) on chip",
            "matmul": "nisa.nc_matmul(dst, stationary, moving) into a PSUM tile",
            "transpose": "nisa.nc_transpose(dst, data)",
            "fill": "nisa.memset(dst, value)",
            "select": "nisa.select_reduce, or nl.where",
        }[self.kind]


_BINARY = {
    "add": "add sum_of plus tensor_add add_tensors",
    "subtract": "subtract sub minus tensor_sub",
    "multiply": "multiply mul times tensor_mul mult hadamard scale",
    "divide": "divide div true_divide tensor_div",
    "maximum": "maximum max2 tensor_max",
    "minimum": "minimum min2 tensor_min",
    "power": "power pow",
    "mod": "mod remainder fmod",
    "equal": "equal eq",
    "not_equal": "not_equal ne",
    "less": "less lt",
    "less_equal": "less_equal le",
    "greater": "greater gt",
    "greater_equal": "greater_equal ge",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor xor",
    "left_shift": "left_shift",
    "right_shift": "right_shift",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}
_UNARY = (
    "exp log sqrt rsqrt tanh sigmoid gelu relu silu softplus sin erf square abs sign mish "
    "arctan reciprocal"
)
_REDUCE = {
    "add": "sum reduce_sum reduce_add row_sum",
    "maximum": "max reduce_max amax row_max",
    "minimum": "min reduce_min amin row_min",
}
_OTHERS: dict[Kind, str] = {
    "move": "copy move memcpy load store dma dma_start dma_load dma_store tensor_load memory_copy",
    "matmul": "matmul mm dot gemm bmm matmult mat_mul dot_general",
    "transpose": "transpose permute swapaxes t",
    "fill": "fill zeros ones full set zero memzero",
    "select": "where select",
}

_BY_NAME: dict[str, Intent] = {
    **{name: Intent("unary", name) for name in _UNARY.split()},
    **{name: Intent("reduce", op) for op, names in _REDUCE.items() for name in names.split()},
    **{name: Intent("binary", op) for op, names in _BINARY.items() for name in names.split()},
    **{name: Intent(kind) for kind, names in _OTHERS.items() for name in names.split()},
}

_ELSEWHERE = {
    "abs": "absolute fabs",
    "arctan": "atan",
    "divide": "true_divide div",
    "invert": "bitwise_not bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "matmul": "dot mm bmm vecdot",
    "max": "amax",
    "maximum": "fmax",
    "min": "amin",
    "minimum": "fmin",
    "mod": "remainder",
    "multiply": "mul",
    "negative": "neg",
    "power": "pow float_power",
    "right_shift": "bitwise_right_shift",
    "subtract": "sub",
    "transpose": "permute swapaxes permute_dims",
}
_IN_LANGUAGE = {name: known for known, names in _ELSEWHERE.items() for name in names.split()}
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


def nearest(name: str, accepted: Iterable[str]) -> str:
    """Return the accepted name that is spelled most like a name, or an empty string."""
    found = difflib.get_close_matches(name, list(accepted), 1)
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
    found = _IN_LANGUAGE.get(name, name)
    known = found not in _NOT_OF_TILES and has(in_force(), "nki.language", found)
    return found if known else ""


def counterpart(name: str) -> str:
    """Return what does to a tile what a function of NumPy, math or torch does to an array.

    Names a function of ``nki.language`` and an instruction, where there are such; else empty.
    """
    found = language_name(name)
    intent = None if name in _NOT_OF_TILES else intent_of(found or name)
    listed = [f"nl.{found}"] if found else []
    listed += [intent.remedy()] if intent is not None else []
    return ", or ".join(listed)


def argument_meant(name: str, accepted: list[str]) -> str:
    """Return the parameter that an unknown argument probably means, or an empty string."""
    for parameter in accepted:
        if name in ARGUMENTS.get(parameter, "").split():
            return parameter
    return ""
