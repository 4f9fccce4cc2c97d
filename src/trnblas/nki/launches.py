"""Launches of trnblas' kernels by other libraries, whose launchers count them.

Importing this module imports NKI.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import ceil, log2

from torch import Tensor

from trnblas._kernels.trsm import MAX_ORDER
from trnblas._paths.launches import gemm_launch
from trnblas._paths.level_launches import (
    doublefloat_gemm,
    doublefloat_mp2_energy,
    doublefloat_trsm,
    solved_in_single,
    stacked_products,
)
from trnblas._precise.slicing import MOST_DEPTH, PROMISE, fewest_slices, slices_for_ranges
from trnblas.triangular_systems import trsm_by_parts, trsm_launch
from trnsci.core.backend.launch import Launcher
from trnsci.core.pair_energies import orbitals_at_once

__all__ = [
    "MAX_ORDER",
    "MOST_DEPTH",
    "complex_product",
    "doublefloat_energy",
    "doublefloat_product",
    "doublefloat_stack",
    "float64_triangular_solution",
    "orbitals_at_once",
    "triangular_solution",
]


def complex_product(
    launch: Launcher, a: Tensor, b: Tensor, c: Tensor | None, transposed: bool, wide: bool
) -> Tensor:
    """Return ``a @ b + c`` of complex matrices as parts in a last dimension of two.

    Args:
        launch: Launcher of the calling operation.
        a: (m, k, 2), in float32 or 16 bits as all operands.
        b: (k, n, 2), or (n, k, 2) with ``transposed``.
        c: (n, 2), added to every row; or None.
        transposed: Whether b is passed transposed.
        wide: Whether the result is float32, without rounding the sums to the dtype of ``a``.
    """
    added = None if c is None else c.reshape(1, -1)
    beta, trans = 0.0 if c is None else 1.0, "T" if transposed else "N"
    left, right = a.flatten(-2), b.flatten(-2)
    result = gemm_launch(launch, 1.0, left, right, beta, added, "N", trans, 2, wide)
    return result.reshape(result.shape[0], -1, 2)


def doublefloat_product(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` in the dtype of ``a`` at ``"doublefloat"``; see ``trnblas.gemm``.

    Args:
        launch: Launcher of the calling operation.
        a: Matrix or batch, in float32 or float64, with a contraction up to ``MOST_DEPTH``.
        b: Matrix or batch that broadcasts with that of ``a``.
    """
    return doublefloat_gemm(launch, a, b, PROMISE, False, False)


def doublefloat_stack(
    launch: Launcher, left: Tensor, right: Tensor, edges: tuple[int, ...], componentwise: bool
) -> Tensor:
    """Return products (b, M, N) with contractions of several lengths in float64, in one launch.

    An entry has an error of at most 2**-45, relative to the 2-norms of its row and its column.

    Args:
        launch: Launcher of the calling operation.
        left: The transposed left operands below each other, (K, M), in float64 and at most 1. The
            largest entry of a row is at least 1/2; if ``componentwise``, that with an entry of
            the right operand that is not 0.
        right: The right operands below each other, (K, N), with columns of this scale; if
            ``componentwise``, with entries that are 0 or at least 1/2.
        edges: First row of each product, then K; a contraction is at most 4,096.
        componentwise: Whether the error is 2**-44, relative to |A| |B|.
    """
    depth = max(last - first for first, last in pairwise(edges))
    if componentwise:
        # A sum of moduli is at least 1/4: a quarter of the largest term for each of its terms.
        slices = slices_for_ranges(2 * PROMISE, depth, 2 + ceil(log2(depth)), 1)
    else:
        slices = fewest_slices(PROMISE, depth)
    return stacked_products(launch, left, right, edges, slices, False, componentwise)


def float64_triangular_solution(
    launch: Launcher, a: Tensor, b: Tensor, upper: bool, refined: bool
) -> Tensor:
    """Return ``a^-1 @ b`` in float64: with the digits of float32, or at ``"doublefloat"``.

    Args:
        launch: Launcher of the calling operation.
        a: Triangles (b, n, n) in the range of float32, with zeros in the other triangle.
        b: Right-hand sides (b, n, k) of any range.
        upper: Whether the triangles are upper ones.
        refined: Whether the solution is that of ``trnblas.trsm`` at ``"doublefloat"``.

    Raises:
        KernelError: A triangle is too ill-conditioned to refine the solution.
    """
    if refined:
        return doublefloat_trsm(launch, 1.0, a, b, True, upper, "N", False)
    return solved_in_single(launch, a, b, upper)


def doublefloat_energy(
    launch: Launcher, t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ: Tensor, eps_vir: Tensor
) -> Tensor:
    """Return an MP2 energy in the dtype of ``t_flat`` at ``"doublefloat"``.

    Args:
        launch: Launcher of the calling operation.
        t_flat: Integrals in float32 or float64, as of ``trnblas.nki_mp2_energy``.
        eps_occ_chunk: Energies of the orbitals of its rows.
        eps_occ: Energies of all occupied orbitals.
        eps_vir: Energies of the virtual orbitals.
    """
    return doublefloat_mp2_energy(launch, t_flat, eps_occ_chunk, eps_occ, eps_vir)


def triangular_solution(
    launch: Launcher, A: Tensor, B: Tensor, upper: bool, trans: str, unit: bool
) -> Tensor:
    """Return X with ``op(A) @ X = B`` for triangular matrices; see ``trnblas.trsm``.

    Args:
        launch: Launcher of the calling operation.
        A: (n, n) or (b, n, n), in float32 up to order ``MAX_ORDER``, or complex64 up to half of it.
        B: (n, k) or (b, n, k).
        upper: Whether the upper triangle of A is read.
        trans: ``"N"``, ``"T"`` or ``"C"``.
        unit: Whether the diagonal is ones and not read.
    """
    if trans == "C":
        A, trans = A.conj().resolve_conj(), "T"
    flags = True, upper, trans, unit
    solve = partial(trsm_launch, launch)
    return trsm_by_parts(solve, 1.0, A, B, *flags) if A.is_complex() else solve(1.0, A, B, *flags)
