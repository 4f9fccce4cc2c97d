"""Kernel launches of products and solutions at levels of precision other than float32.

Each function has the name of its operation and takes a launcher and the operation's arguments:
matrices or batches that broadcast. A batch is one launch; an operand that all its products share is
not copied, the other is made one matrix. Scales are applied here, in float64 (see ``planes``).

Vectors and energies on pairs of float32 have terms that are scaled by powers of two, not vectors:
errors are relative to terms of any size. NaN and infinities do not enter these kernels; their terms
are added in float64, and products that an infinity enters are computed in it. Importing this module
imports NKI.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnblas._kernels import doublefloat_energy as energy_kernels
from trnblas._kernels import doublefloat_vectors as vector_kernels
from trnblas._kernels.doublefloat import doublefloat_gemm as doublefloat_kernel
from trnblas._kernels.float16x3 import MOST
from trnblas._kernels.float16x3 import float16x3_gemm as float16x3_kernel
from trnblas._kernels.trsm import batched_trsm as batched_trsm_kernel
from trnblas._kernels.trsm import trsm as trsm_kernel
from trnblas._paths.launches import gemm_launch
from trnblas._paths.triangles import one_triangle, triangular
from trnblas._precise.slicing import (
    PROMISE,
    block_starts,
    chunk_rows,
    fewest_slices,
    pair_groups,
    slices_for_ranges,
)
from trnsci.core.arguments import broadcast
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import KernelError
from trnsci.core.interop import is_fake
from trnsci.core.numbers.doublefloat import (
    joined,
    plane,
    planes,
    row_exponents,
    row_range,
    times_power,
)
from trnsci.core.numbers.products import scaled
from trnsci.core.tiles.hardware import TILE

_MOST_STEPS = 20  # of refinement; each gains a factor of two at least


def bfloat16_gemm(launch: Launcher, a: Tensor, b: Tensor, upper: bool, many: int = 1) -> Tensor:
    # With ``many`` = 2, the operands and the result are the parts of complex matrices.
    def product(left: Tensor, right: Tensor) -> Tensor:
        count, rows = left.shape[:2]
        x, y = ((side[0] if count == 1 else side).bfloat16() for side in (left, right))
        result = gemm_launch(launch, 1.0, x, y, 0.0, None, "N", "N", many, wide=True)
        return result.reshape(count, rows, -1)

    return _each_product(product, a, b, upper).to(a.dtype)


def float16x3_gemm(launch: Launcher, a: Tensor, b: Tensor, upper: bool) -> Tensor:
    def product(left: Tensor, right: Tensor) -> Tensor:
        of_left, of_right = row_exponents(left, MOST), row_exponents(right.mT, MOST).mT
        scaled = times_power(left, -of_left).mT, _two_columns(times_power(right, -of_right))
        operands = (plane(x).flatten(0, 1) for x in scaled)
        result = launch(float16x3_kernel, *operands, left.shape[0], upper)
        result = result.reshape(*left.shape[:2], -1)[..., : right.shape[2]]
        return times_power(result, of_left + of_right)

    return _each_finite_product(product, a, b, upper).to(a.dtype)


def doublefloat_gemm(
    launch: Launcher, a: Tensor, b: Tensor, target: float, componentwise: bool, upper: bool
) -> Tensor:
    def product(left: Tensor, right: Tensor) -> Tensor:
        depth = left.shape[2]
        slices = 0 if componentwise else fewest_slices(target, depth)
        blocks = []
        for k0, k1 in pairwise(block_starts(depth)):
            panels = left[..., k0:k1], right[:, k0:k1]
            if componentwise:
                ranges = (row_range(x) for x in (panels[0], panels[1].mT))
                slices = slices_for_ranges(target, depth, *ranges)
            blocks.append(sliced_product(launch, *panels, slices, upper, componentwise))
        return sum(blocks[1:], blocks[0])

    return _each_finite_product(product, a, b, upper).to(a.dtype)


def sliced_product(
    launch: Launcher, left: Tensor, right: Tensor, slices: int, upper: bool, exact: bool
) -> Tensor:
    """Return doublefloat products of a batch, with a contraction up to 4,096, in float64."""
    of_left, of_right = row_exponents(left), row_exponents(right.mT).mT
    count, _, depth = left.shape
    below = (
        times_power(left, -of_left).mT.flatten(0, 1),
        times_power(right, -of_right).flatten(0, 1),
    )
    edges = tuple(range(0, (count + 1) * depth, depth))
    found = stacked_products(launch, *below, edges, slices, upper, exact)
    return times_power(found, of_left + of_right)


def stacked_products(
    launch: Launcher,
    left: Tensor,
    right: Tensor,
    edges: tuple[int, ...],
    slices: int,
    upper: bool,
    exact: bool,
) -> Tensor:
    """Return the doublefloat products (b, M, N) of scaled matrices below each other, in float64.

    Args:
        launch: The launcher.
        left: The transposed left operands, (K, M).
        right: The right operands, (K, N).
        edges: First row of each product, then K; contractions are at most 4,096.
        slices: Slices of each operand.
        upper: As in the kernel, like ``exact``.
        exact: Whether the bound is relative to |A| |B|.
    """
    depth = max(k1 - k0 for k0, k1 in pairwise(edges))
    plan = slices, chunk_rows(slices, depth), pair_groups(slices, depth)
    operands = (*planes(left), *planes(_two_columns(right)))
    high, low = launch(doublefloat_kernel, *operands, *plan, edges, upper, exact)
    found = (high.double() + low.double()).reshape(len(edges) - 1, left.shape[1], -1)
    return found[..., : right.shape[1]]


def doublefloat_trsm(launch: Launcher, alpha: float, a: Tensor, b: Tensor, *flags: Any) -> Tensor:
    """Solve in float32, and again for the residual, until that is at most 2**-45 of its terms.

    The residual of row i and column j is compared with the 2-norms of the row of op(A) and of the
    column of the solution, plus the entry of B.

    Raises:
        KernelError: A is singular or not finite, or too ill-conditioned for float32.
    """
    left, upper, trans, unit = flags
    matrix = triangular(a, upper, unit)
    if (trans != "N") == left:  # op(A) for A on the left, its transpose for A on the right
        matrix, upper = matrix.mT, not upper
    batch, matrices, sides = _one_batch(matrix, scaled(alpha, b if left else b.mT))
    diagonal = torch.diagonal(matrices, dim1=-2, dim2=-1)
    if not (torch.isfinite(matrices).all() and diagonal.all() and torch.isfinite(sides).all()):
        raise KernelError("A is singular, or A or B is not finite: float32 has nothing to refine")
    of_rows = row_exponents(matrices)
    matrices, sides = times_power(matrices, -of_rows), times_power(sides, -of_rows)
    of_columns = row_exponents(sides.mT).mT
    sides = times_power(sides, -of_columns)
    rows = torch.linalg.vector_norm(matrices, dim=-1, keepdim=True)
    solution, residual, reached = torch.zeros_like(sides), sides, float("inf")
    for _ in range(_MOST_STEPS):
        solution = solution + solved_in_single(launch, matrices, residual, upper)
        found = doublefloat_gemm(launch, matrices, solution, PROMISE, False, False)
        residual = sides - found
        columns = torch.linalg.vector_norm(solution, dim=-2, keepdim=True)
        terms = rows * columns + sides.abs()
        before, reached = reached, float((residual.abs() / terms.clamp_min(_TINY)).max())
        if reached <= PROMISE:
            solution = times_power(solution, of_columns).reshape(*batch, *sides.shape[1:])
            return solution if left else solution.mT
        if not reached <= before / 2:
            break
    raise KernelError(
        f"A is too ill-conditioned for refinement in float32: it stopped at a residual of "
        f"{reached:.3g}, above {PROMISE:.3g}"
    )


_TINY = torch.finfo(torch.float64).tiny


def solved_in_single(launch: Launcher, matrices: Tensor, sides: Tensor, upper: bool) -> Tensor:
    """Return the float32 solutions of triangular systems with these right-hand sides."""
    exponents = row_exponents(sides.mT).mT
    operands = [plane(matrices), plane(times_power(sides, -exponents))]
    kernel = batched_trsm_kernel
    if matrices.shape[0] == 1:
        kernel, operands = trsm_kernel, [x[0] for x in operands]
    found = launch(kernel, *operands, 1.0, True, upper, False, False)
    return times_power(found.reshape(sides.shape), exponents)


def _each_product(
    product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, upper: bool
) -> Tensor:
    """Return the product of two matrices, or of each pair of two batches, with one batch dimension.

    With a shared operand the other one is a single matrix, unless a triangle is computed.
    """
    rows, columns = a.shape[-2], b.shape[-1]
    if b.ndim == 2 and not upper:
        return product(a.reshape(1, -1, a.shape[-1]), b[None]).reshape(*a.shape[:-1], columns)
    if a.ndim == 2 and not upper:
        side_by_side = b.movedim(-2, 0)
        wide = product(a[None], side_by_side.reshape(1, b.shape[-2], -1))
        return wide.reshape(rows, *side_by_side.shape[1:]).movedim(0, -2)
    batch, lefts, rights = _one_batch(a, b)
    results = product(lefts, rights).reshape(*batch, rows, columns)
    return one_triangle(results, True) if upper else results


def _each_finite_product(
    product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, upper: bool
) -> Tensor:
    """Return the same for a kernel that takes no infinities: results of theirs are float64's."""
    results = _each_product(product, a, b, upper)
    if is_fake(a) or is_fake(b):
        return results
    infinite = a.isinf().any(-1, keepdim=True) | b.isinf().any(-2, keepdim=True)
    if not infinite.any():
        return results
    exact = a.double() @ b.double()
    return torch.where(infinite, one_triangle(exact, True) if upper else exact, results)


