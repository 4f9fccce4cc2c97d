"""Computations and lower bounds of distributed calls.

Operations are those of each rank, by the usual counts for real matrices; of complex ones they are
four times as many. Bytes are those of operands and results, once.

A lower bound is the rank of the derivative of what a rank computes by what other ranks hold: a rank
that receives fewer elements cannot have the result, if messages are differentiable functions of
the data. It is that of generic matrices in the layout of the call.
"""

from __future__ import annotations

import torch

from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.plans import LowerBound, Step
from trnsolver.distributed._panels import panels

_PASSES = {"cg": (10, 12, 5), "minres": (16, 16, 6)}
"""Operations and elements read or written per row of an iteration, and its vector operations.

Conjugate gradients have two inner products, and three sums of two vectors. MINRES has an inner
product, a norm and a division, and sums of three, three and two vectors.
"""
_PRECONDITIONED = (2, 2, 1)


def computed(
    layout: Layout,
    what: str,
    flops: list[int],
    elements: list[int],
    dtype: torch.dtype,
    launches: int,
) -> Step:
    """Return a computation of operations and elements of each rank."""
    scale = 4 if dtype.is_complex else 1
    return Step(
        "compute",
        what,
        (0,) * layout.ranks,
        0,
        tuple(scale * count for count in flops),
        tuple(dtype.itemsize * count for count in elements),
        launches=max(1, launches),
    )


def tall_computed(
    function: str, layout: Layout, sides: int, sketch: int, power: int, dtype: torch.dtype
) -> Step:
    """Return the computation of a function of tall matrices."""
    n, p = layout.shape[1], layout.ranks

    def tsqr(m: int, width: int) -> int:
        # Both factorizations with their Q, and the product of the two.
        return 4 * width**2 * (m + p * width) + 2 * m * width**2

    if function == "msign":
        flops = [8 * m * n * n + 84 * n**3 for m in layout.sizes]  # 14 steps of three products
        elements = [2 * m * n + n * n for m in layout.sizes]
        return computed(layout, "Gram matrices and steps", flops, elements, dtype, 50)
    if function == "rsvd":
        flops = [
            (power + 1) * (tsqr(m, sketch) + 4 * m * n * sketch + 4 * n * sketch**2)
            + 2 * m * sketch**2
            for m in layout.sizes
        ]
        elements = [2 * (power + 1) * m * n + 2 * m * sketch for m in layout.sizes]
        return computed(layout, "sketch and factors", flops, elements, dtype, 5 * (power + 1))
    flops = [tsqr(m, n) for m in layout.sizes]
    elements = [2 * m * n + 2 * p * n * n for m in layout.sizes]
    if function == "lstsq":
        flops = [f + 4 * m * n * sides for f, m in zip(flops, layout.sizes, strict=True)]
        elements = [e + m * (n + 2 * sides) for e, m in zip(elements, layout.sizes, strict=True)]
    return computed(layout, "factors", flops, elements, dtype, 3 if function == "tsqr" else 7)


def factorized(layout: Layout, dtype: torch.dtype) -> Step:
    """Return the computation of a Cholesky factor."""
    flops, elements = [0] * layout.ranks, [2 * m * layout.shape[0] for m in layout.sizes]
    cuts = panels(layout)
    for owner, start, end in cuts:
        width = end - start
        for rank, last in enumerate(layout.offsets[1:]):
            below = max(0, last - max(end, layout.offsets[rank]))
            flops[rank] += below * width * (2 * start + width)
            elements[rank] += width * end
        flops[owner] += width * width * (2 * start + width // 3)
    return computed(layout, "panels", flops, elements, dtype, 3 * len(cuts))


def substitutions(layout: Layout, sides: int, dtype: torch.dtype) -> Step:
    """Return the computation of both substitutions with a factor."""
    read = [m * start + m * m // 2 for m, start in zip(layout.sizes, layout.offsets, strict=False)]
    flops = [4 * count * sides for count in read]
    elements = [2 * (count + m * sides) for count, m in zip(read, layout.sizes, strict=True)]
    return computed(layout, "substitutions", flops, elements, dtype, 4 * layout.ranks)


def iterations_computed(
    function: str, layout: Layout, sides: int, count: int, preconditioned: bool, dtype: torch.dtype
) -> Step:
    """Return the vector operations of iterations, without those of M."""
    more = _PRECONDITIONED if preconditioned else (0, 0, 0)
    flops, passes, launches = (a + b for a, b in zip(_PASSES[function], more, strict=True))
    rows = [count * sides * m for m in layout.sizes]
    return computed(
        layout,
        "vectors",
        [flops * n for n in rows],
        [passes * n for n in rows],
        dtype,
        count * launches,
    )


# -- lower bounds ----------------------------------------------------------------------------------


def bound_of(function: str, layout: Layout, sides: int, dtype: torch.dtype) -> LowerBound | None:
    """Return the lower bound of a function; None where none is known."""
    n, height = layout.shape[1], layout.shape[0]
    if function in ("cholesky", "solve_spd"):
        # Column j of a rank's m rows depends on column j of the triangle above: min(m, j) elements.
        wide = [
            (m, min(m, start), start)
            for m, start in zip(layout.sizes, layout.offsets, strict=False)
        ]
        found = max(k * (k + 1) // 2 + m * (start - k) for m, k, start in wide)
        name = "rank of the derivative of a rank's rows of the factor"
    elif function == "tsqr":
        # R depends on the rows of others by their Gram matrix.
        others = [min(n, height - m) for m in layout.sizes]
        found = max(k * n - k * (k - 1) // 2 for k in others)
        name = "rank of the derivative of R"
    elif function == "lstsq":
        # The solution depends on right-hand sides of others by a matrix of min(n, rows) rank.
        found = max(min(n, height - m) * sides for m in layout.sizes)
        name = "rank of the derivative of the solution"
    else:
        return None
    return LowerBound(found * dtype.itemsize, f"{name}, any differentiable algorithm")
