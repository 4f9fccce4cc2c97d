"""When the copy of a triangle is left out, seen without a device: tensors on the CPU stand for it.

Whether products of cuBLAS come out symmetric is for ``test_cuda``.
"""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from trnblas import _symmetry
from trnblas._symmetry import comes_symmetric, is_known
from trnsci.core.shortcuts import never

from .agreement import draw


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(_symmetry, "_known", {})
    monkeypatch.setattr(_symmetry, "_latest", [_symmetry._NONE])


class Product:
    """``A A'``, with an error in one element unless it is told otherwise; counts its calls."""

    def __init__(self, wrong=True):
        self.wrong, self.seen = wrong, []

    def __call__(self, a):
        self.seen.append(a)
        product = a @ a.mT
        product = product.triu() + product.triu(1).mT
        product[1, 0] += self.wrong
        return product


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_random_matrix_tells(wrong, dtype):
    multiply = Product(wrong)
    a = torch.zeros(5, 7, dtype=dtype)  # whose product would be symmetric in any case
    assert [comes_symmetric(a, "kind", multiply) for _ in range(3)] == 3 * [not wrong]
    (tried,) = multiply.seen
    assert len(set(tried.flatten().tolist())) == a.numel()


def test_each_way_to_lie_in_memory_is_tried():
    multiply = Product(False)
    wide = draw((6, 40), torch.float32, 1)
    ways = [wide, wide[:, 1:], wide[:, ::2], wide[:5], wide.mT.contiguous().mT, wide.double()]
    for a in ways:
        before = len(multiply.seen)
        assert comes_symmetric(a, "kind", multiply)
        tried = multiply.seen[before]
        assert (tried.shape, tried.stride(), tried.dtype) == (a.shape, a.stride(), a.dtype)
        assert tried.data_ptr() % 64 == a.data_ptr() % 64
        assert comes_symmetric(a, "kind", multiply)
        assert len(multiply.seen) == before + 1
    assert comes_symmetric(wide, "other kind", multiply)
    assert len(multiply.seen) == len(ways) + 1


def test_settings_of_torch_are_part_of_the_question(monkeypatch):
    multiply = Product(False)
    a = draw((4, 4), torch.float32, 2)
    for precision in ("ieee", "tf32", "ieee"):
        monkeypatch.setattr(_symmetry, "_precision", lambda *_, p=precision: p)
        comes_symmetric(a, "kind", multiply)
    assert len(multiply.seen) == 2


def test_what_is_not_tried(monkeypatch):
    multiply = Product(False)
    z = draw((4, 4), torch.complex64, 3)
    for a in (z, z.conj().imag, z.real[:, :0], z.real[:0], z.real.half(), z.real.bfloat16()):
        assert not comes_symmetric(a, "kind", multiply)
    monkeypatch.setattr(_symmetry, "_MOST_ELEMENTS", 15)
    assert not comes_symmetric(z.real, "kind", multiply)
    assert not multiply.seen


def test_not_more_is_kept_than_fits(monkeypatch):
    monkeypatch.setattr(_symmetry, "_MOST_KNOWN", 3)
    multiply = Product(False)
    for n in range(2, 9):
        assert comes_symmetric(torch.ones(n, 2), "kind", multiply)
    assert len(_symmetry._known) == 1


def test_torchs_numbers_are_left_alone():
    state = torch.get_rng_state()
    comes_symmetric(torch.ones(4, 4), "kind", Product())
    assert torch.equal(torch.get_rng_state(), state)


def test_the_last_one_is_known_again(monkeypatch):
    a = draw((4, 6), torch.float32, 4)
    assert not is_known(a, "kind")
    assert comes_symmetric(a, "kind", Product(False))
    assert is_known(a, "kind")
    other = a.clone()
    assert is_known(other, "kind") == (other.data_ptr() % 128 == a.data_ptr() % 128)
    assert not is_known(a, "other kind")
    for other in (a[:3], a.double(), a.mT, a.clone().requires_grad_(), torch._neg_view(a)):
        assert not is_known(other, "kind")
    with torch.autograd.forward_ad.dual_level():
        assert not is_known(a, "kind")
    for context in (torch.autocast("cpu"), FakeTensorMode()):
        with context:
            assert not is_known(a, "kind")
    torch.func.vmap(lambda _: [] if is_known(a, "kind") else torch.zeros(()))(torch.zeros(2))
    monkeypatch.setattr(_symmetry, "_precision", lambda *_: "other")
    assert not is_known(a, "kind")


def test_what_can_be_differentiated_is_not_known():
    leaf = draw((4, 6), torch.float32, 4).requires_grad_()
    with torch.no_grad():
        assert comes_symmetric(leaf, "kind", Product(False))
        assert not is_known(leaf, "kind")
    assert not is_known(leaf, "kind")


def test_what_came_otherwise_is_not_known():
    a = draw((4, 6), torch.float32, 5)
    assert not comes_symmetric(a, "kind", Product())
    assert not is_known(a, "kind")


def test_a_torch_that_recognises_nothing_is_tried_once(monkeypatch):
    monkeypatch.setattr(_symmetry, "recogniser", lambda x: never)
    multiply, a = Product(False), draw((4, 6), torch.float32, 6)
    assert all(comes_symmetric(a, "kind", multiply) for _ in range(3))
    assert len(multiply.seen) == 1
    assert not is_known(a, "kind")
