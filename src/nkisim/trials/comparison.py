"""Results against a reference in float64, with a tolerance that follows from the types and sums.

An element may differ from the reference's by

    8 (u + sqrt(n) 2**-24) (|r| + d) + 8 2**-53 m + the smallest normal number of its type

r is the reference's element, and m the largest modulus of the output: the reference is rounded to
float64, too, and its terms may cancel. d is the condition of the element: twice its mean change
when every input changes by its own size. u is the unit roundoff of the narrowest floating-point
type of inputs and outputs, and n the length of the longest sum, whose float32 roundings add up like
a random walk. For float32 u is 2**-17, not 2**-24: kernels may multiply float32 numbers as sums of
two bfloat16 numbers, which have 16 bits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from nkisim.dtypes import as_dtype
from nkisim.trials.arguments import Arguments
from nkisim.trials.running import arrays_of

_PRODUCTS = 2.0**-17
_SUMS = 2.0**-24
_REFERENCE = 2.0**-53
_STEP = 2.0**-30
_CHANGES = 8
_limits_of: Any = ml_dtypes.finfo


class Refused(Exception):
    """The reference takes no such arguments."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of one case against the reference's.

    Attributes:
        passed: Whether each element is within the tolerance.
        problem: What is wrong besides elements: their number, shape or type.
        ulps: Largest error beyond the reference's rounding, in units in the last place of the
            output's type, at the larger of the element's size and its condition. Near a
            cancellation the condition is larger.
        norm: Largest relative error of an output in the 2-norm.
        relative: The tolerance relative to the size and the condition of an element.
        output, index: The worst element.
        got, expected: Its values.
        wrong: Number of elements whose error exceeds the tolerance.
    """

    passed: bool
    problem: str = ""
    ulps: float = 0.0
    norm: float = 0.0
    relative: float = 0.0
    output: int = 0
    index: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    wrong: int = 0

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        index = ", ".join(map(str, self.index))
        return (
            f"{self.wrong} elements are wrong; output {self.output} at ({index}) is "
            f"{self.got:.6g} and not {self.expected:.6g}"
        )


class Reference:
    """A function of NumPy or torch that is called with inputs cast up to float64.

    Args:
        function: The function. It gets torch tensors if its module has torch and not NumPy.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        names = getattr(function, "__globals__", {}).values()
        torch = sys.modules.get("torch")
        # By identity: an array among the names compares element by element.
        used = {id(name) for name in names}
        is_torch = torch is not None and id(torch) in used and id(np) not in used
        self._torch = torch if is_torch else None

    def __call__(self, arguments: Arguments, change: np.random.Generator | None = None) -> Any:
        """Return the results as arrays; with ``change`` those of slightly different inputs.

        Raises:
            Refused: The reference raised.
        """

        def upcast(_: str, array: np.ndarray) -> Any:
            found = np.array(array)
            dtype = as_dtype(array.dtype)
            if array.dtype.kind == "f" or (dtype is not None and dtype.is_float):
                found = array.astype(np.float64)
                if change is not None:
                    found *= 1.0 + _STEP * change.uniform(-1.0, 1.0, found.shape)
            return found if self._torch is None else self._torch.from_numpy(found)

        args, kwargs = arguments.changed(upcast)
        try:
            with np.errstate(all="ignore"):
                found = arrays_of(self._function(*args, **kwargs))
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        return [np.asarray(array) for array in found]


