"""The CUDA source of Jacobi's method, run on a CPU with fibers for threads."""

import numpy as np
import pytest
import torch

from trnsolver._paths.cuda import batched as module
from trnsolver._paths.cuda.jacobi import EIGH, SVD
from trnsolver._paths.cuda.launch import source_of, threads_for
from trnsolver._paths.cuda.small_eigh import SMALL_EIGH

from . import emulated_cuda
from .kernels.harness_solver import (
    distance_from_orthogonal,
    lower_only,
    norm,
    residual_of_pairs,
    symmetric,
    with_spectrum,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(emulated_cuda.COMPILER is None, reason="needs a C++ compiler"),
]

REALS = {"float32": torch.float32, "float64": torch.float64}
PAIRS = (
    "(REAL*)arguments[0], (REAL*)arguments[1], (REAL*)arguments[2], (int*)arguments[3], "
    "(int*)arguments[4], (long)arguments[5], (long)arguments[6]"
)
CALLS = {
    "eigh": f"jacobi_eigh({PAIRS})",
    "small": f"small_eigh({PAIRS})",
    "svd": "jacobi_svd((REAL*)arguments[0], (REAL*)arguments[1], (REAL*)arguments[2], "
    "(REAL*)arguments[3], (int*)arguments[4], (int*)arguments[5], (long)arguments[6], "
    "(long)arguments[7], (long)arguments[8])",
}


@pytest.fixture(scope="module", params=[*REALS])
def kernels(request, tmp_path_factory):
    dtype = REALS[request.param]
    made = {}
    for name, source in (("eigh", EIGH), ("small", SMALL_EIGH), ("svd", SVD)):
        folder = tmp_path_factory.mktemp(f"{name}_{request.param}")
        text = source_of(source, dtype)
        made[name] = emulated_cuda.compiled(text, CALLS[name], folder)
    return dtype, made


@pytest.fixture(params=["eigh", "small, few", "small, many"])
def eigh(request, kernels):
    """Eigenpairs by each kernel, the matrices, their sweeps, and whether there was trouble."""
    dtype, made = kernels
    kernel, _, number = request.param.partition(", ")

    def run(a):
        batch, n, _ = a.shape
        if kernel == "small":
            threads = module.small_eigh_threads(n, 1 if number == "few" else 1000)
            size = module.small_eigh_bytes(n, dtype, threads)
        else:
            threads = threads_for(n)
            size = module.eigh_bytes(n, dtype, threads)
        a = np.ascontiguousarray(a, dtype=str(dtype).removeprefix("torch."))
        w, v = np.empty((batch, n), a.dtype), np.empty_like(a)
        troubled, sweeps = np.zeros(1, np.int32), np.empty(batch, np.int32)
        given = (lower_only(a), w, v, troubled, sweeps, n, module.MOST_SWEEPS)
        emulated_cuda.launch(made[kernel], batch, threads, size, *given)
        return a, w, v, sweeps, bool(troubled[0])

    return run


def svd(kernels, a, threads=None):
    dtype, made = kernels
    batch, m, n = a.shape
    a = np.ascontiguousarray(a, dtype=str(dtype).removeprefix("torch."))
    u, s = np.empty_like(a), np.empty((batch, n), a.dtype)
    vh = np.empty((batch, n, n), a.dtype)
    troubled, sweeps = np.zeros(1, np.int32), np.empty(batch, np.int32)
    threads = threads or threads_for(n)
    size = module.svd_bytes(m, n, dtype, threads)
    given = (a, u, s, vh, troubled, sweeps, m, n, module.MOST_SWEEPS)
    emulated_cuda.launch(made["svd"], batch, threads, size, *given)
    return a, u, s, vh, sweeps, bool(troubled[0])


def assert_diagonalised(a, w, v):
    n = a.shape[0]
    bound = 20 * np.finfo(a.dtype).eps * n
    assert (np.diff(w) >= 0).all()
    assert residual_of_pairs(a, w, v) <= bound
    assert distance_from_orthogonal(v) <= bound


@pytest.mark.parametrize("n", [1, 2, 3, 9, 16, 33, 46])
def test_eigenvectors(eigh, n):
    matrices = np.stack([symmetric(n, seed=k) * 2.0 ** (30 * k) for k in range(2)])
    a, w, v, sweeps, troubled = eigh(matrices)
    assert (sweeps <= 12).all()
    assert not troubled
    for k in range(2):
        assert_diagonalised(a[k], w[k], v[k])


