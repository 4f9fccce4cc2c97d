"""One round of Jacobi's method on a symmetric matrix in SBUF, and a kernel of row rotations.

A round rotates all pairs of slots 2i and 2i + 1 at once and permutes the slots for the next round.
With J the rotations and P the constant permutation of the tournament, G = J P and

    D <- G^T D G,    W <- G^T W,

three products. W starts as the identity and ends as the transpose of the eigenvectors. Every round
is the same program, so that the rounds of all sweeps are one loop on the device.

Angles are computed on all partitions at once, one slot each. With e = d_pp - d_qq and f = 2 d_pq,
which are bitwise equal in the two slots of a pair,

    h = sqrt(e^2 + f^2 + g),  t = -sign(e) f / (|e| + h),  c = 1 / sqrt(1 + t^2),  s = t c,

no angle above 45 degrees. Damping g starts as 1 and decays to 0 during the sweeps. Without it, rows
of equal eigenvalues rotate by large angles in every round, which refills zeros: order 64 with four
distinct eigenvalues takes twelve sweeps, with damping eight.

The engine's root is followed by a Newton step, so that c and s are a rotation to the last bit for
any accuracy of the engine's tables.

Layout   slots on partitions; D, then W, (slots, 2 * slots), slots even and at most 128
Limits   entries of D at most about 1 in magnitude, so that squares do not overflow
Cost     4 products, 2 copies and 18 Vector and Scalar instructions, of which 5 are of 128 columns
Lever    the Tensor engine rotates and permutes at once; no indexed access
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile

LEAST_SQUARE = 2.0**-115
"""Smallest damping: the root of the Scalar engine is defined from 2^-116 on."""


class Tournament(NamedTuple):
    """Constants and state of the rounds, apart from the matrix.

    Attributes:
        tables: The constants of ``packed_tables``, (slots, 4, slots).
        damping: A column with g, at least ``LEAST_SQUARE``.
        decay: Factor of g after each round.
        one: A column of ones.
    """

    tables: Tile
    damping: Tile
    decay: float
    one: Tile


def decay_of(sweeps: int, rounds: int) -> float:
    """Return the decay of the damping per round.

    It decays evenly by 2^-42 in all sweeps, or in the first ten. With faster decay, rows of equal
    eigenvalues are not yet separated from others when the damping ends.
    """
    bits = max(4.2, 42.0 / max(1, sweeps))
    return 2.0 ** (-bits / rounds)


def tournament(tables: Tile, decay: float) -> Tournament:
    """Return a tournament with its tables loaded from HBM; the damping is not initialised."""
    slots = tables.shape[0]
    here = nl.ndarray(tables.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=here, src=tables)
    damping = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=damping, value=LEAST_SQUARE)
    one = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=one, value=1.0)
    return Tournament(here, damping, decay, one)


def jacobi_round(dw: Tile, game: Tournament) -> None:
    """Rotate all pairs of slots of ``dw``, D and W, and permute the slots."""
    n = dw.shape[0]
    g = round_matrix(dw, game)
    product = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    # The engine multiplies by the transpose of D, which is D.
    nisa.nc_matmul(dst=product, stationary=dw[0:n, 0:n], moving=g)
    dg = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=dg, src=product)
    rotated = nl.ndarray((n, 2 * n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=rotated[0:n, 0:n], stationary=g, moving=dg)
    nisa.nc_matmul(dst=rotated[0:n, n : 2 * n], stationary=g, moving=dw[0:n, n : 2 * n])
    nisa.tensor_copy(dst=dw, src=rotated)
    if game.decay < 1.0:
        nisa.tensor_scalar(
            dst=game.damping,
            data=game.damping,
            op0=nl.multiply,
            operand0=game.decay,
            op1=nl.maximum,
            operand1=LEAST_SQUARE,
        )


def round_matrix(dw: Tile, game: Tournament) -> Tile:
    """Return G of a round: rotations that diagonalise all pairs, then the permutation."""
    n = dw.shape[0]
    cosine, half_sine = angles(dw, game)
    g = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=g, data=game.tables[0:n, 2, 0:n], op0=nl.multiply, operand0=cosine)
    nisa.scalar_tensor_tensor(
        dst=g,
        data=game.tables[0:n, 3, 0:n],
        op0=nl.multiply,
        operand0=half_sine,
        op1=nl.add,
        operand1=g,
    )
    return g


def angles(dw: Tile, game: Tournament) -> tuple[Tile, Tile]:
    """Return columns with c and s / 2 of every slot's pair; s is that of the even slot."""
    n = dw.shape[0]
    ef = pair_values(dw, game)
    e, f = ef[0:n, 0:1], ef[0:n, 1:2]
    squares = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    h = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=squares, data1=ef, data2=ef, op=nl.multiply)
    nisa.tensor_tensor(dst=h, data1=squares[0:n, 0:1], data2=squares[0:n, 1:2], op=nl.add)
    nisa.activation(dst=h, op=nl.sqrt, data=h, bias=game.damping)
    quotient = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=quotient, data=e, op0=nl.abs, operand0=0.0, op1=nl.add, operand1=h)
    nisa.reciprocal(dst=quotient, data=quotient)
    # Minus sign(e) / 2, not 0 where e is 0: equal diagonals need 45 degrees.
    sign = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=sign, data=e, op0=nl.less, operand0=0.0, op1=nl.subtract, operand1=0.5)
    tangent = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)  # t / 2
    nisa.scalar_tensor_tensor(
        dst=tangent,
        data=f,
        op0=nl.multiply,
        operand0=quotient,
        op1=nl.multiply,
        operand1=sign,
    )
    square = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=square, data=tangent, op0=nl.multiply, operand0=4.0, op1=nl.multiply, operand1=tangent
    )
    cosine = inverse_root(square, game.one)
    half_sine = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=half_sine, data1=tangent, data2=cosine, op=nl.multiply)
    return cosine, half_sine


