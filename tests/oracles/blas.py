"""BLAS by definition, in float64 and complex128: sums of products, nothing blocked or fused.

Names, arguments and defaults are those of trnblas; arrays are NumPy's. Matrices of a batch are
taken one by one.
"""

from __future__ import annotations

import numpy as np


def axpy(alpha, x, y):
    return alpha * x + y


def dot(x, y):
    return np.array((x * y).sum())


def scal(alpha, x):
    return alpha * x


def dotc(x, y):
    return np.array((x.conj() * y).sum())


def swap(x, y):
    return y, x


def copy(x):
    return x


def asum(x):
    return np.array((np.abs(x.real) + np.abs(x.imag)).sum())


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


def hermitian(A, uplo):
    half = triangle(A, uplo)
    i = np.arange(A.shape[-1])
    full = half + np.swapaxes(half, -1, -2).conj()
    full[..., i, i] = half[..., i, i].real
    return full


def sum_of(alpha, value, beta, C):
    total = alpha * value
    return total if C is None or beta == 0 else total + beta * C


def by_vector(A, x):
    """A @ x of matrices and vectors, or of batches."""
    return product(A, x[..., :, None])[..., 0]


def gemv(alpha, A, x, beta=0.0, y=None, trans=False):
    return sum_of(alpha, by_vector(op(A, trans), x), beta, y)


def symv(alpha, A, x, beta=0.0, y=None, uplo="upper"):
    return sum_of(alpha, by_vector(symmetric(A, uplo), x), beta, y)


def hemv(alpha, A, x, beta=0.0, y=None, uplo="upper"):
    return sum_of(alpha, by_vector(hermitian(A, uplo), x), beta, y)


def trmv(A, x, uplo="upper", trans=False, diag="nonunit"):
    return by_vector(op(triangle(A, uplo, diag), trans), x)


def trsv(A, x, uplo="upper", trans=False, diag="nonunit"):
    return trsm(1, A, x[..., :, None], "left", uplo, trans, diag)[..., 0]


def outer(x, y):
    return x[..., :, None] * y[..., None, :]


def ger(alpha, x, y, A=None):
    return sum_of(alpha, outer(x, y), 1, A)


def gerc(alpha, x, y, A=None):
    return sum_of(alpha, outer(x, y.conj()), 1, A)


def syr(alpha, x, A=None, uplo="upper"):
    return sum_of(alpha, outer(x, x), 1, None if A is None else symmetric(A, uplo))


def syr2(alpha, x, y, A=None, uplo="upper"):
    below = None if A is None else symmetric(A, uplo)
    return sum_of(alpha, outer(x, y) + outer(y, x), 1, below)


def her(alpha, x, A=None, uplo="upper"):
    return sum_of(alpha, outer(x, x.conj()), 1, None if A is None else hermitian(A, uplo))


def her2(alpha, x, y, A=None, uplo="upper"):
    below = None if A is None else hermitian(A, uplo)
    value = alpha * outer(x, y.conj()) + np.conj(alpha) * outer(y, x.conj())
    return sum_of(1, value, 1, below)


def rot(x, y, c, s):
    return c * x + s * y, c * y - np.conj(s) * x


def geam(alpha, A, beta, B, transA=False, transB=False):
    return alpha * op(A, transA) + beta * op(B, transB)


def dgmm(A, x, side="left"):
    return x[..., :, None] * A if side == "left" else A * x[..., None, :]


def grouped_gemm(alpha, A, B, beta=0.0, C=None, transA=False, transB=False):
    below = [None] * len(A) if C is None else C
    return [gemm(alpha, a, b, beta, c, transA, transB) for a, b, c in zip(A, B, below, strict=True)]


def gemm(alpha, A, B, beta=0.0, C=None, transA=False, transB=False):
    return sum_of(alpha, product(op(A, transA), op(B, transB)), beta, C)


batched_gemm = gemm


def symm(alpha, A, B, beta=0.0, C=None, side="left", uplo="upper"):
    full = symmetric(A, uplo)
    return sum_of(alpha, product(full, B) if side == "left" else product(B, full), beta, C)


def hemm(alpha, A, B, beta=0.0, C=None, side="left", uplo="upper"):
    full = hermitian(A, uplo)
    return sum_of(alpha, product(full, B) if side == "left" else product(B, full), beta, C)


def syrk(alpha, A, beta=0.0, C=None, trans=False, uplo="upper"):
    at = np.swapaxes(A, -1, -2)
    below = None if C is None else symmetric(C, uplo)
    return sum_of(alpha, product(at, A) if trans in (True, "T") else product(A, at), beta, below)


def herk(alpha, A, beta=0.0, C=None, trans=False, uplo="upper"):
    ah = np.swapaxes(A, -1, -2).conj()
    below = None if C is None else hermitian(C, uplo)
    return sum_of(alpha, product(ah, A) if trans in (True, "C") else product(A, ah), beta, below)


def syr2k(alpha, A, B, beta=0.0, C=None, trans=False, uplo="upper"):
    at, bt = np.swapaxes(A, -1, -2), np.swapaxes(B, -1, -2)
    below = None if C is None else symmetric(C, uplo)
    if trans in (True, "T"):
        return sum_of(alpha, product(at, B) + product(bt, A), beta, below)
    return sum_of(alpha, product(A, bt) + product(B, at), beta, below)


def her2k(alpha, A, B, beta=0.0, C=None, trans=False, uplo="upper"):
    ah, bh = np.swapaxes(A, -1, -2).conj(), np.swapaxes(B, -1, -2).conj()
    below = None if C is None else hermitian(C, uplo)
    if trans in (True, "C"):
        value = alpha * product(ah, B) + np.conj(alpha) * product(bh, A)
    else:
        value = alpha * product(A, bh) + np.conj(alpha) * product(B, ah)
    return sum_of(1, value, beta, below)


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


def trsv_sensitivity(A, x, uplo="upper", trans=False, diag="nonunit"):
    return trsm_sensitivity(1, A, x[..., :, None], "left", uplo, trans, diag)[..., 0]


def trsm_sensitivity(alpha, A, B, side="left", uplo="upper", trans=False, diag="nonunit"):
    """|op(A)^-1| |op(A)| |X|: what a relative error in every operation of a solve can do to X."""
    t = op(triangle(A, uplo, diag), trans)
    amplified = product(np.abs(np.linalg.inv(t)), np.abs(t))
    x = np.abs(trsm(alpha, A, B, side, uplo, trans, diag))
    if side == "left":
        return product(amplified, x)
    return product(x, product(np.abs(t), np.abs(np.linalg.inv(t))))
