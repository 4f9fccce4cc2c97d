"""torch.compile, FakeTensor and vmap, on the torch path and on the kernel path."""

import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from trnsci.core.counters import counts
from trnsci.core.errors import BackendError
from trnsci.core.testing import launched, random_tensor, refusals_expected

KERNEL = "scaled_add_kernel"
X, Y = random_tensor(4, 5), random_tensor(4, 5, seed=1)


@pytest.fixture
def compiled(operation):
    """The operation inside a function that is one graph or an error."""
    torch._dynamo.reset()
    yield torch.compile(
        lambda x, y: 2.0 * operation(x, y, 3.0), fullgraph=True, backend="aot_eager"
    )
    torch._dynamo.reset()


def test_compiled_on_the_torch_path(compiled):
    assert torch.equal(compiled(X, Y), 2.0 * (3.0 * X + Y))
    assert not counts().launches


def test_compiled_on_the_simulator_path(library, operation, compiled):
    with library.backend("simulator"):
        wanted = 2.0 * operation(X, Y, 3.0)
        with launched(KERNEL):
            assert torch.equal(compiled(X, Y), wanted)


def test_compiled_with_the_plain_backend_on_the_simulator_path(library, operation):
    compiled = torch.compile(operation, fullgraph=True, backend="eager")
    with library.backend("simulator"), launched(KERNEL):
        compiled(X, Y, 3.0)


def test_compiled_gradients_on_the_simulator_path(library, compiled):
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    with library.backend("simulator"), launched(KERNEL):
        compiled(x, y).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 6.0))
    assert torch.equal(y.grad, torch.full_like(y, 2.0))


def test_a_compiled_call_runs_the_kernel_each_time(library, compiled):
    with library.backend("simulator"):
        compiled(X, Y)
        compiled(X, Y)
    assert counts().launches[KERNEL] == 2


@refusals_expected()
def test_dtypes_without_a_kernel_compile_to_torch(library, compiled):
    x, y = X.double(), Y.double()
    with library.backend("simulator"):
        assert torch.equal(compiled(x, y), 2.0 * (3.0 * x + y))
    assert not counts().launches


@pytest.mark.parametrize(("size", "launches"), [(7, 0), (8, 1)])
def test_the_size_that_is_worth_a_launch_is_known_to_a_compiled_call(
    make_operation, fake_neuron, size, launches
):
    fake_neuron("cpu")
    operation = make_operation(flops=lambda x, y, alpha: 2 * x.numel(), min_flops=100)
    compiled = torch.compile(operation, fullgraph=True, backend="eager", dynamic=True)
    for rows in (size, size, size):
        x = torch.ones(rows, size)
        compiled(x, x, 1.0)
    assert counts().launches[KERNEL] == 3 * launches


class TestACompiledCallFollowsTheBackend:
    def launches(self, compiled):
        before = counts()
        compiled(X, Y)
        return (counts() - before).launches[KERNEL]

    def test_set_by_function(self, library, compiled):
        seen = []
        for name in ("auto", "simulator", "pytorch", "simulator"):
            library.set_backend(name)
            seen.append(self.launches(compiled))
        assert seen == [0, 1, 0, 1]

    def test_set_by_block(self, library, compiled):
        seen = [self.launches(compiled)]
        with library.backend("simulator"):
            seen.append(self.launches(compiled))
            with library.backend("pytorch"):
                seen.append(self.launches(compiled))
        seen.append(self.launches(compiled))
        assert seen == [0, 1, 0, 0]

    def test_set_by_block_of_another_thread(self, library, compiled):
        self.launches(compiled)
        seen = []
        with library.backend("simulator"):
            seen.append(self.launches(compiled))
            thread = threading.Thread(target=lambda: seen.append(self.launches(compiled)))
            thread.start()
            thread.join()
        assert seen == [1, 0]

    def test_a_requirement_is_seen_by_a_graph(self, library, compiled):
        assert self.launches(compiled) == 0
        with library.requiring("1"), pytest.raises(BackendError, match="REQUIRE_NKI"):
            compiled(X, Y)
        assert self.launches(compiled) == 0


def test_a_kernel_that_fails_falls_back_inside_a_compiled_call(library, make_operation):
    operation = make_operation("failing")
    compiled = torch.compile(operation, fullgraph=True, backend="eager")
    with library.backend("simulator"), pytest.warns(UserWarning, match="torch computed"):
        assert torch.equal(compiled(X, Y, 3.0), 3.0 * X + Y)
    assert counts().fallbacks[operation.qualified_name] == 1


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_fake_tensors_have_the_shape_of_the_result_and_run_nothing(library, operation, backend):
    mode = FakeTensorMode()
    x = mode.from_tensor(X.to(torch.bfloat16).mT)
    with library.backend(backend), mode:
        got = operation(x, x, 3.0)
    assert isinstance(got, FakeTensor)
    assert (got.shape, got.dtype) == ((5, 4), torch.bfloat16)
    assert got.is_contiguous() is (backend == "simulator")
    assert not counts().launches


def test_an_own_fake_is_used_in_place_of_the_reference(library, make_operation):
    def shape(x: torch.Tensor, y: torch.Tensor | None, alpha: float) -> torch.Tensor:
        return x.new_empty(x.shape)

    def reference(x, y, alpha):
        raise AssertionError("computed")

    operation = make_operation(reference=reference, fake=shape)
    with library.backend("simulator"), FakeTensorMode() as mode:
        assert operation(mode.from_tensor(X), None, 3.0).shape == X.shape


@pytest.mark.parametrize(("backend", "launches"), [("pytorch", 0), ("simulator", 4)])
def test_vmap_gives_each_entry_of_the_batch(library, operation, backend, launches, capfd):
    x, y = random_tensor(4, 3, 6), random_tensor(3, 6, 4, seed=1)
    with library.backend(backend):
        got = torch.vmap(lambda a, b: operation(a, b, 3.0), in_dims=(0, 2))(x, y)
    want = 3.0 * x.double() + y.permute(2, 0, 1).double()
    # One product and one sum, each rounded: 2u of the magnitudes; u = eps/2.
    magnitudes = (3.0 * x.double()).abs() + y.permute(2, 0, 1).double().abs()
    assert ((got - want).abs() <= 1.01 * torch.finfo(torch.float32).eps * magnitudes).all()
    assert counts().launches[KERNEL] == launches
    assert capfd.readouterr().err == ""  # where torch says that it has no rule for an operator


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_vmap_over_no_entries(library, operation, backend):
    x, y = torch.empty(0, 3, 6, requires_grad=True), random_tensor(3, 6)
    with library.backend(backend):
        got = torch.vmap(lambda a, b: operation(a, b, 3.0), in_dims=(0, None))(x, y)
        assert got.shape == (0, 3, 6)
        assert got.dtype is x.dtype
        (grad,) = torch.autograd.grad(got.sum(), x)
        assert grad.shape == x.shape
        slopes = torch.vmap(torch.func.grad(lambda a: operation(a, y, 3.0).sum()))(x.detach())
        assert slopes.shape == x.shape
    assert not counts().launches


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_vmap_over_no_entries_of_several_results(library, make_operation, backend):
    def places(x: torch.Tensor, alpha: float) -> tuple[torch.Tensor, torch.Tensor]:
        return alpha * x, x.argmax(0)

    operation = make_operation(reference=places)
    with library.backend(backend):
        got = torch.vmap(lambda a: operation(a, 3.0), in_dims=1)(torch.empty(3, 0, 6))
    assert [(part.shape, part.dtype) for part in got] == [
        ((0, 3, 6), torch.float32),
        ((0, 6), torch.int64),
    ]
