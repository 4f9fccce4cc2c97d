"""alpha*x + y as a kernel: the smallest operation that the tests of the core can launch."""

from trnsci.core.nki import nisa, nki, nl

ROWS, COLS = 128, 512


@nki.jit
def scaled_add_kernel(x, y, alpha):
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        for c in range(0, cols, COLS):
            p, f = min(ROWS, rows - r), min(COLS, cols - c)
            xt = nl.ndarray((p, f), dtype=x.dtype, buffer=nl.sbuf)
            yt = nl.ndarray((p, f), dtype=y.dtype, buffer=nl.sbuf)
            zt = nl.ndarray((p, f), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=xt, src=x[r : r + p, c : c + f])
            nisa.dma_copy(dst=yt, src=y[r : r + p, c : c + f])
            nisa.scalar_tensor_tensor(
                dst=zt, data=xt, op0=nl.multiply, operand0=alpha, op1=nl.add, operand1=yt
            )
            nisa.dma_copy(dst=out[r : r + p, c : c + f], src=zt)
    return out


@nki.jit
def copy_kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def overwriting_kernel(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=7.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


@nki.jit
def uninitialised_kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=tile)
    return out


def scaled_add(launch, x, y, alpha):
    if y is None:
        y = x.new_zeros(x.shape)
    return launch(scaled_add_kernel, x, y, alpha)


def overwriting(launch, x, y, alpha):
    return launch(overwriting_kernel, x)


def uninitialised(launch, x, y, alpha):
    return launch(uninitialised_kernel, x)


def without_launch(launch, x, y, alpha):
    return x + y


def without_result(launch, x, y, alpha):
    launch(scaled_add_kernel, x, y, alpha)


def failing(launch, x, y, alpha):
    raise ArithmeticError(f"no tiles for {alpha}\nand a second line")


def several_results(launch, x):
    copied = launch(copy_kernel, x)
    return 2 * copied, copied * copied, copied.argmax(-1)
