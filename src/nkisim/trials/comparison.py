"""What is right: a kernel's results against a reference, by dtype and by value.

An integer or bool output is right where it equals the reference. So is a float output of a
reference that returns integers. It may be off by one unit where the reference itself changes when
its inputs move by the spacing of their types: at a tie of a quantisation.

An element of another float output may differ from the reference's by the sum of

    (u + 8 sqrt(n) 2**-24) |r|      one rounding, and those of a chain of float32 operations
    8 sqrt(n) e                     the error of the reference itself
    c                               what the last digits of the inputs change
    8 2**-53 m                      the rounding of float64

r is the reference's element in float64, u the unit roundoff of the output's type, n the length of
the longest sum that the shapes allow: the float32 roundings of a sequential sum add up like a
random walk. e is the largest error in the element's row (the last axis) of the reference in
float32, beyond one rounding; it is 0 where the reference makes none. c is the change of r when
every input moves up or down by the spacing of its type, and m the largest modulus of the row.
Results below the smallest normal number of their type may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from nkisim.dtypes import DTYPES, as_dtype
from nkisim.intents import DTYPE_NAMES
from nkisim.trials.arguments import Arguments
from nkisim.trials.references import (
    FLOAT32,
    Reference,
    Refused,
    Uncertainty,
    input_spacing,
    is_float,
    spacing,
    uncertainty,
)
from nkisim.trials.running import arrays_of

_REFERENCE = 2.0**-53
_CHAIN = 8.0
_limits_of: Any = ml_dtypes.finfo
Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The results of one call against the reference's.

    Attributes:
        passed: Whether dtypes are right and each element is within the tolerance.
        problem: What is wrong besides elements: number, shape or dtype of outputs.
        dtypes: Dtypes of the outputs.
        reference_dtypes: Those of the reference's results for the inputs as they are.
        tolerance: What is tolerated, as a sentence.
        relative: The tolerance relative to the size of an element.
        ulps: Largest error in units in the last place of the output's type, at the larger of the
            element's size and the size of what cancelled.
        norm: Relative error of all outputs together, in the 2-norm; infinite for a problem, and for
            NaN on either side.
        output, index: The worst element.
        got, expected: Its values.
        wrong: Number of elements whose error exceeds the tolerance.
    """

    passed: bool
    problem: str = ""
    dtypes: tuple[str, ...] = ()
    reference_dtypes: tuple[str, ...] = ()
    tolerance: str = ""
    relative: float = 0.0
    ulps: float = 0.0
    norm: float = 0.0
    output: int = 0
    index: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    wrong: int = 0

    def __str__(self) -> str:
        if self.problem or self.passed:
            return self.problem or f"at most {self.ulps:.3g} ulps off; {self.tolerance}"
        index = ", ".join(map(str, self.index))
        return (
            f"{self.wrong} elements are wrong; output {self.output} at ({index}) is "
            f"{self.got:.6g} and not {self.expected:.6g}; {self.tolerance}"
        )


def compare(
    outputs: Any,
    reference: Any,
    *,
    tolerance: float | None = None,
    out_dtype: str | None = None,
    seed: int = 0,
) -> Callable[..., Comparison]:
    """Return a callable that compares outputs with a reference's, for the kernel's arguments.

    Args:
        outputs: What the kernel returned: arrays or torch tensors, or containers of them.
        reference: A function of NumPy or torch with the kernel's parameters, or its results.
        tolerance: Relative tolerance in place of the derived one.
        out_dtype: The narrowest float type of outputs; None for the narrowest of the inputs, and of
            the reference's results.
        seed: Seed of the directions in which inputs move.

    Raises:
        ValueError: ``out_dtype`` is no float type; when called, the reference raises.
    """
    narrowest = require_float(out_dtype)

    def comparison(*args: Any, **kwargs: Any) -> Comparison:
        arguments = Arguments(args, kwargs)
        found = Reference(reference) if callable(reference) else arrays_of(reference)
        try:
            return Expected(found, arguments, seed).compared(
                arrays_of(outputs), tolerance, narrowest
            )
        except Refused as error:
            raise ValueError(f"reference: {error}") from error

    return comparison


