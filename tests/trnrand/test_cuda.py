"""The same numbers on a CUDA device: equal bits where no transcendental function is in the way."""

import pytest
import torch

import trnrand
from trnrand import Generator
from trnrand.engines import ENGINES

from .draws import DRAWS

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

EXACT = {
    "uniform", "uniform float64", "uniform bfloat16", "bernoulli", "randint", "randint wide",
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


@pytest.mark.parametrize("engine", ENGINES)
def test_a_million_words_agree(engine):
    words = [
        Generator(7, device, engine=engine).words(1_000_000).cpu() for device in ("cpu", "cuda")
    ]
    assert torch.equal(*words)


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
