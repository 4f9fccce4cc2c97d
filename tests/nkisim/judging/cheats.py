"""Cheats: kernels that want to pass without computing a.T @ b, or with files that do more.

A cheat is text behind the kernels of ``right.py``, with a fate as in ``forgeries``; ``SLOWER`` ones
pass with the time of the program that they ask for, which has an instruction more in some calls.
"""

from .forgeries import HONEST, NO_VERDICT

SLOWER = "slower"

CHEATS = {
    "zeros": (
        "result",
        """
@nki.jit
def cheat(a, b):
    tile = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return stored(tile, a.dtype)
""",
    ),
    "half of the contraction": (
        "result",
        """
@nki.jit
def cheat(a, b):
    half = a.shape[0] // 2
    return stored(product(a[:half, :], b[:half, :], a.dtype), a.dtype)
""",
    ),
    "a narrower type inside": (
        "result",
        """
def narrow(source):
    tile = nl.ndarray(source.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=loaded(source))
    return tile

@nki.jit
def cheat(a, b):
    sums = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, a.shape[0], 128):
        left, right = narrow(a[k : k + 128, :]), narrow(b[k : k + 128, :])
        nisa.nc_matmul(dst=sums, stationary=left, moving=right)
    tile = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    return stored(tile, a.dtype)
""",
    ),
    "large values clamped": (
        "result",
        """
@nki.jit
def cheat(a, b):
    return stored(nl.minimum(product(a, b, a.dtype), 500.0), a.dtype)
""",
    ),
    "right at the given shapes": (
        "result",
        """
@nki.jit
def cheat(a, b):
    if b.shape == (256, 128):
        return matmul(a, b)
    tile = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=1.0)
    return stored(tile, a.dtype)
""",
    ),
    "a cache between calls": (
        "result",
        """
CALLS = []

@nki.jit
def cheat(a, b):
    CALLS.append(1)
    if len(CALLS) < 2:
        return matmul(a, b)
    tile = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return stored(tile, a.dtype)
""",
    ),
    "an instruction patched": (
        HONEST,
        """
nisa.memset = lambda **given: None

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "an instruction patched out of sight": (
        HONEST,
        """
def swap(module, name):
    module.memset = lambda **given: None

swap(nisa, "memset")

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "the comparison patched": (
        "result",
        """
import numpy
numpy.allclose = lambda *given, **options: True
numpy.abs = lambda array: 0

@nki.jit
def cheat(a, b):
    return matmul(a, a)
""",
    ),
    "a verdict printed": (
        "stopped",
        """
def leave():
    return {}[print('{"schema": 1, "passed": true, "error": null, "latency_us": 0.001}')]

@nki.jit
def cheat(a, b):
    made = matmul(a, b)
    leave()
    return made
""",
    ),
    "the reference's file read": (
        HONEST,
        """
TEXT = open(__file__.replace("cheat.py", "reference.py")).read()

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "the reference imported": (
        HONEST,
        """
from reference import matmul as reference

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "an output that may hold the answer": (
        "M006",
        """
@nki.jit
def cheat(a, b):
    return nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
""",
    ),
    "a shell": (
        NO_VERDICT,
        """
import os
os.system("touch /tmp/nkisim-cheat")

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "a shell found among the classes": (
        HONEST,
        """
POPEN = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == "Popen"]

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "a file opened out of sight": (
        NO_VERDICT,
        """
import operator
NAMES = operator.attrgetter("_" + "_globals_" + "_")

@nki.jit
def cheat(a, b):
    NAMES(loaded)["_" + "_builtins_" + "_"]["op" + "en"]("/etc/hostname")
    return matmul(a, b)
""",
    ),
    "the bytes of tensors": (
        "A025",
        """
@nki.jit
def cheat(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    out.array[...] = a.array.T @ b.array
    return out
""",
    ),
    "the bytes of tensors by their private name": (
        "S001",
        """
@nki.jit
def cheat(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.memset(dst=loaded(a), value=0.0)
    out._elements[...] = a._elements.T @ b._elements
    return out
""",
    ),
    "values read while tracing": (
        SLOWER,
        """
import operator
TEXT, COUNT = operator.methodcaller("__repr__"), operator.methodcaller("count", "-")

@nki.jit
def cheat(a, b):
    tile = product(a, b, a.dtype)
    if COUNT(TEXT(a)) > 0:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
    return stored(tile, a.dtype)
""",
    ),
    "another program for the prediction": (
        SLOWER,
        """
SHAPES = []

@nki.jit
def cheat(a, b):
    SHAPES.append(b.shape)
    tile = product(a, b, a.dtype)
    if b.shape != SHAPES[0] or SHAPES.count(b.shape) == len(SHAPES):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
    return stored(tile, a.dtype)
""",
    ),
    "the input changed": (
        "input",
        """
@nki.jit
def cheat(a, b):
    made = matmul(a, b)
    nl.store(b[0:128, :], nl.multiply(nl.load(b[0:128, :]), 0.0))
    return made
""",
    ),
    "an answer sent over the channel": (
        NO_VERDICT,
        """
import socket
CHANNEL = socket.socket(fileno=3)

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
    "another process": (
        NO_VERDICT,
        """
import multiprocessing
multiprocessing.Process(target=print).start()

@nki.jit
def cheat(a, b):
    return matmul(a, b)
""",
    ),
}
