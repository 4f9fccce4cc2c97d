"""Scans along the rows of a matrix: a linear recurrence, and the running sum as a case of it.

``tensor_tensor_scan`` computes ``h[t] = (data0[t] op0 h[t-1]) op1 data1[t]`` along the free axis,
one row in each partition. A row longer than a tile is split: the last column of a tile's result is
the ``initial`` state of the next tile. The state is float32 for every input dtype; only the
stored copy is rounded.
"""

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

ROWS, STEPS = 128, 1024


@nki.jit
def linear_recurrence(a, b):
    """Return ``h`` with ``h[:, t] = a[:, t] * h[:, t - 1] + b[:, t]``, from ``h = 0``."""
    rows, steps = a.shape
    out = nl.ndarray((rows, steps), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        p = min(ROWS, rows - r)
        state = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=state, value=0.0)
        for t in range(0, steps, STEPS):
            f = min(STEPS, steps - t)
            at = nl.ndarray((p, f), dtype=a.dtype, buffer=nl.sbuf)
            bt = nl.ndarray((p, f), dtype=b.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=at, src=a[r : r + p, t : t + f])
            nisa.dma_copy(dst=bt, src=b[r : r + p, t : t + f])
            scan_tile(out[r : r + p, t : t + f], at, bt, state)
    return out


@nki.jit
def running_sum(x):
    """Return the sums of ``x`` along its rows up to each column: the recurrence with factor 1."""
    rows, steps = x.shape
    out = nl.ndarray((rows, steps), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        p = min(ROWS, rows - r)
        state = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=state, value=0.0)
        for t in range(0, steps, STEPS):
            f = min(STEPS, steps - t)
            ones = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
            xt = nl.ndarray((p, f), dtype=x.dtype, buffer=nl.sbuf)
            nisa.memset(dst=ones, value=1.0)
            nisa.dma_copy(dst=xt, src=x[r : r + p, t : t + f])
            scan_tile(out[r : r + p, t : t + f], ones, xt, state)
    return out


def scan_tile(out, at, bt, state):
    """Write the recurrence over one tile to ``out`` in HBM and its last column to ``state``."""
    p, f = at.shape
    ht = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(dst=ht, data0=at, data1=bt, initial=state, op0=nl.multiply, op1=nl.add)
    nisa.tensor_copy(dst=state, src=ht[0:p, f - 1 : f])
    rounded = nl.ndarray((p, f), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rounded, src=ht)
    nisa.dma_copy(dst=out, src=rounded)


def main() -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(0.5, 1.0, (150, 2500)).astype(np.float32)
    b = rng.standard_normal((150, 2500), dtype=np.float32)

    run = nki.simulate(linear_recurrence)
    out = run(a, b)
    exact = np.zeros((150, 2501))
    for t in range(2500):
        exact[:, t + 1] = a[:, t] * exact[:, t] + b[:, t]
    error = np.abs(out - exact[:, 1:]).max()
    report = run.report.summary()
    print(f"linear_recurrence  {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")

    run = nki.simulate(running_sum)
    out = run(b)
    error = np.abs(out - np.cumsum(b, axis=1, dtype=np.float64)).max()
    report = run.report.summary()
    print(f"running_sum        {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")


if __name__ == "__main__":
    main()
