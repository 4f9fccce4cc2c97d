"""Two layer normalisations: with sums, and with the Vector engine's statistics instructions.

Rows are on partitions and stay in SBUF. The first version subtracts the mean, sums the squares and
scales. In the second, ``bn_stats`` computes count, mean and variance of up to 512 elements at a
time and ``bn_aggr`` combines the chunks, so that the data is read once for both statistics. Weight
and bias are the same for every row; a DMA with step 0 copies them to each partition.
"""

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

ROWS = 128
STATS_CHUNK = 512  # maximum elements of one bn_stats
STATS = 6  # elements it writes: count, mean, count * variance of even and of odd elements


@nki.jit
def layernorm_sums(x, weight, bias, eps):
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` for the rows of ``x``.

    A row must fit in SBUF: up to about 7000 float32 columns.
    """
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    weights = on_every_partition(weight, min(ROWS, rows))
    biases = on_every_partition(bias, min(ROWS, rows))
    for r in range(0, rows, ROWS):
        p = min(ROWS, rows - r)
        tile = nl.ndarray((p, cols), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r : r + p, 0:cols])

        mean = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=mean, op=nl.add, data=tile, axis=1)
        nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1.0 / cols)
        centred = nl.ndarray((p, cols), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=centred, data=tile, op0=nl.subtract, operand0=mean)

        squares = nl.ndarray((p, cols), dtype=nl.float32, buffer=nl.sbuf)
        variance = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=squares,
            op=nl.square,
            data=centred,
            reduce_op=nl.add,
            reduce_res=variance,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.tensor_scalar(dst=variance, data=variance, op0=nl.multiply, operand0=1.0 / cols)

        scale = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        inverse_deviation(scale, variance, eps)
        nisa.tensor_scalar(dst=centred, data=centred, op0=nl.multiply, operand0=scale)
        weigh_and_store(out[r : r + p, 0:cols], centred, weights, biases)
    return out


@nki.jit
def layernorm_stats(x, weight, bias, eps):
    """Return the same as ``layernorm_sums``, from ``bn_stats`` and ``bn_aggr``."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    # Chunks of nearly equal size: 513 columns are 257 and 256, not 512 and a single one.
    chunks = (cols + STATS_CHUNK - 1) // STATS_CHUNK
    size = (cols + chunks - 1) // chunks
    weights = on_every_partition(weight, min(ROWS, rows))
    biases = on_every_partition(bias, min(ROWS, rows))
    for r in range(0, rows, ROWS):
        p = min(ROWS, rows - r)
        tile = nl.ndarray((p, cols), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r : r + p, 0:cols])

        stats = nl.ndarray((p, chunks * STATS), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(chunks):
            start, stop = i * size, min((i + 1) * size, cols)
            nisa.bn_stats(dst=stats[0:p, i * STATS : (i + 1) * STATS], data=tile[0:p, start:stop])
        moments = nl.ndarray((p, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=moments, data=stats)

        scale = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
        inverse_deviation(scale, moments[0:p, 1:2], eps)
        normal = nl.ndarray((p, cols), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=normal,
            data=tile,
            op0=nl.subtract,
            operand0=moments[0:p, 0:1],
            op1=nl.multiply,
            operand1=scale,
        )
        weigh_and_store(out[r : r + p, 0:cols], normal, weights, biases)
    return out


def inverse_deviation(scale, variance, eps):
    """Write ``1 / sqrt(variance + eps)`` to ``scale``."""
    # gen2 takes the bias of an activation as a column only, never as a constant.
    shift = nl.ndarray(scale.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=shift, value=eps)
    nisa.activation(dst=scale, op=nl.rsqrt, data=variance, bias=shift)


def on_every_partition(vector, partitions):
    """Return a tile with a copy of ``vector``, which is in HBM, in each partition."""
    tile = nl.ndarray((partitions, vector.shape[0]), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=vector.ap(pattern=[[0, partitions], [1, vector.shape[0]]]))
    return tile


def weigh_and_store(out, normal, weights, biases):
    """Write ``normal * weights + biases`` to ``out`` in HBM; ``normal`` is overwritten."""
    p, cols = normal.shape
    result = nl.ndarray((p, cols), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=normal, data1=normal, data2=weights[0:p, 0:cols], op=nl.multiply)
    nisa.tensor_tensor(dst=result, data1=normal, data2=biases[0:p, 0:cols], op=nl.add)
    nisa.dma_copy(dst=out, src=result)


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 1100), dtype=np.float32)
    weight = rng.standard_normal(1100, dtype=np.float32)
    bias = rng.standard_normal(1100, dtype=np.float32)
    eps = 1e-5

    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(axis=1, keepdims=True) + eps)
    exact = (wide - wide.mean(axis=1, keepdims=True)) / deviation * weight + bias
    for name, kernel in (("sums", layernorm_sums), ("stats", layernorm_stats)):
        run = nki.simulate(kernel)
        out = run(x, weight, bias, eps)
        error = np.abs(out - exact).max()
        report = run.report.summary()
        print(f"layernorm_{name:6} {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")


if __name__ == "__main__":
    main()
