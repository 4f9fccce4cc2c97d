"""Tridiagonal and banded systems: SciPy, exact fractions, derivatives, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from pairwise import pairwise
from trnsci.core.backend.launch import Launcher
from trnsci.core.counters import counts
from trnsci.core.errors import (
    BackendError,
    FlagError,
    KernelError,
    NkiFallbackWarning,
    NotFiniteError,
    ShapeError,
    SingularMatrixError,
)
from trnsci.core.testing import launched, random_tensor, refusals_expected, unit_roundoff
from trnsolver._library import LIBRARY

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)


def diagonals(n, *batch, dtype=torch.float64):
    return tuple(
        random_tensor(*batch, max(m, 0), dtype=dtype, seed=place)
        for place, m in enumerate((n - 1, n, n - 1))
    )


def dense(dl, d, du):
    return torch.diag_embed(d) + torch.diag_embed(dl, -1) + torch.diag_embed(du, 1)


def definite(n, *batch):
    """Positive definite matrices in float32, not diagonally dominant: L L^T of a bidiagonal L."""
    low = random_tensor(*batch, n - 1, seed=1)
    main = 0.5 + random_tensor(*batch, n).abs()
    below = low * main[..., :-1]
    return below, main**2 + torch.nn.functional.pad(low, (1, 0)) ** 2, below.clone()


def of_bands(lower, upper, ab):
    """The dense matrix of bands, by the definition."""
    n = ab.shape[-1]
    a = torch.zeros(*ab.shape[:-2], n, n, dtype=ab.dtype)
    for i in range(n):
        for j in range(n):
            if -upper <= i - j <= lower:
                a[..., i, j] = ab[..., upper + i - j, j]
    return a


def backward_error(a, b, x):
    """The largest ratio of an element of the residual and of |A| |x| + |b|."""
    a, b, x = (part.to(torch.complex128) for part in (a, b, x))
    return float(((a @ x - b).abs() / (a.abs() @ x.abs() + b.abs())).max())


def error_on_diagonals(matrix, b, x):
    """``backward_error`` of three diagonals, whose dense matrix may be large."""
    dl, d, du = (part.double().unsqueeze(-1) for part in matrix)
    b, x = b.double(), x.double()
    above, below = x[..., 1:, :], x[..., :-1, :]
    ends = (0, 0, 0, 1), (0, 0, 1, 0)
    terms = (
        d * x,
        torch.nn.functional.pad(du * above, ends[0]),
        torch.nn.functional.pad(dl * below, ends[1]),
    )
    return float(((sum(terms) - b).abs() / (sum(t.abs() for t in terms) + b.abs())).max())


def norm_error(a, b, x):
    """The same of the largest elements of each, as partial pivoting bounds it."""
    a, b, x = (part.to(torch.complex128) for part in (a, b, x))
    return float(((a @ x - b).abs().amax(-2) / (a.abs() @ x.abs() + b.abs()).amax(-2)).max())


@each_case(
    ("dtype", "n", "batch", "columns"),
    pairwise(DTYPES, (1, 2, 3, 17, 200), ((), (3,), (2, 2)), (None, 1, 4)),
)
def test_tridiagonal_solutions_have_the_backward_error_of_partial_pivoting(
    dtype, n, batch, columns
):
    """Growth of tridiagonal pivoting is at most 2: five roundings of each entry, and the result."""
    matrix = diagonals(n, *batch, dtype=dtype)
    b = random_tensor(*batch, n, *([columns] if columns else []), dtype=dtype, seed=5)
    x = trnsolver.solve_tridiagonal(*matrix, b)
    assert (x.shape, x.dtype) == (b.shape, dtype)
    wide = torch.float32 if dtype in DTYPES[:2] else dtype
    a, right = dense(*(part.to(wide) for part in matrix)), b.to(wide)
    full = (x.to(wide), right) if columns else (x.to(wide)[..., None], right[..., None])
    allowed = 20 * unit_roundoff(wide) + (unit_roundoff(dtype) if wide is not dtype else 0)
    assert norm_error(a, full[1], full[0]) <= allowed


WIDTHS = ((0, 0), (1, 1), (2, 0), (0, 3), (2, 3), (5, 7))


@each_case(
    ("widths", "dtype", "n", "batch", "columns"),
    pairwise(WIDTHS, DTYPES[2:], (1, 2, 4, 30), ((), (3,)), (None, 2)),
)
def test_banded_solutions_are_those_of_scipy(widths, dtype, n, batch, columns):
    lower, upper = widths
    ab = random_tensor(*batch, lower + upper + 1, n, dtype=dtype)
    b = random_tensor(*batch, n, *([columns] if columns else []), dtype=dtype, seed=5)
    x = trnsolver.solve_banded((lower, upper), ab, b)
    assert (x.shape, x.dtype) == (b.shape, dtype)
    full = (b, x) if columns else (b[..., None], x[..., None])
    # Growth of banded pivoting is at most 2^l, and far smaller for these entries.
    limit = 8 * (lower + upper + 2) * unit_roundoff(dtype)
    assert norm_error(of_bands(lower, upper, ab), *full) <= limit
    if not batch and n > 1:
        want = torch.from_numpy(scipy.linalg.solve_banded((lower, upper), ab.numpy(), b.numpy()))
        assert torch.equal(x, want)


def test_a_system_of_integers_is_solved_exactly():
    """By Cramer's rule in fractions, which pivoting must match: the first pivot is zero."""
    dl, d, du, b = [3, 1], [0, 2, 5], [2, 4], [2, -6, 7]
    a = [[d[0], du[0], 0], [dl[0], d[1], du[1]], [0, dl[1], d[2]]]

    def det(m):
        return sum(
            m[0][i] * m[1][(i + 1) % 3] * m[2][(i + 2) % 3]
            - m[0][i] * m[1][(i + 2) % 3] * m[2][(i + 1) % 3]
            for i in range(3)
        )

    want = [
        Fraction(det([[b[i] if j == k else a[i][j] for j in range(3)] for i in range(3)]), det(a))
        for k in range(3)
    ]
    given = (torch.tensor(part, dtype=torch.float64) for part in (dl, d, du, b))
    x = trnsolver.solve_tridiagonal(*given)
    assert all(abs(Fraction(got) - w) <= 2.0**-50 for got, w in zip(x.tolist(), want, strict=True))


