"""One small example call of every instruction, for its reference page.

An example is data; ``program`` converts it to a file that a reader can run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD = """\
{extra}import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
"""


@dataclass(frozen=True)
class Example:
    """A call on a few numbers.

    Attributes:
        call: The line, or lines, of the instruction call.
        inputs: The tensors in HBM, as expressions, by name. ``x_hbm`` stays in HBM; the others
            are loaded into SBUF tiles of the same name.
        tiles: Shape, dtype and, if it is not SBUF, buffer of the output tiles.
        shown: The tile that is returned.
        target: The generation, if it is not the last one.
        cores: Number of cores that run the kernel.
        nki: The NKI version.
    """

    call: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    tiles: Mapping[str, str] = field(default_factory=dict)
    shown: str = "dst"
    target: str = ""
    cores: int = 1
    nki: str = "0.3.0"


def program(example: Example) -> str:
    """Return the example as a file that prints its result."""
    given = list(example.inputs) or ["unused"]
    body = []
    for name, tile in example.tiles.items():
        shape, dtype, *buffer = tile.split("; ")
        memory = buffer[0] if buffer else "sbuf"
        body.append(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{memory})")
    loaded = [name for name in example.inputs if not name.endswith("_hbm")]
    for name in loaded:
        body.append(f"{name} = nl.ndarray({name}_in.shape, dtype={name}_in.dtype, buffer=nl.sbuf)")
        body.append(f"nisa.dma_copy(dst={name}, src={name}_in)")
    body += example.call.strip().splitlines()
    body += _returned(example)
    parameters = ", ".join(f"{name}_in" if name in loaded else name for name in given)
    kernel = f"@nkisim.jit\ndef example({parameters}):\n" + textwrap.indent("\n".join(body), "    ")
    values = [f"{name} = {value}" for name, value in example.inputs.items()]
    values = values or ["unused = np.zeros((1, 1), np.float32)"]
    launched = "example" if example.cores == 1 else f"example[{example.cores}]"
    target = f', target="{example.target}"' if example.target else ""
    if example.nki != "0.3.0":
        target += f', nki="{example.nki}"'
    ran = f"print(nkisim.simulate({launched}{target})({', '.join(given)}))"
    numbers = "\n".join([*values, ran])
    head = HEAD.format(extra="import ml_dtypes\n" if "ml_dtypes" in numbers else "")
    return "\n\n".join([head, f"{kernel}\n", numbers]) + "\n"


def _returned(example: Example) -> list[str]:
    """Return the lines that copy the result to HBM, through SBUF if it is in PSUM."""
    shown, lines = example.shown, []
    tile = example.tiles.get(shown, "")
    if tile.endswith("shared_hbm"):
        return [f"return {shown}"]
    if tile.endswith("psum"):
        lines.append(f"copy = nl.ndarray({shown}.shape, dtype={shown}.dtype, buffer=nl.sbuf)")
        lines.append(f"nisa.tensor_copy(dst=copy, src={shown})")
        shown = "copy"
    shape, place = f"{shown}.shape", "out"
    if example.cores > 1:
        # Written out, because the compiler does not accept an unpacked shape.
        sizes = tile.split("; ")[0].strip("()")
        shape, place = f"({example.cores}, {sizes})", "out[nl.program_id(0)]"
    return [
        *lines,
        f"out = nl.ndarray({shape}, dtype={shown}.dtype, buffer=nl.shared_hbm)",
        f"nisa.dma_copy(dst={place}, src={shown})",
        "return out",
    ]


A = "np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])"
B = "np.float32([[10, 20, 30, 40], [50, 60, 70, 80]])"
COLUMN = "np.float32([[10], [100]])"
SIGNED = "np.float32([[-2, -1, 0, 1], [2, 3, -4, 5]])"
LIKE_A = "(2, 4); float32"
EIGHT = "np.float32([[4, 9, 2, 7, 1, 8, 3, 6, 5, 0]])"
TOP = "np.float32([[9, 8, 7, 6, 5, 4, 3, 2]])"
ROWS = "np.arange(64, dtype=np.float32).reshape(32, 2)"
SEEDED = """\
seed = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
nisa.memset(dst=seed, value=42)
nisa.set_rng_seed(seed)
"""
STATE = "np.arange(6, dtype=np.uint32)[None] + np.uint32(1)"

EXAMPLES = {
    "activate2": Example(
        "nisa.activate2(\n    dst=dst, op=nl.prelu, data=data, imm0=2.0, imm1=1.0, "
        "op0=nl.multiply,\n    op1=nl.subtract, relu_param=0.25,\n)",
        {"data": SIGNED},
        {"dst": LIKE_A},
        target="gen4",
        nki="0.4.0",
    ),
    "activation": Example(
        "nisa.activation(dst=dst, op=nl.square, data=data, bias=bias, scale=2.0)",
        {"data": A, "bias": COLUMN},
        {"dst": LIKE_A},
    ),
    "activation_reduce": Example(
        "nisa.activation_reduce(\n    dst=dst, op=nl.relu, data=data, reduce_op=nl.add, "
        "reduce_res=total\n)",
        {"data": SIGNED},
        {"dst": LIKE_A, "total": "(2, 1); float32"},
        shown="total",
    ),
    "affine_select": Example(
        "nisa.affine_select(\n    dst=dst, pattern=[[-1, 4]], channel_multiplier=1, "
        "on_true_tile=data,\n    on_false_value=0.0, cmp_op=nl.greater_equal,\n)",
        {"data": "np.arange(1, 17, dtype=np.float32).reshape(4, 4)"},
        {"dst": "(4, 4); float32"},
    ),
    "bn_aggr": Example(
        "nisa.bn_stats(dst=stats, data=data)\nnisa.bn_aggr(dst=dst, data=stats)",
        {"data": A},
        {"stats": "(2, 6); float32", "dst": "(2, 2); float32"},
    ),
    "bn_stats": Example(
        "nisa.bn_stats(dst=dst, data=data)", {"data": A}, {"dst": "(2, 6); float32"}
    ),
    "core_barrier": Example(
        "core = nl.program_id(0)\nnisa.dma_copy(dst=shared[core:core + 1], src=data)\n"
        "nisa.core_barrier(data=shared, cores=(0, 1))\nnisa.dma_copy(dst=dst, src=shared)",
        {"data": "np.float32([[7, 8]])"},
        {"shared": "(2, 2); float32; shared_hbm", "dst": "(2, 2); float32"},
        cores=2,
        target="gen3",
    ),
    "dma_compute": Example(
        "nisa.dma_compute(dst=dst, srcs=[a_hbm, b_hbm], reduce_op=nl.add, scales=[1.0, 1.0])",
        {"a_hbm": A, "b_hbm": B},
        {"dst": "(2, 4); float32; shared_hbm"},
    ),
    "dma_copy": Example(
        "nisa.dma_copy(dst=dst[:, 0:2], src=a_hbm[:, 2:4])\n"
        "nisa.dma_copy(dst=dst[:, 2:4], src=a_hbm[:, 0:2])",
        {"a_hbm": A},
        {"dst": LIKE_A},
    ),
    "dma_transpose": Example(
        "nisa.dma_transpose(dst=dst, src=a_hbm)", {"a_hbm": A}, {"dst": "(4, 2); float32"}
    ),
    "dropout": Example(
        SEEDED + "nisa.dropout(dst=dst, data=data, prob=0.5)", {"data": A}, {"dst": LIKE_A}
    ),
    "exponential": Example(
        "nisa.exponential(dst=dst, src=data, max_value=largest)",
        {"data": "np.float32([[0, 1, 2, 4], [1, 2, 3, 5]])", "largest": "np.float32([[4], [5]])"},
        {"dst": LIKE_A},
        target="gen4",
    ),
    "iota": Example(
        "nisa.iota(dst=dst, pattern=[[1, 4]], offset=100, channel_multiplier=10)",
        {},
        {"dst": "(3, 4); int32"},
    ),
    "local_gather": Example(
        "nisa.local_gather(dst=dst, src_buffer=data, index=index)\n"
        "nisa.tensor_copy(dst=first, src=dst[0:1])",
        {
            "data": "np.tile(np.float32([10, 20, 30, 40]), (16, 1))",
            "index": "np.uint16([[15 - i if i < 4 else 3] for i in range(16)]) % 4",
        },
        {"dst": "(16, 16); float32", "first": "(1, 16); float32"},
        shown="first",
    ),
    "max8": Example("nisa.max8(dst=dst, src=data)", {"data": EIGHT}, {"dst": "(1, 8); float32"}),
    "memset": Example("nisa.memset(dst=dst, value=1.5)", {}, {"dst": "(2, 4); bfloat16"}),
    "nc_find_index8": Example(
        "nisa.nc_find_index8(dst=dst, data=data, vals=vals)",
        {"data": EIGHT, "vals": TOP},
        {"dst": "(1, 8); uint32"},
    ),
    "nc_match_replace8": Example(
        "nisa.nc_match_replace8(dst=dst, data=data, vals=vals, imm=-1.0)",
        {"data": EIGHT, "vals": TOP},
        {"dst": "(1, 10); float32"},
    ),
    "nc_matmul": Example(
        "nisa.nc_matmul(dst=dst, stationary=left, moving=right)",
        {"left": A, "right": B},
        {"dst": "(4, 4); float32; psum"},
    ),
    "nc_matmul_mx": Example(
        "nisa.quantize_mx(dst=words, src=data, dst_scale=scales)\nnisa.nc_matmul_mx(\n"
        "    dst=dst, stationary=words, moving=words, stationary_scale=scales, "
        "moving_scale=scales\n)",
        {"data": "np.ones((32, 16), np.float32).astype(ml_dtypes.bfloat16)"},
        {
            "words": "(32, 4); float8_e4m3fn_x4",
            "scales": "(4, 4); uint8",
            "dst": "(4, 4); float32; psum",
        },
        target="gen4",
    ),
    "nc_n_gather": Example(
        "nisa.nc_n_gather(dst=dst, data=data, indices=indices)",
        {"data": A, "indices": "np.uint32([[3, 3, 0], [0, 1, 2]])"},
        {"dst": "(2, 3); float32"},
    ),
    "nc_stream_shuffle": Example(
        "mask = []\nfor i in range(32):\n    mask.append(31 - i)\n"
        "nisa.nc_stream_shuffle(dst=dst, src=data, shuffle_mask=mask)\n"
        "nisa.tensor_copy(dst=first, src=dst[0:4])",
        {"data": ROWS},
        {"dst": "(32, 2); float32", "first": "(4, 2); float32"},
        shown="first",
    ),
    "nc_transpose": Example(
        "nisa.nc_transpose(dst=dst, data=data)", {"data": A}, {"dst": "(4, 2); float32; psum"}
    ),
    "nonzero_with_count": Example(
        "nisa.nonzero_with_count(dst=dst, src=data)\nnisa.tensor_copy(dst=first, src=dst[0:1])",
        {"data": "np.tile(np.int32([0, 5, 0, 0, 9, 1]), (16, 1))"},
        {"dst": "(16, 7); int32", "first": "(1, 7); int32"},
        shown="first",
        target="gen3",
    ),
    "quantize_mx": Example(
        "nisa.quantize_mx(dst=dst, src=data, dst_scale=scales)\n"
        "nisa.tensor_copy(dst=first, src=scales)",
        {
            "data": "np.repeat(2.0 ** np.arange(4), 8)[:, None].repeat(16, 1)"
            ".astype(ml_dtypes.bfloat16)"
        },
        {
            "dst": "(32, 4); float8_e4m3fn_x4",
            "scales": "(4, 4); uint8",
            "first": "(4, 4); uint8",
        },
        shown="first",
        target="gen4",
    ),
    "rand2": Example(
        SEEDED + "nisa.rand2(dst=dst, min=-1.0, max=1.0)", {}, {"dst": LIKE_A}, target="gen4"
    ),
    "rand_get_state": Example(
        SEEDED + "nisa.rand_get_state(dst=dst, engine=nisa.engine.vector)",
        {},
        {"dst": "(1, 24); uint32"},
        target="gen4",
    ),
    "rand_set_state": Example(
        "nisa.rand_set_state(src_seeds=state, engine=nisa.engine.gpsimd)\n"
        "nisa.rand_get_state(dst=dst, engine=nisa.engine.gpsimd)",
        {"state": STATE},
        {"dst": "(1, 6); uint32"},
        target="gen3",
    ),
    "range_select": Example(
        "nisa.range_select(\n    dst=dst, on_true_tile=data, comp_op0=nl.greater_equal, "
        "comp_op1=nl.less,\n    bound0=first, bound1=end, reduce_res=largest,\n)",
        {"data": A, "first": "np.float32([[1], [0]])", "end": "np.float32([[3], [2]])"},
        {"dst": LIKE_A, "largest": "(2, 1); float32"},
        target="gen3",
    ),
    "reciprocal": Example("nisa.reciprocal(dst=dst, data=data)", {"data": A}, {"dst": LIKE_A}),
    "rng": Example(
        SEEDED + "nisa.rng(dst=dst, engine=nisa.engine.vector)", {}, {"dst": "(2, 4); uint32"}
    ),
    "scalar_tensor_tensor": Example(
        "nisa.scalar_tensor_tensor(\n    dst=dst, data=data, op0=nl.multiply, operand0=column, "
        "op1=nl.add, operand1=other\n)",
        {"data": A, "column": COLUMN, "other": B},
        {"dst": LIKE_A},
    ),
    "select_reduce": Example(
        "nisa.select_reduce(dst=dst, predicate=chosen, on_true=data, on_false=0.0)",
        {"data": A, "chosen": "np.uint8([[1, 0, 1, 0], [0, 0, 1, 1]])"},
        {"dst": LIKE_A},
    ),
    "sendrecv": Example(
        "core = nl.program_id(0)\nnisa.tensor_scalar(dst=mine, data=data, op0=nl.multiply, "
        "operand0=core + 1.0)\nnisa.sendrecv(\n    dst=dst, src=mine, send_to_rank=1 - core, "
        "recv_from_rank=1 - core, pipe_id=0\n)\nnisa.tensor_copy(dst=first, src=dst[0:1])",
        {"data": "np.ones((16, 2), np.float32)"},
        {
            "mine": "(16, 2); float32",
            "dst": "(16, 2); float32",
            "first": "(1, 2); float32",
        },
        shown="first",
        cores=2,
        target="gen3",
    ),
    "sequence_bounds": Example(
        "nisa.sequence_bounds(dst=dst, segment_ids=ids)",
        {"ids": "np.int32([[1, 1, 0, 2, 2, 2]])"},
        {"dst": "(1, 12); int32"},
    ),
    "set_rng_seed": Example(
        "nisa.set_rng_seed(seed)\nnisa.rng(dst=dst, engine=nisa.engine.vector)",
        {"seed": "np.int32([[42]])"},
        {"dst": "(2, 4); uint32"},
    ),
    "tensor_copy": Example(
        "nisa.tensor_copy(dst=dst, src=data)",
        {"data": "np.float32([[1.0009765625, -2.5]])"},
        {"dst": "(1, 2); bfloat16"},
    ),
    "tensor_copy_predicated": Example(
        "nisa.memset(dst=dst, value=0.0)\n"
        "nisa.tensor_copy_predicated(dst=dst, src=data, predicate=chosen)",
        {"data": A, "chosen": "np.uint8([[1, 0, 1, 0], [0, 0, 1, 1]])"},
        {"dst": LIKE_A},
    ),
    "tensor_partition_reduce": Example(
        "nisa.tensor_partition_reduce(dst=dst, op=nl.add, data=data)",
        {"data": A},
        {"dst": "(1, 4); float32"},
    ),
    "tensor_reduce": Example(
        "nisa.tensor_reduce(dst=dst, op=nl.add, data=data, axis=1)",
        {"data": A},
        {"dst": "(2, 1); float32"},
    ),
    "tensor_scalar": Example(
        "nisa.tensor_scalar(\n    dst=dst, data=data, op0=nl.multiply, operand0=column, "
        "op1=nl.subtract, operand1=1.0\n)",
        {"data": A, "column": COLUMN},
        {"dst": LIKE_A},
    ),
    "tensor_scalar_cumulative": Example(
        "nisa.tensor_scalar_cumulative(dst=dst, src=data, op0=nl.multiply, op1=nl.add, imm0=1.0)",
        {"data": A},
        {"dst": LIKE_A},
    ),
    "tensor_scalar_reduce": Example(
        "nisa.tensor_scalar_reduce(\n    dst=dst, data=data, op0=nl.multiply, operand0=column, "
        "reduce_op=nl.add,\n    reduce_res=total,\n)",
        {"data": A, "column": COLUMN},
        {"dst": LIKE_A, "total": "(2, 1); float32"},
        shown="total",
    ),
    "tensor_tensor": Example(
        "nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=nl.add)",
        {"data1": A, "data2": B},
        {"dst": LIKE_A},
    ),
    "tensor_tensor_scan": Example(
        "nisa.tensor_tensor_scan(\n    dst=dst, data0=decay, data1=data, initial=0.0, "
        "op0=nl.multiply, op1=nl.add\n)",
        {"data": A, "decay": "np.full((2, 4), 0.5, np.float32)"},
        {"dst": LIKE_A},
    ),
    "topk": Example(
        "nisa.topk(val_dst=values, idx_dst=dst, src=data, n=40)",
        {"data": "(np.arange(48).reshape(16, 3) * 7 % 48).astype(ml_dtypes.bfloat16)"},
        {"values": "(16, 4); bfloat16", "dst": "(16, 4); uint32"},
        nki="0.6.0",
    ),
}
