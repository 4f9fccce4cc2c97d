"""Jacobi's method for small matrices in CUDA C++, one thread block for each matrix.

The matrix and its vectors stay in shared memory for all rotations, so a batch is one launch that
reads each matrix once and writes its results once. In a round every index is in one pair; the pairs
are a function of the round number, and no data are moved.

Rotations are applied as x - s (y + r x) and y + s (x - r y) with r = s / (1 + c): the updates of x
and y, and their rounding errors, are small for small angles. Cosines rounded to the working
precision would add an error of one unit in every one of a thousand rounds.

Macros: ``REAL`` is the type, ``EPS`` its precision, ``LEAST`` a value negligible compared with 1,
``TINY`` its smallest normal number. A matrix that did not converge, or has a NaN or an infinity,
sets ``troubled``. If ``sweeps`` is not null, it receives the number of sweeps.
"""

COMMON = """
// Fast versions, accurate to a few units in the last place.
__device__ float quick_quotient(float a, float b) { return __fdividef(a, b); }
__device__ double quick_quotient(double a, double b) { return a / b; }
__device__ float quick_rsqrt(float x) { return rsqrtf(x); }
__device__ double quick_rsqrt(double x) { return rsqrt(x); }

// The pair of players i of round r, of an even number of players.
__device__ void players(int i, int r, int count, int* p, int* q) {
    int last = count - 1, a = r + i, b = r - i;
    *p = i == 0 ? last : a < last ? a : a - last;
    *q = b < 0 ? b + last : b;
}

// Tangent, sine and s / (1 + c) of the rotation that eliminates f / 2, where e is the difference of
// the diagonal. One Newton step for f t^2 + 2 e t = f, and one for c, leave only rounding errors.
__device__ void rotation(REAL e, REAL f, REAL least, REAL* t, REAL* s, REAL* r) {
    *t = *s = *r = 0;
    if (!(fabs(f) > least)) return;
    REAL size = e * e + f * f, over = quick_rsqrt(size), far = fabs(e);
    REAL x = quick_quotient(f, far + size * over);
    x -= (REAL)0.5 * over * fma(x, fma(f, x, 2 * far), -f);
    *t = e < 0 ? -x : x;
    REAL c = quick_rsqrt(1 + x * x);
    c *= (REAL)1.5 - (REAL)0.5 * (1 + x * x) * c * c;
    *s = *t * c;
    *r = quick_quotient(*s, 1 + c);
}

__device__ void rotate(REAL* x, REAL* y, REAL s, REAL r) {
    REAL a = *x, b = *y;
    *x = a - s * (b + r * a);
    *y = b + s * (a - r * b);
}

// The maximum over all threads, or NaN, returned to all; scratch has one value for each thread.
__device__ REAL largest(REAL mine, REAL* scratch) {
    scratch[threadIdx.x] = mine;
    __syncthreads();
    for (int k = blockDim.x / 2; k; k /= 2) {
        REAL other = threadIdx.x < k ? scratch[threadIdx.x + k] : mine;
        if (mine == mine && !(other <= mine)) mine = other;
        if (threadIdx.x < k) scratch[threadIdx.x] = mine;
        __syncthreads();
    }
    REAL all = scratch[0];
    __syncthreads();
    return all;
}

__device__ REAL warp_sum(REAL x) {
    for (int k = 16; k; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

// The sum over all threads, returned to all; scratch has one value for each warp.
__device__ REAL sum_of_all(REAL mine, REAL* scratch) {
    int warps = blockDim.x / 32;
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mine;
    __syncthreads();
    REAL all = 0;
    for (int k = 0; k < warps; ++k) all += scratch[k];
    __syncthreads();
    return all;
}

// Loads the columns of an m x n matrix to rows of shared memory with pitch `row`; returns the
// largest magnitude, or NaN. Four loads are issued before the first store, to hide latency.
__device__ REAL load_columns(const REAL* a, int m, int n, REAL* b, int row, REAL* scratch) {
    REAL size = 0;
    for (int first = threadIdx.x; first < m * n; first += 4 * blockDim.x) {
        REAL x[4];
        for (int k = 0; k < 4; ++k) {
            int l = first + k * blockDim.x;
            x[k] = l < m * n ? a[l] : 0;
        }
        for (int k = 0; k < 4; ++k) {
            int l = first + k * blockDim.x;
            if (l < m * n) b[l % n * row + l / n] = x[k];
            if (size == size && !(fabs(x[k]) <= size)) size = fabs(x[k]);
        }
    }
    return largest(size, scratch);
}

// The power of two below a magnitude, 1 for zero; NaN and infinity are returned unchanged.
__device__ REAL power_below(REAL size) {
    int exponent;
    if (!(size > 0) || isinf(size)) return size == 0 ? 1 : size;
    frexp(size, &exponent);
    return ldexp((REAL)1, exponent - 1);
}
"""