def compared(
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    arguments: Arguments,
    reference: Reference | None,
    seed: int,
    tolerance: float | None = None,
) -> Comparison:
    """Return a kernel's results of a case against the reference's.

    Args:
        outputs: The results.
        expected: Those of the reference.
        arguments: The arguments of the case.
        reference: The reference; without one the condition of an element is the root mean square
            of its array.
        seed: Seed of the changes that measure the condition.
        tolerance: Relative tolerance in place of ``8 (u + sqrt(n) 2**-24)``.
    """
    problem = _misfit(outputs, expected)
    if problem:
        return Comparison(False, problem)
    rng = np.random.default_rng(seed)
    if reference is None:
        changed = [list(map(_moved, expected))]
    else:
        changed = [reference(arguments, rng) for _ in range(_CHANGES)]
    relative = tolerance_of(arguments, outputs) if tolerance is None else tolerance
    best: Comparison | None = None
    ratio, wrong, ulps, norm = -1.0, 0, 0.0, 0.0
    for number, (got, right) in enumerate(zip(outputs, expected, strict=True)):
        others = [c[number] for c in changed]
        excess, in_ulps, in_norm = _errors(got, right, others, relative)
        wrong += int((excess > 1.0).sum())
        ulps, norm = max(ulps, in_ulps), max(norm, in_norm)
        if excess.size and excess.max() > ratio:
            ratio = float(excess.max())
            index = tuple(int(i) for i in np.unravel_index(int(excess.argmax()), excess.shape))
            values = float(got[index]), float(right[index])
            best = Comparison(True, "", 0.0, 0.0, relative, number, index, *values)
    found = best or Comparison(True)
    return Comparison(
        not wrong, "", ulps, norm, relative, found.output, found.index, found.got, found.expected,
        wrong,
    )  # fmt: skip


def _moved(right: np.ndarray) -> np.ndarray:
    """Return results as a change of the inputs would make them whose effect is their mean size."""
    if right.dtype.kind in "biu":
        return right
    value = right.astype(np.float64)
    return np.asarray(value + _STEP / 2 * np.sqrt(np.mean(np.square(value))))


def tolerance_of(arguments: Arguments, outputs: Sequence[np.ndarray]) -> float:
    """Return ``8 (u + sqrt(n) 2**-24)`` of a case."""
    given = [a for a in arrays_of((arguments.args, arguments.kwargs)) if a.dtype != object]
    units = [_PRODUCTS]
    for array in [*given, *outputs]:
        dtype = as_dtype(array.dtype)
        if dtype is not None and dtype.is_float:
            units.append(float(_limits_of(array.dtype).eps) / 2)
    extents = [extent for array in given for extent in array.shape]
    made = max((array.size for array in outputs), default=1)
    sums = [array.size // max(made, 1) for array in given]
    return 8.0 * (max(units) + math.sqrt(max([1, *extents, *sums])) * _SUMS)


def _misfit(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, and the reference has {len(expected)}"
    for number, (got, right) in enumerate(zip(outputs, expected, strict=True)):
        if got.shape != right.shape:
            return f"output {number} has shape {got.shape}, and the reference's {right.shape}"
    return ""


def _errors(
    got: np.ndarray, right: np.ndarray, changed: list[np.ndarray], relative: float
) -> tuple[np.ndarray, float, float]:
    """Return each error as a share of what is tolerated, and the largest in ulps and 2-norm."""
    dtype = as_dtype(got.dtype)
    if dtype is None or not dtype.is_float:
        sure = np.all([c == right for c in changed], axis=0) if changed else True
        wrong = (got != right) & sure
        return np.where(wrong, np.inf, 0.0), float(wrong.any()), float(wrong.mean() ** 0.5)
    limits = _limits_of(got.dtype)
    with np.errstate(all="ignore"):
        value, right = got.astype(np.float64), right.astype(np.float64)
        error = np.abs(value - right)
        condition = 2.0 * np.sqrt(np.mean([(c - right) ** 2 for c in changed], axis=0)) / _STEP
        counts = np.abs(right) <= float(limits.max)
        same = (value == right) | (np.isnan(value) & np.isnan(right))
        error = np.where(~counts | same, 0.0, np.where(np.isnan(error), np.inf, error))
        size = np.where(counts, np.abs(right), 0.0)
        error = np.maximum(error - 8.0 * _REFERENCE * size.max(initial=0.0), 0.0)
        tiny = float(limits.smallest_normal)
        allowed = relative * (size + np.nan_to_num(condition, nan=0.0)) + tiny
        scale = np.maximum(np.maximum(size, np.nan_to_num(condition, nan=0.0)), tiny)
        place = np.exp2(np.floor(np.log2(scale))) * float(limits.eps)
        total = float(np.linalg.norm(size))
        norm = float(np.linalg.norm(error)) / total if total else float(error.max(initial=0.0) > 0)
        return error / allowed, float((error / place).max(initial=0.0)), norm
