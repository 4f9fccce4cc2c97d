"""Ten faults that a simulator without the compiler's and the chip's rules does not see."""

import nki
import nki.isa as nisa
import nki.language as nl


def copied(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def other_python(x):
    """A statement that the compiler does not have."""
    try:
        tile = nl.load(x)
    finally:
        pass
    return copied(tile)


@nki.jit
def other_loop(x):
    """A loop of a kind that the compiler does not have."""
    tile = nl.load(x)
    for i, factor in enumerate((2.0, 3.0)):
        row = tile[32 * i : 32 * i + 32, :]
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=factor)
    return copied(tile)


@nki.jit
def too_much(x):
    """More than SBUF holds."""
    tile = nl.ndarray((128, 100000), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    nisa.dma_copy(dst=tile[:, 0 : x.shape[1]], src=x)
    return copied(tile[:, 0 : x.shape[1]])


@nki.jit
def one_place_for_two(x):
    """Two tiles at one address."""
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
    nisa.dma_copy(dst=first, src=x)
    nisa.memset(dst=second, value=1.0)
    nisa.tensor_tensor(dst=second, data1=first, data2=second, op=nl.add)
    return copied(second)


@nki.jit
def no_barrier(x):
    """Two cores write different values to the same elements."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(nl.program_id(0)))
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def never_written(x):
    """A tile is read that nothing has written."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    return copied(nl.add(nl.load(x), tile))


@nki.jit
def tail_not_written(x):
    """A part of the output is what was left in memory."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[0:64, :], nl.load(x[0:64, :]))
    return out


@nki.jit
def sum_of_integers(x):
    """Integers that float32, in which the engine adds, does not hold."""
    tile = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=16777217)
    made = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=made, data=tile, op0=nl.multiply, operand0=3.0)
    return copied(made)


@nki.jit
def a_wrong_partition(x):
    """Engines begin at partition 0, 32, 64 or 96."""
    tile = nl.load(x)
    part = tile[3:20, :]
    nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
    return copied(tile)


@nki.jit
def onto_memset(x):
    """A sum is begun in PSUM by a memset, which does not open it."""
    sums = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=sums, value=0.0)
    tile = nl.load(x)
    nisa.nc_matmul(dst=sums, stationary=tile, moving=tile, accumulate=True)
    made = nl.ndarray(sums.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=made, src=sums)
    return copied(made)
