"""A sample has the same bits wherever its request begins and ends, and wherever it is written.

A vectorised function may compute the last elements of an array by other code than the rest. Pieces
of a few samples consist of such elements only.
"""

import numpy as np
import pytest
import torch

import trnrand
from trnrand import Generator

from .draws import DRAWS, F64

SEEDS = (2**63 + 5,)
MANY_SEEDS = range(50)
CUTS = np.random.default_rng(7).integers(1, 10, size=16).tolist()
LENGTH = sum(CUTS)


def between(first, last):
    return torch.logspace(np.log10(first), np.log10(last), LENGTH, dtype=F64)


# Parameters for each sample, over the ranges in which samplers differ.
PARAMETERS = {
    "gamma": {"shape": between(1e-2, 1e7), "scale": between(1, 3)},
    "beta": {"alpha": between(1e-2, 1e5), "beta": between(10, 0.1)},
    "student_t": {"df": between(0.1, 1e6)},
    "von_mises": {"kappa": between(1e-3, 1e6)},
    "weibull": {"shape": between(0.1, 10)},
    "truncated_normal": {"low": between(1, 50), "high": between(2, 60)},
    "poisson": {"lam": between(1e-2, 1e9)},
    "binomial": {"n": between(1, 1e12).round(), "p": between(1, 1e-3)},
    "geometric": {"p": between(1e-3, 1)},
    "negative_binomial": {"n": between(0.1, 1e5), "p": between(1e-2, 1)},
    "hypergeometric": {
        "good": between(5, 1e9).round(),
        "bad": between(1e6, 10).round(),
        "draws": between(5, 1e9).round(),
    },
}


def with_parameters(name):
    """A draw whose parameters depend on the position in the stream."""

    def draw(n, generator, **options):
        part = slice(generator.offset, generator.offset + n)
        own = {key: values[part] for key, values in PARAMETERS[name].items()}
        return getattr(trnrand, name)(**own, generator=generator, **options)

    return draw


# Those that name a dtype are drawn in every dtype below.
NAMES = [name for name in DRAWS if "float" not in name]
EVERY = {name: DRAWS[name] for name in NAMES}
EVERY |= {f"{name} of tensors": with_parameters(name) for name in PARAMETERS}


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(MANY_SEEDS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EVERY)
def test_a_request_is_cut_anywhere(name, seeds):
    draw = EVERY[name]
    options = {} if name == "randint wide" else {"dtype": F64}
    for seed in seeds:
        whole, at = draw(LENGTH, generator=Generator(seed), **options), 0
        for length in CUTS:
            generator = Generator(seed)
            generator.seek(at)
            part = draw(length, generator=generator, **options)
            assert torch.equal(part, whole[at : at + length]), (seed, at)
            at += length


@pytest.mark.parametrize("name", [name for name in NAMES if "randint" not in name])
def test_ranks_and_outputs_of_every_dtype(name):
    draw, size, each = DRAWS[name], 3, 67
    for dtype in (torch.float32, F64, torch.bfloat16, torch.float16):
        whole = draw(size * each, generator=Generator(5), dtype=dtype)
        ranks = [Generator(5).partition(rank, size) for rank in range(size)]
        parts = [draw(each, generator=rank, dtype=dtype) for rank in ranks]
        assert torch.equal(torch.cat(parts), whole)
        buffer = torch.empty(2 * len(whole) + 1, dtype=dtype)
        for out in (buffer[1 : 1 + len(whole)], buffer[1::2]):  # not aligned, not dense
            assert torch.equal(draw(out=out, generator=Generator(5)), whole)


def test_vectors_are_cut_anywhere():
    weights = torch.tensor([0.3, 1.0, 2.5, 40.0, 7.0], dtype=F64)
    for draw in (
        lambda n, g: trnrand.dirichlet(weights, n, generator=g, dtype=F64),
        lambda n, g: trnrand.multinomial(30, weights, n, generator=g),
        lambda n, g: trnrand.multinomial(10**9, weights, n, generator=g, dtype=F64),
    ):
        for seed in SEEDS:
            whole = draw(60, Generator(seed))
            for start, stop in ((0, 1), (1, 8), (8, 11), (11, 60)):
                generator = Generator(seed)
                generator.seek(start * len(weights))
                assert torch.equal(draw(stop - start, generator), whole[start:stop])
