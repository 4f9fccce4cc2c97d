"""Twins about what goes in and out of a kernel, and about its Python."""

import importlib

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
import nkisim.typing as nt
from kernels import f32, host_twin, twin
from tiles import stored

# -- arguments -----------------------------------------------------------------------------------


@twin(f32(64, 32))
def bad_A016(a, *, scale=2.0):  # here
    return stored(nl.multiply(nl.load(a), scale))


def good_A016(a, scale=2.0):
    return stored(nl.multiply(nl.load(a), scale))


@twin([f32(64, 32), f32(64, 32)], fixed=((f32(64, 32), f32(64, 32)),))
def A018(pair):  # here
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=nl.load(pair[0]), data2=nl.load(pair[1]), op=nl.add)
    return stored(total)


@twin(f32(64, 32))
def bad_A018_default(a, factors=[2.0, 3.0]):  # noqa: B006  # here
    return stored(nl.multiply(nl.load(a), factors[0] * factors[1]))


def good_A018_default(a, factors=(2.0, 3.0)):
    return stored(nl.multiply(nl.load(a), factors[0] * factors[1]))


@twin(f32(64, 32))
def bad_L064(a: nt.tensor[128, 32]):  # here
    return stored(nl.load(a))


def good_L064(a: nt.tensor[64, 32]):
    return stored(nl.load(a))


@twin(f32(64, 32), np.float32(2), fixed=(f32(64, 32), 2.0))
def L057(a, factor):  # here
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return stored(tile)


class Tiling(nl.NKIObject):
    rows: int = 32

    def __repr__(self):
        return f"{type(self).__name__}()"


class WideTiling(Tiling):
    columns: int = 32


class WholeTiling(nl.NKIObject):
    rows: int = 32
    columns: int = 32

    def __repr__(self):
        return "WholeTiling()"


@twin(f32(64, 32), WideTiling(), fixed=(f32(64, 32), WholeTiling()))
def L069(a, tiling):  # here
    return stored(nl.load(a[0 : tiling.rows, 0 : tiling.columns]))


@twin(f32(64, 32), np.dtype("float32"), fixed=(f32(64, 32), nl.float32))
def L057_dtype(a, kind):  # here
    copy = nl.ndarray(a.shape, dtype=str(kind), buffer=nl.sbuf)  # bad
    copy = nl.ndarray(a.shape, dtype=kind, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=copy, src=a)
    return stored(copy)


@twin(f32(64, 32))
def L059(a):
    tile = nl.load(a)
    factor = 1.0  # good
    if a.shape[0] > 64:
        factor = 0.5
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)  # here
    return stored(tile)


@twin(32, fixed=(f32(64, 32),))
def bad_L066(columns):  # here
    tile = nl.ones((64, columns), dtype=nl.float32, buffer=nl.sbuf)
    return stored(tile)


def good_L066(ones):
    tile = nl.load(ones)
    return stored(tile)


@twin(f32(64, 32), f32(64, 32))
def M029(a, cache):  # here
    tile = nl.load(a)
    nisa.dma_copy(dst=cache, src=tile)
    return stored(tile)  # bad
    return stored(tile), cache  # good


# -- results -------------------------------------------------------------------------------------


@twin(f32(64, 32))
def A012(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.private_hbm)  # bad here
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)  # good
    nisa.dma_copy(dst=out, src=nl.load(a))
    return out


@twin(f32(64, 32))
def A012_hbm(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.hbm)  # bad here
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)  # good
    nisa.dma_copy(dst=out, src=a)
    return out


@twin(f32(64, 32))
def L060(a):
    tile = nl.load(a)  # here
    return tile  # bad
    return stored(tile)  # good


@twin(f32(64, 32))
def L060_view(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)  # bad here
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)  # good
    nisa.dma_copy(dst=out[:, 0:32], src=a)
    return out[:, 0:32]  # bad
    return out  # good


@twin(f32(64, 32))
def L060_number(a):  # here
    return stored(nl.load(a)), a.shape[0]  # bad
    return stored(nl.load(a))  # good


# -- Python on tensors ---------------------------------------------------------------------------


@twin(f32(64, 32))
def L026(a):
    tile = nl.load(a)
    return stored(tile @ tile)  # bad here
    return stored(nl.matmul(tile, tile, transpose_x=True))  # good


@twin(f32(64, 32))
def L027(a):
    tile = nl.load(a)
    return stored(tile * 2.0)  # bad here
    return stored(nl.multiply(tile, 2.0))  # good


# -- host code -----------------------------------------------------------------------------------


def copied(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out


@host_twin
def A019():
    return nkisim.jit(platform_target="trn2")(copied)  # bad here
    return nkisim.jit(copied)  # good


@host_twin
def A020():
    return nkisim.jit(mode="torchxla")(copied)  # bad here
    return nkisim.jit()(copied)  # good


@host_twin
def A031():
    nkisim.install(force=True)
    try:  # bad
        return importlib.import_module("nki").compiler  # here
    finally:
        nkisim.uninstall()
    try:  # good
        return importlib.import_module("nki").language.ndarray
    finally:
        nkisim.uninstall()


@host_twin
def L063():
    return nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad here
    return nl.ds(0, 32)  # good


# -- Python in a kernel --------------------------------------------------------------------------


@twin(f32(64, 100))
def L019(a):
    out = nl.ndarray((64, 50), dtype=a.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray((64, a.shape[1] / 2), dtype=a.dtype, buffer=nl.sbuf)  # bad here
    half = nl.ndarray((64, a.shape[1] // 2), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=half, src=a[:, 0:50])
    nisa.dma_copy(dst=out, src=half)
    return out


@twin(f32(64, 100))
def L019_loop(a):
    out = nl.ndarray((64, 100), dtype=a.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(a.shape[1] / 50):  # bad here
        nisa.dma_copy(dst=out[:, c * 50 : (c + 1) * 50], src=a[:, c * 50 : (c + 1) * 50])
    for c in nl.affine_range(a.shape[1] // 50):  # good
        nisa.dma_copy(dst=out[:, c * 50 : (c + 1) * 50], src=a[:, c * 50 : (c + 1) * 50])
    return out


@twin(f32(64, 32))
def L028(a):
    tile = nl.load(a)
    padded = nl.zeros((64, 34), dtype=a.dtype, buffer=nl.sbuf)
    padded[:, 1:33] = tile  # bad here
    nisa.tensor_copy(dst=padded[:, 1:33], src=tile)  # good
    return stored(padded)


@twin(f32(64, 32), f32(64, 1))
def L030(a, bias):
    tile = nl.load(a)
    column = nl.load(bias)
    if column:  # bad here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
    if column.shape[0] == tile.shape[0]:  # good
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
    return stored(tile)


@twin(f32(64, 32))
def L030_and(a):
    tile = nl.load(a)
    width = tile and tile.shape[1]  # bad here
    width = tile.shape[1]  # good
    return stored(tile[:, 0:width])
