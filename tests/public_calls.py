"""One small legal call for every public function of the six libraries.

``CALLS`` holds the arguments by qualified name; ``NOT_CALLS`` lists the public functions that
compute nothing with tensors of the user, and so choose no path.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch

import trnrand
import trnsparse
from trnsci.core.testing import random_tensor

__all__ = ["CALLS", "LIBRARIES", "NOT_CALLS", "Call", "function_of", "public_functions"]

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")


class Call(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    options: dict[str, Any]


def function_of(name: str) -> Callable[..., Any]:
    """Return the function with a qualified name such as ``"trnblas.gemm"``."""
    library, _, function = name.partition(".")
    return getattr(import_module(library), function)


def public_functions() -> set[str]:
    """Return the qualified names of all functions in ``__all__`` of the six libraries."""
    found = set()
    for library in LIBRARIES:
        module = import_module(library)
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and not inspect.isclass(value):
                found.add(f"{library}.{name}")
    return found


def _call(*args: Any, **options: Any) -> Call:
    return Call(args, options)


A, B, C = (random_tensor(4, 4, seed=seed) for seed in range(3))
SPD = A @ A.mT + 4 * torch.eye(4)
X, Y = random_tensor(4, seed=3), random_tensor(4, seed=4)
SIGNAL = random_tensor(64, seed=5)
SPECTRUM = torch.fft.fft(SIGNAL)
IMAGE = random_tensor(4, 8, seed=6)
CUBE = random_tensor(4, 3, 2, seed=7)

_OF_VECTORS = {
    "trnblas.asum": _call(X),
    "trnblas.axpy": _call(2.0, X, Y),
    "trnblas.dgmm": _call(A, X),
    "trnblas.dot": _call(X, Y),
    "trnblas.dotc": _call(X, Y),
    "trnblas.geam": _call(1.0, A, 2.0, B),
    "trnblas.gemv": _call(1.0, A, X),
    "trnblas.ger": _call(1.0, X, Y),
    "trnblas.gerc": _call(1.0, X, Y),
    "trnblas.hemv": _call(1.0, A, X),
    "trnblas.her": _call(1.0, X),
    "trnblas.her2": _call(1.0, X, Y),
    "trnblas.iamax": _call(X),
    "trnblas.nrm2": _call(X),
    "trnblas.rot": _call(X, Y, 0.6, 0.8),
    "trnblas.rotg": _call(X[0], Y[0]),
    "trnblas.scal": _call(2.0, X),
    "trnblas.swap": _call(X, Y),
    "trnblas.symv": _call(1.0, A, X),
    "trnblas.syr": _call(1.0, X),
    "trnblas.syr2": _call(1.0, X, Y),
    "trnblas.trmv": _call(SPD, X),
    "trnblas.trsv": _call(SPD, X),
}
_OF_MATRICES = {
    "trnblas.batched_gemm": _call(1.0, A[None], B[None]),
    "trnblas.batched_trsm": _call(1.0, SPD[None], B[None]),
    "trnblas.gemm": _call(1.0, A, B),
    "trnblas.gemmt": _call(1.0, A, B),
    "trnblas.grouped_gemm": _call(1.0, [A, B], [B, C]),
    "trnblas.hemm": _call(1.0, A, B),
    "trnblas.her2k": _call(1.0, A, B),
    "trnblas.herk": _call(1.0, A),
    "trnblas.symm": _call(1.0, A, B),
    "trnblas.syr2k": _call(1.0, A, B),
    "trnblas.syrk": _call(1.0, A),
    "trnblas.trmm": _call(1.0, A, B),
    "trnblas.trsm": _call(1.0, SPD, B),
}
_TRANSFORMS = {
    **{
        f"trnfft.{name}": _call(SPECTRUM if name[:2] in ("if", "ir", "hf") else SIGNAL)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "dct", "dst", "idct", "idst")
    },
    **{
        f"trnfft.{name}": _call(IMAGE.to(torch.complex64) if name[:2] in ("ir", "hf") else IMAGE)
        for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for name in (f"{kind}2", f"{kind}n")
    },
    **{f"trnfft.{name}": _call(IMAGE) for name in ("dctn", "dstn", "idctn", "idstn")},
    "trnfft.complex_matmul": _call(A.to(torch.complex64), B.to(torch.complex64)),
    "trnfft.correlate": _call(SIGNAL, X),
    "trnfft.fftconvolve": _call(SIGNAL, X),
    "trnfft.fftshift": _call(SIGNAL),
    "trnfft.fht": _call(SIGNAL, 0.1, 0.0),
    "trnfft.ifftshift": _call(SIGNAL),
    "trnfft.ifht": _call(SIGNAL, 0.1, 0.0),
    "trnfft.istft": _call(
        torch.stft(SIGNAL, 16, window=torch.hann_window(16), return_complex=True),
        16,
        window=torch.hann_window(16),
    ),
    "trnfft.oaconvolve": _call(SIGNAL, X),
    "trnfft.stft": _call(SIGNAL, 16, window=torch.hann_window(16), return_complex=True),
}


def _drawn(*args: Any, **options: Any) -> Call:
    return Call(args, {**options, "generator": trnrand.Generator(3)})


_DRAWS = {
    **{
        f"trnrand.{name}": _drawn(5)
        for name in [
            "bernoulli",
            "cauchy",
            "exponential",
            "gumbel",
            "laplace",
            "lognormal",
            "normal",
            "poisson",
            "rand",
            "randn",
            "truncated_normal",
            "uniform",
            "von_mises",
        ]
    },
    **{f"trnrand.{name}": _drawn(X) for name in ("rand_like", "randn_like")},
    "trnrand.beta": _drawn(5, alpha=2.0, beta=3.0),
    "trnrand.binomial": _drawn(5, n=10, p=0.3),
    "trnrand.categorical": _drawn(5, p=torch.tensor([0.2, 0.8])),
    "trnrand.chi_squared": _drawn(5, df=3.0),
    "trnrand.choice": _drawn(7, 3),
    "trnrand.dirichlet": _drawn(torch.ones(3), 5),
    "trnrand.gamma": _drawn(5, shape=2.0),
    "trnrand.geometric": _drawn(5, p=0.3),
    "trnrand.halton": _call(4, 2),
    "trnrand.hypergeometric": _drawn(5, good=5, bad=6, draws=4),
    "trnrand.latin_hypercube": _call(4, 2, seed=1),
    "trnrand.multinomial": _drawn(10, torch.tensor([0.2, 0.8]), 5),
    "trnrand.multivariate_normal": _drawn(X, SPD, 5),
    "trnrand.negative_binomial": _drawn(5, n=4, p=0.3),
    "trnrand.randint": _drawn(9, (5,)),
    "trnrand.randint_like": _drawn(X, 0, 9),
    "trnrand.randperm": _drawn(9),
    "trnrand.shuffle": _drawn(X),
    "trnrand.sobol": _call(4, 2, seed=1),
    "trnrand.student_t": _drawn(5, df=3.0),
    "trnrand.weibull": _drawn(5, shape=2.0),
}
_SOLVERS = {
    **{
        f"trnsolver.{name}": _call(SPD)
        for name in [
            "cholesky",
            "cholqr2",
            "det",
            "eigh",
            "eigvalsh",
            "expm",
            "inv",
            "inv_spd",
            "inv_sqrt_spd",
            "inv_sqrt_spd_ns",
            "lu",
            "msign",
            "orthogonalize",
            "pinv",
            "polar",
            "qr",
            "schur",
            "slogdet",
            "svd",
            "svdvals",
            "ichol_preconditioner",
            "jacobi_preconditioner",
            "ssor_preconditioner",
        ]
    },
    **{
        f"trnsolver.{name}": _call(SPD, X)
        for name in ["bicgstab", "cg", "fgmres", "gmres", "lstsq", "minres", "solve", "solve_spd"]
    },
    "trnsolver.block_jacobi_preconditioner": _call(SPD, 2),
    "trnsolver.eigh_generalized": _call(A + A.mT, SPD),
    "trnsolver.eigh_randomized": _call(SPD, 2, 1),
    "trnsolver.hutch_plus_plus": _call(SPD, 6),
    "trnsolver.lobpcg": _call(torch.diag(torch.arange(1.0, 21.0)), 2),
    "trnsolver.nystrom": _call(SPD, 2),
    "trnsolver.rsvd": _call(SPD, 2, oversampling=1),
}
SPARSE = trnsparse.from_dense(SPD)
BLOCKS = trnsparse.BSRMatrix.from_dense(SPD, 2)
HEADS = random_tensor(1, 1, 256, 4, seed=8)
MASK = trnsparse.causal_mask(256, 128)
INTEGRALS = torch.rand(4, 4, generator=torch.Generator().manual_seed(9))

_SPARSE = {
    **{
        f"trnsparse.{name}": _call(SPARSE)
        for name in [
            "amg_preconditioner",
            "ichol_preconditioner",
            "ilu_preconditioner",
            "jacobi_preconditioner",
            "power_iteration",
            "splu",
            "ssor_preconditioner",
        ]
    },
    **{
        f"trnsparse.{name}": _call(SPARSE, X)
        for name in ["cg", "minres", "spmv", "spmv_symmetric", "spsolve", "sptrsv"]
    },
    **{
        f"trnsparse.{name}": _call(INTEGRALS)
        for name in ["count_quartets", "schwarz_bounds", "screen_quartets", "sparsity_stats"]
    },
    "trnsparse.block_jacobi_preconditioner": _call(BLOCKS),
    "trnsparse.block_sparse_attention": _call(HEADS, HEADS, HEADS, MASK),
    "trnsparse.chebyshev": _call(SPARSE, X, 1.0, 9.0, 3),
    "trnsparse.density_screen": _call(INTEGRALS, A),
    "trnsparse.richardson": _call(SPARSE, X, 0.1, 3),
    "trnsparse.screened_spmm": _call(A, INTEGRALS[0], B, 1e-3),
    "trnsparse.sddmm": _call(SPARSE, A, B),
    "trnsparse.spgemm": _call(SPARSE, SPARSE),
    "trnsparse.spmm": _call(SPARSE, B),
}
CORES = [random_tensor(1, 3, 2), random_tensor(2, 3, 1, seed=1)]

_TENSORS = {
    "trntensor.ao_to_mo_transform": _call(random_tensor(4, 4, 4), A[:, :2], A[:, 2:]),
    "trntensor.cp_decompose": _call(CUBE, 2, 3),
    "trntensor.cp_reconstruct": _call([A, B, C], X),
    "trntensor.einsum": _call("ij,jk->ik", A, B),
    "trntensor.four_index_transform": _call(random_tensor(4, 4, 4, 4), A, A, B, B),
    "trntensor.mp2_energy": _call(random_tensor(2, 2, 3), -1 - X[:2] ** 2, 1 + X[:2] ** 2),
    "trntensor.multi_einsum": _call(("ij,jk->ik", A, B), ("ij->ji", A)),
    "trntensor.tt_decompose": _call(CUBE, 2),
    "trntensor.tt_inner": _call(CORES, CORES),
    "trntensor.tt_norm": _call(CORES),
    "trntensor.tt_reconstruct": _call(CORES),
    "trntensor.tt_round": _call(CORES, 1),
    "trntensor.tucker_decompose": _call(CUBE, (2, 2, 2), 3),
    "trntensor.tucker_reconstruct": _call(CUBE, [random_tensor(5, n) for n in CUBE.shape]),
}

CALLS: dict[str, Call] = {
    **_OF_VECTORS,
    **_OF_MATRICES,
    **_TRANSFORMS,
    **_DRAWS,
    **_SOLVERS,
    **_SPARSE,
    **_TENSORS,
}

NOT_CALLS = {
    "settings": "backend get_backend set_backend get_precision precision set_precision "
    "checkpoint_contexts fork_rng get_default_generator get_rng_state manual_seed set_rng_state",
    "plans and their caches": "plan_gemm clear_plan_cache plan plan_cache_info "
    "plan_contraction estimate_flops select_precision_for_error",
    "made from numbers": "fftfreq rfftfreq fhtoffset next_fast_len causal_mask chebyshev_coeffs "
    "chebyshev_steps dilated_mask eye_sparse global_window_mask local_window_mask",
    "pictures": "plot_residuals plot_pattern",
    "conversions and descriptions": "from_scipy from_xla to_xla from_dense from_torch_sparse "
    "bandwidth block_ordering permuted rcm",
}
"""Public functions without a path, by the reason."""
