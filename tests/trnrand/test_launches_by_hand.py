"""What the short way to a CUDA device starts is what the long way does, seen without a device.

A stand-in for Triton notes what kernels are started with, and tensors on the CPU stand for those on
a device. What kernels compute is for ``test_cuda``.
"""

from pathlib import Path

import trnrand
from fresh_process import printed_after_torch

SOURCES = Path(trnrand.__file__).parents[1]

STAND_IN = """
import sys, types
from importlib.machinery import ModuleSpec

started = []

class Made:
    function, packed_metadata = "function", "metadata"
    def run(self, *arguments):
        started.append(list(arguments))

class Kernel:
    def __getitem__(self, grid):
        return lambda *arguments, **options: Made()

triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
triton.jit = lambda function=None, **options: Kernel() if function else lambda function: Kernel()
language.constexpr = lambda value: value
triton.language, triton.__spec__ = language, ModuleSpec("triton", None)
sys.modules["triton"], sys.modules["triton.language"] = triton, language

import torch, trnrand
torch._C._cuda_getDevice = lambda: -1  # as a tensor on the CPU says
torch._C._cuda_getCurrentRawStream = lambda device: 17
from trnrand import _triton
from trnrand._laws import DOMAINS

def generator(seed, engine, position):
    made = trnrand.Generator(seed, engine=engine)
    made._place = "cuda"
    made.seek(position)
    return made

_templates = _triton._templates
for engine in ("philox", "threefry"):  # Triton compiles
    for kind in ("uniform", "normal"):
        for start in (0, 1):
            out = torch.empty(8)
            _triton.fill(kind, engine, 1, start, DOMAINS[kind], out, 24)
"""


def test_the_short_way_starts_what_the_long_way_does():
    code = """
from itertools import product

wrong = []
draws = ("uniform", "normal", "standard_normal")
seeds = (0, 7, 2**31, 2**63 + 2**31, 2**64 - 1)
for engine, draw, seed in product(("philox", "threefry"), draws, seeds):
    kind = "uniform" if draw == "uniform" else "normal"
    for position in (0, 3, 4, 2**33 - 4, 2**33, 2**35 + 1, 2**63 + 6, 2**64 - 4096):
        for size in ((1,), (2048,), (3, 5, 7), ([60, 60],)):
            for _ in range(2):  # the second time by hand
                source = generator(seed, engine, position)
                got = getattr(trnrand, draw)(*size, generator=source)
            short = started.pop()
            long = torch.empty(got.numel())
            _triton.fill(kind, engine, seed, position, DOMAINS[kind], long, 24)
            expected = started.pop()
            expected[9] = got.data_ptr()
            shape = torch.Size(size[0] if isinstance(size[0], list) else size)
            if short != expected or got.shape != shape or got.dtype is not torch.float32:
                wrong.append([engine, draw, seed, position, str(size)])
            if source.offset != position + got.numel():
                wrong.append([engine, draw, seed, position, "offset"])
print(json.dumps(wrong))
"""
    assert printed_after_torch(STAND_IN + code, path=[SOURCES]) == []


def test_what_the_short_way_leaves_to_the_long_way():
    """Shares of several ranks, the end of the stream, another device, and no room."""
    code = """
def drawn(generator, *size):
    count = 1
    for n in size:
        count *= n
    return _triton.drawn("uniform", generator, size, count)

shared = trnrand.Generator(1, partition_rank=1, partition_size=2)
last = generator(1, "philox", 2**64 - 5)
elsewhere = generator(1, "philox", 0)
elsewhere._torch_device = torch.device("cuda", 1)
endless = generator(1, "philox", 0)
found = [drawn(shared, 4), drawn(last, 5), drawn(elsewhere, 4), drawn(endless, 1 << 62)]
offsets = [g.offset for g in (shared, elsewhere, endless)] + [last.offset - 2**64]
_templates.clear()
found.append(drawn(generator(1, "philox", 0), 4))
print(json.dumps([found, offsets]))
"""
    assert printed_after_torch(STAND_IN + code, path=[SOURCES]) == [[None] * 5, [0, 0, 0, -5]]