def require_float(out_dtype: str | None) -> str | None:
    """Return the full name of a float type.

    Raises:
        ValueError: The device has no such float type.
    """
    if out_dtype is None:
        return None
    found = DTYPES.get(DTYPE_NAMES.get(out_dtype, out_dtype))
    if found is None or not found.is_float:
        names = ", ".join(name for name, dtype in DTYPES.items() if dtype.is_float)
        raise ValueError(f"out_dtype: got {out_dtype!r}; accepted: {names}")
    return str(found)


class Expected:
    """What a reference returns for one call, with which outputs are compared.

    Args:
        reference: The reference, or its results. Without a function the largest element of a row
            stands for the size of what cancelled in it.
        arguments: The arguments of the call.
        seed: As for ``compare``.

    Attributes:
        results: The results, of a function those in float64.

    Raises:
        Refused: The reference raised.
    """

    def __init__(
        self, reference: Reference | Sequence[Array], arguments: Arguments, seed: int = 0
    ) -> None:
        self._function = reference if isinstance(reference, Reference) else None
        self._arguments = arguments
        self._seed = seed
        found = reference(arguments) if isinstance(reference, Reference) else reference
        self.results = [_real(array) for array in found]

    @cached_property
    def dtypes(self) -> Sequence[np.dtype[Any] | None]:
        """The dtypes of the results for the inputs as they are; None where they say nothing."""
        if self._function is None:
            return [array.dtype for array in self.results]
        try:
            found = self._function.dtypes(self._arguments)
        except Refused:  # its constants are float64, for example
            found = []
        if len(found) == len(self.results):
            return found
        return [None if is_float(array) else array.dtype for array in self.results]

    @cached_property
    def _uncertainty(self) -> list[Uncertainty]:
        if self._function is None:
            return [_of_size(array, self._arguments) for array in self.results]
        return uncertainty(self._function, self.results, self._arguments, self._seed)

    def compared(
        self,
        outputs: Sequence[Array],
        tolerance: float | None = None,
        out_dtype: str | None = None,
    ) -> Comparison:
        """Return outputs against the results.

        Args:
            outputs: The outputs.
            tolerance: As for ``compare``.
            out_dtype: As for ``compare``, by its full name.
        """
        outputs = [_real(array) for array in outputs]
        found = Comparison(
            passed=True,
            dtypes=tuple(_name(array.dtype) for array in outputs),
            reference_dtypes=tuple(_name(d or np.dtype(np.float32)) for d in self.dtypes),
        )
        problem = _misfit(outputs, self.results) or self._wrong_dtype(outputs, out_dtype)
        if problem:
            return replace(found, passed=False, problem=problem, norm=math.inf)
        worst, wrong, ulps = -1.0, 0, 0.0
        terms = _CHAIN * math.sqrt(_longest_sum(self._arguments, outputs))
        for number, (got, right) in enumerate(zip(outputs, self.results, strict=True)):
            rounding = self._uncertainty[number]
            if _is_exact(got, self.dtypes[number]):
                excess = _excess_of_integers(got, right, rounding)
                in_ulps, text, relative = float((excess > 1.0).any()), _INTEGERS, 0.0
            else:
                rule = _Tolerance(got.dtype, terms, tolerance)
                excess, in_ulps = rule.excess(got, right, rounding)
                text, relative = rule.sentence(rounding), rule.relative
            wrong, ulps = wrong + int((excess > 1.0).sum()), max(ulps, in_ulps)
            if not excess.size or excess.max() <= worst:
                continue
            worst = float(excess.max())
            index = tuple(int(i) for i in np.unravel_index(int(excess.argmax()), excess.shape))
            found = replace(
                found,
                tolerance=text,
                relative=relative,
                output=number,
                index=index,
                got=float(got[index]),
                expected=float(right[index]),
            )
        return replace(
            found,
            passed=not wrong,
            wrong=wrong,
            ulps=ulps,
            norm=_relative_norm(outputs, self.results),
        )

    def _wrong_dtype(self, outputs: Sequence[Array], out_dtype: str | None) -> str:
        """Return which output has a dtype that the results do not allow; empty if none has."""
        given = [
            a for a in arrays_of((self._arguments.args, self._arguments.kwargs)) if is_float(a)
        ]
        narrowest = max((array.dtype for array in given), key=spacing, default=None)
        for number, (got, right, own) in enumerate(
            zip(outputs, self.results, self.dtypes, strict=True)
        ):
            text = f"output {number} is {_name(got.dtype)}, and "
            if _is_exact(got, own):
                lost = _not_held(got.dtype, right)
                if lost:
                    return f"{text}the reference's {_name(own or right.dtype)} has {lost}"
                continue
            wide = {"the narrowest input": narrowest, "the reference's": own}
            if out_dtype is not None:
                wide = {"--out-dtype": DTYPES[out_dtype].numpy}
            for what, dtype in wide.items():
                least = FLOAT32 if dtype is None else max(spacing(dtype) / 2, FLOAT32)
                if dtype is not None and spacing(got.dtype) / 2 > least:
                    name = _name(got.dtype)
                    return (
                        f"{text}{what} is {_name(dtype)}; a narrower one needs --out-dtype {name}"
                    )
        return ""


