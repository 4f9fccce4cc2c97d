"""Softmax of the rows of a matrix of any width, reading it twice.

Rows are on partitions, columns stream through SBUF. The first pass computes, for every row, the
running maximum and the sum of exponentials relative to it; if a chunk has a larger value, the old
sum is rescaled. The second pass computes the exponentials again and scales them.
The Scalar engine subtracts the maximum, takes the exponential and sums it in one instruction.
"""

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

ROWS = 128


@nki.jit
def softmax(x, width=2048):
    """Return ``exp(x)`` divided by its row sums; a chunk of ``x`` has ``width`` columns."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        p = min(ROWS, rows - r)
        top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        minus_top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        for c in range(0, cols, width):
            f = min(width, cols - c)
            tile = nl.ndarray((p, f), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[r : r + p, c : c + f])
            powers = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
            if c == 0:
                nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1)
                nisa.tensor_scalar(dst=minus_top, data=top, op0=nl.multiply, operand0=-1.0)
                exp_and_sum(powers, total, tile, minus_top)
            else:
                chunk_top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
                new_top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_reduce(dst=chunk_top, op=nl.maximum, data=tile, axis=1)
                nisa.tensor_tensor(dst=new_top, data1=top, data2=chunk_top, op=nl.maximum)
                nisa.tensor_scalar(dst=minus_top, data=new_top, op0=nl.multiply, operand0=-1.0)
                chunk_sum = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
                exp_and_sum(powers, chunk_sum, tile, minus_top)
                # exp(old maximum - new maximum) rescales the running sum.
                shrink = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
                nisa.activation(dst=shrink, op=nl.exp, data=top, bias=minus_top)
                nisa.scalar_tensor_tensor(
                    dst=total,
                    data=total,
                    op0=nl.multiply,
                    operand0=shrink,
                    op1=nl.add,
                    operand1=chunk_sum,
                )
                nisa.tensor_copy(dst=top, src=new_top)
        scale = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=scale, data=total)
        for c in range(0, cols, width):
            f = min(width, cols - c)
            tile = nl.ndarray((p, f), dtype=x.dtype, buffer=nl.sbuf)
            powers = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
            result = nl.ndarray((p, f), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[r : r + p, c : c + f])
            nisa.activation(dst=powers, op=nl.exp, data=tile, bias=minus_top)
            nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=scale)
            nisa.dma_copy(dst=out[r : r + p, c : c + f], src=result)
    return out


def exp_and_sum(powers, total, tile, bias):
    """Write ``exp(tile + bias)`` to ``powers`` and its row sums to ``total``."""
    nisa.activation(
        dst=powers,
        op=nl.exp,
        data=tile,
        bias=bias,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )


def main() -> None:
    rng = np.random.default_rng(0)
    x = 4.0 * rng.standard_normal((200, 3000), dtype=np.float32)

    run = nki.simulate(softmax)
    out = run(x)

    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    error = np.abs(out - exact).max()
    print(f"softmax  {out.shape} {out.dtype}  max |error| {error:.1e}  {run.report.summary()}")


if __name__ == "__main__":
    main()
