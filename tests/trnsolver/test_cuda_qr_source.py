"""The CUDA source of QR factorizations, run on a CPU with fibers for threads, against LAPACK."""

import numpy as np
import pytest
import torch

from trnsolver._paths.cuda.batched import qr_bytes
from trnsolver._paths.cuda.householder import QR
from trnsolver._paths.cuda.launch import source_of, threads_for

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


@pytest.fixture(scope="module", params=["float32", "float64"])
def kernel(request, tmp_path_factory):
    dtype = getattr(torch, request.param)
    folder = tmp_path_factory.mktemp(request.param)
    return dtype, emulated_cuda.compiled(source_of(QR, dtype), f"householder_qr({PARTS})", folder)


def qr(kernel, a):
    dtype, made = kernel
    batch, m, n = a.shape
    least = min(m, n)
    a = np.ascontiguousarray(a, dtype=str(dtype).removeprefix("torch."))
    q, r = np.empty((batch, m, least), a.dtype), np.empty((batch, least, n), a.dtype)
    threads = threads_for(n)
    emulated_cuda.launch(made, batch, threads, qr_bytes(m, n, dtype, threads), a, q, r, m, n)
    return a, q, r


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
def test_numbers_of_any_size(kernel, exponent):
    rng = np.random.default_rng(2)
    a, q, r = qr(kernel, rng.standard_normal((1, 12, 9)) * 2.0**exponent)
    assert_factors(a[0], q[0], r[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_stays_in_its_matrix(kernel, bad):
    rng = np.random.default_rng(3)
    given = rng.standard_normal((2, 6, 5))
    given[0, 2, 1] = bad
    a, q, r = qr(kernel, given)
    assert not np.isfinite(r[0]).all()
    assert_factors(a[1], q[1], r[1])
