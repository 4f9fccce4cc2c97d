"""Comparison of the outputs of two runs of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nkisim.traversal import parts_of


def arrays_of(outputs: Any) -> list[np.ndarray]:
    """Return the arrays of a kernel's result, one after the other."""
    parts = parts_of(outputs)
    if outputs is None or parts or isinstance(outputs, list | tuple | dict):
        return [array for _, part in parts for array in arrays_of(part)]
    return [np.asarray(outputs)]


def differences(old: list[np.ndarray], new: list[np.ndarray]) -> str:
    """Return how results differ; empty if all bits are the same."""
    if len(old) != len(new):
        return f"{len(old)} and {len(new)} outputs"
    found = []
    for number, (a, b) in enumerate(zip(old, new, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append(f"output {number} is {a.dtype} {a.shape} and {b.dtype} {b.shape}")
        elif a.tobytes() != b.tobytes():
            found.append(f"output {number}: {_largest(a, b)}")
    return "; ".join(found)


def _largest(a: np.ndarray, b: np.ndarray) -> str:
    """Return the largest difference of two arrays and the number of elements that differ."""
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(a.size, -1) for array in (a, b)]
    count = int((bits[0] != bits[1]).any(axis=1).sum())
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    largest = np.nanmax(np.where(np.isnan(apart), 0.0, apart), initial=0.0)
    return f"largest difference {largest:.3g}, {count} of {a.size} elements"


def relative_change(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> float:
    """Return the largest change of an element, relative to the largest of its array.

    0 if all bits are the same, infinity if arrays differ in number, shape or dtype, or if elements
    that are not finite differ.
    """
    if len(old) != len(new):
        return np.inf
    largest = 0.0
    for a, b in zip(old, new, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return np.inf
        if a.dtype.kind == "O" or a.tobytes() == b.tobytes():
            if a.dtype.kind == "O" and not np.array_equal(a, b):
                return np.inf
            continue
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(x)
        if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return np.inf
        scale = np.abs(x[finite]).max(initial=0.0)
        moved = np.abs(x[finite] - y[finite]).max(initial=0.0)
        if not np.isfinite(moved) or not scale:
            return np.inf
        largest = max(largest, float(moved / scale))
    return largest
