"""Choice of the path of standard samples: torch, or the operation with a kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._kernels.definitions import Kind
from trnrand._library import LIBRARY
from trnrand._paths.operations import DRAW, draw
from trnrand._paths.torch_path import torch_fill
from trnrand._stream.words import Source
from trnrand.engines import EngineName

_TOO_WIDE = "the kernel does not take torch.float64"


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
            out.copy_(draw(choice, kind, source, out.numel(), out.dtype))
            return
        DRAW.refuse(_TOO_WIDE)
    torch_fill(kind, source, out)


def note_stream(kind: Kind, engine: EngineName, count: int, dtype: torch.dtype) -> None:
    """Record for ``explain`` the path of standard samples."""
    if dtype is torch.float64:
        DRAW.refuse(_TOO_WIDE)
        return
    choice = LIBRARY.kernels_wanted()
    if choice is not None:
        draw(choice, kind, Source(engine, 0, 0, torch.device("cpu")), count, dtype)