@pytest.mark.parametrize("name", ["clustered", "graded", "zeros", "equal", "diagonal"])
def test_spectra(eigh, name):
    a = {
        "clustered": with_spectrum(np.repeat([1.0, 1.0 + 1e-6, 2.0], 4)),
        "graded": with_spectrum(np.logspace(0, -12, 13)),
        "zeros": np.zeros((5, 5)),
        "equal": np.full((6, 6), 0.5),
        "diagonal": np.diag([3.0, -1.0, 2.0, 2.0]),
    }[name]
    a, w, v, sweeps, troubled = eigh(a[None])
    assert sweeps[0] <= 12
    assert not troubled
    assert_diagonalised(a[0], w[0], v[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_gives_nothing_else(eigh, kernels, bad):
    a = np.stack([symmetric(4), symmetric(4, seed=1)])
    a[0, 2, 1] = bad
    a, w, v, _, troubled = eigh(a)
    assert troubled
    assert not np.isfinite(w[0]).any()
    assert not np.isfinite(v[0]).any()
    assert_diagonalised(a[1], w[1], v[1])
    _, _, s, vh, _, troubled = svd(kernels, a)
    assert troubled
    assert not np.isfinite(s[0]).any()
    assert not np.isfinite(vh[0]).any()


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5, 5), (33, 4), (9, 8)])
def test_singular_vectors(kernels, shape, threads):
    m, n = shape
    rng = np.random.default_rng(shape)
    given = rng.standard_normal((2, m, n)) * np.logspace(0, -3, n)
    a, u, s, vh, sweeps, troubled = svd(kernels, given, threads)
    assert (sweeps <= 12).all()
    assert not troubled
    bound = 20 * np.finfo(a.dtype).eps * m
    for k in range(2):
        assert (np.diff(s[k]) <= 0).all()
        back = (u[k].astype(np.float64) * s[k]) @ vh[k]
        assert np.linalg.norm(back - a[k], 2) <= bound * norm(a[k])
        assert distance_from_orthogonal(u[k]) <= bound
        assert distance_from_orthogonal(vh[k].T) <= bound


@pytest.mark.parametrize("column", [0.0, 1e-42])
def test_a_singular_value_without_a_left_vector_is_trouble(kernels, column):
    a = np.random.default_rng(4).standard_normal((1, 5, 3))
    a[0, :, 1] = column * (kernels[0] is torch.float32)
    *_, troubled = svd(kernels, a)
    assert troubled


def test_small_singular_values_are_right_to_their_own_size(kernels):
    # One-sided rotations keep the relative accuracy of a matrix with scaled columns.
    rng = np.random.default_rng(3)
    q, _ = np.linalg.qr(rng.standard_normal((12, 6)))
    scales = np.logspace(0, -10, 6)
    a, _, s, *_ = svd(kernels, (q * scales)[None])
    want = np.linalg.svd(a[0].astype(np.float64) / scales, compute_uv=False)
    assert (abs(want - 1) < 1e-5).all()
    np.testing.assert_allclose(s[0], scales, rtol=100 * np.finfo(a.dtype).eps)


def test_refined_pairs_are_right_to_the_last_bits():
    eps = float(np.finfo(np.float32).eps)
    a = np.stack([symmetric(20), with_spectrum(np.repeat([1.0, 2.0], 10))])
    w, v = np.linalg.eigh(a.astype(np.float64))
    noise = np.random.default_rng(0).standard_normal(v.shape) * 3e-7
    given = [torch.from_numpy(x.astype(np.float32)) for x in (a, w, v + noise)]
    for k in range(2):
        assert distance_from_orthogonal(given[2][k].numpy()) > 10 * eps
    w, v = (x.numpy() for x in module.refined_pairs(*given))
    for k in range(2):
        # A float32 matrix cannot be nearer to orthogonal than its own rounding, eps / 2 an entry.
        assert distance_from_orthogonal(v[k]) <= 2 * eps
        assert residual_of_pairs(a[k], w[k], v[k]) <= 20 * eps


@pytest.mark.parametrize("spectrum", ["graded", "near", "clusters"])
def test_refined_vectors_of_near_values_stay_orthogonal(spectrum):
    n, eps = 40, 2.0**-23
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = {
        "graded": np.logspace(0, -12, n),
        "near": 1 + 1e-6 * np.arange(n),
        "clusters": np.arange(n) // 10.0,
    }[spectrum]
    a = torch.from_numpy((q * values) @ q.T).float()
    w, v = torch.linalg.eigh(a)
    # What a thousand rounds leave.
    moved = v + 8 * eps * torch.from_numpy(rng.standard_normal((n, n))).float()
    _, refined = module.refined_pairs(a, w, moved)
    x = refined.double()
    assert torch.linalg.matrix_norm(x.mT @ x - torch.eye(n), 2) <= n * eps


@pytest.mark.parametrize("spectrum", ["graded", "clusters"])
def test_equal_and_graded_eigenvalues_come_to_an_end(eigh, spectrum):
    n = 40
    values = np.logspace(0, -12, n) if spectrum == "graded" else np.arange(n) // 10.0
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))
    a, w, v, sweeps, troubled = eigh(((q * values) @ q.T)[None])
    assert sweeps[0] <= module.MOST_SWEEPS
    assert not troubled
    assert_diagonalised(a[0], w[0], v[0])
