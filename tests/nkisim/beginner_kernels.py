"""The errors that beginners make most, each in a small kernel of its own.

``ERRORS`` holds by name the rule that finds the error, and the body of ``kernel(x, y)``; x and y
are float32, of (64, 128) elements where ``SHAPES`` does not say otherwise. A body that does not
return stores its result, the tile z.
"""

import textwrap

import numpy as np

HEAD = """\
import math

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, y):
"""
STORE = """
out = nl.ndarray(z.shape, dtype=z.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=z)
return out
"""

T = "t = nl.load(x)\n"
TU = "t = nl.load(x)\nu = nl.load(y)\n"
Z = "z = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)\n"
R = "z = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)\n"
ACC = "acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)\n"
COPIED = """
z = nl.ndarray(acc.shape, dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=z, src=acc)
"""
OUT = "out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)\n"

ERRORS = {
    # names that do not exist
    "invented_multiply": ("A025", TU + Z + "nisa.multiply(z, t, u)"),
    "invented_scalar_mul": ("A025", T + Z + "nisa.scalar_mul(z, t, 2.0)"),
    "invented_exp": ("A025", T + Z + "nisa.exp(dst=z, data=t)"),
    "invented_clip": ("A025", T + Z + "nisa.clip(z, t, 0.75, 1.25)"),
    "invented_load": ("A025", Z + "nisa.load(z, x)"),
    "invented_matmul": ("A025", TU + ACC + "nisa.matmul(acc, t, u)" + COPIED),
    "other_name": ("A025", TU + "z = nl.mul(t, u)"),
    "other_reduction": ("A025", T + "z = nl.reduce_sum(t, axis=1)"),
    "other_module": ("A025", T + Z + "nl.tensor_copy(dst=z, src=t)"),
    "method_sum": ("A025", T + "z = t.sum(axis=1)"),
    "method_transposed": ("A025", T + "z = t.T"),
    "method_to": ("A025", T + "z = t.astype(nl.bfloat16)"),
    "short_dtype": ("A025", T + "z = nl.zeros((64, 128), dtype=nl.f32)\nnisa.tensor_copy(z, t)"),
    "memory_in_capitals": (
        "A025",
        T + "z = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.SBUF)\nnisa.tensor_copy(z, t)",
    ),
    # arguments that do not exist, or are missing
    "argument_x": ("A025", T + Z + "nisa.activation(dst=z, op=nl.exp, x=t)"),
    "argument_out": ("A025", TU + Z + "nisa.tensor_tensor(out=z, data1=t, data2=u, op=nl.add)"),
    "arguments_a_b": ("A025", TU + Z + "nisa.tensor_tensor(dst=z, a=t, b=u, op=nl.add)"),
    "argument_op": ("A025", T + Z + "nisa.tensor_scalar(z, data=t, op=nl.add, operand0=1.0)"),
    "argument_dim": ("A025", T + R + "nisa.tensor_reduce(dst=z, op=nl.add, data=t, dim=1)"),
    "arguments_lhs_rhs": ("A025", TU + ACC + "nisa.nc_matmul(acc, lhs=t, rhs=u)" + COPIED),
    "no_axis": ("A025", T + R + "nisa.tensor_reduce(dst=z, op=nl.add, data=t)"),
    "string_memory": (
        "A014",
        T + 'z = nl.ndarray((64, 128), dtype=nl.float32, buffer="sbuf")\nnisa.tensor_copy(z, t)',
    ),
    "numpy_dtype": (
        "D045",
        T + "z = nl.ndarray((64, 128), dtype=np.float32, buffer=nl.sbuf)\nnisa.tensor_copy(z, t)",
    ),
    "string_operator": ("D022", TU + Z + 'nisa.tensor_tensor(z, t, u, op="add")'),
    "numpy_operator": ("D022", TU + Z + "nisa.tensor_tensor(dst=z, data1=t, data2=u, op=np.add)"),
    "engine_number": ("A013", T + Z + "nisa.tensor_copy(dst=z, src=t, engine=5)"),
    # a missing dst
    "no_dst_unary": ("A026", T + "z = nisa.activation(op=nl.exp, data=t)"),
    "no_dst_binary": ("A026", TU + "z = nisa.tensor_tensor(data1=t, data2=u, op=nl.add)"),
    "no_dst_product": ("A026", TU + "acc = nisa.nc_matmul(stationary=t, moving=u)" + COPIED),
    "no_dst_reduction": ("A026", T + "z = nisa.tensor_reduce(op=nl.add, data=t, axis=1)"),
    "no_dst_load": ("A026", "z = nisa.dma_copy(src=x)"),
    "no_dst_transpose": ("A026", T + "acc = nisa.nc_transpose(data=t)" + COPIED),
    "nothing_returned": (
        "A025",
        T + Z + "r = nisa.activation(dst=z, op=nl.exp, data=t)\n"
        "nisa.tensor_scalar(dst=z, data=r, op0=nl.add, operand0=1.0)",
    ),
    # the wrong buffer
    "operand_in_hbm": ("M021", Z + "nisa.activation(dst=z, op=nl.exp, data=x)"),
    "result_in_hbm": ("M021", T + OUT + "nisa.activation(dst=out, op=nl.exp, data=t)\nreturn out"),
    "function_of_hbm": ("M049", "z = nl.exp(x)"),
    "product_in_sbuf": (
        "M020",
        TU + "z = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.nc_matmul(dst=z, stationary=t, moving=u)",
    ),
    "psum_stored": ("A001", TU + ACC + "nisa.nc_matmul(acc, t, u)\nz = acc"),
    "psum_as_operand": (
        "M019",
        TU + ACC + "nisa.nc_matmul(acc, t, u)\n"
        "w = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.nc_matmul(dst=w, stationary=acc, moving=acc)\nacc = w" + COPIED,
    ),
    "tile_returned": ("L060", T + "return t"),
    "nothing_is_returned": ("L060", T + OUT + "nisa.dma_copy(dst=out, src=t)"),
    "output_in_private_hbm": (
        "A012",
        T + "out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.private_hbm)\n"
        "nisa.dma_copy(dst=out, src=t)\nreturn out",
    ),
    # more than 128 partitions, and other shapes
    "rows_256": (
        "S001",
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\nt = nl.load(x)\n"
        "nisa.dma_copy(dst=out, src=t)\nreturn out",
    ),
    "rows_256_of_ndarray": (
        "S001",
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\nnisa.dma_copy(dst=t, src=x)\n"
        "nisa.activation(dst=t, op=nl.exp, data=t)\nnisa.dma_copy(dst=out, src=t)\nreturn out",
    ),
    "one_dimension": (
        "S002",
        "t = nl.zeros((64,), dtype=nl.float32)\nz = nl.exp(t)",
    ),
    "start_partition": (
        "S004",
        T + "z = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.tensor_copy(dst=z, src=t[8:40, 0:128])",
    ),
    "column_added": ("S008", TU + "z = nl.add(t, u[:, 0:1])"),
    "column_in_tensor_tensor": (
        "S007",
        TU + Z + "c = nl.max(u, axis=1)\n"
        "nisa.tensor_tensor(dst=z, data1=t, data2=c, op=nl.subtract)",
    ),
    "row_added": (
        "S005",
        T + Z + "b = nl.load(y[0:1, 0:128])\n"
        "nisa.tensor_tensor(dst=z, data1=t, data2=b, op=nl.add)",
    ),
    "past_the_end": ("S009", "z = nl.load(x[0:64, 64:160])"),
    # dtypes of operands
    "mixed_product": (
        "D003",
        TU + "h = nl.copy(t, dtype=nl.bfloat16)\n" + ACC + "nisa.nc_matmul(acc, h, u)" + COPIED,
    ),
    "scalar_of_16_bits": (
        "D036",
        TU + Z + "h = nl.copy(u, dtype=nl.bfloat16)\n"
        "nisa.tensor_scalar(dst=z, data=t, op0=nl.multiply, operand0=h[:, 0:1])",
    ),
    "float_fill_of_integers": (
        "A004",
        "z = nl.ndarray((64, 128), dtype=nl.int32, buffer=nl.sbuf)\nnisa.memset(dst=z, value=1.0)",
    ),
    "divided_tiles": ("D013", TU + "z = nl.divide(t, u)"),
    # the axis of a reduction
    "axis_of_partitions": (
        "S044",
        T + "z = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.tensor_reduce(dst=z, op=nl.add, data=t, axis=0)",
    ),
    "sum_over_partitions": ("S062", T + "z = nl.sum(t, axis=0)"),
    "axis_too_large": ("S044", T + R + "nisa.tensor_reduce(dst=z, op=nl.add, data=t, axis=2)"),
    "softmax": ("S008", T + "z = nl.softmax(t, axis=1)"),
    # limits of PSUM and SBUF
    "wide_product": (
        "S030",
        TU + "w = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.memset(dst=w, value=1.0)\n"
        "acc = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.nc_matmul(dst=acc, stationary=t, moving=w)" + COPIED,
    ),
    "contraction_in_columns": (
        "S031",
        TU + "w = nl.load(y)[0:64, 0:128]\n"
        "acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.nc_matmul(dst=acc, stationary=t, moving=w)" + COPIED,
    ),
    "contraction_in_a_free_dimension": (
        "S028",
        "t = nl.load(x)\nu = nl.load(y)\n"
        "acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.nc_matmul(dst=acc, stationary=t, moving=u)" + COPIED,
    ),
    "wide_tile": (
        "M009",
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\nt = nl.load(x)\n"
        "nisa.activation(dst=t, op=nl.exp, data=t)\nnisa.dma_copy(dst=out, src=t)\nreturn out",
    ),
    "sum_without_beginning": (
        "M001",
        T + Z + "for i in range(3):\n    nisa.tensor_tensor(dst=z, data1=z, data2=t, op=nl.add)",
    ),
    # operators, and functions of NumPy, on tiles
    "plus": ("L027", TU + "z = t + u"),
    "times_number": ("L027", T + "z = 2.0 * t"),
    "divided": ("L027", TU + "z = t / u"),
    "divided_by_number": ("L027", T + "z = t / 2.0"),
    "power": ("L027", T + "z = t**2"),
    "compared": ("L027", T + "z = t > 0.75"),
    "matrix_product": ("L026", "t = nl.load(x)\nu = nl.load_transpose2d(y)\nz = t @ u"),
    "numpy_order": ("S061", "t = nl.load(x)\nu = nl.load_transpose2d(y)\nz = nl.matmul(t, u)"),
    "in_place": ("L029", TU + "t += u\nz = t"),
    "part_assigned": ("L028", TU + "t[:, 0:64] = u[:, 0:64]\nz = t"),
    "numpy_function": ("L027", T + "z = np.exp(t)"),
    "numpy_sum": ("L027", T + "z = np.sum(t, axis=1)"),
    "math_function": ("L027", T + "z = math.exp(t)"),
    "operators_with_a_column": ("L027", T + "z = t - nl.max(t, axis=1)"),
    # loops
    "loop_over_pairs": (
        "L017",
        T + Z + "for i, c in enumerate((0, 64)):\n"
        "    nisa.tensor_copy(dst=z[:, c : c + 64], src=t[:, c : c + 64])",
    ),
    "true_division": (
        "L019",
        "z = nl.zeros((64, 128 / 2), dtype=nl.float32)",
    ),
    "comprehension": (
        "L006",
        T + Z + "starts = [64 * i for i in range(2)]\nfor c in starts:\n"
        "    nisa.tensor_copy(dst=z[:, c : c + 64], src=t[:, c : c + 64])",
    ),
    "index_of_dynamic_range": (
        "L033",
        T + Z + "for i in nl.dynamic_range(2):\n"
        "    nisa.tensor_copy(dst=z[:, nl.ds(i * 64, 64)], src=t[:, nl.ds(i * 64, 64)])",
    ),
    "condition_on_a_register": (
        "L031",
        T + Z + "for i in nl.dynamic_range(2):\n    if i == 0:\n"
        "        nisa.tensor_copy(dst=z, src=t)",
    ),
    "loop_over_a_tile": (
        "L027",
        T + Z + "nisa.tensor_copy(dst=z, src=t)\nfor i in range(len(t)):\n    assert i >= 0",
    ),
    "unordered_sum": (
        "R003",
        T + Z + "nisa.memset(dst=z, value=0.0)\nfor i in nl.affine_range(3):\n"
        "    nisa.tensor_tensor(dst=z, data1=z, data2=t, op=nl.add)",
    ),
}
SHAPES = {
    "rows_256": [(256, 64)] * 2,
    "rows_256_of_ndarray": [(256, 64)] * 2,
    "wide_tile": [(16, 100000)] * 2,
    "contraction_in_a_free_dimension": [(64, 128), (128, 64)],
}


def text_of(name):
    """The file of a kernel."""
    body = ERRORS[name][1]
    body = body if "\nreturn" in body or "returned" in name else body + STORE
    return HEAD + textwrap.indent(body, "    ").rstrip() + "\n"


def inputs_of(name):
    """The arguments of a kernel."""
    random = np.random.default_rng(0)
    shapes = SHAPES.get(name, [(64, 128)] * 2)
    return [random.uniform(0.5, 1.5, shape).astype(np.float32) for shape in shapes]