def _one_batch(a: Tensor, b: Tensor) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """Return the batch of two operands, and both with one batch dimension."""
    batch = broadcast(a.shape[:-2], b.shape[:-2]) or ()
    left, right = (x.expand(*batch, *x.shape[-2:]) for x in (a, b))
    count = prod(batch)
    return batch, left.reshape(count, *a.shape[-2:]), right.reshape(count, *b.shape[-2:])


def _two_columns(matrices: Tensor) -> Tensor:
    """Return matrices with at least two columns, which some compilers demand of a product."""
    if matrices.shape[-1] > 1:
        return matrices
    return torch.cat([matrices, torch.zeros_like(matrices)], -1)


MOST_ELEMENTS = 16 * TILE * vector_kernels.WIDTH
"""Elements of one launch: with 16 tiles the error of a sum is at most 2**-41 of its moduli.

(9 + 3.1 (16 + 9 + 7)) u**2 = 108 u**2 from ``doublefloat_dot``, and 1 u**2 from the planes.
"""
_NO_EXPONENT = -4000  # of a term that is 0: below that of every product


def doublefloat_axpy(launch: Launcher, alpha: Tensor, x: Tensor, y: Tensor) -> Tensor:
    factor = alpha.double().reshape(1)
    usable = torch.isfinite(x) & torch.isfinite(y) & torch.isfinite(factor)
    left, right = _finite(x, usable).reshape(-1), _finite(y, usable).reshape(-1)
    multiplier, of_multiplier = torch.frexp(factor.where(torch.isfinite(factor), 0))
    x_part, of_x = torch.frexp(left)
    y_part, of_y = torch.frexp(right)
    # The larger term of each element decides its scale; a term that is 0 does not.
    of_product = (of_multiplier + of_x).long().where(multiplier * x_part != 0, _NO_EXPONENT)
    common = torch.maximum(of_product, of_y.long().where(y_part != 0, _NO_EXPONENT))
    high, low = launch(
        vector_kernels.doublefloat_axpy,
        *planes(multiplier.reshape(1, 1)),
        *planes(_rows(times_power(x_part, of_product - common))),
        *planes(_rows(times_power(right, -common))),
    )
    total = (high.double() + low.double()).reshape(-1)[: x.numel()]
    result = times_power(total, common).reshape(x.shape)
    result[~usable] = scaled(factor, x[~usable].double()) + y[~usable].double()
    return result.to(x.dtype)


