"""What torch has for compiled code says and makes what it is taken for, or is not used."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trnsci.core import shortcuts
from trnsci.core.shortcuts import new_on, outline, recogniser
from trnsci.core.testing import random_tensor


class Watching(TorchDispatchMode):
    """A mode that sees each operation, and changes none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.fixture
def without(monkeypatch):
    """A torch that has none of the functions."""
    monkeypatch.setattr(shortcuts, "_guards", None)
    shortcuts._tells_apart.cache_clear()
    yield
    shortcuts._tells_apart.cache_clear()


class TestRecognition:
    x = random_tensor(4, 8, dtype=torch.complex64)

    def test_tensors_like_it(self):
        recognises = recogniser(self.x)
        assert recognises(self.x)
        assert recognises(random_tensor(4, 8, dtype=torch.complex64, seed=1))
        assert recognises(random_tensor(5, 8, dtype=torch.complex64)[1:])

    def test_other_tensors(self):
        recognises, x = recogniser(self.x), self.x
        for other in (
            x[:3],
            x[:, :4],
            x[None],
            x.to(torch.complex128),
            x.real.contiguous(),
            x.mT.contiguous().mT,
            x.conj(),
            torch._neg_view(x),
            x.clone().requires_grad_(),
            x.to("meta"),
            torch.nn.Parameter(x, requires_grad=False),
            torch._efficientzerotensor((4, 8), dtype=torch.complex64),
            x.numpy(),
            None,
        ):
            assert not recognises(other), other

    @pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
    def test_other_circumstances(self):
        recognises, seen = recogniser(self.x), []

        def asked(y):
            seen.extend([recognises(y), recognises(self.x)])
            return y.abs().sum()

        torch.func.vmap(asked)(self.x[None])
        torch.func.grad(asked)(self.x)
        torch.func.jvp(asked, (self.x,), (self.x,))
        torch.jit.trace(asked, self.x, check_trace=False)
        for context in (torch.autocast("cpu"), torch.inference_mode(), Watching()):
            with context:
                asked(self.x)
        assert not any(seen)
        assert recognises(self.x)

    def test_a_leaf_is_not_recognised_whether_or_not_gradients_are_wanted(self):
        leaf = self.x.clone().requires_grad_()
        for context in (torch.no_grad(), torch.enable_grad(), torch.inference_mode()):
            with context:
                recognises = recogniser(leaf)
                assert not recognises(leaf)
            assert not recognises(leaf)

    def test_a_torch_without_it(self, without):
        assert not recogniser(self.x)(self.x)

    def test_a_torch_in_which_it_means_something_else(self, without, monkeypatch):
        for answer in (True, False):
            guards = SimpleNamespace(
                TensorGuards=lambda *args, a=answer, **kw: SimpleNamespace(check=lambda x: a)
            )
            monkeypatch.setattr(shortcuts, "_guards", guards)
            shortcuts._tells_apart.cache_clear()
            assert not recogniser(self.x)(self.x)


class TestNewTensors:
    @pytest.mark.parametrize("turned", [True, False])
    @pytest.mark.parametrize("shape", [(3,), (4, 5), (1, 6), (2, 3, 4)])
    def test_they_are_as_asked_for(self, shape, turned):
        want = torch.empty(shape, dtype=torch.complex64)
        if turned:
            want = torch.empty(*shape[-1:], *shape[:-1], dtype=torch.complex64).movedim(0, -1)
        made = new_on("cpu")(*outline(shape, torch.complex64, turned))
        for got in (made, torch.zeros_like(made)):
            assert got.shape == want.shape
            assert got.dtype is want.dtype
            assert got.device == want.device
        assert made.stride() == want.stride()
        assert not made.requires_grad
        assert made.untyped_storage().nbytes() == want.untyped_storage().nbytes()

    def test_they_can_be_differentiated_and_belong_to_their_mode(self):
        new = new_on("cpu")
        leaf = new((2, 3), (3, 1), torch.float32).fill_(2.0).requires_grad_()
        (leaf**2).sum().backward()
        assert torch.equal(leaf.grad, torch.full((2, 3), 4.0))
        with torch.inference_mode():
            assert new((2,), (1,), torch.float32).is_inference()
        assert not new((2,), (1,), torch.float32).is_inference()

    def test_a_torch_without_the_function(self, without):
        made = new_on("cpu")((2, 3), (1, 2), torch.float64)
        assert (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), torch.float64)
