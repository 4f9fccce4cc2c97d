"""QR factors of one small matrix in CUDA C, with a positive diagonal: by Gram matrices if these do.

Two Cholesky factorizations of Gram matrices take far fewer steps, one after the other, than
reflections. They lose the square of the condition number, so the first one is asked for a bound of
it; where columns may be too near to dependent, they are reflected, in the same launch.

With ``A^T A = L L^T`` and ``X = L^-1`` the columns of Q are ``A X^T``, and R is ``L^T``.
"""

from __future__ import annotations

from trnsolver._cuda_qr import REFLECTIONS
from trnsolver._small_qr import CERTAIN, SHORT

__all__ = ["MOST_COLUMNS", "POSITIVE_QR"]

MOST_COLUMNS = 32
"""Columns up to which a warp factors a Gram matrix, a row for each of its lanes."""

POSITIVE_QR = (
    REFLECTIONS
    + f"""
#define MOST_COLUMNS {MOST_COLUMNS}
#define SHORT {SHORT}
#define CERTAIN {CERTAIN}
"""
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

// Cholesky's factor in place of g, and its inverse to x, by one warp. What is not definite
// becomes NaN, in the inverse too.
__device__ void factor(REAL* g, REAL* x, int n, int pitch) {
    int lane = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        REAL s = 0;
        if (lane >= k && lane < n) {
            s = g[lane * pitch + k];
            #pragma unroll 4
            for (int j = 0; j < k; ++j) s -= g[lane * pitch + j] * g[k * pitch + j];
        }
        REAL corner = sqrt(__shfl_sync(0xffffffffu, s, k));
        if (lane >= k && lane < n) g[lane * pitch + k] = lane == k ? corner : s / corner;
        __syncwarp();
    }
    if (lane < n)
        for (int i = lane; i < n; ++i) {
            REAL s = i == lane;
            #pragma unroll 4
            for (int j = lane; j < i; ++j) s -= g[i * pitch + j] * x[j * pitch + lane];
            x[i * pitch + lane] = s / g[i * pitch + i];
        }
    __syncwarp();
}

// The sum of the squares of a lower triangle, for all lanes of a warp.
__device__ REAL squares(const REAL* x, int n, int pitch) {
    REAL sum = 0;
    for (int i = threadIdx.x; i < n; i += 32)
        for (int j = 0; j <= i; ++j) sum += x[i * pitch + j] * x[i * pitch + j];
    return warp_sum(sum);
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
        if (threadIdx.x < 32) {
            factor(first, inverse, n, pitch);
            // The squared norms bound the square of the condition number. NaN is below nothing.
            REAL size = squares(first, n, pitch), of_inverse = squares(inverse, n, pitch);
            REAL lost = (m + n) * (REAL)EPS * size * of_inverse;
            if (threadIdx.x == 0) *room = size > (REAL)LEAST && lost < (REAL)CERTAIN;
        }
        __syncthreads();
    }
    if (!begins || !*room) {
        reflect(b, m, n, row, scale, first, left, triangle, ends);
        return;
    }
    apply(b, m, n, row, inverse, pitch);
    find_gram(b, m, n, row, second, pitch);
    if (threadIdx.x < 32) factor(second, inverse, n, pitch);
    __syncthreads();
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
