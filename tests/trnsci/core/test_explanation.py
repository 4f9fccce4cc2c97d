"""What a call would do is told without doing it."""

import threading

import pytest
import torch

from trnsci.core import explain
from trnsci.core.backend.explanation import Step
from trnsci.core.counters import counts
from trnsci.core.errors import ShapeError
from trnsci.core.testing import random_tensor

X = random_tensor(4, 5)


@pytest.fixture
def function(library, operation):
    """A public function as the libraries write them: straight to torch unless kernels run."""

    def doubled_sum(x, y=None, *, alpha=1.0):
        if y is not None and x.shape != y.shape:
            raise ShapeError(f"doubled_sum: x and y must have one shape, got {x.shape}, {y.shape}")
        if not library.kernels_wanted():
            return 2 * (alpha * x + y)
        return 2 * operation(x, y, alpha)

    return doubled_sum


def test_the_torch_path_is_explained_though_the_function_would_not_reach_the_operation(
    operation, function
):
    got = explain(function, X, X)
    assert got.steps == [
        Step(
            operation.qualified_name, "pytorch", "backend 'auto' finds no NeuronCore with AWS's NKI"
        )
    ]
    assert got.path == "pytorch"


def test_a_kernel_path_is_explained_and_nothing_runs(library, operation, function):
    with library.backend("simulator"):
        got = explain(function, X, y=X, alpha=3.0)
    assert str(got).startswith(
        "doubled_sum: simulator\n"
        f"  {operation.qualified_name} -> simulator: backend 'simulator' is set\n    predicted "
    )
    assert not counts().launches


def test_neither_the_reference_nor_the_kernel_computes(library, make_operation):
    def reference(x: torch.Tensor, y: torch.Tensor | None, alpha: float) -> torch.Tensor:
        assert isinstance(x, torch._subclasses.FakeTensor)
        return x.new_empty(x.shape)

    operation = make_operation("failing", reference=reference)
    for backend in ("pytorch", "simulator"):
        with library.backend(backend):
            assert explain(operation, X, X, 1.0).path == backend
    assert not counts().fallbacks


def test_each_operation_of_a_call_has_its_step(library, operation):
    def mixed(x):
        return operation(x, x, 1.0).double(), operation(x.double(), None, 1.0)

    with library.backend("simulator"):
        got = explain(mixed, X)
    assert [(step.path, step.reason) for step in got.steps] == [
        ("simulator", "backend 'simulator' is set"),
        ("pytorch", "the kernel does not take torch.float64"),
    ]
    assert got.path == "pytorch and simulator"


def test_a_function_without_operations_is_torch_only():
    got = explain(torch.linalg.norm, X)
    assert got.path == "torch only"
    assert got.steps == []
    assert str(got).endswith("torch only")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: int(x.sum()), "depends on values"),
        (lambda x: x[x > 0], "depends on values"),
        (lambda x: x.numpy(), "NumPy or SciPy"),
    ],
    ids=["item", "mask", "numpy"],
)
def test_what_cannot_be_followed_is_said(operation, function, why):
    got = explain(lambda x: function(operation(x, None, 1.0)), X)
    assert len(got.steps) == 1
    assert why in got.open_end
    assert why in str(got)


def test_real_tensors_of_a_closure_are_not_read_as_arrays(operation):
    """Inside the fake tensor mode their arrays would be memory that nobody wrote."""
    index, seen = torch.arange(3), []
    got = explain(lambda x: seen.append(index.numpy()) or operation(x, None, 1.0), X)
    assert not seen
    assert "NumPy or SciPy" in got.open_end


def test_a_call_that_cannot_be_followed_to_an_operation_is_not_known(operation):
    got = explain(lambda x: operation(x, None, float(x[0, 0])), X)
    assert got.path == "not known"


def test_errors_of_the_call_are_raised(function):
    with pytest.raises(ShapeError, match="one shape"):
        explain(function, X, X.mT)
    with pytest.raises(RuntimeError):
        explain(torch.mm, X, X)
    assert counts().launches == {}


def test_operands_and_their_gradients_are_left_alone(library, function):
    x = X.clone().requires_grad_()
    with library.backend("simulator"):
        explain(function, x, x)
    assert torch.equal(x.detach(), X)
    assert x.grad is None


def test_other_threads_compute_meanwhile(library, operation):
    found = []

    def asks(x):
        thread = threading.Thread(target=lambda: found.append((operation(X, X, 2.0), counted())))
        thread.start()
        thread.join()
        return x

    def counted():
        return library.kernels_wanted()

    explain(asks, X)
    ((result, wanted),) = found
    assert torch.equal(result, 3.0 * X)
    assert wanted is None
