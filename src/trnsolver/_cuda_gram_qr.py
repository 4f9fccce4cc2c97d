"""QR factors of one matrix in CUDA C, with a positive diagonal: by Gram matrices where these do.

Two Cholesky factorizations of Gram matrices take far fewer steps, one after the other, than
reflections. They lose the square of the condition number, so the first one is asked for a bound of
it. A small matrix is factored in one launch, which reflects columns that may be too near to
dependent. Of a taller one torch makes the products, and only the Gram matrices are factored here.

With ``A^T A = L L^T`` and ``X = L^-1`` the columns of Q are ``A X^T``, and R is ``L^T``.
"""

from __future__ import annotations

from trnsolver._cuda_jacobi import COMMON
from trnsolver._cuda_qr import REFLECTIONS
from trnsolver._small_qr import CERTAIN, SHORT

__all__ = ["FACTOR_GRAM", "MOST_COLUMNS", "POSITIVE_QR"]

MOST_COLUMNS = 64
"""Columns up to which a Gram matrix is factored by a thread for each of its rows."""

_CHOLESKY = """
// Cholesky's factor in place of the lower triangle of g, and its inverse to x, a row for each
// thread. What is not definite becomes NaN, in the inverse too.
__device__ void factor(REAL* g, REAL* x, int n, int pitch, REAL* room) {
    int i = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        REAL s = 0;
        if (i >= k && i < n) {
            s = g[i * pitch + k];
            #pragma unroll 4
            for (int j = 0; j < k; ++j) s -= g[i * pitch + j] * g[k * pitch + j];
        }
        if (i == k) *room = sqrt(s);
        __syncthreads();
        if (i >= k && i < n) g[i * pitch + k] = i == k ? *room : s / *room;
        __syncthreads();
    }
    for (int l = i; l < n && i < n; ++l) {
        REAL s = l == i;
        #pragma unroll 4
        for (int j = i; j < l; ++j) s -= g[l * pitch + j] * x[j * pitch + i];
        x[l * pitch + i] = s / g[l * pitch + l];
    }
    __syncthreads();
}

// The sum of the squares of a lower triangle, for all threads.
__device__ REAL squares(const REAL* x, int n, int pitch, REAL* room) {
    REAL sum = 0;
    for (int j = 0; threadIdx.x < n && j <= threadIdx.x; ++j)
        sum += x[threadIdx.x * pitch + j] * x[threadIdx.x * pitch + j];
    return sum_of_all(sum, room);
}
"""

FACTOR_GRAM = (
    COMMON
    + _CHOLESKY
    + """
// The factor of a Gram matrix and its inverse, whole matrices. Trouble is a condition number far
// from that of orthogonal columns; with again, columns that are not orthogonal to a quarter.
extern "C" __global__ void factor_gram(
    const REAL* gram, REAL* lower, REAL* inverse, int* troubled, int n, int again) {
    extern __shared__ double memory[];
    int pitch = n | 1;
    REAL* g = (REAL*)memory;
    REAL* x = g + n * pitch;
    REAL* room = x + n * pitch;
    REAL off = 0;
    for (int l = threadIdx.x; l < n * n; l += blockDim.x) {
        int i = l / n, j = l % n;
        REAL y = gram[l];
        g[i * pitch + j] = y;
        x[i * pitch + j] = 0;
        off += (y - (i == j)) * (y - (i == j));
    }
    off = sum_of_all(off, room);
    factor(g, x, n, pitch, room);
    REAL size = squares(g, n, pitch, room), of_inverse = squares(x, n, pitch, room);
    int fine = again ? off < (REAL)0.0625 : size * of_inverse < (REAL)16 * n * n;
    if (threadIdx.x == 0 && !fine) *troubled = 1;
    for (int l = threadIdx.x; l < n * n; l += blockDim.x) {
        int i = l / n, j = l % n;
        lower[l] = j <= i ? g[i * pitch + j] : 0;
        inverse[l] = x[i * pitch + j];
    }
}
"""
)

POSITIVE_QR = (
    REFLECTIONS
    + f"""
#define MOST_COLUMNS {MOST_COLUMNS}
#define SHORT {SHORT}
#define CERTAIN {CERTAIN}
"""
    + _CHOLESKY
    + """
// The lower triangle of the Gram matrix of n columns, a sum for each warp.
__device__ void find_gram(const REAL* b, int m, int n, int row, REAL* g, int pitch) {
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int i = 0, j = threadIdx.x / 32;; j += warps) {
        while (j > i) j -= ++i;
        if (i >= n) break;
        const REAL *x = b + i * row, *y = b + j * row;
        REAL sum = 0;
        #pragma unroll 4
        for (int k = lane; k < m; k += 32) sum += x[k] * y[k];
        sum = warp_sum(sum);
        if (lane == 0) g[i * pitch + j] = sum;
    }
    __syncthreads();
}

// Columns of Q in place of those of A, a row for each thread, the last column first.
__device__ void apply(REAL* b, int m, int n, int row, const REAL* x, int pitch) {
    for (int i = threadIdx.x; i < m; i += blockDim.x)
        for (int j = n - 1; j >= 0; --j) {
            REAL sum = 0;
            #pragma unroll 4
            for (int k = 0; k <= j; ++k) sum += b[k * row + i] * x[j * pitch + k];
            b[j * row + i] = sum;
        }
    __syncthreads();
}

extern "C" __global__ void positive_qr(
    const REAL* matrix, REAL* left, REAL* triangle, int m, int n, double* ends) {
    extern __shared__ double memory[];
    int row = m | 1, pitch = n | 1;           // odd distances, so that no two lanes share a bank
    REAL* b = (REAL*)memory;                  // the columns of A, in a row each
    REAL* room = b + n * row;
    REAL* first = room + blockDim.x;          // the factors of the Gram matrices, and an inverse
    REAL* second = first + n * pitch;
    REAL* inverse = second + n * pitch;
    REAL scale = load_scaled(matrix, m, n, b, row, room);
    bool begins = n <= MOST_COLUMNS && m >= SHORT * n;
    if (begins) {
        find_gram(b, m, n, row, first, pitch);
        factor(first, inverse, n, pitch, room);
        // The squared norms bound the square of the condition number. NaN is below nothing.
        REAL size = squares(first, n, pitch, room), of_inverse = squares(inverse, n, pitch, room);
        begins = size > (REAL)LEAST && (m + n) * (REAL)EPS * size * of_inverse < (REAL)CERTAIN;
    }
    if (!begins) {
        reflect(b, m, n, row, scale, first, left, triangle, ends);
        return;
    }
    apply(b, m, n, row, inverse, pitch);
    find_gram(b, m, n, row, second, pitch);
    factor(second, inverse, n, pitch, room);
    apply(b, m, n, row, inverse, pitch);
    for (int l = threadIdx.x; l < m * n; l += blockDim.x) left[l] = b[l % n * row + l / n];
    for (int l = threadIdx.x; l < n * n; l += blockDim.x) {
        int i = l / n, j = l % n;
        REAL sum = 0;
        for (int k = i; k <= j; ++k) sum += second[k * pitch + i] * first[j * pitch + k];
        triangle[l] = sum * scale;
    }
    if (threadIdx.x == 0) {
        REAL low = first[0] * second[0], high = low;
        for (int k = 1; k < n; ++k) {
            REAL x = first[k * pitch + k] * second[k * pitch + k];
            if (x < low) low = x;
            if (x > high) high = x;
        }
        ends[0] = low;
        ends[1] = high;
    }
}
"""
)
