"""Add two matrices: the smallest complete kernel, with tiles at ragged edges.

Every kernel has the same three steps. Data is loaded from HBM into SBUF tiles of at most 128
partitions, an engine computes from tile to tile, and the result is stored to HBM. A smaller tile
at the edge is allocated, loaded, added and stored at its own size.

On a Trainium host the three imports are ``import nki``, ``import nki.isa as nisa`` and
``import nki.language as nl``; with ``nkisim run`` they also work here.
"""

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

ROWS, COLS = 128, 2048


@nki.jit
def tensor_add(a, b):
    """Return ``a + b`` for two matrices of one shape."""
    rows, cols = a.shape
    out = nl.ndarray((rows, cols), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        for c in range(0, cols, COLS):
            p, f = min(ROWS, rows - r), min(COLS, cols - c)
            at = nl.ndarray((p, f), dtype=a.dtype, buffer=nl.sbuf)
            bt = nl.ndarray((p, f), dtype=b.dtype, buffer=nl.sbuf)
            ct = nl.ndarray((p, f), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=at, src=a[r : r + p, c : c + f])
            nisa.dma_copy(dst=bt, src=b[r : r + p, c : c + f])
            nisa.tensor_tensor(dst=ct, data1=at, data2=bt, op=nl.add)
            nisa.dma_copy(dst=out[r : r + p, c : c + f], src=ct)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((300, 2500), dtype=np.float32)
    b = rng.standard_normal((300, 2500), dtype=np.float32)

    run = nki.simulate(tensor_add)
    out = run(a, b)

    error = np.abs(out - (a.astype(np.float64) + b)).max()
    print(f"tensor_add  {out.shape} {out.dtype}  max |error| {error:.1e}  {run.report.summary()}")


if __name__ == "__main__":
    main()
