"""The cases of a verdict: fresh values, hostile values, shapes that were not given."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nkisim.dtypes import as_dtype
from nkisim.trials import Arguments
from nkisim.trials.arguments import fresh, other_shapes

AS_GIVEN = "as given"
"""Name of the case with the given values, which the reference must take."""

_MOST_SHAPES = 10
_LARGE = 4096.0


class Case(NamedTuple):
    """Arguments of a kernel.

    Attributes:
        name: What is special about them.
        arguments: The arguments.
        signature: Number of its shapes: 0 for those given, which the kernel must take.
    """

    name: str
    arguments: Arguments
    signature: int


def cases_of(
    given: Arguments,
    seed: int,
    signatures: Sequence[dict[int, int]],
    *,
    hostile: bool,
    nonfinite: bool,
) -> Iterator[Case]:
    """Yield the cases of one given call, those that a right kernel must pass first.

    Args:
        given: The arguments of the call.
        seed: Seed of all values.
        signatures: Result of ``signatures_of``.
        hostile: Whether to add values that are hard on arithmetic.
        nonfinite: Whether to add values that are not finite.
    """
    yield Case(AS_GIVEN, given, 0)
    yield Case("fresh values", fresh(given, -1.0, seed=(seed, 0)), 0)
    yield Case("fresh values again", fresh(given, 0.25, seed=(seed, 1)), 0)
    if hostile:
        for name in _HOSTILE:
            if name != "infinities" or nonfinite:
                yield Case(name, _with_values(given, name, seed), 0)
    for number, extents in enumerate(signatures):
        if extents:
            name = ", ".join(f"{new} in place of {old}" for old, new in extents.items())
            yield Case(name, fresh(given, -1.0, extents, (seed, 2)), number)


def without_values(given: Arguments, extents: dict[int, int]) -> Arguments:
    """Return arguments whose arrays have other extents in place of some, and no values."""

    def empty(_: str, array: np.ndarray) -> np.ndarray:
        shape = tuple(extents.get(extent) or extent for extent in array.shape)
        return np.broadcast_to(np.zeros((), array.dtype), shape)

    return given.changed(empty)


def signatures_of(given: Arguments, *, shapes: bool) -> list[dict[int, int]]:
    """Return the replacements of extents that make the other shapes of one given call.

    The first is empty, for the given shapes; ``shapes`` is whether to add others: those that trials
    make, tails, and one row.
    """
    if not shapes:
        return [{}]
    found = list(other_shapes(given))
    for extent in given.extents():
        found += [{extent: n} for n in (extent - 1, extent + 1, 1) if 0 < n != extent]
    distinct = [e for i, e in enumerate(found) if e not in found[:i]]
    turns = sorted(distinct, key=lambda e: [o for o in distinct if [*o] == [*e]].index(e))
    return [{}, *turns[:_MOST_SHAPES]]


def _with_values(given: Arguments, kind: str, seed: int) -> Arguments:
    """Return the arguments with hostile floating-point values."""
    start = fresh(given, -1.0, seed=(seed, 3))

    def filled(name: str, array: np.ndarray) -> np.ndarray:
        dtype = as_dtype(array.dtype)
        if dtype is None or not dtype.is_float:
            return array
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), 4])
        # Squares of large values, and sums of some, are finite in every wider type.
        most = min(_LARGE, float(np.sqrt(dtype.max_finite or 1.0)) / 4)
        made = _HOSTILE[kind](rng, array.astype(np.float32), most)
        return made.astype(np.float32).astype(array.dtype)

    return start.changed(filled)


def _one_large(rng: np.random.Generator, array: np.ndarray, most: float) -> np.ndarray:
    array *= 0.01
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    rows[np.arange(len(rows)), rng.integers(0, rows.shape[1], len(rows))] = most
    return array


def _infinities(rng: np.random.Generator, array: np.ndarray, most: float) -> np.ndarray:
    array.flat[:: max(array.size // 3, 1)] = np.inf
    return array


_HOSTILE: dict[str, Callable[[np.random.Generator, np.ndarray, float], np.ndarray]] = {
    "zeros": lambda rng, array, most: np.zeros_like(array),
    "signs": lambda rng, array, most: rng.choice([-1.0, 1.0], array.shape),
    "large values": lambda rng, array, most: array * most,
    "tiny values": lambda rng, array, most: array * (1.0 / most),
    "ties": lambda rng, array, most: rng.choice([-0.75, 0.5, 1.25], array.shape),
    "one large among small": _one_large,
    "infinities": _infinities,
}
"""Values of an array by the name of their case, from a generator, fresh values and a large one."""
