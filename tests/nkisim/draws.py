"""Choices of a property test that all follow from one number.

Hypothesis takes longer to draw twenty values than a small kernel takes to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st


class Draws:
    """Chooses among values.

    Attributes:
        rng: Source of the contents of arrays.
    """

    def __init__(self, data: st.DataObject) -> None:
        seed = data.draw(st.integers(0, 2**32 - 1))
        self.rng = np.random.default_rng(seed)
        self._random = Random(seed)

    def choose(self, options: Iterable[Any]) -> Any:
        """One of the values."""
        return self._random.choice(list(options))

    def flag(self) -> bool:
        """True or False."""
        return self.choose([False, True])