PAIRS = (
    COMMON
    + """
// Loads a symmetric matrix, of which the lower triangle is read, divided by a power of two, which
// is returned, and the identity. Odd orders are padded by a row and a column of zeros. Values up to
// small are rounding errors of the matrix.
__device__ REAL load_symmetric(
    const REAL* a, int n, REAL* d, int row, REAL* v, int pitch, REAL* scratch, REAL* small) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int count = n + n % 2;
    REAL size = 0, sum = 0;
    for (int i = warp; i < count; i += warps)
        for (int j = lane; j < count; j += 32) {
            REAL x = i < n && j < n ? (i > j ? a[i * n + j] : a[j * n + i]) : 0;
            d[i * row + j] = x;
            if (j < n) v[i * pitch + j] = i == j;
            if (size == size && !(fabs(x) <= size)) size = fabs(x);   // NaN is kept
        }
    REAL scale = power_below(largest(size, scratch));
    for (int i = warp; i < n; i += warps)
        for (int j = lane; j < n; j += 32) {
            REAL x = d[i * row + j] / scale;
            d[i * row + j] = x;
            sum += x * x;
        }
    *small = 4 * (REAL)EPS * sqrt(sum_of_all(sum, scratch) / n);
    return scale;
}

// Stores values and vectors in ascending order, by counting the smaller values; the position of
// NaN is arbitrary.
__device__ void store_pairs(
    const REAL* diagonal, int step, const REAL* v, int pitch, int n, REAL scale, int* place,
    REAL* values, REAL* vectors) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        REAL x = diagonal[i * step];
        int rank = 0;
        for (int j = 0; j < n; ++j) {
            REAL y = diagonal[j * step];
            rank += y < x || (y == x && j < i);
        }
        place[i] = scale == scale && !isinf(scale) ? rank : i;
        values[place[i]] = x * scale;
    }
    __syncthreads();
    for (int l = warp; l < n; l += warps)
        for (int i = lane; i < n; i += 32)
            vectors[l * n + place[i]] = v[i * pitch + l] * (scale / scale);
}
"""
)

EIGH = (
    PAIRS
    + """
extern "C" __global__ void jacobi_eigh(
    const REAL* matrices, REAL* values, REAL* vectors, int* troubled, int* sweeps, int n, int most)
{
    extern __shared__ double memory[];
    int count = n + n % 2, half = count / 2, row = count + 1;
    REAL* d = (REAL*)memory;        // count rows; the last is zero for odd orders
    REAL* v = d + count * row;      // an eigenvector in each of count rows
    REAL* sine = v + count * n;     // of each pair
    REAL* ratio = sine + half;
    REAL* scratch = ratio + half;
    int* p = (int*)(scratch + blockDim.x);
    int* q = p + half;
    int* going = q + half;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

    REAL small;
    REAL scale = load_symmetric(
        matrices + (long long)blockIdx.x * n * n, n, d, row, v, n, scratch, &small);
    int sweep = 0, on = scale == scale && !isinf(scale);
    while (on && sweep < most) {
        if (threadIdx.x == 0) *going = 0;
        __syncthreads();
        for (int round = 0; round < count - 1; ++round) {
            for (int i = threadIdx.x; i < half; i += blockDim.x) {
                int x, y;
                players(i, round, count, &x, &y);
                REAL t, f = d[x * row + y];
                // Rounding errors are set to zero without a rotation: between equal eigenvalues
                // the angles would be large and the iteration would not end.
                int rotates = fabs(f) > small;
                if (rotates) *going = 1;
                REAL e = d[y * row + y] - d[x * row + x];
                rotation(e, rotates ? 2 * f : 0, (REAL)LEAST, &t, sine + i, ratio + i);
                d[x * row + x] -= t * f;
                d[y * row + y] += t * f;
                d[x * row + y] = d[y * row + x] = 0;
                p[i] = x;
                q[i] = y;
            }
            __syncthreads();
            // A warp takes two rows of pairs, whose parts right of the diagonal form one row.
            for (int k = warp; k < (half + 1) / 2; k += warps) {
                int other = half - 1 - k, first = half - 1 - k;
                for (int l = lane; l < first + (other > k ? k : 0); l += 32) {
                    int i = l < first ? k : other;
                    int j = l < first ? k + 1 + l : other + 1 + l - first;
                    REAL* xx = d + p[i] * row + p[j];
                    REAL* xy = d + p[i] * row + q[j];
                    REAL* yx = d + q[i] * row + p[j];
                    REAL* yy = d + q[i] * row + q[j];
                    REAL a00 = *xx, a01 = *xy, a10 = *yx, a11 = *yy;
                    REAL si = sine[i], ri = ratio[i], sj = sine[j], rj = ratio[j];
                    rotate(&a00, &a10, si, ri);
                    rotate(&a01, &a11, si, ri);
                    rotate(&a00, &a01, sj, rj);
                    rotate(&a10, &a11, sj, rj);
                    *xx = d[p[j] * row + p[i]] = a00;
                    *xy = d[q[j] * row + p[i]] = a01;
                    *yx = d[p[j] * row + q[i]] = a10;
                    *yy = d[q[j] * row + q[i]] = a11;
                }
            }
            for (int i = warp; i < half; i += warps) {
                REAL s = sine[i], r = ratio[i];
                if (s == 0) continue;
                REAL* x = v + p[i] * n;
                REAL* y = v + q[i] * n;
                for (int l = lane; l < n; l += 32) rotate(x + l, y + l, s, r);
            }
            __syncthreads();
        }
        ++sweep;
        on = *going;
        __syncthreads();
    }
    if (threadIdx.x == 0 && (on || !sweep)) *troubled = 1;
    if (threadIdx.x == 0 && sweeps) sweeps[blockIdx.x] = on ? most + 1 : sweep;
    store_pairs(
        d, row + 1, v, n, n, scale, p,
        values + (long long)blockIdx.x * n, vectors + (long long)blockIdx.x * n * n);
}
"""
)

