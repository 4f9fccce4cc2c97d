"""What cuBLAS is asked for, seen without a device: a library that computes what it is called with.

Tensors on the CPU stand for those on a device. What cuBLAS itself gives is for ``test_cuda``.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from trnblas import _cublas

from .agreement import draw

ORDER, DEPTH = 6, 4
ELEMENTS = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
U = 2.0**-24


class Library:
    """``syrk`` by its documentation: matrices by columns, one triangle of the result."""

    def __init__(self):
        self.code, self.handles = 0, []

    def __getattr__(self, name):
        element = ELEMENTS[name.removeprefix("cublas").removesuffix("syrk_v2")]

        def matrix(address, rows, columns):
            size = rows * columns * np.dtype(element).itemsize
            memory = (ctypes.c_byte * size).from_address(address.value)
            return np.frombuffer(memory, element).reshape(columns, rows).T

        def syrk(handle, triangle, turned, n, k, alpha, a, lda, beta, c, ldc):
            assert (triangle, ldc) == (0, n)
            self.handles.append(handle.value)
            factor, zero = (np.frombuffer(x, element)[0] for x in (alpha, beta))
            assert zero == 0
            a = matrix(a, lda, n if turned else k)
            assert lda == (k if turned else n)
            product = factor * (a.T @ a if turned else a @ a.T)
            out = matrix(c, n, n)
            out[np.tril_indices(n)] = product[np.tril_indices(n)]
            return self.code

        return syrk


@pytest.fixture
def library(monkeypatch):
    made = Library()

    def mirror(product):
        product.copy_(product.triu() + product.triu(1).mT)
        return True

    monkeypatch.setattr(_cublas, "ORDER", ORDER)
    monkeypatch.setattr(_cublas, "_DEPTH", DEPTH)
    monkeypatch.setattr(_cublas, "_library", lambda: made)
    monkeypatch.setattr(_cublas, "_handle", lambda: 99)
    monkeypatch.setattr(_cublas._cuda, "mirror_in_place", mirror)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # that of a tensor on the CPU
    return made


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str
)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("by_columns", [True, False])
def test_a_product_with_its_own_transpose(library, dtype, transposed, by_columns):
    a = draw((DEPTH + 1, ORDER) if transposed else (ORDER, DEPTH + 1), dtype, 1)
    if by_columns:
        a = a.mT.contiguous().mT
    got = _cublas.syrk(0.5, a, transposed)
    wide = a.to(torch.complex128)
    want = 0.5 * (wide.mT @ wide if transposed else wide @ wide.mT)
    # Sums of five products of numbers near one, in each part.
    assert (got - want).abs().max() <= 64 * U * wide.abs().max() ** 2
    assert torch.equal(got, got.mT)
    assert got.dtype is dtype
    assert library.handles == [99]


def test_sizes_from_which_on_it_is_called(library):
    for shape, transposed, called in (
        ((ORDER, DEPTH), False, True),
        ((ORDER - 1, DEPTH), False, False),
        ((ORDER, DEPTH - 1), False, False),
        ((DEPTH, ORDER), True, True),
        ((DEPTH, ORDER - 1), True, False),
        ((DEPTH - 1, ORDER), True, False),
    ):
        assert (_cublas.syrk(1.0, torch.ones(shape), transposed) is not None) is called


def test_what_is_left_to_torch(library, monkeypatch):
    a = torch.ones(ORDER, DEPTH)
    for other in (
        a[None],
        a.bfloat16(),
        torch.ones(2 * ORDER, 2 * DEPTH)[::2, ::2],
        a.to(torch.complex64).conj(),
        a.clone().requires_grad_(),
    ):
        assert _cublas.syrk(1.0, other, False) is None
    with monkeypatch.context() as patch:
        patch.setattr(torch, "is_autocast_enabled", lambda kind: kind == "cuda")
        assert _cublas.syrk(1.0, a, False) is None
    library.code = 7
    assert _cublas.syrk(1.0, a, False) is None
    library.code = 0
    assert _cublas.syrk(1.0, a, False) is not None
    monkeypatch.setattr(_cublas._cuda, "mirror_in_place", lambda product: False)
    assert _cublas.syrk(1.0, a, False) is None
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert _cublas.syrk(1.0, a, False) is None
    monkeypatch.setattr(_cublas, "_library", lambda: None)
    assert _cublas.syrk(1.0, a, False) is None


def test_the_library_is_the_one_of_torch(monkeypatch):
    found = _cublas._library.__wrapped__
    opened = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: opened.append(name) or "library")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert found() == "library"
    assert opened == ["libcublas.so.12"]
    monkeypatch.setattr(torch.version, "cuda", None)
    assert found() is None

    def missing(name):
        raise OSError

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert found() is None
