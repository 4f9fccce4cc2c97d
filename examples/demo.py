"""The demo of ``make demo``: three kernels, one mistake and a quantum chemistry calculation.

The kernels of ``tensor_add.py``, ``softmax.py`` and ``matmul_six_stages.py`` run on the simulator
at sizes that are no multiple of a tile. Their results are compared with NumPy in float64, against
a bound that follows from the number formats. Then a kernel with a common mistake is checked. Last,
the correlation energy of ``df_mp2.py`` is computed twice: on torch, and with every product on the
kernels of trnblas and trntensor.
"""

import ml_dtypes
import numpy as np
from df_mp2 import batched_pair_energy, defined_energy, df_mp2_energy, synthetic
from matmul_six_stages import matmul_tiled
from softmax import softmax
from softmax_reference import softmax as softmax_by_definition
from tensor_add import tensor_add

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl
import trnblas
import trntensor
from trnsci.core.counters import counts

# Largest relative error of one rounding.
FLOAT32, BFLOAT16 = 2.0**-24, 2.0**-8

COLS = 512


@nki.jit
def row_sums(x):
    """Return the sums of the rows of ``x``, with a mistake: the last tile is not full."""
    rows, cols = x.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for c in range(0, cols, COLS):
        f = min(COLS, cols - c)
        tile = nl.ndarray((rows, COLS), dtype=x.dtype, buffer=nl.sbuf)
        part = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[0:rows, 0:f], src=x[0:rows, c : c + f])
        nisa.tensor_reduce(dst=part, op=nl.add, data=tile, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    rows = [("kernel", "shapes", "dtype", "max |error|", "bound", "findings")]

    a = rng.standard_normal((300, 2500), dtype=np.float32)
    b = rng.standard_normal((300, 2500), dtype=np.float32)
    exact = a.astype(np.float64) + b
    # The sum is rounded once.
    rows.append(measure(tensor_add, (a, b), exact, FLOAT32 * np.abs(exact)))

    x = 4.0 * rng.standard_normal((200, 3000), dtype=np.float32)
    wide = x.astype(np.float64)
    exact = softmax_by_definition(wide)
    # One rounding for each of the 3000 terms of a sum, one of a size relative to the exponent
    # before each exponential, four for an exponential, and a dozen for the rest.
    steps = 3000 + 2 * np.ptp(wide) + 4 * 3 + 12
    rows.append(measure(softmax, (x,), exact, steps * FLOAT32 * exact))

    a = rng.standard_normal((600, 300)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((600, 700)).astype(ml_dtypes.bfloat16)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = wide_a.T @ wide_b
    # Products are exact in float32, their 600 sums are rounded, the result once more to bfloat16.
    bound = BFLOAT16 * np.abs(exact) + 601 * FLOAT32 * (np.abs(wide_a).T @ np.abs(wide_b))
    rows.append(measure(matmul_tiled, (a, b), exact, bound))

    print_table(rows)

    print("\nA kernel that loads 188 columns into a tile of 512 and sums all of them:\n")
    x = rng.standard_normal((128, 700), dtype=np.float32)
    print(nki.check(row_sums)(x))

    print("\nDF-MP2 energy of 24 basis functions, 5 of them occupied, in float32:\n")
    print_table(energies(synthetic(24, 5, 72)))


def energies(inputs):
    """Return a table of one energy, computed on torch and on the simulator."""
    exact = defined_energy(inputs)
    rows = [("path", "correlation energy", "relative error", "kernels launched")]
    found = []
    for backend in ("pytorch", "simulator"):
        before = counts()
        with trnblas.backend(backend), trntensor.backend(backend):
            found.append(df_mp2_energy(*inputs, energy_step=batched_pair_energy))
        since = counts() - before
        if since.fallbacks or bool(since.launches) != (backend == "simulator"):
            raise SystemExit(f"{backend}: ran {dict(since.launches)}, fell back {since.fallbacks}")
        launched = ", ".join(f"{n} {name}" for name, n in since.launches.items()) or "none"
        error = abs(found[-1] / exact - 1)
        # Five sums of 24, 24, 72, 72 and 9025 terms, the last over squares of the one before.
        if error > 2 * (24 + 24 + 72 + 72) * FLOAT32 + 9025 * FLOAT32:
            raise SystemExit(f"{backend}: a relative error of {error:.1e} exceeds its bound")
        rows.append((backend, f"{found[-1]:.9e}", f"{error:.1e}", launched))
    rows.append(("difference", f"{found[1] - found[0]:.1e}", "", ""))
    return rows


def measure(kernel, arguments, exact, bound):
    """Return a row of the table: the maximum error of a kernel's result."""
    run = nki.simulate(kernel)
    out = run(*arguments).astype(np.float64)
    error = np.abs(out - exact)
    if not (error <= bound).all():
        raise SystemExit(f"{kernel.__name__}: the error exceeds its bound")
    worst = np.unravel_index(error.argmax(), error.shape)
    shapes = " ".join("x".join(map(str, x.shape)) for x in arguments)
    found = str(len(run.report.findings))
    dtype = str(arguments[0].dtype)
    return kernel.__name__, shapes, dtype, f"{error[worst]:.1e}", f"{bound[worst]:.1e}", found


def print_table(rows) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows.insert(1, tuple("-" * width for width in widths))
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
