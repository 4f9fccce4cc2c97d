"""The operation of trnrand that has kernels: consecutive standard samples of a stream.

Engine, seed and position determine the samples. Kernels read them as data from one row of words, so
the operation takes this row as an operand in addition to the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from trnrand._kernels.definitions import DOMAINS, Kind
from trnrand._kernels.operands import philox_operand, threefry_operand
from trnrand._library import LIBRARY
from trnrand._paths.torch_path import torch_stream
from trnrand._stream.words import Source
from trnrand.engines import ENGINES, MASK, EngineName
from trnsci.core.backend.decision import Choice
from trnsci.core.backend.operation import Operation
from trnsci.core.numbers.conversions import dtype_name

_OPERANDS = {"philox": philox_operand, "threefry": threefry_operand}


def draw(choice: Choice, kind: Kind, source: Source, count: int, dtype: torch.dtype) -> Tensor:
    """Return ``count`` standard samples from the start of a source, through the operation."""
    key = ENGINES[source.engine].key(source.seed)
    row = _OPERANDS[source.engine](key, source.start // 4, int(DOMAINS[kind]))
    operand = torch.tensor(row.view("int32"), device=source.device)
    # The numbers are halves of 32 bits, the lower first: operator schemas have no unsigned 64-bit
    # integers.
    place = [half for n in (source.seed, source.start) for half in (n & MASK, n >> 32)]
    flags = source.engine, place, kind, count, dtype_name(dtype)
    return cast(Tensor, DRAW.called(choice, operand, *flags))


def _draw(
    operand: Tensor, engine: str, place: Sequence[int], kind: str, count: int, dtype: str
) -> Tensor:
    seed, start = place[0] | place[1] << 32, place[2] | place[3] << 32
    source = Source(cast(EngineName, engine), seed, start, operand.device)
    return torch_stream(cast(Kind, kind), source, count, getattr(torch, dtype))


def _shape(
    operand: Tensor, engine: str, place: Sequence[int], kind: str, count: int, dtype: str
) -> Tensor:
    return torch.empty(count, dtype=getattr(torch, dtype), device=operand.device)


def _work(operand: Tensor, *rest: object) -> float:
    count = cast(int, rest[-2])
    return 100.0 * count  # integer operations of a word, about


DRAW = Operation(
    LIBRARY,
    "draw",
    reference=_draw,
    launch="trnrand._paths.kernel_path:draw",
    fake=_shape,
    dtypes=("int32",),
    flops=_work,
)
