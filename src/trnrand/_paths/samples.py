"""Standard samples of a stream, and the operation that has kernels for them.

Engine, seed and position determine the samples. Kernels read them as data from one row of words, so
the operation takes this row as an operand in addition to the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from trnrand._kernels.definitions import DOMAINS, Kind
from trnrand._kernels.operands import BLOCK_WORDS, drawn_words, philox_operand, threefry_operand
from trnrand._library import LIBRARY
from trnrand._paths.torch_path import torch_fill, torch_stream
from trnrand._stream.words import Source
from trnrand.engines import ENGINES, MASK, EngineName
from trnsci.core.backend.decision import Choice
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.numbers.conversions import dtype_name

_OPERANDS = {"philox": philox_operand, "threefry": threefry_operand}
_TOO_WIDE = "the kernel does not take torch.float64"
# Distributions with kernels for float32 only; other dtypes are rounded from it.
_FLOAT32_ONLY = ("normal", "exponential")


def stream(kind: Kind, source: Source, count: int, dtype: torch.dtype) -> Tensor:
    """Return ``count`` standard samples from the start of a source, one-dimensional."""
    out = torch.empty(count, dtype=dtype, device=source.device)
    fill_stream(kind, source, out)
    return out


def fill_stream(kind: Kind, source: Source, out: Tensor) -> None:
    """Fill a one-dimensional tensor with standard samples from the start of a source.

    Args:
        kind: Kind of the samples.
        source: Engine, seed, position and device.
        out: Tensor to fill; its dtype is one of ``FLOATS``, or int32 for words.
    """
    choice = LIBRARY.kernels_wanted()
    if choice is not None:
        if out.dtype is not torch.float64:
            out.copy_(_drawn(choice, kind, source, out.numel(), out.dtype))
            return
        DRAW.refuse(_TOO_WIDE)
    torch_fill(kind, source, out)


def note_stream(kind: Kind, engine: EngineName, count: int, dtype: torch.dtype) -> None:
    """Record for ``explain`` the path of standard samples."""
    choice = LIBRARY.kernels_wanted()
    if dtype is torch.float64:
        DRAW.refuse(_TOO_WIDE)
    elif choice is not None:
        _drawn(choice, kind, Source(engine, 0, 0, torch.device("cpu")), count, dtype)


def _drawn(choice: Choice, kind: Kind, source: Source, count: int, dtype: torch.dtype) -> Tensor:
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


def _launch(
    launch: Launcher,
    operand: Tensor,
    engine: str,
    place: Sequence[int],
    kind: str,
    count: int,
    dtype: str,
) -> Tensor:
    from trnrand._kernels import samples  # here, because it imports NKI

    kernel = getattr(samples, f"{engine}_{kind}")
    arguments = (dtype,) if kind == "uniform" else ()
    drawn = launch(kernel, operand, drawn_words(count), *arguments).reshape(-1)
    if kind == "words":
        drawn = drawn.view(torch.int32)
    skipped = place[2] % BLOCK_WORDS  # place[2] is the low half of the start
    found = drawn[skipped : skipped + count]
    return found.to(getattr(torch, dtype)) if kind in _FLOAT32_ONLY else found


def _work(*arguments: Any) -> float:
    count: int = arguments[-2]
    return 100.0 * count  # integer operations of a word, about


DRAW = Operation(
    LIBRARY, "draw", reference=_draw, launch=_launch, fake=_shape, dtypes=("int32",), flops=_work
)