# -- dtypes ----------------------------------------------------------------------------------------


def _misfit(outputs: Sequence[Array], expected: Sequence[Array]) -> str:
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, and the reference has {len(expected)}"
    for number, (got, right) in enumerate(zip(outputs, expected, strict=True)):
        if got.shape != right.shape:
            return f"output {number} has shape {got.shape}, and the reference's {right.shape}"
    return ""


def _not_held(dtype: np.dtype[Any], right: Array) -> str:
    """Return which finite element of the reference's results a dtype does not hold exactly."""
    wide = right.astype(np.float64)
    with np.errstate(all="ignore"):
        if dtype.kind in "biu":
            low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            held = (wide == np.floor(wide)) & (wide >= low) & (wide <= high)
        else:
            held = wide.astype(dtype).astype(np.float64) == wide
    held |= ~np.isfinite(wide)
    if held.all():
        return ""
    index = tuple(int(i) for i in np.unravel_index(int(held.argmin()), held.shape))
    return f"{wide[index]:.6g} at {index}"


def _name(dtype: np.dtype[Any]) -> str:
    return str(as_dtype(dtype) or dtype)


# -- values ----------------------------------------------------------------------------------------

_INTEGERS = "integers must be equal, but for one unit where the reference changes with its inputs"


class _Tolerance:
    """What is tolerated of a float output.

    Args:
        dtype: Its dtype.
        terms: ``8 sqrt(n)`` of the longest sum.
        relative: The relative term in place of the derived one.
    """

    def __init__(self, dtype: np.dtype[Any], terms: float, relative: float | None) -> None:
        self._dtype = dtype
        self._terms = terms
        self._given = relative is not None
        self.relative = spacing(dtype) / 2 + terms * FLOAT32 if relative is None else relative

    def excess(self, got: Array, right: Array, rounding: Uncertainty) -> tuple[Array, float]:
        """Return each error as a share of what is tolerated, and the largest in ulps."""
        limits, place = _limits_of(self._dtype), spacing(self._dtype)
        tiny, most = float(limits.smallest_normal), float(limits.max)
        with np.errstate(all="ignore"):
            value, right = got.astype(np.float64), right.astype(np.float64)
            size = np.where(np.isfinite(right), np.abs(right), 0.0)
            error = np.abs(value - right) - 8.0 * _REFERENCE * _of_row(np.minimum(size, most))
            own = _of_row(rounding.error)
            allowed = self.relative * size + self._terms * own + rounding.change
            allowed = np.where(size < tiny, np.maximum(allowed, tiny), allowed)
            beyond = np.isnan(value) | ((np.abs(value) >= most) & (value * right > 0))
            beyond &= np.abs(right) + allowed > most
            accepted = (error <= 0) | (value == right) | np.isnan(right) | beyond
            share = np.where(np.isnan(error), np.inf, error / allowed)
            cancelled = np.where(np.isfinite(own), own / FLOAT32, 0.0)
            scale = np.maximum(
                np.maximum(size, tiny), np.maximum(cancelled, rounding.change / place)
            )
            ulps = error / (np.exp2(np.floor(np.log2(scale))) * place)
        counted = ~accepted & np.isfinite(ulps)
        return np.where(accepted | np.isinf(allowed), 0.0, share), float(
            ulps[counted].max(initial=0.0)
        )

    def sentence(self, rounding: Uncertainty) -> str:
        """Return what is tolerated, with the largest of each part."""
        name, own = _name(self._dtype), _of_row(rounding.error)
        text = f"{name} within {self.relative:.1e} of the element"
        if not self._given:
            text += f" (one rounding, and {self._terms:.0f} of float32)"
        absolute = self._terms * own[np.isfinite(own)].max(initial=0.0)
        if absolute:
            text += (
                f" plus up to {absolute:.1e} ({self._terms:.0f} times the reference's own error in "
                "its row)"
            )
        change = rounding.change.max(initial=0.0)
        if change:
            text += f" plus up to {change:.1e} (the change where its inputs' last digits move)"
        return text


