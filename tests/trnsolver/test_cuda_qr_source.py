"""The CUDA texts of QR factorizations, run on a CPU with fibers for threads, against LAPACK's."""

import numpy as np
import pytest
import torch

from trnsolver._batched_qr import gram_bytes, positive_qr_bytes, qr_bytes
from trnsolver._cuda_gram_qr import FACTOR_GRAM, POSITIVE_QR
from trnsolver._cuda_launch import source_of, threads_for
from trnsolver._cuda_qr import QR

from . import emulated_cuda
from .kernels.harness_solver import distance_from_orthogonal, norm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(emulated_cuda.COMPILER is None, reason="needs a C++ compiler"),
]

PARTS = (
    "(REAL*)arguments[0], (REAL*)arguments[1], (REAL*)arguments[2], "
    "(long)arguments[3], (long)arguments[4]"
)


def made_for(dtype, name, text, tmp_path_factory):
    folder = tmp_path_factory.mktemp(name)
    given = PARTS + (", (double*)arguments[5]" if name == "positive_qr" else "")
    return emulated_cuda.compiled(source_of(text, dtype), f"{name}({given})", folder)


@pytest.fixture(scope="module", params=["float32", "float64"])
def kernel(request, tmp_path_factory):
    dtype = getattr(torch, request.param)
    return dtype, made_for(dtype, "householder_qr", QR, tmp_path_factory)


@pytest.fixture(scope="module", params=["float32", "float64"])
def positive_kernel(request, tmp_path_factory):
    dtype = getattr(torch, request.param)
    return dtype, made_for(dtype, "positive_qr", POSITIVE_QR, tmp_path_factory)


def qr(kernel, a):
    dtype, made = kernel
    batch, m, n = a.shape
    least = min(m, n)
    a = np.ascontiguousarray(a, dtype=str(dtype).removeprefix("torch."))
    q, r = np.empty((batch, m, least), a.dtype), np.empty((batch, least, n), a.dtype)
    threads = threads_for(n)
    emulated_cuda.launch(made, batch, threads, qr_bytes(m, n, dtype, threads), a, q, r, m, n)
    return a, q, r


def positive_qr(kernel, a, threads=64):
    dtype, made = kernel
    m, n = a.shape
    a = np.ascontiguousarray(a, dtype=str(dtype).removeprefix("torch."))
    q, r, ends = np.empty_like(a), np.empty((n, n), a.dtype), np.ones(2)
    given = (a, q, r, m, n, ends)
    emulated_cuda.launch(made, 1, threads, positive_qr_bytes(m, n, dtype, threads), *given)
    return a, q, r, ends


def assert_factors(a, q, r):
    bound = 4 * np.finfo(a.dtype).eps * max(a.shape)
    assert np.array_equal(r, np.triu(r))
    assert distance_from_orthogonal(q) <= bound
    # Householder's method is stable column by column.
    wide = a.astype(np.float64)
    off = np.linalg.norm(q.astype(np.float64) @ r - wide, axis=0)
    assert (off <= bound * np.linalg.norm(wide, axis=0)).all()


@pytest.mark.parametrize(
    "shape",
    [(1, 1), (1, 3), (3, 1), (2, 2), (5, 5), (33, 4), (4, 33), (31, 32), (64, 40), (40, 66)],
)
def test_factors_have_the_signs_of_lapack(kernel, shape):
    rng = np.random.default_rng(shape)
    a, q, r = qr(kernel, rng.standard_normal((3, *shape)))
    for k in range(3):
        assert_factors(a[k], q[k], r[k])
        want = np.linalg.qr(a[k].astype(np.float64))
        close = 1e3 * np.finfo(a.dtype).eps * np.linalg.cond(a[k][:, : min(shape)])
        assert np.abs(q[k] - want.Q).max() <= close
        assert np.abs(r[k] - want.R).max() <= close * norm(a[k])


@pytest.mark.parametrize("condition", [1, 1e2, 1e6])
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (40, 33), (4, 1), (37, 9), (200, 32), (130, 16)])
def test_the_diagonal_can_be_positive(positive_kernel, shape, condition):
    rng = np.random.default_rng(shape)
    u, _, vh = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    given = u * np.logspace(0, -np.log10(condition), shape[1]) @ vh
    a, q, r, ends = positive_qr(positive_kernel, given)
    assert_factors(a, q, r)
    sizes = np.diagonal(r)
    assert (sizes > 0).all()
    np.testing.assert_allclose(ends, [sizes.min(), sizes.max()], rtol=1e-6)


