"""BLAS by definition, in float64 and complex128: sums of products, nothing blocked or fused.

Names, arguments and defaults are those of trnblas; arrays are NumPy's. Matrices of a batch are
taken one by one.
"""

from __future__ import annotations

import numpy as np


def axpy(alpha, x, y):
    return alpha * x + y


def dot(x, y):
    return np.array((x.ravel() * y.ravel()).sum())


def scal(alpha, x):
    return alpha * x


def asum(x):
    return np.array(np.abs(x).sum())


def nrm2(x):
    largest = np.abs(x).max(initial=0.0)
    if largest == 0 or not np.isfinite(largest):
        return np.array(largest)
    # longdouble has 15 bits of exponent: squares of float64 neither overflow nor vanish.
    modulus = np.abs(x).astype(np.longdouble)
    return np.array(np.sqrt((modulus * modulus).sum()), dtype=np.float64)


def op(A, trans):
    if trans in (False, "N"):
        return A
    swapped = np.swapaxes(A, -1, -2)
    return swapped.conj() if trans == "C" else swapped


def product(A, B):
    """A @ B as sums over the contracted index."""
    return (A[..., :, :, None] * B[..., None, :, :]).sum(axis=-2)


def triangle(A, uplo, diag="nonunit"):
    kept = np.triu(A) if uplo == "upper" else np.tril(A)
    if diag == "unit":
        i = np.arange(A.shape[-1])
        kept[..., i, i] = 1
    return kept


def symmetric(A, uplo):
    half = triangle(A, uplo)
    i = np.arange(A.shape[-1])
    full = half + np.swapaxes(half, -1, -2)
    full[..., i, i] = half[..., i, i]
    return full


def sum_of(alpha, value, beta, C):
    total = alpha * value
    return total if C is None or beta == 0 else total + beta * C


def gemv(alpha, A, x, beta=0.0, y=None, trans=False):
    return sum_of(alpha, product(op(A, trans), x[:, None])[:, 0], beta, y)


def symv(alpha, A, x, beta=0.0, y=None, uplo="upper"):
    return sum_of(alpha, product(symmetric(A, uplo), x[:, None])[:, 0], beta, y)


def trmv(A, x, uplo="upper", trans=False, diag="nonunit"):
    return product(op(triangle(A, uplo, diag), trans), x[:, None])[:, 0]


def ger(alpha, x, y, A=None):
    return sum_of(alpha, x[:, None] * y[None, :], 1, A)


def gemm(alpha, A, B, beta=0.0, C=None, transA=False, transB=False):
    return sum_of(alpha, product(op(A, transA), op(B, transB)), beta, C)


batched_gemm = gemm


def symm(alpha, A, B, beta=0.0, C=None, side="left", uplo="upper"):
    full = symmetric(A, uplo)
    return sum_of(alpha, product(full, B) if side == "left" else product(B, full), beta, C)


def syrk(alpha, A, beta=0.0, C=None, trans=False, uplo="upper"):
    at = np.swapaxes(A, -1, -2)
    return sum_of(alpha, product(at, A) if trans in (True, "T") else product(A, at), beta, C)


def herk(alpha, A, beta=0.0, C=None, trans=False, uplo="upper"):
    ah = np.swapaxes(A, -1, -2).conj()
    return sum_of(alpha, product(ah, A) if trans in (True, "C") else product(A, ah), beta, C)


def syr2k(alpha, A, B, beta=0.0, C=None, trans=False, uplo="upper"):
    at, bt = np.swapaxes(A, -1, -2), np.swapaxes(B, -1, -2)
    if trans in (True, "T"):
        return sum_of(alpha, product(at, B) + product(bt, A), beta, C)
    return sum_of(alpha, product(A, bt) + product(B, at), beta, C)


def gemmt(alpha, A, B, beta=0.0, C=None, uplo="upper", transA=False, transB=False):
    full = gemm(alpha, A, B, beta, C, transA, transB)
    chosen = np.ones(full.shape[-2:], bool)
    chosen = np.triu(chosen) if uplo == "upper" else np.tril(chosen)
    rest = 0.0 if C is None or beta == 0 else C
    return np.where(chosen, full, rest)


def trmm(alpha, A, B, side="left", uplo="upper", trans=False, diag="nonunit"):
    t = op(triangle(A, uplo, diag), trans)
    return alpha * (product(t, B) if side == "left" else product(B, t))


def trsm(alpha, A, B, side="left", uplo="upper", trans=False, diag="nonunit"):
    t = op(triangle(A, uplo, diag), trans)
    if side == "left":
        return np.linalg.solve(t, alpha * B)
    return np.swapaxes(
        np.linalg.solve(np.swapaxes(t, -1, -2), np.swapaxes(alpha * B, -1, -2)), -1, -2
    )


batched_trsm = trsm


def trsm_sensitivity(alpha, A, B, side="left", uplo="upper", trans=False, diag="nonunit"):
    """|op(A)^-1| |op(A)| |X|: what a relative error in every operation of a solve can do to X."""
    t = op(triangle(A, uplo, diag), trans)
    amplified = product(np.abs(np.linalg.inv(t)), np.abs(t))
    x = np.abs(trsm(alpha, A, B, side, uplo, trans, diag))
    if side == "left":
        return product(amplified, x)
    return product(x, product(np.abs(t), np.abs(np.linalg.inv(t))))
