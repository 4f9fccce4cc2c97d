"""``alpha * f(operands) + beta * C``: what the core makes of f, for every backend and level."""

import pytest
import torch
from torch import Tensor
from torch.func import jvp, vmap

from trnsci.core.backend.update import Multiply, Update
from trnsci.core.testing import BACKENDS, random_tensor

from . import toy_kernel

# What torch does when forward mode is first used.

A, B, C = (random_tensor(3, 3, seed=seed) for seed in range(3))
NAN = torch.full((3, 3), torch.nan)


def product(multiply: Multiply, A: Tensor, B: Tensor, flip: bool) -> Tensor:
    return multiply(B, A) if flip else multiply(A, B)


def launch(launcher, alpha, A, B, beta, C, flip):
    """A kernel that adds; the product is made before it."""
    found = B @ A if flip else A @ B
    below = torch.zeros_like(found) if C is None else beta * C
    return toy_kernel.scaled_add(launcher, found, below, alpha)


def pullback(grad, needed, alpha, A, B, flip):
    left, right = (B, A) if flip else (A, B)
    by_left, by_right = alpha * grad @ right.mT, alpha * left.mT @ grad
    found = (by_right, by_left) if flip else (by_left, by_right)
    return tuple(g if wanted else None for g, wanted in zip(found, needed, strict=True))


@pytest.fixture
def update(library):
    return Update(
        library,
        "update",
        product=product,
        shape=lambda A, B, flip: (A.shape[0], B.shape[1]),
        launch=launch,
        pullback=pullback,
        multiply_at=lambda level: None if level == "own" else lambda a, b: a.double() @ b.double(),
        flops=lambda A, B, flip: 2.0 * A.numel() * B.shape[1],
    )


def assert_near(got, want):
    """Up to 8 roundings of terms below 64: sums of three products, factors and C."""
    assert got.shape == want.shape
    assert float((got.double() - want.double()).detach().abs().max()) <= 8 * 2.0**-24 * 64


@pytest.fixture(params=BACKENDS)
def on_backend(request, library):
    with library.backend(request.param):
        yield


def test_the_operator_has_the_arguments_in_the_order_of_the_update(update):
    update.register()
    schema = getattr(torch.ops, update.library.name).update.default._schema
    names = [argument.name for argument in schema.arguments]
    assert names == ["alpha", "A", "B", "beta", "C", "flip"]


@pytest.mark.usefixtures("on_backend")
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("wrap", [float, torch.tensor])
def test_factors_are_numbers_or_tensors(update, wrap, flip):
    want = 2 * (B @ A if flip else A @ B)
    assert_near(update.updated(wrap(2.0), (A, B), 0.0, None, flip), want)
    assert_near(update.updated(wrap(2.0), (A, B), wrap(-0.5), C, flip), want - 0.5 * C)
    row = C[0]
    assert_near(update.updated(2.0, (A, B), wrap(-0.5), row, flip), want - 0.5 * row)


@pytest.mark.usefixtures("on_backend")
def test_what_has_a_zero_factor_is_not_read_and_has_a_zero_gradient(update):
    a, b, c = (x.clone().requires_grad_() for x in (A, B, C))
    assert torch.equal(update.updated(0.0, (NAN, B), 2.0, C, False), 2 * C)
    assert_near(update.updated(1.0, (A, B), 0.0, NAN, False), A @ B)
    update.updated(0.0, (a, b), 2.0, c, False).sum().backward()
    assert not a.grad.any()
    assert torch.equal(c.grad, torch.full((3, 3), 2.0))


@pytest.mark.usefixtures("on_backend")
def test_derivatives_by_operands_and_by_c(update):
    def updated(a, b, c):
        return update.updated(2.0, (a, b), -0.5, c, True)

    def truth(a, b, c):
        return 2 * b @ a - 0.5 * c

    tangents = tuple(random_tensor(3, 3, seed=7 + i) for i in range(3))
    for got, want in zip(
        jvp(updated, (A, B, C), tangents), jvp(truth, (A, B, C), tangents), strict=True
    ):
        assert_near(got, want)
    leaves = [x.clone().requires_grad_() for x in (A, B, C)]
    pulled = [torch.autograd.grad((f(*leaves) * A).sum(), leaves) for f in (updated, truth)]
    for got, want in zip(*pulled, strict=True):
        assert_near(got, want)
    batch = torch.stack([A, B])
    assert_near(vmap(updated, (0, None, None))(batch, B, C), truth(batch, B, C))


@pytest.mark.usefixtures("on_backend")
def test_a_level_has_its_own_product_and_autocast_does_not_lower_it(update):
    want = (2 * A.double() @ B.double() - 0.5 * C.double()).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(update.updated(2.0, (A, B), -0.5, C, False, level="wide"), want)
        own = update.updated(2.0, (A, B), -0.5, C, False, level="own")
        assert own.dtype is torch.float32
        assert_near(own, want)
        assert update.updated(2.0, (A, B), -0.5, C, False).dtype is torch.bfloat16