def test_batches_broadcast():
    dl, d, du = diagonals(5)
    b = random_tensor(3, 5, 2, dtype=torch.float64, seed=9)
    x = trnsolver.solve_tridiagonal(dl.expand(2, 1, 4), d, du, b)
    assert x.shape == (2, 3, 5, 2)
    assert norm_error(dense(dl, d, du), b, x[1]) <= 20 * unit_roundoff(torch.float64)
    x = trnsolver.solve_tridiagonal(dl.expand(4, 4), d, du, torch.ones(5, dtype=torch.float64))
    assert x.shape == (4, 5)


def test_systems_of_a_batch_do_not_touch_each_other():
    """One of them overflows; the others are as if alone."""
    one = torch.ones(3, 4)
    d, b = 2 * one, one.clone()
    d[1, 2], b[1, 2] = 1e-38, 1e38
    zero = torch.zeros(3, 3)
    x = trnsolver.solve_tridiagonal(zero, d, zero, b)
    assert torch.equal(x[[0, 2]], torch.full((2, 4), 0.5))
    assert float(x[1, 2]) == torch.inf


@each_case("dtype", [torch.float64, torch.complex128])
def test_derivatives_of_first_and_second_order(dtype):
    def leaves(*tensors):
        return tuple(t.clone().requires_grad_() for t in tensors)

    b = random_tensor(2, 3, 1, dtype=dtype, seed=6)
    tridiagonal = leaves(*diagonals(3, 2, dtype=dtype), b)
    bands = leaves(random_tensor(2, 4, 3, dtype=dtype), b)

    def banded(ab, b):
        return trnsolver.solve_banded((1, 2), ab, b)

    for function, given in ((trnsolver.solve_tridiagonal, tridiagonal), (banded, bands)):
        assert torch.autograd.gradcheck(function, given, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, given, fast_mode=True)


def test_elements_outside_of_the_matrix_are_not_read_and_have_no_gradient():
    ab = random_tensor(4, 5, dtype=torch.float64)
    ab[0, :2], ab[1, 0], ab[3, 4] = torch.nan, torch.nan, torch.nan
    ab.requires_grad_()
    x = trnsolver.solve_banded((1, 2), ab, torch.ones(5, dtype=torch.float64))
    assert x.isfinite().all()
    (grad,) = torch.autograd.grad(x.sum(), ab)
    assert torch.equal(grad[ab.isnan()], torch.zeros(4, dtype=torch.float64))


