"""How the tests of the kernels name engines, keys and operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnrand._kernels import operands, samples

ENGINES = ("philox", "threefry")
GENERATIONS = ("gen2", "gen3", "gen4")
KEY = 0xDEADBEEFCAFEBABE
KEY_WORDS = {"philox": 2, "threefry": 4}


def operand(
    engine: str, key: int = KEY, start: int = 0, domain: int = 0, stream: int = 0
) -> np.ndarray:
    """The operand of an engine's kernels, for a key given as one number."""
    words = tuple(key >> 32 * i & 0xFFFFFFFF for i in range(KEY_WORDS[engine]))
    make = operands.philox_operand if engine == "philox" else operands.threefry_operand
    return make(words, start, domain, stream)


def kernel(engine: str, law: str = "words") -> Any:
    return getattr(samples, f"{engine}_{law}")
