"""One round of Jacobi's method on a symmetric matrix in SBUF, and a kernel of row rotations.

A round rotates all pairs of slots 2i and 2i + 1 at once and permutes the slots for the next round.
With J the rotations and P the constant permutation of the tournament, G = J P and

    D <- G^T D G,    W <- G^T W,

three products. W starts as the identity and ends as the transpose of the eigenvectors. Every round
is the same program, so that the rounds of all sweeps are one loop on the device.

Angles are computed on all partitions at once, one slot each. With e = d_pp - d_qq and f = 2 d_pq,

    E = sqrt(e^2 + g),  h = sqrt(E^2 + f^2),  c^2 = (1 + E / h) / 2,  s = -sign(e) f / (2 c h),

no angle above 45 degrees. In the two slots of a pair f is bitwise equal and e bitwise opposite, so
that both have the same c. Damping g starts as 1/4 and decays to 0 during the sweeps. Without it,
rows of equal eigenvalues rotate by large angles in every round, which refills zeros: order 64 with
four distinct eigenvalues takes twelve sweeps, with damping eight.

The next e and f do not wait for the new D. The entries of D that they need are sums over a column
of G times a column of D G, and D G exists one product earlier. So the products of a round run at
the same time as the angles of the next round are computed.

Square roots of the engine have the errors of its tables. The root in c is corrected by a Newton
step, so that c and s are a rotation to the last bit. The errors of the other roots only change the
angle, by a small amount.

Layout   slots on partitions; D, then W, (slots, 2 * slots), slots even and at most 128
Limits   eigenvalues of D at most 2^13 in magnitude, so that squares are in the range of roots
Cost     3 products and 4 with two moving columns, 14 Vector and 8 Scalar instructions, of which 7
         are of ``slots`` columns
Lever    the Tensor engine rotates, permutes, and adds up columns; no indexed access; one table of
         functions on Scalar; one round waits for only one product of the round before, the product
         of D
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile

SCALE = 2.0**32
"""Factor of e and f, so that squares of the smallest relevant ones are in the range of roots."""
LEAST_SQUARE = 2.0**-86
"""Smallest damping of scaled values: the engine's reciprocal root is defined from 2^-87 on."""
FIRST_DAMPING = 0.25 * SCALE**2
TIE = 2.0**-60
"""Added to e with the slot's sign, so that a pair with equal diagonals rotates by 45 degrees."""


class Tournament(NamedTuple):
    """Constants and state of the rounds, apart from the matrix.

    Attributes:
        tables: The constants of ``packed_tables``, (slots, 3, slots).
        sums: Moving columns that add up columns, and that subtract them, (slots, 2, 2).
        ties: A column that is added to e.
        damping: A column with g, at least ``LEAST_SQUARE``.
        decay: Factor of g after each round.
    """

    tables: Tile
    sums: Tile
    ties: Tile
    damping: Tile
    decay: float


def decay_of(sweeps: int, rounds: int) -> float:
    """Return the decay of the damping per round.

    It decays evenly by 2^-42 in all sweeps, or in the first ten. With faster decay, rows of equal
    eigenvalues are not yet separated from others when the damping ends.
    """
    bits = max(4.2, 42.0 / max(1, sweeps))
    return 2.0 ** (-bits / rounds)


def tournament(tables: Tile, decay: float) -> Tournament:
    """Return a tournament with its tables loaded from HBM, without damping."""
    slots = tables.shape[0]
    here = nl.ndarray(tables.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=here, src=tables)
    sums = nl.ndarray((slots, 2, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=sums[0:slots, 0, 0:2], value=SCALE)
    nisa.memset(dst=sums[0:slots, 1, 0:2], value=-SCALE)
    ties = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=ties, op=nl.add, data=here[0:slots, 2, 0:slots], axis=1)
    nisa.tensor_scalar(dst=ties, data=ties, op0=nl.multiply, operand0=TIE)
    damping = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=damping, value=LEAST_SQUARE)
    return Tournament(here, sums, ties, damping, decay)


def first_pairs(dw: Tile, eye: Tile, game: Tournament) -> Tile:
    """Return e and f of the pairs of D, (slots, 2), before the first round."""
    n = dw.shape[0]
    ef = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    d = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=d, src=dw[0:n, 0:n])
    pair_values(ef, eye, d, game)
    return ef


