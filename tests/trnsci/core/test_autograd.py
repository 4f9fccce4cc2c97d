"""Gradients are the same on every path."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trnsci.core.counters import counts
from trnsci.core.testing import BACKENDS, launched, random_tensor, unit_roundoff

KERNEL = "scaled_add_kernel"


def product(x: Tensor, y: Tensor | None, alpha: float) -> Tensor:
    """A reference whose gradients depend on its operands."""
    return alpha * x if y is None else alpha * x * y


def gradients(operation, *args):
    leaves = [arg for arg in args if isinstance(arg, Tensor) and arg.requires_grad]
    result = operation(*args)
    weights = random_tensor(*result.shape, seed=9, dtype=result.dtype)
    return torch.autograd.grad((result * weights).sum(), leaves)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_those_of_the_definition(library, operation, backend, dtype):
    x = random_tensor(5, 7, dtype=dtype).requires_grad_()
    y = random_tensor(5, 7, seed=1, dtype=dtype).requires_grad_()
    with library.backend(backend):
        dx, dy = gradients(operation, x, y, -3.0)
    weights = random_tensor(5, 7, seed=9, dtype=dtype).double().numpy()
    # d(alpha*x + y) is alpha and 1: one product, rounded once.
    bound = unit_roundoff(dtype) * np.abs(3.0 * weights)
    assert (np.abs(dx.double().numpy() + 3.0 * weights) <= bound).all()
    assert (dy.double().numpy() == weights).all()
    assert (dx.dtype, dy.dtype) == (dtype, dtype)
    assert counts().launches[KERNEL] == (backend == "simulator")


def test_both_paths_recompute_the_same_gradients(library, make_operation):
    operation = make_operation(reference=product)
    args = random_tensor(4, 4).requires_grad_(), random_tensor(4, 4, seed=1).requires_grad_(), 2.0
    on_torch = gradients(operation, *args)
    with library.backend("simulator"), launched(KERNEL):
        on_simulator = gradients(operation, *args)
    # Both differentiate the same function at the same point: equal bits.
    assert all(torch.equal(a, b) for a, b in zip(on_torch, on_simulator, strict=True))


def test_only_what_is_needed_is_differentiated(library, operation):
    x, y = random_tensor(3, 3), random_tensor(3, 3, seed=1).requires_grad_()
    with library.backend("simulator"):
        got = operation(x, y, 2.0)
        assert got.requires_grad
        got.sum().backward()
    assert x.grad is None
    assert torch.equal(y.grad, torch.ones(3, 3))


def test_an_absent_tensor_has_no_gradient(library, operation):
    x = random_tensor(3, 3).requires_grad_()
    with library.backend("simulator"):
        operation(x, None, 2.0).sum().backward()
    assert torch.equal(x.grad, torch.full((3, 3), 2.0))


def test_results_of_plain_tensors_carry_no_graph(library, operation):
    x = random_tensor(3, 3)
    with library.backend("simulator"):
        assert not operation(x, x, 2.0).requires_grad
        with torch.no_grad():
            assert not operation(x.requires_grad_(), x, 2.0).requires_grad


def test_second_derivatives_are_those_of_the_definition(library, make_operation):
    operation = make_operation(reference=product)
    x, y = random_tensor(3, 3).requires_grad_(), random_tensor(3, 3, seed=1).requires_grad_()
    with library.backend("simulator"):
        (dx,) = torch.autograd.grad(operation(x, y, 2.0).sum(), x, create_graph=True)
        (dxdy,) = torch.autograd.grad(dx.sum(), y)
    assert torch.equal(dxdy, torch.full((3, 3), 2.0))


def test_an_own_backward_gets_the_gradient_what_is_needed_and_the_arguments(
    library, make_operation
):
    seen = []

    def backward(grad, needed, x, y, alpha):
        seen.append((needed, alpha))
        return (grad * 5 if needed[0] else None, None, None)

    operation = make_operation(backward=backward)
    x = random_tensor(3, 3).requires_grad_()
    with library.backend("simulator"):
        operation(x, random_tensor(3, 3), 2.0).sum().backward()
    assert torch.equal(x.grad, torch.full((3, 3), 5.0))
    assert seen == [((True, False, False), 2.0)]


def test_gradients_of_a_fallback_are_the_references(library, make_operation):
    operation = make_operation("failing", reference=product)
    args = random_tensor(4, 4).requires_grad_(), random_tensor(4, 4, seed=1).requires_grad_(), 2.0
    wanted = gradients(operation, *args)
    with library.backend("simulator"), pytest.warns(UserWarning, match="torch computed"):
        got = gradients(operation, *args)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
