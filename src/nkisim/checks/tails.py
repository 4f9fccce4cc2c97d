"""Stale tails: tiles read whole after a shorter load, with elements of an earlier iteration.

A tile that is allocated before a loop still holds the last full load. If the same line then makes a
shorter load at the same start, as in the last iteration, and an instruction reads the whole tile,
it reads stale elements. Whether they matter depends on values: a mask may remove them. So the
kernel runs a second time with other values in their place, and only different results are a
finding. The check can miss a case but reports no false ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nkisim.checks.history import History
from nkisim.diagnostics import Place, declare, flag, user_place
from nkisim.machine import Effect, Step
from nkisim.memory import Lifetime, MemoryRegion, NkiTensor, is_hbm

PARTIAL_TILE = declare(
    "S067",
    "partial-tile",
    "A tile is read beyond its last, shorter load, and the results depend on the stale elements "
    "there.",
    "elements of an earlier iteration of the loop are used again",
    detector="lostwork",
    on_values=True,
    silent=True,
)
CONTRACTION_TAIL = declare(
    "S068",
    "contraction-tail",
    "A matmul contracts over more partitions than the last, shorter load of an operand has filled.",
    "rows of an earlier iteration of the loop enter the sum again",
    detector="lostwork",
    on_values=True,
    silent=True,
)

_Region = tuple[int, tuple[int, ...], tuple[int, ...], int]


class _Load(NamedTuple):
    """The last load of a line into a tile."""

    number: int
    region: _Region


class _Suspect(NamedTuple):
    """A read of elements from two loads of a line, the second one shorter."""

    place: Place
    instruction: str
    operand: str
    called: str
    used: tuple[int, ...]
    filled: tuple[int, ...]
    contracted: bool


class StaleTails:
    """Detects reads beyond a load that is shorter than the one before.

    Args:
        history: The last writes of the run.
        unsettled: Whether to replace stale elements by other values, for the second run.
    """

    def __init__(self, history: History, unsettled: bool) -> None:
        self._history = history
        self._unsettled = unsettled
        self._loads: dict[tuple[Lifetime, tuple[str, int, str]], _Load] = {}
        self._stale: dict[Lifetime, dict[int, _Load]] = {}
        self._suspects: dict[tuple[str, int], _Suspect] = {}

    @property
    def suspected(self) -> bool:
        """Whether possibly stale elements were read."""
        return bool(self._suspects)

    def written(self, step: Step, number: int) -> None:
        """Note the loads of an instruction; the stamps are those after it."""
        if not step.core.values or not any(is_hbm(effect.tensor.buffer) for effect in step.reads):
            return
        for effect in step.writes:
            tensor = effect.tensor
            if tensor.buffer is not MemoryRegion.sbuf or not effect.plain or tensor.indirection:
                continue
            life = tensor.life
            line = (life, self._history.site(number).key)
            earlier = self._loads.get(line)
            self._loads[line] = now = _Load(number, tensor.region)
            if earlier is not None and _is_head(now.region, earlier.region):
                self._stale.setdefault(life, {})[earlier.number] = now
                if self._unsettled:
                    self._unsettle(tensor, earlier)

    def _unsettle(self, tensor: NkiTensor, earlier: _Load) -> None:
        """Replace the elements of an earlier load by other values."""
        start, shape, strides, _ = earlier.region
        storage = tensor._storage
        stamps = storage.shadow.of_elements(*earlier.region)
        left = (np.abs(stamps) == earlier.number).all(axis=-1)
        held = np.ndarray(shape, tensor._elements.dtype, storage.data, start, strides)
        if left.any():
            held[left] = _others(held, left)

    def read(self, step: Step, effect: Effect) -> None:
        """Check whether a read includes stale elements next to new ones."""
        stale = self._stale.get(effect.tensor.life)
        if stale is None or not effect.plain:
            return
        writers = set(self._history.touched(effect).writers())
        for number, load in stale.items():
            if number in writers and load.number in writers:
                self._suspect(step, effect, load)

    def _suspect(self, step: Step, effect: Effect, load: _Load) -> None:
        place = user_place()
        used, filled = effect.tensor.shape, load.region[1]
        self._suspects.setdefault(
            (place.file, place.line),
            _Suspect(
                place,
                step.instruction,
                effect.operand,
                effect.tensor.life.called(effect.operand),
                used,
                filled,
                effect.operand in ("stationary", "moving") and used[0] > filled[0],
            ),
        )

    def report(self) -> None:
        """Flag the reads of stale elements; a second run has shown that results depend on them."""
        for found in self._suspects.values():
            flag(
                CONTRACTION_TAIL if found.contracted else PARTIAL_TILE,
                f"{found.instruction} reads {found.used} of {found.called}, of which the last load "
                f"has filled {found.filled}; the rest is from an earlier iteration",
                instruction=found.instruction,
                operand=found.operand,
                seen=f"{found.used}",
                allowed=f"{found.filled}",
                fix="slice the operand as the load is sliced, or clear the tile before the load "
                "with nisa.memset(dst=..., value=0.0)",
                notes=(f"{found.operand}   the results depend on these stale elements",),
                place=found.place,
            )


def _is_head(region: _Region, earlier: _Region) -> bool:
    """Return whether a view is the beginning of an earlier one, and shorter."""
    start, shape, strides, itemsize = region
    if (start, strides, itemsize) != (earlier[0], earlier[2], earlier[3]):
        return False
    pairs = list(zip(shape, earlier[1], strict=True))
    return all(now <= then for now, then in pairs) and shape != earlier[1]


def _others(held: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return replacements for stale elements: the tile's extremes, so finite and legal indices."""
    old = held[left]
    finite = held[np.isfinite(held.astype(np.float64))]
    if not finite.size:
        return np.zeros_like(old)
    low, high = finite.min(), finite.max()
    if low == high and old.dtype.kind not in "iub":
        high = (high + 1).astype(old.dtype)
    return np.where(old == high, low, high)