def jacobi_round(dw: Tile, ef: Tile, game: Tournament) -> None:
    """Rotate all pairs of slots of ``dw``, D and W, and permute the slots.

    Args:
        dw: D and W.
        ef: e and f of the pairs of D; on return, e and f of the next round.
        game: The tournament.
    """
    n = dw.shape[0]
    g = round_matrix(ef, game)
    product = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    # The engine multiplies by the transpose of D, which is D.
    nisa.nc_matmul(dst=product, stationary=dw[0:n, 0:n], moving=g)
    pair_values(ef, g, product, game)
    dg = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=dg, op=nl.copy, data=product)
    rotated = nl.ndarray((n, 2 * n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=rotated[0:n, 0:n], stationary=g, moving=dg)
    nisa.nc_matmul(dst=rotated[0:n, n : 2 * n], stationary=g, moving=dw[0:n, n : 2 * n])
    nisa.activation(dst=dw, op=nl.copy, data=rotated)
    if game.decay < 1.0:
        nisa.activation(dst=game.damping, op=nl.copy, data=game.damping, scale=game.decay)


def pair_values(ef: Tile, g: Tile, dg: Tile, game: Tournament) -> None:
    """Write e and f of the pairs of G^T D G to ``ef``, given G and D G."""
    n = g.shape[0]
    for k in range(2):
        chosen = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
        other = dg if k == 0 else partners(dg)
        nisa.tensor_tensor(dst=chosen, data1=g, data2=other, op=nl.multiply)
        value = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=value, stationary=chosen, moving=game.sums[0:n, 0, 0:2])
        nisa.nc_matmul(
            dst=value,
            stationary=partners(chosen),
            moving=game.sums[0:n, 1 - k, 0:2],
            accumulate=True,
        )
        # Two engines compute them, because e is used before f.
        if k == 0:
            nisa.tensor_tensor(dst=ef[0:n, 0:1], data1=value[0:n, 0:1], data2=game.ties, op=nl.add)
        else:
            nisa.activation(dst=ef[0:n, 1:2], op=nl.copy, data=value[0:n, 0:1])


def partners(x: Tile) -> Tile:
    """Return a whole square tile with the two columns of each pair exchanged."""
    n = x.shape[0]
    return x.ap(pattern=[[n, n], [2, n // 2], [-1, 2]], offset=1)


def round_matrix(ef: Tile, game: Tournament) -> Tile:
    """Return G of a round: rotations that diagonalise all pairs, then the permutation."""
    n = ef.shape[0]
    halves, root = angles(ef, game)
    scaled = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=scaled, data=game.tables[0:n, 0, 0:n], op0=nl.multiply, operand0=halves[0:n, 0:1]
    )
    nisa.scalar_tensor_tensor(
        dst=scaled,
        data=game.tables[0:n, 1, 0:n],
        op0=nl.multiply,
        operand0=halves[0:n, 1:2],
        op1=nl.add,
        operand1=scaled,
    )
    near = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=near, op=nl.copy, data=scaled, scale=root)
    correction = length_correction(halves, root)
    # A sum, which is exact for c = 1.
    g = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=g, data=near, op0=nl.multiply, operand0=correction, op1=nl.add, operand1=near
    )
    return g


def length_correction(halves: Tile, root: Tile) -> Tile:
    """Return (1 - c^2 - s^2) / 2 of rounded c and s, the relative correction of their length."""
    n = halves.shape[0]
    rotation = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=rotation, data=halves, op0=nl.multiply, operand0=root)
    squares = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=squares,
        data=rotation,
        op0=nl.multiply,
        operand0=-0.5,
        op1=nl.multiply,
        operand1=rotation,
    )
    correction = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=correction,
        data=squares[0:n, 0:1],
        op0=nl.add,
        operand0=0.5,
        op1=nl.add,
        operand1=squares[0:n, 1:2],
    )
    return correction


def angles(ef: Tile, game: Tournament) -> tuple[Tile, Tile]:
    """Return c^2 and c s of every slot, (slots, 2), and 1 / c with the error of the table."""
    n = ef.shape[0]
    e, f = ef[0:n, 0:1], ef[0:n, 1:2]
    squares = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)  # E^2 and h^2
    nisa.tensor_scalar(
        dst=squares[0:n, 0:1],
        data=e,
        op0=nl.multiply,
        operand0=e,
        op1=nl.add,
        operand1=game.damping,
    )
    nisa.scalar_tensor_tensor(
        dst=squares[0:n, 1:2],
        data=f,
        op0=nl.multiply,
        operand0=f,
        op1=nl.add,
        operand1=squares[0:n, 0:1],
    )
    inverse = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)  # 1 / 2E and 1 / h
    nisa.activation(dst=inverse[0:n, 0:1], op=nl.rsqrt, data=squares[0:n, 0:1], scale=4.0)
    nisa.activation(dst=inverse[0:n, 1:2], op=nl.rsqrt, data=squares[0:n, 1:2])
    half = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)  # E / 2
    nisa.activation(dst=half, op=nl.copy, data=squares[0:n, 0:1], scale=inverse[0:n, 0:1])
    # -sign(e) / 2; e is never 0
    sign = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=sign, data=e, op0=nl.less, operand0=0.0, op1=nl.subtract, operand1=0.5)
    halves = nl.ndarray((n, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=halves[0:n, 0:1],
        data=half,
        op0=nl.multiply,
        operand0=inverse[0:n, 1:2],
        op1=nl.add,
        operand1=0.5,
    )
    root = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=root, op=nl.rsqrt, data=halves[0:n, 0:1])
    nisa.scalar_tensor_tensor(
        dst=halves[0:n, 1:2],
        data=f,
        op0=nl.multiply,
        operand0=sign,
        op1=nl.multiply,
        operand1=inverse[0:n, 1:2],
    )
    return halves, root


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
