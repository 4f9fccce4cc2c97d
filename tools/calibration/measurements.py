"""Published device times: the grid, whole kernels and single instructions.

Sources are named as in ``nkisim.arch.timing``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import nkisim.isa as nisa
import nkisim.language as nl

__all__ = ["GRID", "INSTRUCTIONS", "KERNELS", "GridRow", "KernelTime", "ProbedInstruction"]


class GridRow(NamedTuple):
    """One row of the grid: a float32 product of order 2048 on one Trainium 2 core.

    Attributes:
        tiles: Tiles per block in M, N and K.
        us: Device time.
        megabytes, transfers: What the DMA engines moved.
        spills: Whether more was moved than the kernel asks for.
    """

    tiles: tuple[int, int, int]
    us: float
    megabytes: float
    transfers: int
    spills: bool = False


GRID = (
    GridRow((1, 1, 1), 1209.3, 100.7, 1152),
    GridRow((1, 1, 2), 1118.1, 100.7, 1152),
    GridRow((1, 1, 4), 1187.2, 100.7, 1152),
    GridRow((1, 1, 16), 1036.8, 100.7, 1152),
    GridRow((1, 2, 1), 1074.9, 67.1, 576),
    GridRow((1, 2, 2), 1004.0, 67.1, 576),
    GridRow((1, 2, 8), 947.7, 67.1, 576),
    GridRow((1, 2, 16), 920.4, 67.1, 576),
    GridRow((1, 4, 1), 931.2, 50.3, 288),
    GridRow((1, 4, 4), 913.8, 50.3, 288),
    GridRow((1, 4, 8), 905.2, 50.3, 288),
    GridRow((2, 1, 2), 957.3, 100.7, 640),
    GridRow((2, 1, 4), 942.1, 100.7, 640),
    GridRow((2, 2, 1), 929.0, 67.1, 320),
    GridRow((2, 2, 2), 943.8, 67.1, 320),
    GridRow((2, 4, 8), 906.2, 50.3, 160),
    GridRow((2, 4, 16), 939.6, 69.2, 178, spills=True),
    GridRow((4, 1, 4), 913.5, 100.7, 384),
    GridRow((4, 2, 2), 910.0, 67.1, 192),
    GridRow((4, 2, 4), 904.7, 67.1, 192),
    GridRow((4, 4, 1), 932.7, 50.3, 96),
    GridRow((4, 4, 2), 914.7, 50.3, 96),
    GridRow((4, 4, 16), 955.0, 83.4, 132, spills=True),
    GridRow((8, 2, 4), 904.8, 67.1, 128),
    GridRow((8, 4, 2), 924.2, 50.3, 64),
    GridRow((16, 1, 1), 911.9, 100.7, 192),
    GridRow((16, 2, 8), 905.5, 67.1, 96),
    GridRow((16, 2, 16), 968.1, 110.1, 204, spills=True),
    GridRow((16, 4, 4), 919.8, 50.3, 48),
    GridRow((16, 4, 8), 949.0, 98.6, 172, spills=True),
)


class KernelTime(NamedTuple):
    """The published time of a whole kernel.

    Attributes:
        name: What it computes.
        kernel: Name of the kernel in ``kernels``.
        order: M, N and K of the bfloat16 product.
        blocks: Tiles per block, or () for the tiled kernel.
        target: Where it ran.
        us: Device time.
        source: Where it is published.
        large: Whether the prediction takes more than a few seconds.
        nki: NKI version whose constants hold. The two tiled kernels needed 0.46 us and 0.61 us for
            each transfer; the first one is that of 0.6.0.
    """

    name: str
    kernel: str
    order: tuple[int, int, int]
    blocks: tuple[int, ...]
    target: str
    us: float
    source: str
    large: bool = False
    nki: str = "0.3.0"


KERNELS = (
    KernelTime("blocked", "blocked_product", (4096, 4096, 4096), (16, 2, 8), "trn2", 1840, "AWS"),
    KernelTime(
        "blocked, two cores",
        "blocked_product_on_two_cores",
        (4096, 4096, 4096),
        (16, 2, 8),
        "trn2",
        980,
        "AWS",
    ),
    KernelTime(
        "tiled", "tiled_product", (4096, 4096, 4096), (), "trn2", 7500, "AWS", True, "0.6.0"
    ),
    KernelTime(
        "blocked", "blocked_product", (4096, 8192, 8192), (16, 2, 8), "trn1", 6950, "tutorial", True
    ),
    KernelTime("tiled", "tiled_product", (4096, 8192, 8192), (), "trn2", 39870, "KOPT", True),
)


class ProbedInstruction(NamedTuple):
    """The published completion time of an isolated instruction on Trainium 2: ``a + b * N`` ns.

    Attributes:
        name: Instruction and operands.
        call: Takes the destination, the sources and a column.
        dtype: Type of the tiles.
        buffers: Memories of the destination and the sources.
        start, slope: The published numbers.
    """

    name: str
    call: Any
    dtype: Any
    buffers: tuple[Any, ...]
    start: float
    slope: float


def _add(dst: Any, a: Any, b: Any, _: Any) -> None:
    nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=nl.add)


def _scale(dst: Any, a: Any, _: Any) -> None:
    nisa.tensor_scalar(dst=dst, data=a, op0=nl.multiply, operand0=2.0)


def _copy(dst: Any, a: Any, _: Any) -> None:
    nisa.tensor_copy(dst=dst, src=a)


def _copy_on_scalar(dst: Any, a: Any, _: Any) -> None:
    nisa.tensor_copy(dst=dst, src=a, engine=nisa.engine.scalar)


def _exp(dst: Any, a: Any, _: Any) -> None:
    nisa.activation(dst=dst, op=nl.exp, data=a)


def _reduce(dst: Any, a: Any, column: Any) -> None:
    nisa.tensor_reduce(dst=column, op=nl.add, data=a, axis=1)


def _reciprocal(dst: Any, a: Any, _: Any) -> None:
    nisa.reciprocal(dst=dst, data=a)


_S, _P = nl.sbuf, nl.psum

INSTRUCTIONS = (
    ProbedInstruction("tensor_tensor float32", _add, nl.float32, (_S, _S, _S), 159, 1.0417),
    ProbedInstruction("tensor_tensor bfloat16", _add, nl.bfloat16, (_S, _S, _S), 161, 0.517),
    ProbedInstruction("tensor_tensor float32, PSUM", _add, nl.float32, (_S, _P, _S), 149, 1.043),
    ProbedInstruction("tensor_scalar float32", _scale, nl.float32, (_S, _S), 160, 0.521),
    ProbedInstruction("tensor_copy float32", _copy, nl.float32, (_S, _S), 158, 0.52),
    ProbedInstruction("tensor_copy bfloat16", _copy, nl.bfloat16, (_S, _S), 156, 0.269),
    ProbedInstruction("tensor_copy float32, PSUM", _copy, nl.float32, (_S, _P), 156, 1.0424),
    ProbedInstruction("tensor_copy on Scalar", _copy_on_scalar, nl.float32, (_S, _S), 190, 0.833),
    ProbedInstruction("activation exp", _exp, nl.float32, (_S, _S), 293.4, 0.8333),
    ProbedInstruction("tensor_reduce float32", _reduce, nl.float32, (_S, _S), 150, 1.0417),
    ProbedInstruction("reciprocal float32", _reciprocal, nl.float32, (_S, _S), 153, 6.249),
)