def pair_values(dw: Tile, game: Tournament) -> Tile:
    """Return e and f of every slot's pair, (slots, 2)."""
    n = dw.shape[0]
    chosen = nl.ndarray((n, 2, n), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(2):
        nisa.tensor_tensor(
            dst=chosen[0:n, k, 0:n],
            data1=dw[0:n, 0:n],
            data2=game.tables[0:n, k, 0:n],
            op=nl.multiply,
        )
    own = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=own, op=nl.add, data=chosen, axis=2)
    partner = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=partner, stationary=game.tables[0:n, 1, 0:n], moving=own)
    ef = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=ef, data1=own, data2=partner, op=nl.add)
    return ef


def inverse_root(x: Tile, one: Tile) -> Tile:
    """Return ``1 / sqrt(1 + x)`` of a column, accurate to about one unit in the last place."""
    n = x.shape[0]
    y = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=y, op=nl.rsqrt, data=x, bias=one)
    # y (3 - (1 + x) y^2) / 2
    rest = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=rest, data=x, op0=nl.add, operand0=1.0, op1=nl.multiply, operand1=y
    )
    nisa.tensor_scalar(
        dst=rest, data=rest, op0=nl.multiply, operand0=y, op1=nl.subtract, operand1=3.0
    )
    nisa.scalar_tensor_tensor(
        dst=y, data=rest, op0=nl.multiply, operand0=-0.5, op1=nl.multiply, operand1=y
    )
    return y


@nki.jit
def rotate_pairs_kernel(even: Tile, odd: Tile, c: Tile, s: Tile) -> tuple[Tile, Tile]:
    """Return ``c * even - s * odd`` and ``s * even + c * odd``, row by row.

    Args:
        even: First rows of the pairs, (pairs, columns).
        odd: Second rows of the pairs.
        c: Cosines, (pairs, 1).
        s: Sines.
    """
    rows, columns = even.shape
    out_even = nl.ndarray(even.shape, dtype=even.dtype, buffer=nl.shared_hbm)
    out_odd = nl.ndarray(odd.shape, dtype=odd.dtype, buffer=nl.shared_hbm)
    width = 2048
    for r in range(0, rows, 128):
        r1 = min(r + 128, rows)
        cosine = nl.ndarray((r1 - r, 1), dtype=nl.float32, buffer=nl.sbuf)
        sine = nl.ndarray((r1 - r, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=cosine, src=c[r:r1, 0:1])
        nisa.dma_copy(dst=sine, src=s[r:r1, 0:1])
        for f in range(0, columns, width):
            f1 = min(f + width, columns)
            x = nl.ndarray((r1 - r, f1 - f), dtype=even.dtype, buffer=nl.sbuf)
            y = nl.ndarray((r1 - r, f1 - f), dtype=odd.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=even[r:r1, f:f1])
            nisa.dma_copy(dst=y, src=odd[r:r1, f:f1])
            part = nl.ndarray((r1 - r, f1 - f), dtype=nl.float32, buffer=nl.sbuf)
            first = nl.ndarray((r1 - r, f1 - f), dtype=even.dtype, buffer=nl.sbuf)
            second = nl.ndarray((r1 - r, f1 - f), dtype=odd.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=part, data=y, op0=nl.multiply, operand0=sine)
            nisa.scalar_tensor_tensor(
                dst=first,
                data=x,
                op0=nl.multiply,
                operand0=cosine,
                op1=nl.subtract,
                operand1=part,
            )
            nisa.tensor_scalar(dst=part, data=y, op0=nl.multiply, operand0=cosine)
            nisa.scalar_tensor_tensor(
                dst=second, data=x, op0=nl.multiply, operand0=sine, op1=nl.add, operand1=part
            )
            nisa.dma_copy(dst=out_even[r:r1, f:f1], src=first)
            nisa.dma_copy(dst=out_odd[r:r1, f:f1], src=second)
    return out_even, out_odd
