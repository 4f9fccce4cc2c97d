"""Householder QR of small matrices in CUDA C++, one thread block for each matrix.

The transposed matrix stays in shared memory until Q is complete. Every warp computes each
reflection redundantly, which avoids a barrier, and then applies it to its own columns. Reflections
are stored in place of the columns they eliminate, with two scalars each. Signs are LAPACK's,
opposite to those of the columns.

``REAL`` and ``LEAST`` are as in ``jacobi``.
"""

from trnsolver._paths.cuda.jacobi import COMMON

QR = (
    COMMON
    + """
__device__ REAL warp_largest(REAL x) {
    for (int k = 16; k; k /= 2) {
        REAL other = __shfl_xor_sync(0xffffffffu, x, k);
        if (x == x && !(other <= x)) x = other;   // NaN is kept
    }
    return x;
}

// Loads the columns of an m x n matrix to b like load_columns; returns the divisor.
// Values of usual magnitude are not scaled; others are scaled by a power of two.
__device__ REAL load_scaled(const REAL* a, int m, int n, REAL* b, int row, REAL* scratch) {
    REAL size = load_columns(a, m, n, b, row, scratch);
    REAL scale = size > (REAL)1e-10 && size < (REAL)1e10 ? 1 : power_below(size);
    if (scale != 1)
        for (int i = threadIdx.x; i < n * row; i += blockDim.x)
            if (i % row < m) b[i] /= scale;
    __syncthreads();
    return scale;
}

extern "C" __global__ void householder_qr(
    const REAL* matrices, REAL* lefts, REAL* triangles, int m, int n) {
    extern __shared__ double memory[];
    int least = m < n ? m : n, row = m | 1;   // an odd pitch avoids bank conflicts
    REAL* b = (REAL*)memory;                  // the columns of A, in a row each
    REAL* tau = b + n * row + blockDim.x;     // a reflection is 1 - tau v v^T with v = x * shrink
    REAL* shrink = tau + least;               // below its 1
    REAL* corner = shrink + least;            // the diagonal of R
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    lefts += (long long)blockIdx.x * m * least;
    triangles += (long long)blockIdx.x * least * n;
    REAL scale = load_scaled(
        matrices + (long long)blockIdx.x * m * n, m, n, b, row, b + n * row);

    for (int k = 0; k < least; ++k) {
        const REAL* __restrict__ x = b + k * row;
        REAL alpha = x[k], beta = alpha, t = 0, s = 0, below = 0;
        #pragma unroll 4
        for (int i = (k & ~31) + lane; i < m; i += 32)
            if (i > k) below += x[i] * x[i];
        below = warp_sum(below);
        if (below > (REAL)LEAST && !isinf(below)) {
            beta = sqrt(below + alpha * alpha);
            if (alpha >= 0) beta = -beta;
        } else {   // squares may underflow or overflow: scale by the magnitude of the column
            REAL most = 0;
            for (int i = (k & ~31) + lane; i < m; i += 32)
                if (i > k && most == most && !(fabs(x[i]) <= most)) most = fabs(x[i]);
            most = warp_largest(most);
            if (!(most < (REAL)LEAST * (REAL)LEAST)) {
                if (!(most >= fabs(alpha))) most = fabs(alpha);
                REAL unit = 1 / power_below(most), sum = 0;
                for (int i = (k & ~31) + lane; i < m; i += 32)
                    if (i >= k) sum += (x[i] * unit) * (x[i] * unit);
                beta = sqrt(warp_sum(sum)) / unit;
                if (alpha >= 0) beta = -beta;
            }
        }
        if (beta != alpha) {
            t = (beta - alpha) / beta;
            s = 1 / (alpha - beta);
        }
        if (threadIdx.x == 0) {
            tau[k] = t;
            shrink[k] = s;
            corner[k] = beta;
        }
        for (int j = k + 1 + warp; j < n && t != 0; j += warps) {
            REAL* __restrict__ c = b + j * row;
            REAL dot = 0;
            #pragma unroll 4
            for (int i = (k & ~31) + lane; i < m; i += 32)
                if (i >= k) dot += (i == k ? 1 : x[i] * s) * c[i];
            dot = t * warp_sum(dot);
            #pragma unroll 4
            for (int i = (k & ~31) + lane; i < m; i += 32)
                if (i >= k) c[i] -= dot * (i == k ? 1 : x[i] * s);
        }
        __syncthreads();
    }

    for (int i = warp; i < least; i += warps)
        for (int j = lane; j < n; j += 32)
            triangles[i * n + j] = i < j ? b[j * row + i] * scale : i == j ? corner[i] * scale : 0;
    __syncthreads();

    // Column j of Q starts as its reflection of the unit vector; earlier reflections follow.
    for (int k = least - 1; k >= -1; --k) {
        const REAL* __restrict__ x = b + k * row;
        REAL t = k < 0 ? 0 : tau[k], s = k < 0 ? 0 : shrink[k];
        for (int j = k + 1 + warp; j < (k < 0 ? 1 : least); j += warps) {
            REAL* __restrict__ c = b + j * row;
            REAL dot = 0;
            #pragma unroll 4
            for (int i = lane; i < m; i += 32) {
                if (j == k + 1 && i >= j) c[i] = i == j ? 1 - tau[j] : -tau[j] * (c[i] * shrink[j]);
                if (k >= 0 && i > k) dot += (x[i] * s) * c[i];
            }
            dot = t * warp_sum(dot);
            if (k < 0) continue;
            #pragma unroll 4
            for (int i = lane; i < m; i += 32)
                if (i >= k) c[i] = i == k ? 0 - dot : c[i] - dot * (x[i] * s);
        }
        __syncthreads();
    }
    for (int i = warp; i < m; i += warps)
        for (int j = lane; j < least; j += 32)
            lefts[i * least + j] = b[j * row + i];
}
"""
)
