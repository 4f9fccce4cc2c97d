"""Communication volume of a distributed call, computed before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, ShapeError

__all__ = ["Communication", "plan"]

LAYOUT_BYTES = 4 * 8
"""Header exchanged first: rows, columns, dtype and right-hand sides, as four integers."""

_CALLS = ("tsqr", "lstsq", "rsvd", "msign", "solve_spd")


@dataclass(frozen=True)
class Communication:
    """The collectives of one call.

    A payload is counted once, on the rank that passes it to the collective, not per transmission on
    the network.

    Attributes:
        call: Name of the function.
        rows: Number of rows of each rank.
        steps: Kind, payload and bytes of each rank, for each collective.
    """

    call: str
    rows: tuple[int, ...]
    steps: tuple[tuple[str, str, tuple[int, ...]], ...]

    def bytes_sent(self, rank: int) -> int:
        """Return the bytes that a rank passes to collectives."""
        return sum(each[rank] for _, _, each in self.steps)

    @property
    def total_bytes(self) -> int:
        """Bytes that all ranks together pass to collectives."""
        return sum(map(self.bytes_sent, range(len(self.rows))))

    def __str__(self) -> str:
        lines = [f"{self.call} of {sum(self.rows)} rows on {len(self.rows)} ranks"]
        lines += [
            f"{kind:<12}{what:<34}{max(each):>14,} bytes at most per rank"
            for kind, what, each in self.steps
        ]
        return "\n".join([*lines, f"{'in all':<46}{self.total_bytes:>14,} bytes"])


def plan(
    call: str,
    rows: Sequence[int],
    columns: int,
    *,
    right_sides: int = 1,
    k: int = 1,
    oversampling: int = 10,
    power_iterations: int = 2,
    dtype: torch.dtype = torch.float32,
) -> Communication:
    """Return the communication of a call.

    Args:
        call: ``"tsqr"``, ``"lstsq"``, ``"rsvd"``, ``"msign"`` or ``"solve_spd"``.
        rows: Number of rows of each rank.
        columns: Number of columns of the matrix.
        right_sides: Number of columns of the right-hand side.
        k: Rank of ``rsvd``.
        oversampling: Columns of its sketch beyond k.
        power_iterations: Its number of power iterations.
        dtype: Dtype of the matrix.

    Raises:
        FlagError: ``call`` is not one of these.
        ShapeError: The matrix is wide, or for ``solve_spd`` not square.
    """
    if call not in _CALLS:
        raise FlagError(f"plan: call must be one of {', '.join(_CALLS)}, got {call!r}")
    shares = tuple(whole("plan", "rows", count, 0) for count in rows)
    total, size = sum(shares), dtype.itemsize
    if total < columns or (call == "solve_spd" and total != columns):
        wanted = "square" if call == "solve_spd" else "at least as tall as wide"
        raise ShapeError(f"plan: the matrix must be {wanted}, got {total} x {columns}")
    steps: list[tuple[str, str, tuple[int, ...]]] = []

    def everyone(kind: str, what: str, count: int, bytes_each: int = size) -> None:
        steps.append((kind, what, (count * bytes_each,) * len(shares)))

    everyone("all_gather", "layout", 1, LAYOUT_BYTES)
    if call in ("tsqr", "lstsq"):
        everyone("all_gather", "triangles", columns * columns)
    if call == "lstsq":
        everyone("all_reduce", "Q^H b", columns * right_sides)
        everyone("all_reduce", "squared residuals", right_sides)
    if call == "rsvd":
        width = min(columns, k + oversampling)
        for _ in range(power_iterations + 1):
            everyone("all_gather", "triangles of the sketch", width * width)
            everyone("all_reduce", "Q^H A", width * columns)
    if call == "msign":
        everyone("all_reduce", "sum of squares", 1, _wide(dtype))
        everyone("all_reduce", "Gram matrix", columns * columns, _wide(dtype))
        everyone("all_reduce", "Gram matrix, again", columns * columns, _wide(dtype))
    if call == "solve_spd":
        _positive(steps, shares, right_sides, size)
    return Communication(call, shares, tuple(steps))


def _wide(dtype: torch.dtype) -> int:
    """Return the item size of the dtype in which Gram matrices are summed."""
    return 16 if dtype.is_complex else 8


def _positive(
    steps: list[tuple[str, str, tuple[int, ...]]],
    shares: tuple[int, ...],
    right_sides: int,
    size: int,
) -> None:
    """Add the collectives of a blocked Cholesky factorization and two substitutions."""

    def one(root: int, what: str, count: int) -> None:
        steps.append(
            ("broadcast", what, tuple(count * size * (r == root) for r in range(len(shares))))
        )

    filled = [rank for rank, count in enumerate(shares) if count]
    for place, panel in enumerate(filled):
        one(panel, f"block {panel} of the diagonal", shares[panel] ** 2)
        for below in filled[place + 1 :]:
            one(below, f"block {below}, {panel} of the factor", shares[below] * shares[panel])
    for rank in filled:
        one(rank, f"part {rank} of the first solution", shares[rank] * right_sides)
    for rank in reversed(filled):
        bytes_each = (shares[rank] * right_sides * size,) * len(shares)
        steps.append(("all_reduce", f"sum for part {rank}", bytes_each))
    steps.append(("all_reduce", "log-determinant", (8,) * len(shares)))
