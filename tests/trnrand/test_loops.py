"""Compiled loops, tables and tensors draw the same counts and integers."""

import pytest
import torch

import trnrand


@pytest.mark.parametrize(
    ("draw", "options"),
    [
        (trnrand.poisson, {"lam": 3.0}),
        (trnrand.poisson, {"lam": 25.0}),
        (trnrand.poisson, {"lam": 1e5}),
        (trnrand.binomial, {"n": 200, "p": 0.7}),
        (trnrand.binomial, {"n": 10**6, "p": 0.3}),
        (trnrand.binomial, {"n": torch.arange(20_001) ** 2, "p": 0.3}),
        (trnrand.binomial, {"n": 10**9, "p": torch.linspace(0, 1, 20_001) ** 4}),
        (trnrand.poisson, {"lam": torch.logspace(-2, 9, 20_001)}),
        (trnrand.hypergeometric, {"good": 300, "bad": 500, "draws": 200}),
        (trnrand.hypergeometric, {"good": 10**9, "bad": 10**8, "draws": 10**8}),
        (trnrand.negative_binomial, {"n": 0.7, "p": 0.01}),
        (trnrand.randint, {"low": -5, "high": 1000}),
        (trnrand.randint, {"high": 3 << 30}),
        (trnrand.randint, {"high": 1 << 32}),
        (trnrand.gamma, {"shape": 0.5}),
        (trnrand.gamma, {"shape": 3.0}),
        (trnrand.gamma, {"shape": torch.logspace(-2, 6, 20_001)}),
        (trnrand.beta, {"alpha": 2.0, "beta": 3.0}),
        (trnrand.beta, {"alpha": torch.logspace(-2, 2, 20_001), "beta": 0.7}),
        (trnrand.student_t, {"df": 4.0}),
        (trnrand.normal, {}),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value)[:20],
)
def test_compiled_loops_draw_the_same(draw, options, monkeypatch):
    pytest.importorskip("numba")
    both = []
    for compiled in (True, False):
        monkeypatch.setattr(
            "trnrand._stream.numba_loops.compiled_wanted", lambda n, way=compiled: way
        )
        size = {"size": (20_001,)} if draw is trnrand.randint else {}
        dtype = {} if size else {"dtype": torch.float64}
        shape = [] if size else [20_001]
        both.append(draw(*shape, **size, **options, **dtype, generator=trnrand.Generator(5)))
    assert torch.equal(*both)


@pytest.mark.parametrize("engine", ["philox", pytest.param("threefry", marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [0, 3, 1000, 10**12])
def test_compiled_loops_draw_the_same_vectors(n, engine, monkeypatch):
    pytest.importorskip("numba")
    p, both = torch.tensor([0.0, 3.0, 1e-9, 1.0, 40.0, 0.5, 0.0], dtype=torch.float64), []
    for compiled in (True, False):
        monkeypatch.setattr(
            "trnrand._stream.numba_loops.compiled_wanted", lambda n, way=compiled: way
        )
        generator = trnrand.Generator(2**40, engine=engine)
        generator.seek(2**36 - 50)  # across a carry of the block index
        both.append(trnrand.multinomial(n, p, 100, generator=generator, dtype=torch.float64))
    assert torch.equal(*both)
    assert torch.equal(both[0].sum(-1), torch.full((100,), float(n), dtype=torch.float64))


@pytest.mark.parametrize(
    ("draw", "options"),
    [
        (trnrand.poisson, {"lam": 40.0}),
        (trnrand.binomial, {"n": 300, "p": 0.2}),
        (trnrand.hypergeometric, {"good": 300, "bad": 500, "draws": 200}),
        (trnrand.hypergeometric, {"good": 10**5, "bad": 10**6, "draws": 10**4}),
    ],
)
def test_a_table_accepts_what_logarithms_do(draw, options):
    """One number is looked up; a number for each sample is not."""
    each = {name: torch.full((20_000,), float(value)) for name, value in options.items()}
    looked_up = draw(20_000, **options, generator=trnrand.Generator(6))
    assert torch.equal(looked_up, draw(20_000, **each, generator=trnrand.Generator(6)))
