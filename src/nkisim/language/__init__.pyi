# Written by tools/gen_stubs.py.
from builtins import range as range
from builtins import str as DType
from nkisim.dtypes import bfloat16 as bfloat16
from nkisim.dtypes import bool_ as bool
from nkisim.dtypes import bool_ as bool_
from nkisim.dtypes import float16 as float16
from nkisim.dtypes import float32 as float32
from nkisim.dtypes import float4_e2m1fn_x4 as float4_e2m1fn_x4
from nkisim.dtypes import float8_e4m3 as float8_e4m3
from nkisim.dtypes import float8_e4m3fn as float8_e4m3fn
from nkisim.dtypes import float8_e4m3fn_x4 as float8_e4m3fn_x4
from nkisim.dtypes import float8_e5m2 as float8_e5m2
from nkisim.dtypes import float8_e5m2_x4 as float8_e5m2_x4
from nkisim.dtypes import float8_e8m0fnu as float8_e8m0fnu
from nkisim.dtypes import int16 as int16
from nkisim.dtypes import int32 as int32
from nkisim.dtypes import int64 as int64
from nkisim.dtypes import int8 as int8
from nkisim.dtypes import tfloat32 as tfloat32
from nkisim.dtypes import uint16 as uint16
from nkisim.dtypes import uint32 as uint32
from nkisim.dtypes import uint8 as uint8
from nkisim.language.control import affine_range as affine_range
from nkisim.language.control import ds as ds
from nkisim.language.control import no_reorder as no_reorder
from nkisim.language.control import num_programs as num_programs
from nkisim.language.control import program_id as program_id
from nkisim.language.control import program_ndim as program_ndim
from nkisim.language.control import sequential_range as sequential_range
from nkisim.language.control import static_range as static_range
from nkisim.language.creation import empty_like as empty_like
from nkisim.language.creation import full as full
from nkisim.language.creation import ndarray as ndarray
from nkisim.language.creation import ones as ones
from nkisim.language.creation import shared_constant as shared_constant
from nkisim.language.creation import shared_identity_matrix as shared_identity_matrix
from nkisim.language.creation import zeros as zeros
from nkisim.language.creation import zeros_like as zeros_like
from nkisim.language.elementwise import abs as abs
from nkisim.language.elementwise import abs_max as abs_max
from nkisim.language.elementwise import abs_min as abs_min
from nkisim.language.elementwise import add as add
from nkisim.language.elementwise import arctan as arctan
from nkisim.language.elementwise import average as average
from nkisim.language.elementwise import bitwise_and as bitwise_and
from nkisim.language.elementwise import bitwise_or as bitwise_or
from nkisim.language.elementwise import bitwise_xor as bitwise_xor
from nkisim.language.elementwise import bypass as bypass
from nkisim.language.elementwise import copy as copy
from nkisim.language.elementwise import divide as divide
from nkisim.language.elementwise import equal as equal
from nkisim.language.elementwise import erf as erf
from nkisim.language.elementwise import erf_dx as erf_dx
from nkisim.language.elementwise import exp as exp
from nkisim.language.elementwise import fmod as fmod
from nkisim.language.elementwise import gelu as gelu
from nkisim.language.elementwise import gelu_apprx_sigmoid as gelu_apprx_sigmoid
from nkisim.language.elementwise import gelu_apprx_sigmoid_dx as gelu_apprx_sigmoid_dx
from nkisim.language.elementwise import gelu_apprx_tanh as gelu_apprx_tanh
from nkisim.language.elementwise import gelu_dx as gelu_dx
from nkisim.language.elementwise import greater as greater
from nkisim.language.elementwise import greater_equal as greater_equal
from nkisim.language.elementwise import invert as invert
from nkisim.language.elementwise import left_shift as left_shift
from nkisim.language.elementwise import less as less
from nkisim.language.elementwise import less_equal as less_equal
from nkisim.language.elementwise import log as log
from nkisim.language.elementwise import logical_and as logical_and
from nkisim.language.elementwise import logical_not as logical_not
from nkisim.language.elementwise import logical_or as logical_or
from nkisim.language.elementwise import logical_xor as logical_xor
from nkisim.language.elementwise import maximum as maximum
from nkisim.language.elementwise import minimum as minimum
from nkisim.language.elementwise import mish as mish
from nkisim.language.elementwise import mod as mod
from nkisim.language.elementwise import multiply as multiply
from nkisim.language.elementwise import negative as negative
from nkisim.language.elementwise import not_equal as not_equal
from nkisim.language.elementwise import power as power
from nkisim.language.elementwise import prelu as prelu
from nkisim.language.elementwise import reciprocal as reciprocal
from nkisim.language.elementwise import relu as relu
from nkisim.language.elementwise import right_shift as right_shift
from nkisim.language.elementwise import rsqrt as rsqrt
from nkisim.language.elementwise import sigmoid as sigmoid
from nkisim.language.elementwise import sign as sign
from nkisim.language.elementwise import silu as silu
from nkisim.language.elementwise import silu_dx as silu_dx
from nkisim.language.elementwise import softplus as softplus
from nkisim.language.elementwise import sqrt as sqrt
from nkisim.language.elementwise import square as square
from nkisim.language.elementwise import subtract as subtract
from nkisim.language.elementwise import tanh as tanh
from nkisim.language.elementwise import where as where
from nkisim.language.grids import NkiBlockGrid as NkiBlockGrid
from nkisim.language.grids import NkiGrid as NkiGrid
from nkisim.language.grids import NkiTileGrid as NkiTileGrid
from nkisim.language.grids import alloc_blocks as alloc_blocks
from nkisim.language.grids import alloc_tiles as alloc_tiles
from nkisim.language.grids import blocks as blocks
from nkisim.language.grids import tiles as tiles
from nkisim.language.loops import dynamic_range as dynamic_range
from nkisim.language.loops import fori_loop as fori_loop
from nkisim.language.loops import while_loop as while_loop
from nkisim.language.movement import device_print as device_print
from nkisim.language.movement import load as load
from nkisim.language.movement import load_transpose2d as load_transpose2d
from nkisim.language.movement import store as store
from nkisim.language.random import dropout as dropout
from nkisim.language.random import rand as rand
from nkisim.language.random import random_seed as random_seed
from nkisim.language.reductions import all as all
from nkisim.language.reductions import matmul as matmul
from nkisim.language.reductions import max as max
from nkisim.language.reductions import mean as mean
from nkisim.language.reductions import min as min
from nkisim.language.reductions import prod as prod
from nkisim.language.reductions import rms_norm as rms_norm
from nkisim.language.reductions import softmax as softmax
from nkisim.language.reductions import sum as sum
from nkisim.language.reductions import var as var
from nkisim.language.rounding import ceil as ceil
from nkisim.language.rounding import floor as floor
from nkisim.language.rounding import trunc as trunc
from nkisim.language.shape import broadcast_to as broadcast_to
from nkisim.language.shape import expand_dims as expand_dims
from nkisim.language.shape import gather_flattened as gather_flattened
from nkisim.language.shape import transpose as transpose
from nkisim.language.target import hbm as hbm
from nkisim.language.target import is_hbm as is_hbm
from nkisim.language.target import is_on_chip as is_on_chip
from nkisim.language.target import is_psum as is_psum
from nkisim.language.target import is_sbuf as is_sbuf
from nkisim.language.target import private_hbm as private_hbm
from nkisim.language.target import psum as psum
from nkisim.language.target import sbuf as sbuf
from nkisim.language.target import shared_hbm as shared_hbm
from nkisim.language.target import tile_size as tile_size
from nkisim.language.trigonometry import cos as cos
from nkisim.language.trigonometry import sin as sin
from nkisim.language.trigonometry import tan as tan
from nkisim.memory import MemoryRegion as MemoryRegion
from nkisim.memory import NkiTensor as NkiTensor
from nkisim.objects import NKIObject as NKIObject

