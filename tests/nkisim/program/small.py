"""A small kernel whose program tests change."""

import json

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

X = np.linspace(-1.0, 1.0, 128 * 64, dtype=np.float32).reshape(128, 64)


def scaled(x, factor=2.0):
    """Return x * factor, tile by tile."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 64 : (i + 1) * 64, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[i * 64 : (i + 1) * 64, :], src=tile)
    return out


def program():
    """The program of ``scaled`` as JSON."""
    return json.loads(nkisim.record(scaled)(X).to_bytes())


def operations(plain, kind="call", name=""):
    """The operations of a kind, and of a function, in a program as JSON."""
    ops = plain["tapes"]["0.0"]["ops"]
    return [op for op in ops if op[0] == kind and (not name or op[2] == name)]
