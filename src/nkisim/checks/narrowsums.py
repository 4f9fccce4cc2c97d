"""Sums in a narrow type: long sums in one accumulator, and products added one after another.

Every addition rounds to the accumulator's type. The terms counted are the in-place additions of one
line to a tile; the terms inside one instruction, which sums in float32, count as one.

The Tensor engine sums products in float32, in PSUM. A kernel that adds the sums of blocks to a
narrow tile rounds after each block. A chain of additions is followed from write to write: through
tiles that are added in place, new tiles for each sum, and copies. The chain ends where another
instruction reads a sum, as the next layer reads a residual stream: then the sum is not partial.
The terms are products in PSUM or copies of them. Sums in a bfloat16 PSUM tile, which gen4 offers,
and sums by ``dma_compute`` are not followed.
"""

from __future__ import annotations

from dataclasses import dataclass

from nkisim.checks.history import History, Site
from nkisim.diagnostics import declare, flag
from nkisim.dtypes import DType
from nkisim.machine import Step
from nkisim.memory import Lifetime, NkiTensor

LONG_SUM = declare(
    "D043",
    "long-sum",
    "More than 256 terms are added one after the other into a tile of bfloat16 or float16.",
    "each addition rounds; a term below the last bit of the sum is lost",
    severity="note",
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
            same = effect.tensor._storage is dst._storage and effect.tensor.region == dst.region
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


NARROW_PARTIAL_SUM = declare(
    "D052",
    "narrow-partial-sum",
    "Three or more sums of products are added one after the other in bfloat16 or float16.",
    "products are summed in float32 in PSUM, and each addition outside it rounds to the narrow "
    "type; the error grows with the number of blocks",
    severity="warning",
    detector="lostwork",
)

LEAST_ADDITIONS = 3
"""Additions from which on a chain is reported; one or two are residual connections."""


@dataclass(slots=True)
class _PartialSum:
    """A sum of products in a narrow type; its copies share it.

    Attributes:
        additions: Number of additions so far.
        read: Whether anything but an addition or a copy has read it.
    """

    additions: int
    read: bool = False


@dataclass(slots=True)
class _Chain:
    """The longest chain of additions that ends at a line."""

    site: Site
    dst: NkiTensor
    additions: int


class PartialSums:
    """Follows chains of additions of products into tiles of a narrow type."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._tiles: set[Lifetime] = set()  # those in which products or sums were written
        self._products: set[int] = set()
        self._sums: dict[int, _PartialSum] = {}
        self._chains: dict[tuple[str, int, str], _Chain] = {}

    def written(self, step: Step, number: int) -> None:
        """Note an instruction that has run, before its write replaces earlier ones."""
        dst = step.writes[0].tensor
        if step.sums and dst.dtype == "float32":
            self._products.add(number)
            self._tiles.add(dst.life)
        writes = {
            write
            for effect in step.reads
            if effect.tensor.life in self._tiles and effect.tensor.indirection is None
            for write in self._history.touched(effect).writers()
        }
        if not writes:
            return
        sums = [self._sums[write] for write in writes if write in self._sums]
        if step.moves:
            self._tiles.add(dst.life)
            if not self._products.isdisjoint(writes):
                self._products.add(number)
            if sums and dst.dtype in NARROW:
                self._sums[number] = max(sums, key=lambda found: found.additions)
        elif step.adds_to and dst.dtype in NARROW and not self._products.isdisjoint(writes):
            additions = 1 + max((found.additions for found in sums if not found.read), default=0)
            self._tiles.add(dst.life)
            self._sums[number] = _PartialSum(additions)
            self._note(self._history.site(number), dst, additions)
        else:
            for found in sums:
                found.read = True

    def _note(self, site: Site, dst: NkiTensor, additions: int) -> None:
        found = self._chains.get(site.key)
        if found is None or found.additions < additions:
            self._chains[site.key] = _Chain(site, dst, additions)

    def finish(self) -> None:
        """Flag the lines at which chains of additions were long."""
        for chain in self._chains.values():
            if chain.additions < LEAST_ADDITIONS:
                continue
            site, dst = chain.site, chain.dst
            flag(
                NARROW_PARTIAL_SUM,
                f"{site.instruction} adds {chain.additions} sums of products to a {dst.dtype} "
                "tile, one after the other",
                instruction=site.instruction,
                operand="dst",
                seen=f"{chain.additions} additions in {dst.dtype} {dst.shape}",
                allowed=f"up to {LEAST_ADDITIONS - 1} additions, or a float32 tile",
                fix="sum the blocks in PSUM with accumulate=, or in a float32 tile, and round once",
                place=site.place,
            )