__all__ = [
    "DType",
    "MemoryRegion",
    "NKIObject",
    "NkiBlockGrid",
    "NkiGrid",
    "NkiTensor",
    "NkiTileGrid",
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "affine_range",
    "all",
    "alloc_blocks",
    "alloc_tiles",
    "arctan",
    "average",
    "bfloat16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "blocks",
    "bool",
    "bool_",
    "broadcast_to",
    "bypass",
    "ceil",
    "copy",
    "cos",
    "device_print",
    "divide",
    "dropout",
    "ds",
    "dynamic_range",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "expand_dims",
    "float16",
    "float32",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "floor",
    "fmod",
    "fori_loop",
    "full",
    "gather_flattened",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "hbm",
    "int16",
    "int32",
    "int64",
    "int8",
    "invert",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "left_shift",
    "less",
    "less_equal",
    "load",
    "load_transpose2d",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "ndarray",
    "negative",
    "no_reorder",
    "not_equal",
    "num_programs",
    "ones",
    "power",
    "prelu",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "rand",
    "random_seed",
    "range",
    "reciprocal",
    "relu",
    "right_shift",
    "rms_norm",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tfloat32",
    "tile_size",
    "tiles",
    "transpose",
    "trunc",
    "uint16",
    "uint32",
    "uint8",
    "var",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]
