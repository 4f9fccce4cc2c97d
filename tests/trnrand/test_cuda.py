"""The same numbers on a CUDA device: equal bits wherever float32 is all that is computed with."""

import sys

import pytest
import torch

import trnrand
from trnrand import Generator
from trnrand._paths.torch_path import torch_stream
from trnrand._stream.words import FLOATS, Source
from trnrand.engines import ENGINES

from .draws import DRAWS

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda

EXACT = {
    "uniform", "uniform float64", "uniform bfloat16", "bernoulli", "randint", "randint wide",
    "normal", "exponential",
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DRAWS)
def test_draws_agree_with_the_cpu(name, engine):
    on_cpu, on_cuda = Generator(3, engine=engine), Generator(3, "cuda", engine=engine)
    on_cpu.seek(2**34 - 7)
    on_cuda.seek(2**34 - 7)
    got, want = DRAWS[name](30_001, generator=on_cuda), DRAWS[name](30_001, generator=on_cpu)
    assert got.is_cuda
    if name in EXACT:
        assert torch.equal(got.cpu(), want)
    else:
        # Last bits of transcendental functions differ, so that a rejection or a rounding to a
        # whole number may go the other way: once in 30,000 would be surprising already.
        close = torch.isclose(got.cpu().double(), want.double(), rtol=1e-5, atol=1e-5)
        assert (~close).sum() <= 3


@pytest.mark.parametrize("by_triton", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [7, 2**64 - 1, 2**63 + 16, 0])
def test_a_million_words_agree(engine, seed, by_triton, monkeypatch):
    monkeypatch.setattr("trnrand._stream.words.has_triton", lambda: by_triton)
    if not by_triton:
        monkeypatch.setitem(sys.modules, "trnrand._stream.triton_kernels", None)
    words = [
        Generator(seed, device, engine=engine).words(1_000_000).cpu() for device in ("cpu", "cuda")
    ]
    assert torch.equal(*words)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("start", "count"), [(0, 4096), (1, 1), (2**33 + 3, 1001), (2, 0)])
def test_samples_by_triton_are_those_by_torch(start, count, engine, kind, dtype, monkeypatch):
    source = Source(engine, 5, start, torch.device("cuda"))
    got = torch_stream(kind, source, count, dtype)
    monkeypatch.setattr("trnrand._stream.words.has_triton", lambda: False)
    want = torch_stream(kind, source, count, dtype)
    assert torch.equal(got, want)
    if dtype is not torch.float64:
        on_cpu = torch_stream(kind, source._replace(device=torch.device("cpu")), count, dtype)
        assert torch.equal(got.cpu().view(torch.uint8), on_cpu.view(torch.uint8))


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential"])
def test_a_draw_is_one_launch(name):
    pytest.importorskip("triton")
    draw, generator = getattr(trnrand, name), Generator(1, "cuda")
    draw(1_000_001, generator=generator)  # which compiles the kernel
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True
    ) as profile:
        draw(1_000_001, generator=generator)
        torch.cuda.synchronize()
    kernels = [event.name for event in profile.events() if event.device_type.name == "CUDA"]
    assert kernels == ["_fill_kernel"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("position", [2**34 - 1, 2**63 + 5, 2**64 - 2000])
def test_equal_draws_are_equal_and_other_seeds_differ(engine, position):
    drawn = []
    for seed in (11, 11, 12):
        generator = Generator(seed, "cuda", engine=engine)
        generator.seek(position)
        drawn.append(trnrand.normal(1001, generator=generator))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("position", [2**34 - 1, 2**63 + 5, 2**64 - 2000])
def test_words_far_out_agree(engine, position):
    found = []
    for device in ("cpu", "cuda"):
        generator = Generator(11, device, engine=engine)
        generator.seek(position)
        found.append(generator.words(1001).cpu())
    assert torch.equal(*found)


def test_permutations_and_choices_agree():
    for draw in (
        lambda g: trnrand.randperm(10_000, generator=g),
        lambda g: trnrand.choice(50, 1000, generator=g),
        lambda g: trnrand.choice(50, 20, replace=False, generator=g),
    ):
        assert torch.equal(draw(Generator(1, "cuda")).cpu(), draw(Generator(1)))


def test_results_go_where_they_are_asked_for():
    generator = Generator(1)
    assert trnrand.normal(5, device="cuda", generator=generator).is_cuda
    buffer = torch.empty(4, device="cuda")
    trnrand.normal_into(buffer, generator=generator)
    assert buffer.isfinite().all()
    lam = torch.tensor([0.0, 1e6])
    counts = trnrand.poisson(2, lam=lam, device="cuda", generator=generator).cpu()
    # Within 6 deviations of sqrt(lam).
    assert ((counts - lam).abs() <= 6 * lam.sqrt()).all()
