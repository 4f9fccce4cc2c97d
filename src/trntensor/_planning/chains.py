"""Eligibility and blocking of two contractions for the fused kernel.

A chain is ``first = "a,b->t"`` followed by ``second = "t,c->out"``. Its groups are d (summed in the
first), k (summed in the second), l (kept, in the operand that has k), r (kept, in the other one)
and n (of c). The kernel requires k in one operand of the first contraction, and no batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from trnsci.core.interop import constant_to_compile
from trnsci.core.tiles.hardware import SMALLEST_SBUF, TILE
from trnsci.core.tiles.tiling import row_tiles

_LARGEST_BLOCK = 64


class Roles(NamedTuple):
    """The index groups of a chain, and the operand of the first contraction that is x.

    Attributes:
        d, k, l, r, n: Indices of each group.
        x_first: Whether the first operand has k.
    """

    d: str
    k: str
    l: str  # noqa: E741
    r: str
    n: str
    x_first: bool


def terms_of(equation: str) -> tuple[str, str, str]:
    """Return the indices of both operands and of the result."""
    left, _, out = equation.partition("->")
    a, _, b = left.partition(",")
    return a, b, out


def extents_of(*operands: tuple[str, Sequence[int]]) -> dict[str, int]:
    """Return the size of every index of tensors, given by their indices and shapes."""
    return {x: n for labels, shape in operands for x, n in zip(labels, shape, strict=True)}


def roles_of(first: str, second: str) -> Roles | str:
    """Return the groups of a chain, or the reason why the kernel does not support it."""
    a, b, t = terms_of(first)
    t_again, c, out = terms_of(second)
    assert t == t_again
    d = "".join(x for x in a if x in b and x not in t)
    k = "".join(x for x in t if x in c and x not in out)
    if not d or not k:
        return "one of the steps has nothing to sum"
    if any(x in b and x in t for x in a) or any(x in c and x in out for x in t):
        return "a step is a batch of products"
    if all(x in a for x in k):
        x_first, x, y = True, a, b
    elif all(x in b for x in k):
        x_first, x, y = False, b, a
    else:
        return "the second step sums over indices of both operands of the first"
    loose = "".join(label for label in x if label in t and label not in k)
    r = "".join(label for label in y if label in t)
    n = "".join(label for label in c if label not in k)
    return Roles(d, k, loose, r, n, x_first)


def chain_block(roles: Roles, sizes: Mapping[str, int], itemsize: int) -> int:
    """Return the number of l computed at a time; 0 if not even one fits in SBUF."""
    d, k, loose, r, n = (prod(sizes[x] for x in group) for group in roles[:5])
    kept = row_tiles(d) * r + row_tiles(k) * n + 8 * TILE
    block = min(loose, _LARGEST_BLOCK)
    while block:
        # x, t and the output have two buffers each.
        passing = 2 * block * (row_tiles(d) * TILE + row_tiles(k) * r + 2 * r) + 2 * n
        if itemsize * (kept + passing) <= SMALLEST_SBUF:
            return block
        block //= 2
    return 0


@constant_to_compile
def why_unfused(first: str, second: str, shapes: tuple[tuple[int, ...], ...], itemsize: int) -> str:
    """Return the reason why the kernel does not support these shapes; empty if it does."""
    roles = roles_of(first, second)
    if isinstance(roles, str):
        return roles
    left, right, _ = terms_of(first)
    terms = left, right, terms_of(second)[1]
    if chain_block(roles, extents_of(*zip(terms, shapes, strict=True)), itemsize):
        return ""
    return "what is between the two contractions does not fit in SBUF"
