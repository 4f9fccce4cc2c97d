"""Small draws, which come out of prefetch buffers, are the stream in every state of a generator."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import trnrand
from drawn import examples
from each_case import each_case
from trnrand import Generator

from .draws import DRAWS

LAWS = [
    "uniform",
    "uniform float64",
    "uniform bfloat16",
    "normal",
    "gamma",
    "poisson small",
    "bernoulli",
    "randint",
]
SHAPES = [(1,), (3,), (2, 5), (64,), (65,)]

OTHER_ENGINE = Generator(7, engine="threefry").get_state()
SHARE = Generator(7, partition_rank=1, partition_size=2).get_state()

# What a caller may do to a generator between draws.
CHANGES = {
    "seek": lambda generator: generator.seek(40),
    "skip": lambda generator: generator.skip(7),
    "seed": lambda generator: generator.manual_seed(8),
    "threefry": lambda generator: generator.set_state(OTHER_ENGINE),
    "partition": lambda generator: generator.set_state(SHARE),
}
# What a caller may draw from in its place.
SUCCESSORS = {
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda generator: pickle.loads(pickle.dumps(generator)),
    "child": lambda generator: generator.spawn(1)[0],
}
MOVES = ["save", "restore", *CHANGES, *SUCCESSORS]

draws = st.tuples(st.sampled_from(LAWS), st.sampled_from(SHAPES), st.integers(1, 5))


@examples(50)
@given(st.lists(st.one_of(draws, st.sampled_from(MOVES)), max_size=25))
def test_a_draw_depends_on_the_state_alone(actions):
    generator = Generator(7)
    saved = generator.get_state()
    for action in actions:
        if action == "save":
            saved = generator.get_state()
        elif action == "restore":
            generator.set_state(saved)
        elif action in CHANGES:
            CHANGES[action](generator)
        elif action in SUCCESSORS:
            generator = SUCCESSORS[action](generator)
        else:
            compare_draws(generator, *action)


def compare_draws(generator, name, shape, times):
    for _ in range(times):
        fresh = generator.clone_state()  # which has made nothing in advance
        want, got = (DRAWS[name](*shape, generator=g) for g in (fresh, generator))
        assert torch.equal(got, want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert generator.offset == fresh.offset


@each_case("name", DRAWS)
def test_small_draws_are_the_stream(name):
    whole = DRAWS[name](600, generator=Generator(7))
    generator, at = Generator(7), 0
    for count in [1, 1, 3, 60, 1, 64, 65, 1, 300, 5, 1]:
        got = DRAWS[name](count, generator=generator)
        assert torch.equal(got, whole[at : at + count])
        assert got.dtype is whole.dtype
        at += count
        assert generator.offset == at


def uniforms(seed):
    return trnrand.uniform(100, generator=Generator(seed))


def test_small_draws_belong_to_the_caller():
    generator = Generator(7)
    for drawn in [trnrand.uniform(2, 2, generator=generator) for _ in range(4)]:
        drawn.zero_()
    generator.seek(0)
    again = [trnrand.uniform(2, 2, generator=generator) for _ in range(4)]
    assert torch.equal(torch.stack(again).view(-1), uniforms(7)[:16])


class Operators(TorchDispatchMode):
    """Counts the operators of torch."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("laws", [["gamma"], ["gamma", "laplace"]])
def test_draws_that_follow_each_other_are_made_together(laws):
    generator, counts = Generator(7), []
    for rounds in (1, 100):
        with Operators() as operators:
            for _ in range(rounds):
                for name in laws:
                    DRAWS[name](1, generator=generator)
        counts.append(operators.count)
    assert counts[1] < 25 * counts[0]


def test_a_device_by_any_name_uses_the_same_buffer():
    """As many operators of torch as for one name, and the samples of one stream."""
    names = [None, "cpu", torch.device("cpu")]
    counts, drawn = [], []
    for devices in ([None], names):
        generator = Generator(7)
        with Operators() as operators:
            for i in range(99):
                device = devices[i % len(devices)]
                drawn.append(trnrand.gamma(3, shape=2.0, generator=generator, device=device))
        counts.append(operators.count)
    assert counts[0] == counts[1]
    assert torch.equal(torch.cat(drawn[:99]), torch.cat(drawn[99:]))


def test_tensors_without_values_do_not_come_out_of_a_buffer():
    generator = Generator(7)
    for _ in range(4):
        trnrand.uniform(3, generator=generator)
    with FakeTensorMode():
        assert type(trnrand.uniform(3, generator=generator)) is FakeTensor
    assert trnrand.uniform(3, generator=generator, device="meta").is_meta
    assert generator.offset == 12


@pytest.mark.parametrize("size", [3, 64])
def test_total_is_the_size_of_one_share(size):
    generator = Generator(7)
    parts = [trnrand.uniform(size, total=size, generator=generator) for _ in range(4)]
    want = trnrand.uniform(4 * size, generator=Generator(7))
    assert torch.equal(torch.cat(parts), want)


@each_case(
    "call",
    [
        lambda g: trnrand.randint(2.0, (1,), generator=g),
        lambda g: trnrand.uniform(-1, generator=g),
        lambda g: trnrand.uniform(True, generator=g),
    ],
)
def test_small_draws_refuse_what_others_do(call):
    generator = Generator(7)
    for _ in range(3):
        trnrand.randint(2, (1,), generator=generator)
        trnrand.uniform(1, generator=generator)
    with pytest.raises(ValueError, match=r"must be"):
        call(generator)
    assert generator.offset == 6


@each_case("left", [5, 64, 65, 66])
def test_small_draws_end_with_the_stream(left):
    generator = Generator(7)
    generator.seek(2**64 - left)
    for _ in range(left):
        trnrand.uniform(1, generator=generator)
    assert generator.offset == 2**64
    with pytest.raises(ValueError, match=r"2\*\*64 samples"):
        trnrand.uniform(1, generator=generator)