SVD = (
    COMMON
    + """
extern "C" __global__ void jacobi_svd(
    const REAL* matrices, REAL* left, REAL* values, REAL* right, int* troubled, int* sweeps,
    int m, int n, int most) {
    extern __shared__ double memory[];
    int count = n + n % 2, half = count / 2;
    REAL* b = (REAL*)memory;      // the columns of A, in a row each
    REAL* v = b + n * m;          // right singular vectors, in a row each
    REAL* norm = v + n * n;
    REAL* scratch = norm + n;
    int* place = (int*)(scratch + blockDim.x);
    int* going = place + n;
    const REAL* a = matrices + (long long)blockIdx.x * m * n;
    left += (long long)blockIdx.x * m * n;
    values += (long long)blockIdx.x * n;
    right += (long long)blockIdx.x * n * n;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

    for (int i = threadIdx.x; i < n * n; i += blockDim.x) v[i] = i / n == i % n;
    REAL scale = power_below(load_columns(a, m, n, b, m, scratch));
    for (int i = threadIdx.x; i < n * m; i += blockDim.x) b[i] /= scale;
    int sweep = 0, on = scale == scale && !isinf(scale);
    __syncthreads();
    while (on && sweep < most) {
        if (threadIdx.x == 0) *going = 0;
        __syncthreads();
        for (int round = 0; round < count - 1; ++round) {
            for (int i = warp; i < half; i += warps) {
                int p, q;
                players(i, round, count, &p, &q);
                if (p >= n || q >= n) continue;
                REAL* x = b + p * m;
                REAL* y = b + q * m;
                REAL xx = 0, yy = 0, xy = 0;
                for (int l = lane; l < m; l += 32) {
                    xx += x[l] * x[l];
                    yy += y[l] * y[l];
                    xy += x[l] * y[l];
                }
                xx = warp_sum(xx);
                yy = warp_sum(yy);
                xy = warp_sum(xy);
                // Orthogonal to rounding, independent of their lengths.
                REAL limit = (REAL)EPS * (xx * quick_rsqrt(xx)) * (yy * quick_rsqrt(yy));
                if (!(fabs(xy) > limit)) continue;   // for a zero column the limit is NaN
                if (lane == 0 && fabs(xy) > m * limit) *going = 1;
                // Angles depend only on quotients: short columns are scaled to length 1.
                REAL unit = xx > yy ? xx : yy, t, s, r;
                rotation((yy - xx) / unit, 2 * xy / unit, 0, &t, &s, &r);
                for (int l = lane; l < m; l += 32) rotate(x + l, y + l, s, r);
                for (int l = lane; l < n; l += 32) rotate(v + p * n + l, v + q * n + l, s, r);
            }
            __syncthreads();
        }
        ++sweep;
        on = *going;
        __syncthreads();
    }
    if (threadIdx.x == 0 && (on || !sweep)) *troubled = 1;
    if (threadIdx.x == 0 && sweeps) sweeps[blockIdx.x] = on ? most + 1 : sweep;
    for (int i = warp; i < n; i += warps) {
        REAL sum = 0;
        for (int l = lane; l < m; l += 32) sum += b[i * m + l] * b[i * m + l];
        sum = sqrt(warp_sum(sum));
        if (lane == 0) norm[i] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int rank = 0;
        for (int j = 0; j < n; ++j) rank += norm[j] > norm[i] || (norm[j] == norm[i] && j < i);
        place[i] = scale == scale && !isinf(scale) ? rank : i;
        values[place[i]] = norm[i] * scale;
        if (!(norm[i] * scale > (REAL)TINY)) *troubled = 1;   // no left vector
    }
    __syncthreads();
    for (int l = warp; l < m; l += warps)
        for (int i = lane; i < n; i += 32) left[l * n + place[i]] = b[i * m + l] / norm[i];
    for (int i = warp; i < n; i += warps)
        for (int l = lane; l < n; l += 32)
            right[place[i] * n + l] = v[i * n + l] * (scale / scale);
}
"""
)