REFUSED = {
    "short dl": (ShapeError, "dl must have one entry less than d", lambda z: (z[:2], z, z[:3], z)),
    "long du": (ShapeError, "du must have one entry less than d", lambda z: (z[:3], z, z, z)),
    "batches": (
        ShapeError,
        "must broadcast",
        lambda z: (z[:3].expand(2, 3), z.expand(3, 4), z[:3], z),
    ),
    "rows of b": (ShapeError, "b must have 4 rows", lambda z: (z[:3], z, z[:3], z[:2])),
    "a number": (ShapeError, "d must be at least 1-D", lambda z: (z[:3], z[0], z[:3], z)),
    "dtypes": (TypeError, "one dtype", lambda z: (z[:3], z, z[:3], z.double())),
    "integers": (TypeError, "d must be floating", lambda z: (z[:3], z.int(), z[:3], z)),
    "NaN": (NotFiniteError, "dl must be finite", lambda z: (z[:3] * torch.nan, z, z[:3], z)),
    "infinity": (NotFiniteError, "b must be finite", lambda z: (z[:3], z, z[:3], z / 0)),
    "singular": (
        SingularMatrixError,
        "solve_tridiagonal: the matrix of dl, d and du must not be singular: a pivot is zero",
        lambda z: (0 * z[:3], 0 * z, z[:3], z),
    ),
}


@each_case("name", REFUSED)
def test_what_is_refused(name):
    error, text, arguments = REFUSED[name]
    with pytest.raises(error, match=f"solve_tridiagonal: .*{text}|{text}"):
        trnsolver.solve_tridiagonal(*arguments(torch.ones(4)))


BANDS = {
    "rows": (ShapeError, r"ab must have l \+ u \+ 1 = 4 rows", (2, 1), torch.ones(3, 4)),
    "a vector": (ShapeError, "ab must have", (0, 0), torch.ones(4)),
    "negative": (FlagError, "l_and_u must be an integer", (-1, 1), torch.ones(1, 4)),
    "one number": (FlagError, "l_and_u must be two integers", 1, torch.ones(3, 4)),
    "not whole": (FlagError, "l_and_u must be", (1.5, 1), torch.ones(3, 4)),
    "NaN": (NotFiniteError, "ab must be finite", (0, 1), torch.full((2, 4), torch.nan)),
    "singular": (SingularMatrixError, "ab must not be singular", (1, 0), torch.zeros(2, 4)),
}


@each_case("name", BANDS)
def test_what_is_refused_of_bands(name):
    error, text, widths, ab = BANDS[name]
    with pytest.raises(error, match=f"solve_banded: {text}"):
        trnsolver.solve_banded(widths, ab, torch.ones(4))


# -- on kernels ------------------------------------------------------------------------------------


@pytest.fixture
def simulator():
    with trnsolver.backend("simulator"):
        yield


@pytest.mark.parametrize("n", [2, 5, 64, 1024, 2048])
def test_positive_definite_systems_run_on_the_kernel(simulator, n):
    matrix, b = definite(n, 2), random_tensor(2, n, 2, seed=3)
    with launched("cyclic_reduction"):
        x = trnsolver.solve_tridiagonal(*matrix, b)
    limit = 4 * (n.bit_length() + 2) * unit_roundoff(torch.float32)
    assert error_on_diagonals(matrix, b, x) <= limit


@pytest.mark.parametrize(("batch", "n", "columns"), [(129, 3, 1), (300, 33, 2), (257, 600, 1)])
def test_small_systems_share_partitions(simulator, batch, n, columns):
    matrix, b = definite(n, batch), random_tensor(batch, n, columns, seed=3)
    with launched("cyclic_reduction"):
        x = trnsolver.solve_tridiagonal(*matrix, b)
    limit = 4 * (n.bit_length() + 2) * unit_roundoff(torch.float32)
    assert error_on_diagonals(matrix, b, x) <= limit


def test_graded_systems_run_on_the_kernel(simulator):
    """Scaling rows and columns by powers of two changes no rounding, whatever the magnitudes."""
    matrix, b = definite(16), random_tensor(16, seed=3)
    scale = 2.0 ** torch.linspace(-40, 40, 16).round()
    dl, d, du = matrix
    with launched("cyclic_reduction"):
        plain = trnsolver.solve_tridiagonal(dl, d, du, b)
        graded = trnsolver.solve_tridiagonal(
            dl * scale[1:] * scale[:-1], d * scale**2, du * scale[1:] * scale[:-1], b * scale
        )
    assert torch.equal(graded * scale, plain)


def test_tridiagonal_bands_run_on_the_kernel_and_others_are_refused(simulator):
    ab = torch.tensor([[0.0, 1, 1], [4, 4, 4], [1, 1, 0]])
    with launched("cyclic_reduction"):
        x = trnsolver.solve_banded((1, 1), ab, torch.ones(3))
    limit = 4 * 4 * unit_roundoff(torch.float32)
    assert backward_error(of_bands(1, 1, ab), torch.ones(3, 1), x[:, None]) <= limit
    before = counts()
    with refusals_expected():
        trnsolver.solve_banded((0, 1), ab[:2], torch.ones(3))
    assert sum((counts() - before).refusals.values()) == 1


