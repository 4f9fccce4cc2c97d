"""The default generator: seeds, forks, workers, saved states and recomputation."""

import contextlib
import functools
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import trnrand
from fresh_process import printed_after
from trnrand import Generator

FORKED = """
import os, torch, trnrand

def in_child():
    out, into = os.pipe()
    if os.fork() == 0:
        os.write(into, json.dumps(trnrand.uniform(4).tolist()).encode())
        os._exit(0)
    os.close(into)
    drawn = os.read(out, 1000)
    os.wait()
    return json.loads(drawn)

def family():
    trnrand.manual_seed(5)
    return [in_child(), in_child(), trnrand.uniform(4).tolist(), in_child()]

explicit = trnrand.Generator(3)
print(json.dumps([family(), family()]))
"""

WORKERS = """
import sys, torch, trnrand
from torch.utils.data import DataLoader, Dataset

class Draws(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return trnrand.uniform(3)

def epochs(how):
    trnrand.manual_seed(5)
    torch.manual_seed(5)
    loader = DataLoader(Draws(), batch_size=2, num_workers=2, multiprocessing_context=how)
    return [batch.tolist() for _ in range(2) for batch in loader]
"""


SOURCES = Path(trnrand.__file__).parents[1]


@pytest.fixture(autouse=True)
def default_is_put_back():
    with trnrand.fork_rng():
        yield


def test_forks_differ_and_are_reproducible():
    first, again = printed_after("torch", FORKED, path=[SOURCES])
    assert first == again
    assert len({tuple(drawn) for drawn in first}) == 4
    trnrand.manual_seed(5)
    assert first[2] == trnrand.uniform(4).tolist(), "a fork does not change the parent's stream"


def test_other_generators_are_the_same_in_a_fork():
    drawn = printed_after(
        "torch",
        FORKED.replace(
            "trnrand.uniform(4).tolist()", "trnrand.uniform(4, generator=explicit)[0].item()"
        ),
    )
    assert len({tuple(family[:2]) for family in drawn}) == 2
    assert all(family[0] == family[1] != family[3] for family in drawn)


@pytest.mark.parametrize("how", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_a_loader_differ_and_are_reproducible(how, tmp_path):
    # Spawned workers import what they run, so that it is a module here.
    (tmp_path / "loading.py").write_text(WORKERS)
    first, again = printed_after(
        "torch",
        "import loading\n"
        "if __name__ == '__main__':\n"
        f"    print(json.dumps([loading.epochs({how!r}), loading.epochs({how!r})]))",
        path=[tmp_path, SOURCES],
    )
    assert first == again
    rows = {tuple(row) for batch in first for row in batch}
    assert len(rows) == 2 * 8, "no two items of two epochs are alike"


def test_a_seed_reaches_every_default():
    def draws():
        trnrand.manual_seed(9)
        return [
            trnrand.uniform(5),
            trnrand.sobol(4, 3),
            trnrand.halton(4, 3, scramble=True),
            trnrand.latin_hypercube(4, 3),
            trnrand.sobol(4, 3),
        ]

    first = draws()
    assert all(torch.equal(a, b) for a, b in zip(first, draws(), strict=True))
    assert not torch.equal(first[1], first[4])


def test_a_fork_leaves_the_default_as_it_was():
    generator = trnrand.manual_seed(1)
    trnrand.uniform(3)
    with trnrand.fork_rng():
        trnrand.manual_seed(2)
        inside = trnrand.uniform(3)
    assert trnrand.get_default_generator() is generator
    assert generator.offset == 3
    with trnrand.fork_rng():
        trnrand.uniform(5)
    assert generator.offset == 3
    assert torch.equal(inside, trnrand.uniform(3, generator=Generator(2)))


def test_a_fork_of_named_generators_restores_them_alone():
    generator = trnrand.manual_seed(1)
    other = Generator(4)
    with trnrand.fork_rng(other), contextlib.suppress(ValueError):
        trnrand.uniform(3)
        trnrand.uniform(3, generator=other)
        trnrand.uniform(-1)
    assert (generator.offset, other.offset) == (3, 0)
    with trnrand.fork_rng(other, enabled=False):
        trnrand.uniform(3, generator=other)
    assert other.offset == 3


def test_the_state_of_the_default_is_brought_back():
    trnrand.manual_seed(1)
    state = trnrand.get_rng_state()
    first = trnrand.normal(5)
    trnrand.set_rng_state(state)
    assert torch.equal(trnrand.normal(5), first)


@pytest.mark.parametrize("named", [False, True])
def test_checkpoints_draw_the_same_numbers_when_they_recompute(named):
    generator = Generator(3) if named else None
    contexts = trnrand.checkpoint_contexts
    if named:
        contexts = functools.partial(contexts, generator)

    def layer(x):
        return (x * trnrand.bernoulli(100, p=0.5, generator=generator)).sin()

    def gradient(run):
        trnrand.manual_seed(4)
        if named:
            generator.manual_seed(3)
        x = torch.ones(100, requires_grad=True)
        y = run(layer, run(layer, x))
        after = trnrand.uniform(2, generator=generator)
        y.sum().backward()
        later = trnrand.uniform(2, generator=generator)
        return x.grad, after, later

    def recomputed(layer, x):
        return checkpoint(layer, x, use_reentrant=False, context_fn=contexts)

    plain, saved = gradient(lambda layer, x: layer(x)), gradient(recomputed)
    assert all(torch.equal(a, b) for a, b in zip(plain, saved, strict=True))


def test_checkpoints_can_be_recomputed_twice():
    trnrand.manual_seed(4)
    x = torch.ones(50, requires_grad=True)
    y = checkpoint(
        lambda x: (x * trnrand.uniform(50)).sin(),
        x,
        use_reentrant=False,
        context_fn=trnrand.checkpoint_contexts,
    )
    (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    (second,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(first, second)
