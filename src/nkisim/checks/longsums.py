"""Long sums in a narrow type: many additions to an accumulator of 8 or 11 significant bits.

Every addition rounds to the accumulator's type. The terms counted are the in-place additions of one
line to a tile; the terms inside one instruction, which sums in float32, count as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from nkisim.checks.history import Site
from nkisim.diagnostics import declare, flag
from nkisim.dtypes import DType
from nkisim.machine import Step
from nkisim.memory import Lifetime

LONG_SUM = declare(
    "D043",
    "long-sum",
    "note",
    "More than 256 terms are added one after the other into a tile of bfloat16 or float16.",
    "each addition rounds; a term below the last bit of the sum is lost",
    detector="lostwork",
)

MOST_TERMS = 256
"""After 2^8 equal terms, adding another one to a bfloat16 sum has no effect."""

NARROW = ("bfloat16", "float16")
"""Types of 8 and 11 significant bits."""


@dataclass(slots=True)
class _Sum:
    """The additions of one line to a tile."""

    site: Site
    shape: tuple[int, ...]
    dtype: DType
    terms: int = 1


class LongSums:
    """Counts the terms of sums with an accumulator of a narrow type."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Lifetime, tuple[str, int, str]], _Sum] = {}

    def written(self, step: Step, site: Site) -> None:
        """Note an instruction that adds to its destination."""
        if not step.adds_to:
            return
        dst = step.writes[0].tensor
        if dst.dtype not in NARROW:
            return
        for effect in step.reads:
            same = effect.tensor.storage is dst.storage and effect.tensor.region == dst.region
            if same and effect.operand in step.adds_to:
                found = self._sums.get((dst.life, site.key))
                if found is None:
                    new = _Sum(site, dst.shape, dst.dtype)
                    self._sums[dst.life, site.key] = new
                else:
                    found.terms += 1
                return

    def finish(self) -> None:
        """Flag the lines whose sums were long."""
        reported: set[tuple[str, int, str]] = set()
        for found in self._sums.values():
            if found.terms <= MOST_TERMS or found.site.key in reported:
                continue
            reported.add(found.site.key)
            flag(
                LONG_SUM,
                f"{found.site.instruction} adds {found.terms} terms to a tile of {found.dtype}, "
                "one after the other",
                instruction=found.site.instruction,
                operand="dst",
                seen=f"{found.terms} terms into {found.dtype} {found.shape}",
                allowed=f"{MOST_TERMS} terms, or a float32 tile",
                fix="keep the sum in a float32 tile, and round it once at the end",
                place=found.site.place,
            )
