"""Calls like the last one are recognised, and no others."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import trnfft
from trnfft import _eager
from trnfft._kept import CALLS
from trnsci.core import shortcuts
from trnsci.core.testing import random_tensor


@pytest.fixture
def without(monkeypatch):
    """A torch that has none of the functions."""
    monkeypatch.setattr(shortcuts, "_guards", None)
    shortcuts._tells_apart.cache_clear()
    yield
    shortcuts._tells_apart.cache_clear()


def test_transforms_are_the_same_without_any_of_it(without):
    _eager.forget()
    x = random_tensor(4, 8, dtype=torch.complex64)
    for _ in range(CALLS + 3):
        assert torch.equal(trnfft.fft(x), torch.fft.fft(x))
    _eager.forget()


class TestTheLastCall:
    """Only what it was called with is recognised."""

    @pytest.fixture(autouse=True)
    def nothing_is_kept(self):
        _eager.forget()
        yield
        _eager.forget()

    def check(self, name, x, *args):
        for _ in range(CALLS + 2):
            assert torch.equal(getattr(trnfft, name)(x, *args), getattr(torch.fft, name)(x, *args))

    def test_other_arguments(self):
        x = random_tensor(8, 8, dtype=torch.complex64)
        for args in ((), (None, 0), (4,), (None, -1, "ortho"), (8,), (None, -1, "forward"), ()):
            self.check("fft", x, *args)
        for args in ((), ((8, 8),), (None, (0, 1)), (None, (1, 0)), ((4, 8),), ()):
            self.check("ifft2", x, *args)

    def test_lists_that_change(self):
        x = random_tensor(8, 8, dtype=torch.complex64)
        dim, s = [-2, -1], [8, 8]
        self.check("fft2", x, s, dim)
        s[1] = 4
        self.check("fft2", x, s, dim)
        s[1], dim[0] = 8, 0
        dim.pop()
        s.pop()
        self.check("fft2", x, s, dim)

    def test_tensors_that_change(self):
        x = random_tensor(8, 8, dtype=torch.complex64)
        self.check("fft", x)
        x.t_()
        self.check("fft", x)
        x.t_()
        x.resize_(4, 8)
        self.check("fft", x)
        x.requires_grad_()
        assert trnfft.fft(x).requires_grad

    def test_gradients_that_were_not_wanted_before(self):
        x = random_tensor(4, 8, dtype=torch.complex64).requires_grad_()
        for context in (torch.no_grad(), torch.inference_mode()):
            for name, args in (("fft", ()), ("ifft2", (None, (0, 1)))):
                with context:
                    self.check(name, x, *args)
                assert getattr(trnfft, name)(x, *args).requires_grad

    def test_modes_of_torch_itself(self):
        x = random_tensor(4, 8, dtype=torch.complex64)
        self.check("fft", x)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert isinstance(trnfft.fft(x), FakeTensor)
            assert isinstance(trnfft.fft(mode.from_tensor(x)), FakeTensor)
        recorded = make_fx(lambda y: trnfft.fft(y))(x)
        other = random_tensor(4, 8, dtype=torch.complex64, seed=1)
        assert torch.equal(recorded(other), torch.fft.fft(other))
        functional = torch.func.functionalize(trnfft.fft)
        assert torch.equal(functional(x), torch.fft.fft(x))

    def test_inputs_in_turn(self):
        inputs = [random_tensor(n, 8, dtype=torch.complex64) for n in (3, 4, 5)]
        for _ in range(CALLS + 2):
            for x in inputs:
                assert torch.equal(trnfft.fft(x), torch.fft.fft(x))
