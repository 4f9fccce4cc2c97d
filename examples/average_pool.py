"""Average pooling of images: one reduction over a five-dimensional access pattern.

Channels are on partitions, an image is on the free axis. The windows of all output pixels are read
in place: the pattern walks output rows, output columns, then the rows and columns of a window, and
the Vector engine sums the last two.
"""

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

CHANNELS = 128
PIXELS = 8192  # of the image in SBUF at a time; 32 KiB of a partition in float32


@nki.jit
def average_pool(x, pool):
    """Return the means of ``pool`` by ``pool`` windows of ``x``, which is (C, H, W).

    Windows do not overlap; rows and columns of partial windows are ignored. One row of windows
    (``pool * W`` pixels) must fit in SBUF.
    """
    channels, height, width = x.shape
    out_h, out_w = height // pool, width // pool
    out = nl.ndarray((channels, out_h, out_w), dtype=x.dtype, buffer=nl.shared_hbm)
    step = max(PIXELS // (pool * width), 1)
    for c in range(0, channels, CHANNELS):
        for r in range(0, out_h, step):
            p, h = min(CHANNELS, channels - c), min(step, out_h - r)
            image = nl.ndarray((p, h * pool, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=image, src=x[c : c + p, r * pool : (r + h) * pool, 0:width])
            windows = image.ap(
                pattern=[
                    [h * pool * width, p],
                    [pool * width, h],
                    [pool, out_w],
                    [width, pool],
                    [1, pool],
                ]
            )
            total = nl.ndarray((p, h, out_w), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=total, op=nl.add, data=windows, axis=(3, 4))
            mean = nl.ndarray((p, h, out_w), dtype=x.dtype, buffer=nl.sbuf)
            scale = 1.0 / (pool * pool)
            nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=scale)
            nisa.dma_copy(dst=out[c : c + p, r : r + h, 0:out_w], src=mean)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((130, 61, 62), dtype=np.float32)
    pool = 3

    run = nki.simulate(average_pool)
    out = run(x, pool)

    exact = x[:, :60, :60].astype(np.float64).reshape(130, 20, 3, 20, 3).mean(axis=(2, 4))
    error = np.abs(out - exact).max()
    print(f"average_pool  {out.shape} {out.dtype}  max |error| {error:.1e}  {run.report.summary()}")


if __name__ == "__main__":
    main()
