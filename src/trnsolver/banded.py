"""Tridiagonal and banded systems.

A kernel solves tridiagonal systems in float32 by cyclic reduction, which has no pivots. It checks
each solution: where the residual shows that a matrix needs pivots, LAPACK computes the batch on the
host, as it does without kernels.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.arguments import agree, broadcast, floating, tensor, whole
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher, on_both_cores
from trnsci.core.errors import FlagError, KernelError, ShapeError, SingularMatrixError
from trnsci.core.examples import Case, example
from trnsci.core.interop import is_fake
from trnsci.core.numbers.values import finite
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsci.core.tiles.hardware import TILE
from trnsolver._library import kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths.arguments import at_level, in_full_precision, restored, singular
from trnsolver._paths.bands import BANDED, inside
from trnsolver._paths.batches import root_of_power

__all__ = ["solve_banded", "solve_tridiagonal"]

_TOGETHER = 1024
"""Largest order of small systems that share a partition."""


@in_full_precision
def solve_tridiagonal(dl: Tensor, d: Tensor, du: Tensor, b: Tensor) -> Tensor:
    """Return x with ``A @ x = b`` for tridiagonal A.

    Without kernels by LAPACK on the host, with partial pivoting. The kernel takes float32 without
    pivoting, which suits diagonally dominant and positive definite matrices. Its solution is
    returned if each element of the residual is within ``4 * (log2(n) + 2)`` roundings of
    ``|A| @ |x| + |b|``. Otherwise LAPACK solves the batch, with an ``NkiFallbackWarning``, or the
    call raises where kernels are required.

    Args:
        dl: Entries below the diagonal (..., n - 1).
        d: The diagonal (..., n).
        du: Entries above the diagonal (..., n - 1).
        b: Right-hand sides (n,), (n, k), or a batch of them.

    Raises:
        SingularMatrixError: A matrix is singular.
        NotFiniteError: An argument has a NaN or an infinity.
        ShapeError: The shapes do not fit.

    Example:
        >>> below, diagonal, above = torch.ones(2), torch.full((3,), 4.0), torch.zeros(2)
        >>> solve_tridiagonal(below, diagonal, above, torch.tensor([4.0, 5.0, 9.0]))
        tensor([1., 1., 2.])
    """
    name = "solve_tridiagonal"
    _entries(name, "d", d)
    for other, value in (("dl", dl), ("du", du)):
        agree(name, "d", d, other, value)
        if not value.ndim or value.shape[-1] != max(d.shape[-1] - 1, 0):
            raise ShapeError(
                f"{name}: {other} must have one entry less than d, got shapes "
                f"{tuple(value.shape)} and {tuple(d.shape)}"
            )
    shape: tuple[int, ...] = tuple(d.shape[:-1])
    for value in (dl, du):
        common = broadcast(shape, value.shape[:-1])
        if common is None:
            raise ShapeError(
                f"{name}: the batch dimensions of dl, d and du must broadcast, got "
                f"{tuple(dl.shape)}, {tuple(d.shape)} and {tuple(du.shape)}"
            )
        shape = common
    for other, value in (("dl", dl), ("d", d), ("du", du)):
        finite(name, other, value)
    n = d.shape[-1]
    diagonals = (
        dl.expand(*shape, max(n - 1, 0)),
        d.expand(*shape, n),
        du.expand(*shape, dl.shape[-1]),
    )
    return _solution(name, diagonals, n, b)


@in_full_precision
def solve_banded(l_and_u: tuple[int, int], ab: Tensor, b: Tensor) -> Tensor:
    """Return x with ``A @ x = b`` for banded A, by LAPACK on the host with partial pivoting.

    Tridiagonal systems are solved by the kernel of ``solve_tridiagonal`` where kernels run.

    Args:
        l_and_u: Number of diagonals below and above the main one.
        ab: The diagonals of A as rows, (..., l + u + 1, n): ``ab[u + i - j, j] == A[i, j]``, as in
            SciPy. Elements outside of A are not read.
        b: Right-hand sides (n,), (n, k), or a batch of them.

    Raises:
        SingularMatrixError: A matrix is singular.
        NotFiniteError: An argument has a NaN or an infinity.
        ShapeError: The shapes do not fit.
        FlagError: A number of diagonals is negative.
    """
    name = "solve_banded"
    lower, upper = _widths(l_and_u)
    _entries(name, "ab", ab)
    if ab.ndim < 2 or ab.shape[-2] != lower + upper + 1:
        raise ShapeError(
            f"{name}: ab must have l + u + 1 = {lower + upper + 1} rows, got shape "
            f"{tuple(ab.shape)}"
        )
    bands = inside(lower, upper, ab)
    finite(name, "ab", bands)
    if lower == upper == 1 and ab.shape[-1] and kernels_wanted():
        above, d, below = bands.unbind(-2)
        return _solution(name, (below[..., :-1], d, above[..., 1:]), ab.shape[-1], b)
    if kernels_wanted() and b.numel():
        TRIDIAGONAL.refuse("the kernel takes tridiagonal matrices")
    return _solution(name, (bands,), ab.shape[-1], b, lower, upper)


def _entries(function: str, name: str, value: Tensor) -> None:
    tensor(function, name, value)
    floating(function, name, value)
    if not value.ndim:
        raise ShapeError(f"{function}: {name} must be at least 1-D, got a number")


def _widths(l_and_u: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(l_and_u, (tuple, list)) or len(l_and_u) != 2:
        raise FlagError(f"solve_banded: l_and_u must be two integers, got {l_and_u!r}")
    lower, upper = (
        whole("solve_banded", "l_and_u", count, 0, error=FlagError) for count in l_and_u
    )
    return lower, upper


def _solution(
    function: str, matrix: tuple[Tensor, ...], n: int, b: Tensor, lower: int = 1, upper: int = 1
) -> Tensor:
    """Return the solution for the diagonals dl, d and du, or for bands."""
    three = len(matrix) == 3
    what = "the matrix of dl, d and du" if three else "ab"
    agree(function, "b", b, "the matrix", matrix[0])
    batch = matrix[0].shape[: -1 if three else -2]
    vectors = b.ndim == 1 or b.shape == (*batch, n)
    columns = b.unsqueeze(-1) if vectors else b
    shape = broadcast(batch, columns.shape[:-2]) if columns.ndim > 1 else None
    if shape is None or columns.shape[-2] != n:
        raise ShapeError(
            f"{function}: b must have {n} rows and the batch dimensions {tuple(batch)} of the "
            f"matrix, got shape {tuple(b.shape)}"
        )
    finite(function, "b", b)
    count = prod(shape)
    flat = [
        at_level(x).expand(*shape, *x.shape[len(batch) :]).reshape(count, *x.shape[len(batch) :])
        for x in matrix
    ]
    sides = at_level(columns).expand(*shape, *columns.shape[-2:])
    sides = sides.reshape(count, *columns.shape[-2:])
    if not sides.numel():
        found = sides + sum(x.sum() for x in flat)  # so that it has gradients by all of them
        return restored(
            found.reshape(b.shape if vectors else (*shape, *columns.shape[-2:])), b.dtype
        )
    try:
        found = TRIDIAGONAL(*flat, sides) if three else BANDED(lower, upper, *flat, sides)
    except SingularMatrixError as error:
        raise singular(function, what, str(error)) from None
    found = found.reshape(*shape, *columns.shape[-2:])
    return restored(found.squeeze(-1) if vectors else found, b.dtype)


# -- the operation ---------------------------------------------------------------------------------


def _tridiagonal(dl: Tensor, d: Tensor, du: Tensor, b: Tensor) -> Tensor:
    bands = torch.stack([pad(du, (1, 0)), d, pad(dl, (0, 1))], -2)
    found: Tensor = BANDED(1, 1, bands, b)
    return found


def _image(dl: Tensor, d: Tensor, du: Tensor, x: Tensor) -> Tensor:
    """Return the products of tridiagonal matrices with columns (b, n, k)."""
    dl, d, du = (entries.unsqueeze(-1) for entries in (dl, d, du))
    above, below = pad(du * x[:, 1:], (0, 0, 0, 1)), pad(dl * x[:, :-1], (0, 0, 1, 0))
    return d * x + above + below


def _tridiagonal_backward(
    grad: Tensor,
    needed: Needed,
    dl: Tensor,
    d: Tensor,
    du: Tensor,
    b: Tensor,
    *,
    result: Tensor,
) -> Gradients:
    """Return the three diagonals of -Y X^H, and Y with A^H Y = G."""
    y = TRIDIAGONAL(du.conj(), d.conj(), dl.conj(), grad)
    x = result.conj()
    return (
        -(y[:, 1:] * x[:, :-1]).sum(-1) if needed[0] else None,
        -(y * x).sum(-1) if needed[1] else None,
        -(y[:, :-1] * x[:, 1:]).sum(-1) if needed[2] else None,
        y if needed[3] else None,
    )


def _tridiagonal_jvp(
    tangents: Tangents, dl: Tensor, d: Tensor, du: Tensor, b: Tensor, *, result: Tensor
) -> Tensor:
    """Return the solution of A Y = Tb - Ta X."""
    of_dl, of_d, of_du, of_b = (
        torch.zeros_like(x) if t is None else t
        for t, x in zip(tangents, (dl, d, du, b), strict=True)
    )
    found: Tensor = TRIDIAGONAL(dl, d, du, of_b - _image(of_dl, of_d, of_du, result))
    return found


def _tridiagonal_launch(launch: Launcher, dl: Tensor, d: Tensor, du: Tensor, b: Tensor) -> Tensor:
    """Return x (b, n, k), whose residual is checked.

    Rows and columns are divided by powers of two, so that the diagonal is near 1. That is exact and
    does not change which matrices elimination without pivots solves. More than 128 small systems
    share partitions, as one system with zeros between them: instructions are then long enough.
    """
    from trnsolver._kernels.cyclic_reduction import cyclic_reduction
    from trnsolver._kernels.limits import tridiagonal_instructions

    root = root_of_power(d.abs())
    d = d / root / root
    dl, du = (x / root[:, 1:] / root[:, :-1] for x in (dl, du))
    sides = b / root.unsqueeze(-1)
    size = root_of_power(sides.abs().amax(1, keepdim=True))
    sides = sides / size / size
    below, above = pad(dl, (1, 0)), pad(du, (0, 1))
    batch, n, columns = sides.shape
    together = max(1, min(-(-batch // TILE), _TOGETHER // n))
    more = -batch % together
    rows = [
        pad(rows, (0, 0, 0, more), value=fill) for rows, fill in ((below, 0), (d, 1), (above, 0))
    ]
    diagonals = (row.reshape(-1, together * n) for row in rows)
    right = pad(sides, (0, 0, 0, 0, 0, more)).reshape(-1, together * n, columns).mT.contiguous()
    kernel = on_both_cores(launch, cyclic_reduction)
    length = tridiagonal_instructions(together * n, columns)
    x = batches.launched(launch, kernel, (*diagonals, right), length).mT
    x = x.reshape(-1, n, columns)[:batch]
    _check_residual(dl, d, du, sides, x)
    return x * size * size / root.unsqueeze(-1)


def _check_residual(dl: Tensor, d: Tensor, du: Tensor, b: Tensor, x: Tensor) -> None:
    """Raise unless each element of the residuals is small, relative to ``|A| |x| + |b|``.

    Each of the ``log2(n) + 1`` steps rounds an equation four times. This is the backward error of
    elimination without pivots for diagonally dominant and positive definite matrices, and does not
    depend on the scaling of rows and columns.
    """
    if is_fake(x):
        return
    residual = (b - _image(dl, d, du, x)).abs()
    scale = b.abs() + _image(dl.abs(), d.abs(), du.abs(), x.abs())
    limit = 4 * (d.shape[-1].bit_length() + 1) * unit_roundoff(torch.float32)
    if not bool((residual <= limit * scale).all()):
        raise KernelError("a matrix is singular or needs pivots, which the kernel does not have")


def _unsuited(dl: Tensor, d: Tensor, du: Tensor, b: Tensor) -> str:
    from trnsolver._kernels.limits import TRIDIAGONAL_ORDER as most

    return "" if d.shape[-1] <= most else f"the kernel takes orders up to {most}"


def _dominant(n: int, *batch: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the diagonals of diagonally dominant matrices."""
    off = 0.5 * random_tensor(*batch, 2, n).tanh()
    size = 1 + off.abs().sum(-2)
    return off[..., 0, 1:], size * random_tensor(*batch, n, seed=1).sign(), off[..., 1, :-1]


