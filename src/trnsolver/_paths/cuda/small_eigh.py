"""Jacobi's method for matrices of at most 64 rows in CUDA C++, with one barrier per round.

Rounds of small matrices are so short that barriers would take most of the time. So every warp
computes all angles of a round redundantly, one pair in each lane. The matrix is double-buffered: a
round reads one copy and writes the other. A thread rotates the same two pairs in every round, so
a block has a thread for every two pairs; a warp rotates some of the vectors. Finally the vectors
are reorthogonalised.
"""

from trnsolver._paths.cuda.jacobi import PAIRS

MOST_ROWS = 64
"""Largest order for which a warp has a lane for each pair."""

SMALL_EIGH = (
    PAIRS
    + """
// Writes the rows of v after one Newton-Schulz step, which restores the orthogonality lost in
// hundreds of rotations, to d. The diagonal of d is first copied to scratch.
__device__ void make_orthogonal(
    REAL* d, int row, const REAL* v, int n, REAL* factor, REAL* scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int i = threadIdx.x; i < n; i += blockDim.x) scratch[i] = d[i * (row + 1)];
    for (int i = warp; i < n; i += warps)
        for (int j = lane; j < n; j += 32) {
            REAL sum = 0;
            for (int l = 0; l < n; ++l) sum += v[i * row + l] * v[j * row + l];
            factor[i * row + j] = (i == j ? (REAL)1.5 : 0) - (REAL)0.5 * sum;
        }
    __syncthreads();
    for (int i = warp; i < n; i += warps)
        for (int l = lane; l < n; l += 32) {
            REAL sum = 0;
            for (int j = 0; j < n; ++j) sum += factor[i * row + j] * v[j * row + l];
            d[i * row + l] = sum;
        }
    __syncthreads();
}

extern "C" __global__ void small_eigh(
    const REAL* matrices, REAL* values, REAL* vectors, int* troubled, int* sweeps, int n, int most)
{
    extern __shared__ double memory[];
    int count = n + n % 2, half = count / 2, row = count + 1;
    REAL* d = (REAL*)memory;
    REAL* next = d + count * row;
    REAL* v = next + count * row;     // an eigenvector in each row
    REAL* scratch = v + count * row;
    int* place = (int*)(scratch + blockDim.x);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const unsigned all = 0xffffffffu;

    REAL small;
    REAL scale = load_symmetric(
        matrices + (long long)blockIdx.x * n * n, n, d, row, v, row, scratch, &small);
    int i = 0, j = threadIdx.x;       // the two pairs of this thread, j <= i
    while (j > i) j -= ++i;
    int mine = i < half;
    if (!mine) i = j = 0;
    __syncthreads();
    int sweep = 0, on = scale == scale && !isinf(scale);
    while (on && sweep < most) {
        on = 0;
        for (int round = 0; round < count - 1; ++round) {
            REAL t = 0, s = 0, r = 0, f = 0;
            int x, y, xi, yi, xj, yj;
            if (lane < half) {
                players(lane, round, count, &x, &y);
                f = d[x * row + y];
                // Rounding errors are set to zero without a rotation: between equal eigenvalues
                // the angles would be large and the iteration would not end.
                int rotates = fabs(f) > small;
                on |= rotates;
                rotation(
                    d[y * row + y] - d[x * row + x], rotates ? 2 * f : 0, (REAL)LEAST, &t, &s, &r);
            }
            REAL si = __shfl_sync(all, s, i), ri = __shfl_sync(all, r, i);
            REAL sj = __shfl_sync(all, s, j), rj = __shfl_sync(all, r, j);
            REAL moved = __shfl_sync(all, t * f, i);
            players(i, round, count, &xi, &yi);
            players(j, round, count, &xj, &yj);
            if (mine && i == j) {
                next[xi * row + xi] = d[xi * row + xi] - moved;
                next[yi * row + yi] = d[yi * row + yi] + moved;
                next[xi * row + yi] = next[yi * row + xi] = 0;
            } else if (mine) {
                REAL a00 = d[xi * row + xj], a01 = d[xi * row + yj];
                REAL a10 = d[yi * row + xj], a11 = d[yi * row + yj];
                rotate(&a00, &a10, si, ri);
                rotate(&a01, &a11, si, ri);
                rotate(&a00, &a01, sj, rj);
                rotate(&a10, &a11, sj, rj);
                next[xi * row + xj] = next[xj * row + xi] = a00;
                next[xi * row + yj] = next[yj * row + xi] = a01;
                next[yi * row + xj] = next[xj * row + yi] = a10;
                next[yi * row + yj] = next[yj * row + yi] = a11;
            }
            for (int k = warp; k < half; k += warps) {
                REAL sk = __shfl_sync(all, s, k), rk = __shfl_sync(all, r, k);
                players(k, round, count, &x, &y);
                for (int l = lane; l < n && sk != 0; l += 32)
                    rotate(v + x * row + l, v + y * row + l, sk, rk);
            }
            __syncthreads();
            REAL* read = d;
            d = next;
            next = read;
        }
        ++sweep;
        on = __any_sync(all, on);
    }
    if (threadIdx.x == 0 && (on || !sweep)) *troubled = 1;
    if (threadIdx.x == 0 && sweeps) sweeps[blockIdx.x] = on ? most + 1 : sweep;
    make_orthogonal(d, row, v, n, next, scratch);
    store_pairs(
        scratch, 1, d, row, n, scale, place,
        values + (long long)blockIdx.x * n, vectors + (long long)blockIdx.x * n * n);
}
"""
)