def test_the_gradient_runs_on_the_kernel(simulator):
    leaves = [t.requires_grad_() for t in (*definite(6), random_tensor(6, seed=3))]
    x = trnsolver.solve_tridiagonal(*leaves)
    with launched("cyclic_reduction"):
        found = torch.autograd.grad(x.square().sum(), leaves)
    with trnsolver.backend("pytorch"):
        wide = [t.detach().double().requires_grad_() for t in leaves]
        want = torch.autograd.grad(trnsolver.solve_tridiagonal(*wide).square().sum(), wide)
        condition = float(torch.linalg.cond(dense(*wide[:3]).detach()))
    for got, exact in zip(found, want, strict=True):
        bound = 40 * condition * unit_roundoff(torch.float32) * float(exact.abs().max())
        assert float((got - exact).abs().max()) <= bound


PIVOTS = {
    "a zero diagonal": (torch.ones(3), torch.zeros(4), torch.ones(3)),
    "a tiny pivot": (
        torch.tensor([0.9, 0.7, 0.3]),
        torch.tensor([1e-6, 0.3, 0.8, 1]),
        torch.tensor([0.6, 1.1, 0.4]),
    ),
}


@pytest.mark.parametrize("name", PIVOTS)
def test_a_matrix_that_needs_pivots_is_solved_by_lapack_with_a_warning(name):
    """The kernel's solution has a large residual, so that it is not returned."""
    b = torch.tensor([1.0, 2.0, 3.0, 5.0])
    want = trnsolver.solve_tridiagonal(*PIVOTS[name], b)
    with trnsolver.backend("simulator"):
        before = counts()
        with pytest.warns(NkiFallbackWarning, match="needs pivots"):
            x = trnsolver.solve_tridiagonal(*PIVOTS[name], b)
        assert (counts() - before).fallbacks["trnsolver.solve_tridiagonal"] == 1
        with LIBRARY.requiring("1"), pytest.raises(KernelError, match="needs pivots"):
            trnsolver.solve_tridiagonal(*PIVOTS[name], b)
    assert torch.equal(x, want)


@pytest.mark.filterwarnings("ignore::trnsci.core.errors.NkiFallbackWarning")
def test_no_solution_with_a_large_residual_is_returned():
    """Matrices of which the kernel solves some only: each result is right, by whom ever."""
    ran = fell = 0
    with trnsolver.backend("simulator"):
        for seed in range(24):
            matrix = tuple(random_tensor(n, seed=3 * seed + i) for i, n in enumerate((19, 20, 19)))
            b = random_tensor(20, seed=seed)
            before = counts()
            x = trnsolver.solve_tridiagonal(*matrix, b)
            since = counts() - before
            fell += sum(since.fallbacks.values())
            ran += not since.fallbacks
            limit = 4 * 7 * unit_roundoff(torch.float32)
            assert norm_error(dense(*matrix), b[:, None], x[:, None]) <= limit
    assert ran
    assert fell


def test_noise_in_place_of_the_kernels_solution_is_not_returned(simulator, monkeypatch):
    def noise(self, kernel, *arguments):
        return random_tensor(*arguments[-1].shape, seed=11)

    b = torch.ones(16)
    matrix = definite(16)
    with launched("cyclic_reduction"):
        want = trnsolver.solve_tridiagonal(*matrix, b)
    monkeypatch.setattr(Launcher, "__call__", noise)
    with LIBRARY.requiring("1"), pytest.raises(KernelError, match="needs pivots"):
        trnsolver.solve_tridiagonal(*matrix, b)
    with pytest.warns(NkiFallbackWarning, match="needs pivots"):
        x = trnsolver.solve_tridiagonal(*matrix, b)
    condition = float(torch.linalg.cond(dense(*matrix)))
    bound = 24 * condition * unit_roundoff(torch.float32) * float(want.abs().max())
    assert float((x - want).abs().max()) <= bound


@pytest.mark.filterwarnings("ignore::trnsci.core.errors.NkiFallbackWarning")
def test_a_singular_matrix_is_named(simulator):
    with pytest.raises(
        SingularMatrixError, match="solve_tridiagonal: the matrix of dl, d and du must not"
    ):
        trnsolver.solve_tridiagonal(torch.ones(2), torch.zeros(3), torch.ones(2), torch.ones(3))


def test_the_first_refused_order(simulator):
    n = 2049
    matrix, b = definite(n), torch.ones(n)
    before = counts()
    with refusals_expected():
        trnsolver.solve_tridiagonal(*matrix, b)
    assert [reason for _, reason in (counts() - before).refusals] == [
        "the kernel takes orders up to 2048"
    ]
    with LIBRARY.requiring("1"), pytest.raises(BackendError, match="orders up to 2048"):
        trnsolver.solve_tridiagonal(*matrix, b)