def _dense(dl: Tensor, d: Tensor, du: Tensor) -> Tensor:
    return torch.diag_embed(d) + torch.diag_embed(dl, -1) + torch.diag_embed(du, 1)


def _residual_bound(dl: Tensor, d: Tensor, du: Tensor, b: Tensor) -> float:
    a = _dense(dl, d, du).double()
    rounds = 4 * (d.shape[-1].bit_length() + 2)
    return rounds * unit_roundoff(torch.float32) * float(torch.linalg.cond(a).max())


TRIDIAGONAL = batches.Batched(
    "solve_tridiagonal",
    reference=_tridiagonal,
    launch=_tridiagonal_launch,
    fake=lambda dl, d, du, b: torch.empty_like(b, memory_format=torch.contiguous_format),
    schema="(Tensor dl, Tensor d, Tensor du, Tensor b) -> Tensor",
    backward=_tridiagonal_backward,
    jvp=_tridiagonal_jvp,
    flops=lambda dl, d, du, b: 14.0 * d.numel() + 10.0 * b.numel(),
    unsuited=_unsuited,
    examples={
        "solve_banded": lambda: example(
            (1, 1), torch.tensor([[0.0, 1], [4, 4], [1, 0]]), torch.ones(2)
        ),
        "solve_tridiagonal": lambda: example(*_dominant(4), random_tensor(4, seed=3)),
    },
    evidence=(
        Case(
            "cyclic_reduction",
            "tridiagonal systems",
            lambda: (*_dominant(70, 130), random_tensor(130, 70, seed=3)),
            lambda dl, d, du, b: solve_tridiagonal(dl, d, du, b),
            lambda dl, d, du, b: torch.linalg.solve(_dense(dl, d, du).double(), b.double()),
            "torch in float64",
            _residual_bound,
        ),
    ),
)
