"""A reference: the caller's function of NumPy or torch, evaluated in several precisions.

``uncertainty`` measures what of a reference's results is rounding, which a tolerance needs: the
error that its own float32 evaluation makes, and the change that its inputs' last digits make.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from nkisim.dtypes import as_dtype, float32
from nkisim.trials.arguments import Arguments
from nkisim.trials.running import arrays_of

FLOAT32 = 2.0**-24
"""Unit roundoff of float32, in which the engines compute."""

_MOVES = 8
_EVALUATIONS = 4
"""Number of pairs of a float32 and a float64 evaluation; the first pair has the inputs as given."""
_NUDGE, _MOST_BENT = 2.0**-26, 2.0**-36
"""A small change, and between its square and itself what bends a result: a kink, not a curve."""
_limits_of: Any = ml_dtypes.finfo


class Refused(Exception):
    """The reference takes no such arguments."""


class Reference:
    """A function of NumPy or torch.

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

    def __call__(self, arguments: Arguments, precision: Any = np.float64) -> list[np.ndarray]:
        """Return the results, with every input of floating point cast to ``precision``.

        Raises:
            Refused: The reference raised.
        """
        return self._called(
            arguments.changed(
                lambda _, array: self._given(
                    array.astype(precision) if is_float(array) else np.array(array)
                )
            )
        )

    def dtypes(self, arguments: Arguments) -> list[np.dtype[Any] | None]:
        """Return the dtypes of the results for the inputs as they are.

        The inputs are cast to float32 where the function has no arithmetic in their dtypes: torch
        has none in float8, and NumPy only in its own types. A float32 result is then None, because
        it is the dtype of the cast.

        Raises:
            Refused: The reference raises in float32, too.
        """
        widened = False

        def as_they_are(_: str, array: np.ndarray) -> Any:
            nonlocal widened
            dtype = as_dtype(array.dtype)
            if not is_float(array) or dtype is float32:
                return self._given(np.array(array))
            if self._torch is not None and hasattr(self._torch, str(dtype)):
                wide = self._torch.from_numpy(array.astype(np.float32))
                return wide.to(getattr(self._torch, str(dtype)))
            if self._torch is None and array.dtype.isbuiltin == 1:
                return np.array(array)
            widened = True
            return self._given(array.astype(np.float32))

        try:
            found = self._called(arguments.changed(as_they_are))
        except Refused:
            widened = True
            found = self(arguments, np.float32)
        dtypes = [array.dtype for array in found]
        return [None if widened and dtype == np.float32 else dtype for dtype in dtypes]

    def takes(self, arguments: Arguments) -> bool:
        """Return whether the results are finite and smooth at the inputs.

        Square roots, norms and standard deviations, for example, are not smooth at 0. Smooth is
        where small changes of the inputs, and the opposite ones, change results by opposite values.
        """
        rng = np.random.default_rng(0)
        signs: dict[str, np.ndarray] = {}

        def nudged(name: str, array: np.ndarray) -> np.ndarray:
            if not is_float(array):
                return array
            before = signs.setdefault(name, rng.choice([-1.0, 1.0], array.shape))
            signs[name] = -before
            return array.astype(np.float64) + _NUDGE * before

        try:
            here = self(arguments)
            up, down = self(arguments.changed(nudged)), self(arguments.changed(nudged))
        except Refused:
            return False
        return all(map(_is_smooth, here, up, down))

    def _given(self, array: np.ndarray) -> Any:
        return array if self._torch is None else self._torch.from_numpy(array)

    def _called(self, arguments: Arguments) -> list[np.ndarray]:
        try:
            with np.errstate(all="ignore"):
                return arrays_of(self._function(*arguments.args, **arguments.kwargs))
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error


def is_float(array: np.ndarray) -> bool:
    """Return whether the elements of an array are floating-point numbers, in any format."""
    dtype = as_dtype(array.dtype)
    return array.dtype.kind == "f" or (dtype is not None and dtype.is_float)


def spacing(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next number of a floating-point type."""
    return 2.0**-10 if as_dtype(dtype) == "tfloat32" else float(_limits_of(dtype).eps)


def input_spacing(array: np.ndarray) -> float:
    """Return the spacing of an input's type; that of float32 for 8 bits, which are exact numbers.

    Kernels compute in 16 bits or more: 8 bits are a format of storage.
    """
    return spacing(array.dtype) if array.dtype.itemsize == 2 else 2 * FLOAT32


class Uncertainty(NamedTuple):
    """What of an output of a reference is rounding, element by element.

    Attributes:
        error: Its error in float32 beyond one rounding of the result; infinite where it overflows.
        change: Its largest change where every input moves by its spacing.
    """

    error: np.ndarray
    change: np.ndarray


def uncertainty(
    reference: Reference, expected: Sequence[np.ndarray], arguments: Arguments, seed: int
) -> list[Uncertainty]:
    """Return the uncertainty of each result of a reference.

    Args:
        reference: The reference.
        expected: Its results in float64.
        arguments: The arguments.
        seed: Seed of the directions in which inputs move.
    """
    rng = np.random.default_rng(seed)
    values = [array.astype(np.float64) for array in expected]
    found = [Uncertainty(np.zeros(v.shape), np.zeros(v.shape)) for v in values]
    shapes = [v.shape for v in values]
    for number in range(_MOVES + 1):
        near = _moved(arguments, rng) if number else arguments
        try:
            exact = reference(near) if number else expected
            rounded = reference(near, np.float32) if number < _EVALUATIONS else exact
        except Refused:
            continue
        if [a.shape for a in exact] != shapes or [a.shape for a in rounded] != shapes:
            continue
        for (error, change), right, a, b in zip(found, values, exact, rounded, strict=True):
            wide = a.astype(np.float64, copy=False)
            with np.errstate(all="ignore"):
                if number:
                    _widen(change, np.abs(wide - right))
                if rounded is not exact:
                    narrow = b.astype(np.float64, copy=False)
                    _widen(error, np.abs(narrow - wide) - FLOAT32 * np.abs(wide))
                    error[np.isfinite(wide) & ~np.isfinite(narrow)] = np.inf
    return found


def _widen(most: np.ndarray, error: np.ndarray) -> None:
    """Set errors to the larger of themselves and finite ones of another evaluation."""
    np.maximum(most, error, out=most, where=np.isfinite(error))


def _is_smooth(here: np.ndarray, up: np.ndarray, down: np.ndarray) -> bool:
    if not all(np.isfinite(array).all() for array in (here, up, down)):
        return False
    value = here.astype(np.float64)
    bend = np.abs(up.astype(np.float64) + down - 2.0 * value)
    return bool((bend <= _MOST_BENT * (1.0 + np.abs(value))).all())


def _moved(arguments: Arguments, rng: np.random.Generator) -> Arguments:
    """Return the arguments with every floating-point input moved up or down by its spacing."""

    def move(_: str, array: np.ndarray) -> np.ndarray:
        if not is_float(array):
            return array
        step = np.float32(input_spacing(array))
        up = rng.integers(0, 2, array.shape, np.int8)
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(np.float32) * np.where(up, 1 + step, 1 - step))

    return arguments.changed(move)
