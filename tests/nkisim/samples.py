"""Legal calls of every declared instruction.

``SAMPLES`` holds at least one per instruction. Every tile has two dimensions. Where an instruction
allows it they are (32, 64): enough elements for the compiled ways through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from packs import pack
from releases import newest

from .sampling import Outcome, Sample, Tile, fill, run, whole

__all__ = ["SAMPLES", "Outcome", "Sample", "Tile", "fill", "run", "whole"]

ROWS, COLUMNS = 32, 64

# -- tiles -----------------------------------------------------------------------------------------

_FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
_FLOATS |= {"f8": ml_dtypes.float8_e4m3}


def held(values: np.ndarray, buffer: str = "sbuf") -> Tile:
    """A tile with contents."""
    return Tile(values.shape, getattr(nl, values.dtype.name), values, buffer)


def normal(
    kind: str = "f32",
    shape: tuple[int, int] = (ROWS, COLUMNS),
    *,
    seed: int = 0,
    buffer: str = "sbuf",
    positive: bool = False,
) -> Tile:
    """A tile of normal numbers, or of their magnitudes and a quarter."""
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return held((np.abs(values) + 0.25 if positive else values).astype(_FLOATS[kind]), buffer)


def integers(
    kind: Any = np.int32,
    shape: tuple[int, int] = (ROWS, COLUMNS),
    *,
    seed: int = 0,
    low: int = 0,
    high: int = 8,
    buffer: str = "sbuf",
) -> Tile:
    """A tile of integers from ``low`` to ``high``, the latter not included."""
    values = np.random.default_rng(seed).integers(low, high, shape)
    return held(values.astype(kind), buffer)


def new(
    shape: tuple[int, int] = (ROWS, COLUMNS), dtype: Any = nl.float32, buffer: str = "sbuf"
) -> Tile:
    """A destination that nothing has written."""
    return Tile(shape, dtype, None, buffer)


def column(*, seed: int = 1, positive: bool = False) -> Tile:
    """One float32 number per partition."""
    return normal(shape=(ROWS, 1), seed=seed, positive=positive)


# -- the calls -------------------------------------------------------------------------------------

SAMPLES: list[Sample] = []

GEN3_UP = ("gen3", "gen4")
GEN4 = ("gen4",)


def _add(instruction: str, case: str = "", /, **arguments: Any) -> None:
    """Add a sample; arguments that are tiles are its operands."""
    fields = ("targets", "grid", "before", "observe", "nki")
    options = {name: arguments.pop(name) for name in fields if name in arguments}
    tiles = {name: value for name, value in arguments.items() if isinstance(value, Tile)}
    for name, value in list(arguments.items()):
        if isinstance(value, list) and value and isinstance(value[0], Tile):
            tiles |= {f"{name}[{i}]": tile for i, tile in enumerate(value)}
            del arguments[name]
    settings = {name: value for name, value in arguments.items() if name not in tiles}
    SAMPLES.append(Sample(instruction, tiles, settings, case, **options))


def _elementwise() -> None:
    for kind, dtype in (("f32", nl.float32), ("bf16", nl.bfloat16)):
        a, b, dst = normal(kind), normal(kind, seed=1), new(dtype=dtype)
        _add("tensor_tensor", kind, dst=dst, data1=a, data2=b, op=nl.add)
        _add("tensor_scalar", kind, dst=dst, data=a, op0=nl.multiply, operand0=2.5)
        _add(
            "scalar_tensor_tensor",
            kind,
            dst=dst,
            data=a,
            op0=nl.multiply,
            operand0=column(),
            op1=nl.subtract,
            operand1=b,
        )
        _add("tensor_copy", kind, dst=dst, src=a)
    wide = integers(low=-(2**31), high=2**31)
    _add(
        "tensor_tensor",
        "int32",  # products beyond float32, which fit
        dst=new(dtype=nl.int32),
        data1=integers(low=-(2**15), high=2**15),
        data2=integers(low=-(2**15), high=2**15, seed=1),
        op=nl.multiply,
    )
    _add(
        "tensor_tensor",
        "uint32",  # products that wrap
        dst=new(dtype=nl.uint32),
        data1=integers(np.uint32, high=2**32),
        data2=integers(np.uint32, high=2**32, seed=1),
        op=nl.multiply,
    )
    _add(
        "tensor_tensor",
        "psum",
        dst=new(buffer="psum"),
        data1=normal("f8"),
        data2=normal(buffer="psum"),
        op=nl.maximum,
    )
    _add(
        "tensor_tensor",
        "bits",
        dst=new(dtype=nl.int32),
        data1=wide,
        data2=integers(),
        op=nl.bitwise_xor,
    )
    _add(
        "tensor_scalar",
        "columns",
        dst=new(dtype=nl.bfloat16),
        data=normal(),
        op0=nl.subtract,
        operand0=column(),
        reverse0=True,
        op1=nl.multiply,
        operand1=column(seed=2),
    )
    _add(
        "tensor_scalar",
        "shift",
        dst=new(dtype=nl.uint32),
        data=integers(np.uint32, high=2**32),
        op0=nl.left_shift,
        operand0=3,
    )
    _add("tensor_copy", "cast", dst=new(dtype=nl.bfloat16), src=normal(buffer="psum"))
    _add("tensor_copy", "int8", dst=new(dtype=nl.float32), src=integers(np.int8, low=-100))
    _add("reciprocal", dst=new(), data=normal(positive=True))
    _add("memset", dst=new(), value=1.5)
    _add("memset", "int16", dst=new(dtype=nl.int16), value=-7)
    _add(
        "iota",
        dst=new(dtype=nl.int32),
        pattern=[[1, COLUMNS]],
        offset=3,
        channel_multiplier=COLUMNS,
    )


def _scalar_engine() -> None:
    _add("activation", dst=new(), op=nl.exp, data=normal())
    _add(
        "activation",
        "sum",
        dst=new(dtype=nl.bfloat16),
        op=nl.square,
        data=normal("bf16"),
        bias=column(),
        scale=0.5,
        reduce_op=nl.add,
        reduce_res=new((ROWS, 1)),
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    _add(
        "activation",
        "scale",
        dst=new(),
        op=nl.tanh,
        data=normal(buffer="psum"),
        bias=column(),
        scale=column(seed=2),
    )
    _add(
        "activation_reduce",
        dst=new(),
        op=nl.relu,
        data=normal(),
        reduce_op=nl.add,
        reduce_res=new((ROWS, 1)),
        bias=column(),
    )
    _add(
        "exponential",
        dst=new(dtype=nl.bfloat16),
        src=normal(),
        max_value=column(positive=True),
        reduce_res=new((ROWS, 1)),
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
        targets=GEN4,
    )
    _add(
        "activate2",
        dst=new(dtype=nl.bfloat16),
        op=newest("prelu"),
        data=normal(),
        imm0=column(),
        imm1=column(seed=2),
        op0=nl.multiply,
        op1=nl.add,
        relu_param=column(seed=3),
        reduce_op=nl.maximum,
        reduce_res=new((ROWS, 1)),
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
        targets=GEN4,
        nki="0.4.0",
    )


def _reductions() -> None:
    _add("bn_stats", dst=new((ROWS, 6)), data=normal())
    triples = np.tile(np.float32([4.0, 0.5, 2.0]), (ROWS, 4))
    _add("bn_aggr", dst=new((ROWS, 2)), data=held(triples))
    for kind in ("f32", "bf16"):
        _add("tensor_reduce", kind, dst=new((ROWS, 1)), op=nl.add, data=normal(kind), axis=1)
    _add("tensor_reduce", "max", dst=new((ROWS, 1)), op=nl.maximum, data=normal(), axis=1)
    _add("tensor_partition_reduce", dst=new((1, COLUMNS)), op=nl.add, data=normal())
    _add(
        "tensor_scalar_reduce",
        dst=new(),
        data=normal(),
        op0=nl.multiply,
        operand0=column(),
        reduce_op=nl.add,
        reduce_res=new((ROWS, 1)),
    )
    _add(
        "tensor_scalar_reduce",
        "loaded",
        dst=new(),
        data=normal(),
        op0=nl.multiply,
        operand0=column(),
        reduce_op=nl.maximum,
        reduce_res=new((ROWS, 1)),
        reduce_cmd=nisa.reduce_cmd.load_reduce,
        reduce_init=column(seed=2),
        reduce_res_negate=True,
        nki="0.6.0",
    )
    _add(
        "tensor_scalar",
        "larger",
        dst=new(),
        data=normal(),
        op0=newest("abs_max"),
        operand0=column(),
        targets=GEN4,
        nki="0.4.0",
    )
    _add(
        "tensor_partition_reduce",
        "average",
        dst=new((1, COLUMNS)),
        op=newest("average"),
        data=normal(),
        nki="0.5.0",
    )
    _add(
        "tensor_tensor_scan",
        dst=new(),
        data0=normal(),
        data1=normal(seed=1),
        initial=column(),
        op0=nl.multiply,
        op1=nl.add,
    )
    _add(
        "tensor_scalar_cumulative",
        dst=new(),
        src=normal(),
        op0=nl.multiply,
        op1=nl.add,
        imm0=0.5,
    )
    _add("max8", dst=new((ROWS, 8)), src=normal())
    _add(
        "topk",
        val_dst=new((ROWS, 8), nl.bfloat16),
        idx_dst=new((ROWS, 8), nl.uint32),
        src=normal("bf16"),
        n=16 * COLUMNS,
        nki="0.6.0",
    )
    data = np.random.default_rng(3).permuted(
        np.tile(np.arange(COLUMNS, dtype=np.float32), (ROWS, 1)), axis=1
    )
    largest = np.tile(np.arange(COLUMNS - 1, COLUMNS - 9, -1, dtype=np.float32), (ROWS, 1))
    _add("nc_find_index8", dst=new((ROWS, 8), nl.uint32), data=held(data), vals=held(largest))
    _add("nc_match_replace8", dst=new(), data=held(data), vals=held(largest), imm=-1.0)
    _add(
        "nc_match_replace8",
        "indices",
        dst=new(),
        data=held(data),
        vals=held(largest),
        imm=-1.0,
        dst_idx=new((ROWS, 8), nl.uint32),
    )


def _selections() -> None:
    chosen = integers(np.uint8, high=2, seed=4)
    _add(
        "tensor_copy_predicated",
        dst=normal(seed=5),
        src=normal(),
        predicate=chosen,
    )
    _add(
        "tensor_copy_predicated",
        "number",
        dst=normal("bf16", seed=5),
        src=1.5,
        predicate=integers(np.uint16, high=2, seed=4),
        reverse_pred=True,
    )
    _add(
        "select_reduce",
        dst=new(),
        predicate=chosen,
        on_true=normal(),
        on_false=column(),
        reduce_res=new((ROWS, 1)),
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    _add(
        "range_select",
        dst=new(),
        on_true_tile=normal(),
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=held(np.full((ROWS, 1), 5, np.float32)),
        bound1=held(np.full((ROWS, 1), 40, np.float32)),
        reduce_res=new((ROWS, 1)),
        targets=GEN3_UP,
    )
    _add(
        "affine_select",
        dst=new(),
        pattern=[[-1, COLUMNS]],
        channel_multiplier=1,
        on_true_tile=normal(),
        on_false_value=-1e30,
        cmp_op=nl.greater_equal,
    )


def _gathers() -> None:
    _add(
        "nc_n_gather",
        dst=new(),
        data=normal(),
        indices=integers(np.uint32, high=COLUMNS),
    )
    _add(
        "local_gather",
        dst=new((ROWS, 64)),
        src_buffer=normal(),
        index=integers(np.uint16, (ROWS, 4), high=COLUMNS),
    )
    _add(
        "nc_stream_shuffle",
        dst=new(),
        src=normal(),
        shuffle_mask=[(7 * i + 3) % 32 for i in range(32)],
    )
    _add(
        "nc_stream_shuffle",
        "keep",
        dst=normal(seed=1),
        src=normal(),
        shuffle_mask=[255 if i % 3 == 0 else 31 - i for i in range(32)],
    )
    _add(
        "nonzero_with_count",
        dst=integers(np.int32, (ROWS, COLUMNS + 1), seed=1),
        src=integers(np.int32, high=3),
        targets=GEN3_UP,
    )
    ids = np.repeat(np.int32([0, 3, 3, 1, 2, 0, 5, 4]), COLUMNS // 8)[None]
    _add("sequence_bounds", dst=new((1, 2 * COLUMNS), nl.int32), segment_ids=held(ids))


def _transfers() -> None:
    _add("dma_copy", dst=new(), src=normal(buffer="hbm"))
    _add("dma_copy", "store", dst=new(buffer="hbm", dtype=nl.bfloat16), src=normal("bf16"))
    _add("dma_copy", "cast", dst=new(dtype=nl.bfloat16), src=normal())
    _add("dma_transpose", dst=new((COLUMNS, ROWS)), src=normal(buffer="hbm"))
    _add("dma_transpose", "sbuf", dst=new((COLUMNS, ROWS), nl.bfloat16), src=normal("bf16"))
    _add(
        "dma_compute",
        dst=new(buffer="hbm"),
        srcs=[normal(buffer="hbm"), normal(seed=1)],
        reduce_op=nl.add,
    )
    _add(
        "sendrecv",
        dst=new(),
        src=normal(),
        send_to_rank=lambda core: 1 - core,
        recv_from_rank=lambda core: 1 - core,
        pipe_id=0,
        grid=2,
        targets=GEN3_UP,
    )
    _add("core_barrier", data=normal(buffer="hbm"), cores=(0, 1), grid=2, targets=GEN3_UP)


def _matrices() -> None:
    for kind in ("f32", "bf16", "f8"):
        _add(
            "nc_matmul",
            kind,
            dst=new((64, 128), buffer="psum"),
            stationary=normal(kind, (32, 64)),
            moving=normal(kind, (32, 128), seed=1),
        )
    _add(
        "nc_matmul",
        "bf16_out",
        dst=new((64, 128), nl.bfloat16, "psum"),
        stationary=normal("bf16", (32, 64)),
        moving=normal("bf16", (32, 128), seed=1),
        accumulate=False,
        targets=GEN4,
    )
    turned = np.eye(32, dtype=np.float32)[::-1].astype(ml_dtypes.bfloat16)
    _add(
        "nc_matmul",
        "transpose",
        dst=new((64, 32), nl.bfloat16, "psum"),
        stationary=normal("bf16", (32, 64)),
        moving=held(np.ascontiguousarray(turned)),
        is_transpose=True,
        targets=GEN3_UP,
    )
    _add("nc_transpose", dst=new((64, 32), buffer="psum"), data=normal())
    _add("nc_transpose", "vector", dst=new((32, 32), nl.bfloat16), data=normal("bf16", (32, 32)))
    _add(
        "quantize_mx",
        dst=new((32, 64), nl.float8_e4m3fn_x4),
        src=normal("bf16", (32, 256)),
        dst_scale=new((4, 64), nl.uint8),
        targets=GEN4,
    )
    scales = np.random.default_rng(6).integers(120, 134, (4, 256)).astype(np.uint8)
    rng = np.random.default_rng(7)
    packs = {
        name: pack(rng.standard_normal((32, 4 * width), dtype=np.float32), "float8_e4m3fn_x4")
        for name, width in (("stationary", 64), ("moving", 128))
    }
    _add(
        "nc_matmul_mx",
        dst=new((64, 128), buffer="psum"),
        **{name: Tile(p.shape, nl.float8_e4m3fn_x4, p) for name, p in packs.items()},
        stationary_scale=held(np.ascontiguousarray(scales[:, :64])),
        moving_scale=held(np.ascontiguousarray(scales[:, 64:192])),
        targets=GEN4,
    )


def _seed() -> None:
    word = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=word, value=42)
    nisa.set_rng_seed(word)


def _drawn() -> Mapping[str, Any]:
    numbers = nl.ndarray((ROWS, COLUMNS), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rng(dst=numbers, engine=nisa.engine.vector)
    return {"drawn": numbers}


def _state() -> Mapping[str, Any]:
    words = nl.ndarray((ROWS, 6), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rand_get_state(dst=words, engine=nisa.engine.gpsimd)
    return {"state": words}


def _random() -> None:
    _add("set_rng_seed", src_seeds=integers(shape=(1, 1), high=2**31), observe=_drawn)
    words = integers(np.uint32, (ROWS, 6), high=2**32)
    gpsimd = nisa.engine.gpsimd
    _add("rand_set_state", src_seeds=words, engine=gpsimd, observe=_state, targets=GEN3_UP)
    _add(
        "rand_get_state",
        dst=new((ROWS, 24), nl.uint32),
        engine=nisa.engine.vector,
        before=_seed,
        targets=GEN4,
    )
    _add("rng", dst=new(dtype=nl.uint32), before=_seed)
    _add("rand2", dst=new(), min=column(), max=2.5, before=_seed, targets=GEN4)
    _add("dropout", dst=new(), data=normal(), prob=0.25, before=_seed)


_elementwise()
_scalar_engine()
_reductions()
_selections()
_gathers()
_transfers()
_matrices()
_random()