def doublefloat_dot(launch: Launcher, x: Tensor, y: Tensor) -> Tensor:
    usable = torch.isfinite(x) & torch.isfinite(y)
    total, exponent = _inner_product(launch, _finite(x, usable), _finite(y, usable))
    others = (x[~usable].double() * y[~usable].double()).sum()
    return (times_power(total, exponent) + others).to(x.dtype)


def doublefloat_nrm2(launch: Launcher, x: Tensor) -> Tensor:
    usable = torch.isfinite(x)
    finite = _finite(x, usable)
    total, exponent = _inner_product(launch, finite, finite)
    others = x[~usable].double().square().sum()
    return (times_power(total.sqrt(), exponent // 2) + others.sqrt()).to(x.dtype)


def doublefloat_mp2_energy(
    launch: Launcher, t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    chunk, full, virtual = (x.double().reshape(-1) for x in (eps_occ_chunk, eps_occ_full, eps_vir))
    sizes = len(chunk), len(virtual), len(full), len(virtual)
    of_t = _exponent(t_flat)
    t = times_power(t_flat, -of_t)
    swapped = t.reshape(sizes).transpose(1, 3).reshape(t.shape)
    rows = (chunk[:, None] - virtual).reshape(-1, 1)
    columns = (full[:, None] - virtual).reshape(1, -1)
    of_gaps = torch.maximum(_exponent(rows), _exponent(columns))
    gaps = (times_power(gap, -of_gaps) for gap in (rows, columns))
    operands = [plane for values in (t, swapped, *gaps) for plane in planes(values)]
    high, low = launch(energy_kernels.doublefloat_mp2_energy, *operands)
    return joined(high, low, 2 * of_t - of_gaps, t_flat.dtype).reshape(())


def _inner_product(launch: Launcher, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return a 0-d sum in float64, and the exponent of the power of two to multiply it with.

    The largest term is scaled to [1/4, 1), and both factors of a term have nearly one size. Beside
    an element of 1, one of 1e-40 would lose digits, though its term may be the largest.
    """
    left, of_left = torch.frexp(x.reshape(-1))
    right, of_right = torch.frexp(y.reshape(-1))
    of_terms = (of_left + of_right).long().where(left * right != 0, _NO_EXPONENT)
    largest = of_terms.max()
    half = (of_terms - largest).div(2, rounding_mode="floor")
    left, right = times_power(left, half), times_power(right, of_terms - largest - half)
    total = left.new_zeros(())
    for start in range(0, left.numel(), MOST_ELEMENTS):
        blocks = (_rows(side[start : start + MOST_ELEMENTS]) for side in (left, right))
        operands = [plane for block in blocks for plane in planes(block)]
        high, low = launch(vector_kernels.doublefloat_dot, *operands)
        total = total + (high.double() + low.double()).reshape(())
    return total, largest


def _finite(values: Tensor, usable: Tensor) -> Tensor:
    return values.double().masked_fill(~usable, 0)


def _exponent(values: Tensor) -> Tensor:
    """Return the exponent of the largest element, 0-d; 0 for zeros."""
    return row_exponents(values.reshape(1, -1)).reshape(())


def _rows(values: Tensor) -> Tensor:
    """Return a vector as 128 rows, padded with zeros."""
    return pad(values.reshape(-1), (0, -values.numel() % TILE)).reshape(TILE, -1)
