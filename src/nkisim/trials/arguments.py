"""Arguments of trials: copies of the given ones, fresh values, a second shape."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nkisim.dtypes import as_dtype
from nkisim.objects import rebuilt
from nkisim.runs.host import array_of

_TILE = 128


class Arguments(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def changed(self, change: Callable[[str, np.ndarray], np.ndarray]) -> Arguments:
        """Return the arguments with every array replaced."""

        def convert(name: str, value: Any) -> Any:
            found = array_of(name, value)
            return value if found is None else change(name, found[0])

        args, kwargs = rebuilt((self.args, self.kwargs), convert)
        return Arguments(args, kwargs)

    def extents(self) -> list[int]:
        """Return the extents of the arrays, the largest first."""
        found: set[int] = set()

        def note(_: str, array: np.ndarray) -> np.ndarray:
            found.update(array.shape)
            return array

        self.changed(note)
        return sorted(found, reverse=True)


def given(arguments: Arguments) -> Arguments:
    """Return copies of the arguments as NumPy arrays; those without values are drawn.

    An array has no values of its own if it repeats one element, as ``numpy.broadcast_to`` does.
    """
    return arguments.changed(
        lambda name, a: _drawn(name, a, a.shape, -1.0) if _repeats(a) else np.array(a)
    )


def fresh(
    arguments: Arguments,
    low: float,
    extents: dict[int, int] | None = None,
    seed: tuple[int, ...] = (),
) -> Arguments:
    """Return arguments with other values, and with other extents in place of some.

    Floating-point values are uniform from ``low`` to 1, integers in the range of those given, so
    that indices stay legal. Equal seeds give equal values.
    """
    sizes: dict[int, int] = extents or {}

    def drawn(name: str, array: np.ndarray) -> np.ndarray:
        return _drawn(name, array, tuple(sizes.get(n) or n for n in array.shape), low, seed)

    return arguments.changed(drawn)


def _repeats(array: np.ndarray) -> bool:
    return array.size > 1 and not any(array.strides)


def _drawn(
    name: str,
    array: np.ndarray,
    shape: tuple[int, ...],
    low: float,
    seed: tuple[int, ...] = (),
) -> np.ndarray:
    rng = np.random.default_rng([*seed, zlib.crc32(name.encode()), *shape])
    dtype = as_dtype(array.dtype)
    if dtype is not None and dtype.is_float:
        return rng.uniform(low, 1.0, shape).astype(np.float32).astype(array.dtype)
    if array.dtype.kind in "iu" and array.size:
        least, most = int(array.min()), int(array.max())
        return rng.integers(least, most, shape, array.dtype, endpoint=True)
    if array.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return np.resize(array, shape)


def other_shapes(arguments: Arguments) -> Iterator[dict[int, int]]:
    """Yield replacements of an extent of the arrays, which may make a second shape of the call.

    Equal extents change together: they are likely one size of the problem.
    """
    for extent in arguments.extents():
        step = next((s for s in (4 * _TILE, _TILE) if extent % s == 0 and extent > s), 0)
        if step:
            tiles = extent // step  # the second shape gets at least two, and few instead of many
            other = tiles // 4 + 1 if tiles > 8 else tiles - 1 if tiles > 2 else tiles + 1
            yield {extent: other * step}
            yield {extent: extent + step}
        elif extent > 2:
            yield {extent: extent - 1}
