"""Published times of operators on Trainium 2 (NKI 0.7, both physical cores of a logical core).

A time is the sum of the device executions of one call. Of ``argmax`` and ``flash_attention`` only
differences between sizes are used, because their times have executions of the framework in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import nkisim
from calibration import matrix_operators, row_operators, streams
from nkisim.arch import resolve_target
from nkisim.profiling.model.assumptions import defaults
from nkisim.profiling.model.program import Capture, Program

NKI = "0.7.0"

_ROWS = 2048
"""Rows of the operators over rows."""

_DTYPES = {
    "i8": np.int8,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}

_MEGA = "1 2 5 10 15 20"
_WIDTHS = "512 1024 2048 4096 6144 8192 10240"
_LENGTHS = "1024 2048 4096 8192 12288 16384 20480"
_ORDERS = "256 512 1024 2048 3072 4096 5120"
_IMAGES = "512 1024 1536 2048 4096 7168 10240"
_PRODUCTS = "32 128 160 256 384 512 640"
_TABLES = "512x512 512x2048 1024x4096 2048x2048 4096x512 2048x8192 4096x8192"
_ATTENTIONS = "1024x32 1024x256 2048x128 4096x64 4096x256 8192x128 10000x256"

_TIMES = (
    ("relu i8", _MEGA, "18.9 23.5 40.2 70.4 96.5 127.4"),
    ("relu f16", _MEGA, "20.9 26.1 44.2 79.6 113.2 144.3"),
    ("relu f32", _MEGA, "24.7 37.8 73.3 136.6 200.2 261.4"),
    ("mul2 i8", _MEGA, "19.9 24.3 39.2 70.1 98.7 127.5"),
    ("mul2 f16", _MEGA, "21.3 26.3 44.5 74.2 106.6 138.9"),
    ("mul2 f32", _MEGA, "26.1 38.2 73.7 140.1 213.8 268.3"),
    ("dropout f16", _MEGA, "25.1 35.1 65.5 119.7 163.3 212.7"),
    ("dropout f32", _MEGA, "31.9 50.8 109.1 205 299.1 395.2"),
    ("vector_add i8", _MEGA, "30.7 33.6 51.9 73.3 95.8 140.9"),
    ("vector_add f16", _MEGA, "27.3 37.3 62.9 104.4 151.3 208.2"),
    ("vector_add f32", _MEGA, "37.4 60.2 131.6 247.8 362.4 480.7"),
    ("fused_activation f32", _MEGA, "38.2 62.4 139.6 267.1 394.8 518.7"),
    ("interleave i8", _MEGA, "23.6 32.2 57.4 96.6 139.9 178.4"),
    ("interleave f16", _MEGA, "26.9 38.4 76.6 139.1 211 271.5"),
    ("interleave f32", _MEGA, "37.9 60 138.4 263.4 393.3 538.5"),
    ("softmax f16", _WIDTHS, "38.8 55.9 97.4 171.9 247.3 331.1 409.6"),
    ("softmax f32", _WIDTHS, "39.7 62.2 109.4 201.4 268.9 350.7 446.6"),
    ("rmsnorm f16", _WIDTHS, "32.6 43.5 65.5 123.1 149.4 202.2 233.7"),
    ("rmsnorm f32", _WIDTHS, "34.2 50.9 79.7 150.5 215.8 285.7 348.8"),
    ("l2_norm f16", _WIDTHS, "27.6 36.4 54.8 108.7 122 179.3 185.6"),
    ("l2_norm f32", _WIDTHS, "32.6 46.5 89.5 143.2 199.9 247.4 321.3"),
    ("layernorm f16", _WIDTHS, "96.5 149.7 235.5 420 590 787.7 952.3"),
    ("layernorm f32", _WIDTHS, "94.5 157.2 263.2 469.2 644.9 835.4 997.8"),
    ("matrix_transpose i8", _LENGTHS, "116.5 230.3 449.9 884.7 1330.5 1764.3 2211.9"),
    ("matrix_transpose f16", _LENGTHS, "46.9 82.6 150.9 314 405.5 585.2 696.4"),
    ("matrix_transpose f32", _LENGTHS, "113 210.6 378.8 715.9 1024.4 1389.4 1734.2"),
    ("rope f16", _LENGTHS, "77.7 132.7 240.1 472 700.5 921.3 1150.8"),
    ("rope f32", _LENGTHS, "82.5 134.6 260.2 502.6 752.4 1007.7 1259.4"),
    ("argmax f16", _LENGTHS, "91.8 114.2 169.5 292.8 381.8 484.9 559.9"),
    ("argmax f32", _LENGTHS, "93 128.3 193.5 310.3 397.6 493.4 593.4"),
    ("matrix_copy i8", _ORDERS, "14.8 15.4 17.9 34.3 60.5 99.2 147.5"),
    ("matrix_copy bf16", _ORDERS, "14.9 16.1 19.6 38.4 72.7 119.2 181.3"),
    ("matrix_copy f32", _ORDERS, "15.4 17.7 25.4 62.4 127.6 218.1 336.5"),
    ("gaussian_blur f16", _IMAGES, "98.6 284.8 645.9 1079.7 4214.7 12704.5 25811.6"),
    ("gaussian_blur f32", _IMAGES, "100.1 300 680.9 1142.7 4316 12928.8 26146.3"),
    ("jacobi_stencil_2d f16", _IMAGES, "23 38.1 56 88.4 318 800.3 1580.7"),
    ("jacobi_stencil_2d f32", _IMAGES, "24.8 45.8 77.4 130.2 457 1338.7 2720.7"),
    ("batched_matmul f16", _PRODUCTS, "43.4 45.8 98.1 99.9 176.2 275.1 398.3"),
    ("batched_matmul f32", _PRODUCTS, "43.6 46.5 100.2 102.5 197.4 341.1 644.2"),
    ("dequantize_rowwise i8", _TABLES, "17.7 22.3 40.5 40.4 33.6 102.9 182.5"),
    ("linear_self_attention f32", _ATTENTIONS, "95.2 153.9 158 192.3 457 453.2 1034.3"),
    # 10.1 to 10.3 us for each block of keys: 36 blocks of 1024 rows, 136 of 2048.
    ("flash_attention f16", "1024 2048", "0 1020"),
)

_SLOPES = {"argmax", "flash_attention"}


class Operator(NamedTuple):
    """A published time of an operator.

    Attributes:
        name: The operator.
        dtype: Type of its operands: ``"i8"``, ``"f16"``, ``"bf16"`` or ``"f32"``.
        size: As in the table.
        us: Device time.
        less: Size of the case whose time is subtracted, or "".
        settings: Arguments of the kernel other than its operands.
    """

    name: str
    dtype: str
    size: str
    us: float
    less: str = ""
    settings: tuple[tuple[str, int], ...] = ()


def _operators() -> Iterator[Operator]:
    for key, sizes, times in _TIMES:
        name, dtype = key.split()
        rows = [(size, float(us)) for size, us in zip(sizes.split(), times.split(), strict=True)]
        first, from_first = rows[0], name in _SLOPES
        for size, us in rows[from_first:]:
            less = first[1] if from_first else 0.0
            yield Operator(name, dtype, size, us - less, first[0] if from_first else "")


OPERATORS = tuple(_operators())


class Tuned(NamedTuple):
    """Two settings of an operator at its largest size.

    Attributes:
        before, after: The default setting and the one that the benchmark's tuner found.
    """

    before: Operator
    after: Operator


def _tuned(name: str, dtype: str, us: float, **settings: int) -> Tuned:
    before = next(o for o in reversed(OPERATORS) if (o.name, o.dtype) == (name, dtype))
    return Tuned(before, before._replace(us=us, settings=tuple(settings.items())))


TUNED = (
    _tuned("matrix_copy", "i8", 91.9, columns=2048),
    _tuned("matrix_copy", "f32", 319.2, columns=4096),
    _tuned("relu", "i8", 92.7, columns=2048),
    _tuned("vector_add", "f32", 383.1, columns=4096),
    _tuned("l2_norm", "f32", 278.0, columns=2048),
    _tuned("rmsnorm", "f32", 305.7, columns=2048),
    _tuned("softmax", "f16", 378.0, columns=2048),
    _tuned("batched_matmul", "f16", 242.1, columns=512),
    _tuned("linear_self_attention", "f32", 654.6, rows=128),
    _tuned("jacobi_stencil_2d", "f32", 2417.6, columns=512),
)

Shape = tuple[int, ...]
Launch = tuple[Callable[..., Any], tuple[Shape, ...]]
"""A kernel and the shapes of its operands."""


def launches(name: str, size: str) -> list[Launch]:
    """Return the kernels of one call."""
    kernel = next(
        (
            getattr(module, name)
            for module in (streams, row_operators, matrix_operators)
            if hasattr(module, name)
        ),
        None,
    )
    n, *more = (int(part) for part in size.split("x"))
    if name == "linear_self_attention":
        m, d = n, more[0]
        return [
            (matrix_operators.positive, ((m, d),)),
            (matrix_operators.positive, ((m, d),)),
            (matrix_operators.keys_by_values, ((m, d), (m, d))),
            (matrix_operators.queries_by_sums, ((m, d), (d, d + 1))),
        ]
    shapes: dict[str, tuple[Shape, ...]] = {
        "relu": ((n << 20,),),
        "mul2": ((n << 20,),),
        "dropout": ((n << 20,),) * 2,
        "fused_activation": ((n << 20,),) * 3,
        "vector_add": ((128, n << 13),) * 2,
        "interleave": ((n * 10**6,),) * 2,
        "matrix_copy": ((n * n,),),
        "rmsnorm": ((_ROWS, n), (n,)),
        "layernorm": ((_ROWS, n), (n,), (n,)),
        "matrix_transpose": ((4096, n),),
        "rope": ((n, 4096), (n, 64), (n, 64)),
        "gaussian_blur": ((n, n), (49,)),
        "jacobi_stencil_2d": ((n, n),),
        "batched_matmul": ((32, n, n),) * 2,
        "dequantize_rowwise": ((n, *more), (n,)),
        "flash_attention": ((n, 128),) * 3,
    }
    assert kernel is not None
    return [(kernel, shapes.get(name, ((_ROWS, n),)))]


def operands(operator: Operator, shapes: tuple[Shape, ...]) -> list[np.ndarray]:
    """Return operands of these shapes, all zero; the scales of ``dequantize_rowwise`` are fp32."""
    dtypes = [_DTYPES[operator.dtype]] * len(shapes)
    if operator.name == "dequantize_rowwise":
        dtypes[1] = np.float32
    return [
        np.broadcast_to(np.zeros((), dtype), shape)
        for dtype, shape in zip(dtypes, shapes, strict=True)
    ]


def programs(operator: Operator) -> list[Program]:
    """Return the programs of one call; of a difference, without those that are subtracted."""
    found = []
    for kernel, shapes in launches(operator.name, operator.size):
        cores = 1 if operator.name == "layernorm" else 2
        capture = Capture(resolve_target("trn2"), assumptions=defaults(NKI), cores=cores)
        launched = nkisim.jit(kernel)[cores]
        run = nkisim.simulate(launched, target="trn2", nki=NKI, values=False, watchers=(capture,))
        takes = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
        settings = {key: value for key, value in operator.settings if key in takes}
        run(*operands(operator, shapes), **settings)
        found.append(capture.program)
    return found
