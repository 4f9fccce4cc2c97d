"""What the kernels for CUDA compute, seen without a device: Triton's language on NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import trnrand
from oracles.random123 import block
from oracles.random_words import stream_words
from pairwise import pairwise
from trnrand._kernels.definitions import DOMAINS
from trnrand._paths.torch_path import _CONVERT, torch_stream
from trnrand._stream.words import FLOATS, UNIFORM_BITS, Source
from trnrand.engines import ENGINES

from .triton_on_numpy import lanes, loaded

PATH = Path(trnrand.__file__).parent / "_stream" / "triton_kernels.py"
CPU = torch.device("cpu")


@pytest.fixture
def kernels(monkeypatch):
    return loaded(PATH, monkeypatch)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**63 + 2**31, 2**64 - 1])
def test_blocks_are_those_of_the_engine(kernels, engine, seed):
    for first, domain in ((0, 0), (2**32 - 2, 0x80000003), (2**63 + 5, 9 << 8), (2**64 - 1, 1)):
        steps = torch.tensor([0, 1, 2, 700])
        # Words of a counter are taken as int32.
        domain = (domain + 2**31) % 2**32 - 2**31
        got = kernels.blocks(engine, seed, first, steps, domain).numpy().view(np.uint32)
        wanted = [block(engine, seed, (first + s) % 2**64, domain % 2**32) for s in steps.tolist()]
        assert got.tolist() == [list(words) for words in wanted]


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 1500])
def test_blocks_of_any_number(kernels, count):
    got = kernels.blocks("philox", 5, 3, torch.arange(count), 1)
    wanted = stream_words("philox", 5, 3, 4 * count, 1).reshape(count, 4)
    assert np.array_equal(got.numpy().view(np.uint32), wanted)
    launches = kernels._blocks_kernel.launches
    programs = -(-count // 512)
    options = {"num_warps": 4, "enable_fp_fusion": False}
    assert launches == [((programs,), options, (True, 512))] * (programs > 0)


@pytest.mark.parametrize(
    ("start", "count", "engine"),
    pairwise([0, 1, 6, 2**33 + 3, 2**64 - 4096], [1, 2047, 2048, 2049, 4096], list(ENGINES)),
)
def test_words_from_any_position(kernels, engine, start, count):
    out = torch.full((count + 2,), -7, dtype=torch.int32)
    kernels.fill("words", engine, 11, start, 3, out[1:-1], 24)
    skipped = start % 4
    wanted = stream_words(engine, 11, start // 4, count + skipped, 3)[skipped:]
    assert np.array_equal(out[1:-1].numpy().view(np.uint32), wanted)
    assert out[0] == out[-1] == -7  # nothing outside is written
    ((grid, _, constants),) = kernels._fill_kernel.launches
    assert grid == (-(-(skipped + count) // 2048),)
    # Wide stores, where a request begins at a block.
    assert constants == (engine == "philox", "words", 24, skipped == 0, 512)


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d is not torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential"])
@pytest.mark.parametrize(("start", "count"), [(0, 3000), (3, 2600)])
def test_samples_are_those_of_torch(kernels, kind, dtype, start, count):
    out = torch.empty(count, dtype=dtype)
    bits = UNIFORM_BITS[dtype] if kind == "uniform" else 24
    kernels.fill(kind, "threefry", 5, start, DOMAINS[kind], out, bits)
    wanted = torch_stream(kind, Source("threefry", 5, start, CPU), count, dtype)
    assert torch.equal(out.view(torch.uint8), wanted.view(torch.uint8))


# Words at the ends: all bits and none, the middle of the circle, and where a logarithm is split.
EXTREME = np.array([0, 1, 2**32 - 1, 2**31, 2**31 - 1, 2**30, 3 * 2**30, 0xB3000000, 255, 256])


@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential"])
def test_samples_of_extreme_words_are_those_of_torch(kernels, kind, monkeypatch):
    first, second = (side.ravel() for side in np.meshgrid(EXTREME, EXTREME))
    words = np.stack([first, second], -1).astype(np.uint32).ravel()

    def blocks(step, *_):
        return [lanes(words.take(4 * step + i, mode="wrap"), np.uint32) for i in range(4)]

    monkeypatch.setattr(kernels, "_block", blocks)
    out = torch.empty(len(words))
    kernels.fill(kind, "philox", 5, 0, DOMAINS[kind], out, 24)
    wanted = _CONVERT[kind](torch.from_numpy(words.view(np.int32)), torch.float32)
    assert torch.equal(out.view(torch.int32), wanted.view(torch.int32))
