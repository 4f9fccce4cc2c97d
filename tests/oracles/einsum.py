"""Contractions by their definition: a loop over every value of every index, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np


def contraction(inputs: Sequence[str], output: str, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum over all indices that the output does not have; sizes of 1 broadcast."""
    sizes: dict[str, int] = {}
    for term, x in zip(inputs, operands, strict=True):
        for label, size in zip(term, x.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    wide = np.complex128 if any(np.iscomplexobj(x) for x in operands) else np.float64
    result = np.zeros([sizes[label] for label in output], wide)
    labels = list(sizes)
    for values in itertools.product(*(range(sizes[label]) for label in labels)):
        at = dict(zip(labels, values, strict=True))
        term = wide(1)
        for names, x in zip(inputs, operands, strict=True):
            term *= x[tuple(at[n] if s != 1 else 0 for n, s in zip(names, x.shape, strict=True))]
        result[tuple(at[label] for label in output)] += term
    return result
