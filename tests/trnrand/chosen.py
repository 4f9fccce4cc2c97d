"""A source of words that a test chose, for looking at one step of a sampler."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trnrand._stream import numba_loops

CPU = torch.device("cpu")


def words_of(first: np.ndarray, second: np.ndarray) -> Tensor:
    """Blocks of four words whose two uniforms of 53 bits are these: 27 bits, then 26, of each."""
    both = np.stack([first, second], axis=1)
    steps = (both * 2.0**53).astype(np.int64)
    pairs = (steps >> 26 << 5) | (steps & (2**26 - 1)) << 38
    return torch.from_numpy(pairs.view(np.int32))


class Chosen:
    """Gives chosen uniforms in the first attempt, and others in all that follow.

    Attributes:
        device: As a source has it.
        compiled: As a source has it.
        asked: For each attempt, the offsets that were asked for.
    """

    def __init__(self, first, second, later=(0.5, 0.0)):
        self.device = CPU
        self.compiled = numba_loops.compiled_wanted(len(first))
        self._first = words_of(np.asarray(first, float), np.asarray(second, float))
        self._later = words_of(np.array([later[0]]), np.array([later[1]]))
        self.asked: list[Tensor] = []

    def slots(self, domain: int, offsets: Tensor | int, attempt: int = 0) -> Tensor:
        which = torch.arange(offsets) if isinstance(offsets, int) else offsets
        self.asked.append(which)
        return (
            self._first[which] if attempt == 0 else self._later.expand(len(which), 4).contiguous()
        )

    def refused(self, count: int) -> np.ndarray:
        """Which of the samples went on to a second attempt."""
        mask = np.zeros(count, bool)
        if len(self.asked) > 1:
            mask[self.asked[1].numpy()] = True
        return mask