def test_columns_that_are_far_from_dependent_are_not_reflected(tmp_path_factory):
    text = POSITIVE_QR.replace("reflect(b, m, n, row, scale, first, left, triangle, ends);", "")
    assert text != POSITIVE_QR
    kernel = torch.float32, made_for(torch.float32, "positive_qr", text, tmp_path_factory)
    given = np.linalg.qr(np.random.default_rng(5).standard_normal((32, 8)))[0]
    assert_factors(*positive_qr(kernel, given)[:3])
    for reflected in (given[:31], given * np.logspace(0, -4, 8)):
        *_, ends = positive_qr(kernel, reflected)
        assert list(ends) == [1, 1]  # as they were


@pytest.mark.parametrize("shape", [(9, 4), (16, 4)], ids=["reflected", "by Gram matrices"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_what_makes_columns_dependent_is_told(positive_kernel, bad, shape):
    given = np.random.default_rng(4).standard_normal(shape)
    given[:, 2] = bad
    *_, ends = positive_qr(positive_kernel, given)
    assert not ends[0] > 0


@pytest.mark.parametrize("n", [1, 2, 7, 33, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_factors_of_gram_matrices(dtype, n, tmp_path_factory):
    folder = tmp_path_factory.mktemp("factor_gram")
    given = PARTS.replace("(long)arguments[3]", "(int*)arguments[3]") + ", (long)arguments[5]"
    made = emulated_cuda.compiled(source_of(FACTOR_GRAM, dtype), f"factor_gram({given})", folder)

    def factor(gram, *, again):
        gram = np.ascontiguousarray(gram, dtype=str(dtype).removeprefix("torch."))
        lower, inverse = np.full_like(gram, 7), np.full_like(gram, 7)
        troubled = np.zeros(1, np.int32)
        arguments = (gram, lower, inverse, troubled, n, again)
        emulated_cuda.launch(made, 1, 64, gram_bytes(n, dtype), *arguments)
        return lower, inverse, bool(troubled[0])

    rng = np.random.default_rng(n)
    a = rng.standard_normal((40 * n, n))
    lower, inverse, troubled = factor(a.T @ a, again=False)
    bound = 20 * n * np.finfo(lower.dtype).eps
    want = np.linalg.cholesky(a.T @ a)
    assert not troubled
    assert np.array_equal(lower, np.tril(lower))
    assert np.linalg.norm(lower - want) <= bound * np.linalg.norm(want)
    assert np.linalg.norm(inverse.astype(np.float64) @ lower - np.eye(n)) <= bound
    near = np.eye(n) + 0.01 * np.diag(rng.standard_normal(n))
    assert not factor(near, again=True)[2]
    assert factor(np.eye(n) * 1.3, again=True)[2]
    graded = np.diag(np.logspace(0, -8, n)) if n > 1 else -np.eye(1)
    for bad in (graded, -np.eye(n), np.full((n, n), np.nan), np.zeros((n, n))):
        assert factor(bad, again=False)[2]


@pytest.mark.parametrize("name", ["zeros", "rank one", "graded", "kahan", "identity", "equal"])
def test_hard_matrices(kernel, name):
    rng = np.random.default_rng(1)
    n = 20
    c, s = np.cos(1.2), np.sin(1.2)
    a = {
        "zeros": np.zeros((n, n)),
        "rank one": np.outer(rng.standard_normal(n), rng.standard_normal(n)),
        "graded": rng.standard_normal((n, n)) * np.logspace(0, -25, n),
        "kahan": np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1)),
        "identity": np.eye(n),
        "equal": np.ones((n, n)),
    }[name]
    a, q, r = qr(kernel, a[None])
    assert_factors(a[0], q[0], r[0])


@pytest.mark.parametrize("exponent", [-120, -40, 40, 120])
def test_numbers_of_any_size(kernel, positive_kernel, exponent):
    rng = np.random.default_rng(2)
    a, q, r = qr(kernel, rng.standard_normal((1, 12, 9)) * 2.0**exponent)
    assert_factors(a[0], q[0], r[0])
    for columns in (9, 3):
        *factors, _ = positive_qr(positive_kernel, a[0][:, :columns])
        assert_factors(*factors)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_stays_in_its_matrix(kernel, bad):
    rng = np.random.default_rng(3)
    given = rng.standard_normal((2, 6, 5))
    given[0, 2, 1] = bad
    a, q, r = qr(kernel, given)
    assert not np.isfinite(r[0]).all()
    assert_factors(a[1], q[1], r[1])
