"""Validation cases of the kernels: known-answer words, and samples bit-identical to torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import trnrand
from trnrand._library import LIBRARY
from trnsci.core.evidence import Case, launcher

__all__ = ["CASES"]

_COUNT = 3001
# The third of the published vectors: digits of pi as counter and key (Random123, kat_vectors).
_COUNTER = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
_KEY = (0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89)
_PHILOX = (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
_THREEFRY = (0x59CD1DBB, 0xB8879579, 0x86B5D00C, 0xAC8B6D84)


def _words(engine: str, published: Sequence[int]) -> Case:
    """Return the known-answer case of the kernel that draws words."""

    def draw() -> Tensor:
        from trnrand._kernels import operands, samples

        keys = {"philox": _KEY[:2], "threefry": _KEY}[engine]
        make = getattr(operands, f"{engine}_operand")
        low, high, domain, stream = _COUNTER
        operand = make(keys, low | high << 32, domain, stream)
        kernel = getattr(samples, f"{engine}_words")
        drawn: Tensor = launcher(LIBRARY)(kernel, torch.from_numpy(operand.view("int32")), 4)
        return drawn.to(torch.int64)

    return Case(
        f"{engine}_words",
        "Philox 4x32-10" if engine == "philox" else "Threefry 4x32-20",
        tuple,
        draw,
        lambda: torch.tensor(published),
        "known answers of Random123",
        lambda: 0.0,
        public=False,
    )


def _samples(engine: str, law: str, title: str) -> Case:
    """Return the case of a distribution: kernel and torch path give the same bits."""
    draw: Callable[..., Tensor] = getattr(trnrand, law)

    def drawn(dtype: torch.dtype) -> Tensor:
        options: dict[str, Any] = {"generator": trnrand.Generator(20, engine=engine)}
        return draw(_COUNT, dtype=dtype, **options)

    def expected(dtype: torch.dtype) -> Tensor:
        with trnrand.backend("pytorch"):
            return drawn(dtype)

    return Case(
        f"{engine}_{law}",
        title,
        lambda: (torch.float32,),
        drawn,
        expected,
        "equal bits on torch",
        lambda dtype: 0.0,
    )


CASES = (
    _words("philox", _PHILOX),
    _samples("philox", "uniform", "uniform from Philox"),
    _samples("philox", "normal", "Box-Muller from Philox"),
    _samples("philox", "exponential", "exponential from Philox"),
    _words("threefry", _THREEFRY),
    _samples("threefry", "uniform", "uniform from Threefry"),
    _samples("threefry", "normal", "Box-Muller from Threefry"),
    _samples("threefry", "exponential", "exponential from Threefry"),
)
