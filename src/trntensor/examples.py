"""Example calls of the public functions: of the operations and of the decompositions."""

from __future__ import annotations

from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor
from trntensor._library import LIBRARY

_MATRICES = [random_tensor(4, 4, seed=seed) for seed in range(3)]
_CUBE = random_tensor(4, 3, 2, seed=7)
_CORES = [random_tensor(1, 3, 2), random_tensor(2, 3, 1, seed=1)]

EXAMPLES: dict[str, Example] = {
    "cp_decompose": example(_CUBE, 2, 3),
    "cp_reconstruct": example(_MATRICES, random_tensor(4, seed=3)),
    "tt_decompose": example(_CUBE, 2),
    "tt_inner": example(_CORES, _CORES),
    "tt_norm": example(_CORES),
    "tt_reconstruct": example(_CORES),
    "tt_round": example(_CORES, 1),
    "tucker_decompose": example(_CUBE, (2, 2, 2), 3),
    "tucker_reconstruct": example(_CUBE, [random_tensor(5, n) for n in _CUBE.shape]),
    **LIBRARY.examples(),
}
