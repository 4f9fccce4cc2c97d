"""Standard samples are the stated function of the words, in every dtype and from any start."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import trnrand
from each_case import each_case
from fresh_process import printed_after
from oracles import random_words as oracle
from pairwise import pairwise
from trnrand._paths.samples import stream
from trnrand._paths.torch_path import _exponentials, _fill_by_chunks, _normals, torch_stream
from trnrand._stream import arrays
from trnrand._stream.words import FLOATS, WIDE, Domain, Source

CPU = torch.device("cpu")
BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
COUNT = 20_000
SOURCES = Path(trnrand.__file__).parents[1]

NORMALS = [
    "0x1.aa449a0000000p+2",
    "0x0.0p+0",
    "0x1.ce4ff60000000p-21",
    "0x1.2651320000000p+1",
    "0x1.2d6abe0000000p+0",
    "-0x1.d976f40000000p-22",
    "0x0.0p+0",
    "0x1.6a09e60000000p-12",
]
EXPONENTIALS = [
    "0x1.0000000000000p-25",
    "0x1.0000000000000p-25",
    "0x1.2e25620000000p-4",
    "0x1.26961c0000000p-2",
    "0x1.62e42c0000000p-1",
    "0x1.0a2b240000000p+4",
    "0x1.0a2b240000000p+4",
    "0x1.2696200000000p-2",
]


def samples(kind, dtype, count=COUNT, start=0, seed=3):
    return stream(kind, Source("philox", seed, start, CPU), count, dtype)


def words(domain, count, seed=3):
    return oracle.stream_words("philox", seed, 0, count, int(domain))


def units53(domain, count):
    """float64 in [0, 1) from words of two per sample: 27 bits, then 26."""
    pairs = words(domain | WIDE, 2 * count).astype(np.uint64).reshape(-1, 2)
    return ((pairs[:, 0] >> np.uint64(5)) * 2.0**26 + (pairs[:, 1] >> np.uint64(6))) * 2.0**-53


@each_case("dtype", BITS, ids=str)
def test_uniforms_are_the_top_bits(dtype):
    want = oracle.uniform_of(words(Domain.UNIFORM, COUNT), BITS[dtype])
    assert np.array_equal(samples("uniform", dtype).double().numpy(), want)


def test_uniforms_of_float64_have_53_bits():
    assert np.array_equal(samples("uniform", torch.float64).numpy(), units53(Domain.UNIFORM, COUNT))


def test_normals_are_box_muller():
    got = samples("normal", torch.float32).double().numpy()
    pairs = words(Domain.NORMAL, COUNT)
    # Relative to the radius: log, sqrt and cos each within 2 ulp, products half; the angle within
    # 2 ulp of at most 2 pi. log is relative to |log u|, which is small only where u is 1.
    u = 2.0**-24
    radius = np.repeat(oracle.normal_radii(pairs), 2)
    assert np.all(np.abs(got - oracle.normal_of(pairs)) <= radius * u * (2 + 2 + 2 + 1 + 4 * np.pi))


def test_exponentials_are_logarithms():
    got = samples("exponential", torch.float32).double().numpy()
    want = oracle.exponential_of(words(Domain.EXPONENTIAL, COUNT))
    assert np.all(np.abs(got - want) <= 2 * 2.0**-23 * want)  # log1p within 2 ulp


def test_exponentials_of_float64():
    want = -np.log1p(-units53(Domain.EXPONENTIAL, COUNT))
    got = samples("exponential", torch.float64).numpy()
    assert np.all(np.abs(got - want) <= 4 * 2.0**-52 * want)  # 2 ulp of each library


def test_normals_of_float64():
    quads = words(Domain.NORMAL | WIDE, 2 * COUNT).astype(np.uint64).reshape(-1, 4)
    exact = [(int(a) << 32) + int(b) + 1 for a, b in quads[:, :2]]
    radius = np.sqrt(-2 * np.log(np.array(exact, dtype=np.float64) * 2.0**-64))
    angle = (
        2
        * np.pi
        * (((quads[:, 2] >> np.uint64(5)) * 2.0**26 + (quads[:, 3] >> np.uint64(6))) * 2.0**-53)
    )
    want = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    got = samples("normal", torch.float64).numpy()
    # As in float32, with the rounding of both libraries.
    assert np.all(np.abs(got - want) <= 2 * np.repeat(radius, 2) * 2.0**-53 * (7 + 4 * np.pi))


@each_case("kind", ["normal", "exponential"])
@each_case("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_float32(kind, dtype):
    assert torch.equal(samples(kind, dtype), samples(kind, torch.float32).to(dtype))


@each_case("kind", ["uniform", "normal", "exponential"])
@each_case("dtype", FLOATS, ids=str)
def test_any_cut_of_a_stream_is_the_stream(kind, dtype):
    whole = samples(kind, dtype, 100_003)
    for start, count in [(0, 1), (1, 1), (1, 2), (2, 5), (3, 0), (5, 99_998), (70_001, 30_002)]:
        assert torch.equal(samples(kind, dtype, count, start), whole[start : start + count])


@each_case(
    ("kind", "dtype", "engine"),
    pairwise(["uniform", "normal", "exponential"], BITS, ["philox", "threefry"]),
)
def test_compiled_samples_are_equal_to_the_bit(kind, dtype, engine, monkeypatch):
    pytest.importorskip("numba")
    for start, count in [(0, 1), (1, 2), (2**34 - 5, 1001), (3, 40_000), (2**64 - 9, 9)]:
        source = Source(engine, 2**64 - 3, start, CPU)
        compiled = torch_stream(kind, source, count, dtype)
        with monkeypatch.context() as without:
            without.setattr("trnrand._stream.numba_loops.compiled_wanted", lambda samples: False)
            plain = torch_stream(kind, source, count, dtype)
            on_tensors = torch.empty(count, dtype=dtype)
            _fill_by_chunks(kind, source, on_tensors)
        assert torch.equal(compiled.view(torch.uint8), plain.view(torch.uint8))
        assert torch.equal(on_tensors.view(torch.uint8), plain.view(torch.uint8))


def test_samples_of_known_words():
    """What any implementation of the definition gives: products and sums of float32, in order."""
    words = torch.tensor([0, 0, 0x12345678, 0x3FFFFFFF, 0x7FFFFFFF, -1, -0x100, 1 << 30])
    got = _normals(words.int(), torch.float32)
    assert [z.hex() for z in got.tolist()] == NORMALS
    got = _exponentials(words.int(), torch.float32)
    assert [x.hex() for x in got.tolist()] == EXPONENTIALS


# Around the least word whose u is rounded to 1, and the last words of all.
EDGES = [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FEFF, 0xFFFF_FF7D, 0xFFFF_FF7E, 0xFFFF_FF7F]
EDGES += [0xFFFF_FF80, 0xFFFF_FFFE, 0xFFFF_FFFF, 0x1234_5678]


@each_case("number", [np.uint32, np.uint64])
@each_case("largest", [0xFFFF_FF7E, 0xFFFF_FF7F, 0xFFFF_FFFF])
def test_arrays_make_the_normals_of_the_edges(number, largest):
    """With the words next to u = 1, which have a way of their own, and without them."""
    chosen = [word for word in EDGES if word <= largest]
    pairs = np.array([(first, second) for first in chosen for second in EDGES], np.uint32)
    want = _normals(torch.from_numpy(pairs.view(np.int32)).view(-1), torch.float32)
    blocks, out = pairs.reshape(-1, 4), np.empty((len(pairs) // 2, 4), np.float32)
    # What is above the low 32 bits has no meaning.
    spoilt = blocks.astype(number) + number(7 << 32 if number is np.uint64 else 0)
    arrays._normals(list(spoilt.T), 24, out)
    assert np.array_equal(out.reshape(-1).view(np.int32), want.numpy().view(np.int32))
    assert (abs(out) == 2.0**-50).any() == (largest >= 0xFFFF_FF7F)


@pytest.mark.parametrize("engine", ["philox", "threefry"])
def test_stretches_of_arrays_make_one_stream(engine, monkeypatch):
    """From within a block, over the ends of what words and samples are made of at a time."""
    stretch = ("normal", engine, 2**40 + 5, 2**34 - 30, int(Domain.NORMAL))
    whole, cut = np.empty(181, np.float32), np.empty(181, np.float32)
    arrays.fill_samples(*stretch, whole, 24)
    monkeypatch.setattr(arrays, "_BLOCKS", {"philox": 7, "threefry": 14})
    monkeypatch.setattr(arrays, "_CONVERTED", 6)
    arrays.fill_samples(*stretch, cut, 24)
    assert np.array_equal(cut.view(np.int32), whole.view(np.int32))
    on_tensors = torch.empty(181)
    _fill_by_chunks("normal", Source(engine, 2**40 + 5, 2**34 - 30, CPU), on_tensors)
    assert np.array_equal(cut.view(np.int32), on_tensors.numpy().view(np.int32))


def test_loops_are_compiled_by_the_size_of_a_call():
    """Neither earlier draws nor numba in the process change the choice."""
    sizes = printed_after(
        "torch",
        """
