"""Draws inside of what torch does to functions: compiling, exporting, explaining, faking."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import trnrand
from each_case import each_case
from trnrand import Generator
from trnrand.errors import ShapeError
from trnsci.core import explain

from .draws import DRAWS

ZEROS, UNIT, ONES, ROWS = torch.zeros(2), torch.eye(2), torch.ones(3), torch.ones(4, 2)
VECTORS = {
    "multivariate_normal": lambda *size, **k: trnrand.multivariate_normal(ZEROS, UNIT, *size, **k),
    "dirichlet": lambda *size, **k: trnrand.dirichlet(ONES, *size, **k),
    "multinomial": lambda *size, **k: trnrand.multinomial(9, ONES, *size, **k),
    "choice": lambda *size, **k: trnrand.choice(10, *size, **k),
    "choice of rows": lambda *size, **k: trnrand.choice(ROWS, *size, **k),
}
EVERY = DRAWS | VECTORS


@pytest.fixture(autouse=True)
def default_is_put_back():
    with trnrand.fork_rng():
        yield


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


# What a parameter or dtype selects, it selects inside of the operation.
OF_EACH_FUNCTION = [name for name in EVERY if name in VECTORS or " " not in name]
OF_EACH_FUNCTION += [name for name in EVERY if name.endswith(("small", "float64"))]


# One graph for sizes of any value; torch makes a second one where the first was for one size.
@pytest.mark.parametrize(
    ("names", "options"),
    [
        *((OF_EACH_FUNCTION[i::4], {"backend": "eager", "dynamic": True}) for i in range(4)),
        (["uniform", "gamma", "choice of rows"], {"backend": "aot_eager"}),
    ],
)
def test_compiled_draws_are_those_of_the_call(names, options):
    generator = Generator(3)

    def draw(x):
        return [x.shape[0] + EVERY[name](x.shape[0], generator=generator) for name in names]

    run = compiled(draw, **options)
    for count in (4, 7, 4):
        before = generator.get_state()
        want = draw(torch.empty(count))
        after = generator.offset
        generator.set_state(before)
        got = run(torch.empty(count))
        for name, found, wanted in zip(names, got, want, strict=True):
            assert torch.equal(found, wanted), name
            assert found.dtype is wanted.dtype, name
        assert generator.offset == after


@pytest.mark.parametrize("count", [1_000_001, pytest.param(1, marks=pytest.mark.slow)])
def test_any_size_compiles_for_the_default_back_end(count):
    def noise(x):
        first, second = trnrand.uniform(x.shape[0]), trnrand.normal(x.shape[0])
        return x + first * 2, trnrand.uniform(x.shape[0]) - second

    run = compiled(noise)
    trnrand.manual_seed(5)
    want = noise(torch.zeros(count))
    for _ in range(2):
        trnrand.manual_seed(5)
        got = run(torch.zeros(count))
        assert torch.equal(got[0], want[0])
        # The compiler may fuse the subtraction of what it did not make.
        assert torch.allclose(got[1], want[1], rtol=0, atol=1e-6)


def test_equal_draws_of_a_graph_are_two_draws():
    trnrand.manual_seed(1)
    a, b = compiled(lambda: (trnrand.uniform(5), trnrand.uniform(5)), backend="aot_eager")()
    assert torch.equal(torch.cat([a, b]), trnrand.uniform(10, generator=Generator(1)))


def test_gradients_of_compiled_code_see_one_draw():
    def loss(x):
        return (x * trnrand.bernoulli(50, p=0.5)).sin().square().sum()

    def gradient(function):
        trnrand.manual_seed(2)
        x = torch.linspace(0, 1, 50, requires_grad=True)
        function(x).backward()
        return x.grad, trnrand.get_default_generator().offset

    (want, offset), (got, same) = gradient(loss), gradient(compiled(loss, backend="aot_eager"))
    torch.testing.assert_close(got, want)
    assert same == offset == 50


def test_compiled_code_fills_a_tensor_and_takes_parameters_of_any_type():
    def fill(out, lam, high):
        trnrand.normal(mean=1.5, std=0.5, out=out)
        return trnrand.poisson(lam=lam), trnrand.randint(-3, high, (4,))

    lam = torch.tensor([1.0, 50.0])
    found = []
    for run in (fill, compiled(fill, backend="aot_eager")):
        trnrand.manual_seed(8)
        out = torch.empty(3, 2)
        found.append((out, *run(out, lam, 2**63)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of a graph's input, torch's
@pytest.mark.parametrize(
    "draw",
    [
        lambda p: trnrand.rsample.normal(5, 2, mean=p),
        lambda p: trnrand.rsample.gamma(5, 2, shape=p),
    ],
)
def test_draws_with_gradients_compile_in_parts(draw):
    def gradient(function):
        trnrand.manual_seed(2)
        p = torch.tensor([1.0, 2.0], requires_grad=True)
        drawn = function(p)
        drawn.square().sum().backward()
        return drawn.detach(), p.grad

    torch._dynamo.reset()
    got = gradient(torch.compile(lambda p: draw(p) * 2, backend="aot_eager"))
    want = gradient(lambda p: draw(p) * 2)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_a_seed_taken_later_needs_no_new_graph():
    run = compiled(lambda x: x + trnrand.uniform(6), backend="aot_eager")
    run(torch.zeros(6))
    with torch._dynamo.config.patch(error_on_recompile=True):
        for seed in (1, 2):
            trnrand.manual_seed(seed)
            want = trnrand.uniform(6, generator=Generator(seed))
            assert torch.equal(run(torch.zeros(6)), want)


def test_compiled_and_plain_draws_share_a_stream():
    generator = Generator(7)
    run = compiled(lambda: trnrand.uniform(2, generator=generator), backend="aot_eager")
    parts = [run() if i % 3 == 2 else trnrand.uniform(2, generator=generator) for i in range(12)]
    assert torch.equal(torch.cat(parts), trnrand.uniform(24, generator=Generator(7)))


def test_exported_programs_draw():
    class Noise(torch.nn.Module):
        def forward(self, x):
            return x + trnrand.uniform(x.shape[0], generator=generator)

    generator = Generator(4)
    program = torch.export.export(Noise(), (torch.zeros(3),), strict=False)
    assert generator.offset == 0
    assert any("trnrand.sample" in str(node.target) for node in program.graph.nodes)


# -- tensors without values ------------------------------------------------------------------------


@each_case("name", EVERY)
def test_fake_draws_have_a_shape_and_draw_nothing(name):
    generator = Generator(3)
    want = EVERY[name](2, 3, generator=Generator(3))
    with FakeTensorMode():
        got = EVERY[name](2, 3, generator=generator)
    assert type(got) is FakeTensor
    assert (got.shape, got.dtype, got.device) == (want.shape, want.dtype, want.device)
    assert generator.offset == 0
    assert torch.equal(EVERY[name](2, 3, generator=generator), want)


def test_fake_parameters_make_fake_draws():
    mode = FakeTensorMode()
    lam = mode.from_tensor(torch.ones(3, 1))
    generator = Generator(3)
    got = trnrand.poisson(lam=lam, generator=generator)
    assert (type(got), got.shape, generator.offset) == (FakeTensor, (3, 1), 0)
    got = trnrand.poisson(5, 3, 2, lam=lam, generator=generator)
    assert got.shape == (5, 3, 2)


@each_case("name", EVERY)
def test_meta_draws_have_a_shape_and_draw_nothing(name):
    generator = Generator(3)
    got = EVERY[name](2, 3, generator=generator, device="meta")
    want = EVERY[name](2, 3, generator=Generator(3))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert got.is_meta
    assert generator.offset == 0


def test_meta_buffers_and_meta_generators():
    out = torch.empty(4, dtype=torch.float64, device="meta")
    generator = Generator(3)
    assert trnrand.normal(out=out, generator=generator) is out
    assert generator.offset == 0
    assert trnrand.normal(4, generator=Generator(3, "meta")).is_meta


@each_case("name", EVERY)
def test_a_default_device_changes_nothing(name):
    want = EVERY[name](20, generator=Generator(3))
    with torch.device("meta"):
        got = EVERY[name](20, generator=Generator(3))
        again = trnrand.Generator(3)
    assert torch.equal(got, want)
    assert torch.equal(EVERY[name](20, generator=again), want)
    assert torch.equal(trnrand.uniform(5, generator=Generator(1)), FIRST_OF_SEED_1)


FIRST_OF_SEED_1 = trnrand.uniform(5, generator=Generator(1))


def test_a_generator_made_under_a_mode_is_a_generator():
    with FakeTensorMode():
        made = Generator(1)
    with torch.device("meta"):
        other = Generator(1)
    for generator in (made, other):
        assert torch.equal(trnrand.uniform(5, generator=generator), FIRST_OF_SEED_1)


@each_case("name", EVERY)
def test_explanations_draw_nothing(name):
    generator = Generator(3)
    found = explain(EVERY[name], 10, generator=generator)
    assert generator.offset == 0
    assert found.path == "pytorch"
    assert not found.open_end
    assert len(found.steps) == 1


def test_explanations_tell_kernels_from_what_has_none():
    with trnrand.backend("simulator"):
        assert explain(trnrand.normal, 1000).path == "simulator"
        assert explain(trnrand.gamma, 1000, shape=2.0).path == "pytorch"
        assert explain(trnrand.normal, 1000, dtype=torch.float64).path == "pytorch"


def test_an_explanation_has_the_kernel_of_the_engine_and_the_errors_of_the_call():
    times = set()
    with trnrand.backend("simulator"):
        for engine in ("philox", "threefry"):
            generator = Generator(3, engine=engine)
            (step,) = explain(trnrand.normal, 1000, generator=generator).steps
            times.add(step.predict("gen3").us)
    assert len(times) == 2
    with pytest.raises(ShapeError, match="size must be integers, got"):
        explain(trnrand.normal, 0.0, 1.0, (1000,))


# -- permutations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [None, torch.int32], ids=str)
def test_a_permutation_without_values_has_its_shape_and_dtype(dtype):
    on_meta = trnrand.randperm(7, dtype=dtype, device="meta")
    with FakeTensorMode():
        fake = trnrand.randperm(7, dtype=dtype)
    assert type(fake) is FakeTensor
    for found in (on_meta, fake):
        assert (found.shape, found.dtype) == ((7,), dtype or torch.int64)


def test_a_compiled_permutation_is_that_of_the_call():
    generator = Generator(3)
    run = compiled(
        lambda x: x + trnrand.randperm(x.shape[0], generator=generator), backend="aot_eager"
    )
    want = trnrand.randperm(7, generator=Generator(3))
    assert torch.equal(run(torch.zeros(7, dtype=torch.int64)), want)
    assert generator.offset == 7


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential"])
def test_a_buffer_inside_of_a_transform_is_refused_by_name(name):
    draw, fill = getattr(trnrand, name), getattr(trnrand, f"{name}_into")
    with pytest.raises(trnrand.ParameterError, match=f"{name}: out must be None inside"):
        torch.func.vmap(lambda x: draw(out=x), randomness="different")(torch.zeros(2, 3))
    with pytest.raises(trnrand.ParameterError, match=f"{name}_into: buf cannot be filled"):
        torch.func.vmap(lambda x: fill(x), randomness="different")(torch.zeros(2, 3))