def _is_exact(got: Array, own: np.dtype[Any] | None) -> bool:
    """Return whether an output must equal the reference: one of the two has no fractions."""
    return not (is_float(got) or got.dtype.kind == "f") or (own is not None and own.kind in "biu")


def _excess_of_integers(got: Array, right: Array, rounding: Uncertainty) -> Array:
    value, wide = got.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(wide), np.abs(value - wide), 0.0)
    at_tie = np.maximum(rounding.change, rounding.error) >= 0.5
    return np.where(error == 0, 0.0, np.where((error == 1.0) & at_tie, 1.0, np.inf))


def _of_row(error: Array) -> Array:
    """Return the largest finite error of each row in place of each; infinite ones are unchanged.

    A row is the last axis that is longer than 1.
    """
    axes = [axis for axis, extent in enumerate(error.shape) if extent > 1]
    if not axes:
        return error
    finite = np.where(np.isfinite(error), error, 0.0)
    return np.where(np.isfinite(error), finite.max(axis=axes[-1], keepdims=True), error)


def _of_size(right: Array, arguments: Arguments) -> Uncertainty:
    """Return the uncertainty of results whose function is unknown: as if rows had cancelled."""
    size = np.abs(right.astype(np.float64))
    size = _of_row(np.where(np.isfinite(size), size, 0.0))
    if right.dtype.kind in "biu":
        return Uncertainty(0.0 * size, 0.0 * size)
    given = [a for a in arrays_of((arguments.args, arguments.kwargs)) if is_float(a)]
    step = max([2 * FLOAT32, *map(input_spacing, given)])
    return Uncertainty(FLOAT32 * size, step * size)


def _longest_sum(arguments: Arguments, outputs: Sequence[Array]) -> int:
    """Return the length of the longest sum that shapes allow."""
    given = [a for a in arrays_of((arguments.args, arguments.kwargs)) if a.dtype != object]
    extents = [extent for array in given for extent in array.shape]
    made = max((array.size for array in outputs), default=1)
    return max([1, *extents, *(array.size // max(made, 1) for array in given)])


def _real(array: Array) -> Array:
    """Return complex numbers as pairs of real ones."""
    return array if array.dtype.kind != "c" else np.stack([array.real, array.imag], axis=-1)


def _relative_norm(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the relative error of all results that their types hold, in the 2-norm."""
    distance = size = 0.0
    for got, right in zip(outputs, expected, strict=True):
        wide, value = right.astype(np.float64), got.astype(np.float64)
        most = float(_limits_of(got.dtype).max) if is_float(got) else math.inf
        held = ~(np.isinf(wide) | (np.abs(wide) > most))
        with np.errstate(over="ignore", invalid="ignore"):
            distance += float(np.square(value[held] - wide[held]).sum())
            size += float(np.square(wide[held]).sum())
    if math.isnan(distance):
        return math.inf
    return math.sqrt(distance / size) if size else math.sqrt(distance)