import sys, trnrand
from trnrand._stream import numba_loops
g = trnrand.Generator(1)
found = []
for size in (2**14 - 1, 2**14):
    for _ in range(200):
        trnrand.uniform(size, generator=g)
    trnrand.gamma(size, shape=2.0, generator=g)
    found.append("numba" in sys.modules)
print(json.dumps([*found, numba_loops.compiled_wanted(2**14 - 1)]))
""",
        path=[SOURCES],
    )
    assert sizes == [False, importlib.util.find_spec("numba") is not None, False]


def test_nothing_changes_where_numba_is_missing():
    code = """
import sys
sys.modules["numba"] = None
import trnrand
print(json.dumps(trnrand.normal(2**18 + 5, generator=trnrand.Generator(1))[-5:].tolist()))
"""
    want = samples("normal", torch.float32, 5, 2**18, seed=1).tolist()
    assert printed_after("torch", code, path=[SOURCES]) == want


@each_case("kind", ["uniform", "normal", "exponential"])
def test_samples_of_one_and_two_words_share_none(kind):
    domain = Domain[kind.upper()]
    narrow, wide = words(domain, 4 * COUNT), words(domain | WIDE, 4 * COUNT)
    # Two sets of 80,000 random words of 32 bits have 1.5 in common on average.
    assert len(np.intersect1d(narrow, wide)) < 15


def test_domains_differ():
    assert len({int(d) for d in Domain}) == len(Domain)
    assert all(int(d) < WIDE for d in Domain)


def test_normals_use_all_32_bits_of_the_radius():
    """The smallest u is 2**-32, so that 6.66 is reached; 24 bits would end at 5.77."""
    z = _normals(torch.tensor([0, 0], dtype=torch.int32), torch.float32)
    assert z[0].item() == pytest.approx(np.sqrt(64 * np.log(2)), rel=1e-6)
    # u rounds to 1 for the largest words: the radius is next to 0, and never NaN.
    z = _normals(torch.tensor([-1, 5], dtype=torch.int32), torch.float32)
    assert z.tolist() == [2.0**-50, 0]


def test_the_largest_words_stay_below_one():
    from trnrand._paths.torch_path import _uniforms

    for dtype in FLOATS:
        assert _uniforms(torch.tensor([-1, -1], dtype=torch.int32), dtype).max() < 1
