"""Plain calls reach torch or SciPy without the checks, which take longer than they do."""

import pytest
import torch

import trnblas
from trnblas import _scipy, batched, level2, level3, rank_k

from .agreement import draw

A, B, C = (draw((5, 5), torch.float64, seed) for seed in range(3))
X, Y = draw((5,), torch.float64, 3), draw((5,), torch.float64, 4)
WELL = A / 4 + 2 * torch.eye(5, dtype=torch.float64)
MANY = torch.stack([A, B])
CALLS = {
    "gemm": lambda: trnblas.gemm(1.0, A, B),
    "gemm scaled": lambda: trnblas.gemm(0.5, A, B),
    "gemm accumulated": lambda: trnblas.gemm(1.0, A, B, 0.5, C),
    "gemm transposed": lambda: trnblas.gemm(1.0, A, B, transA=True, transB=True),
    "gemm of batches": lambda: trnblas.gemm(0.5, MANY, MANY, 2.0, MANY),
    "batched_gemm": lambda: trnblas.batched_gemm(1.0, MANY, MANY),
    "batched_gemm scaled": lambda: trnblas.batched_gemm(0.5, MANY, MANY),
    "batched_gemm shared": lambda: trnblas.batched_gemm(1.0, A, MANY),
    "batched_gemm shared right": lambda: trnblas.batched_gemm(1.0, MANY, A),
    "gemv": lambda: trnblas.gemv(1.0, A, X),
    "gemv accumulated": lambda: trnblas.gemv(0.5, A, X, 2.0, Y, trans=True),
    "trsm": lambda: trnblas.trsm(1.0, WELL, B),
    "trsm scaled": lambda: trnblas.trsm(0.5, WELL, B, "R", "L", True, "U"),
    "symm": lambda: trnblas.symm(1.0, A, B),
    "symm right": lambda: trnblas.symm(0.5, A, B, side="R", uplo="L"),
    "syrk": lambda: trnblas.syrk(1.0, A),
    "syrk transposed": lambda: trnblas.syrk(0.5, A, trans=True, uplo="lower"),
    "symv": lambda: trnblas.symv(0.5, A, X, uplo="lower"),
    "trmm": lambda: trnblas.trmm(1.0, A, B, "right", "lower", True),
    "trmm scaled": lambda: trnblas.trmm(0.5, A, B),
    "trmv": lambda: trnblas.trmv(A, X, "lower", True),
}


def refused(*args, **options):
    raise AssertionError("the arguments were checked")


@pytest.fixture
def no_checks(monkeypatch):
    """Whoever looks at arguments fails."""
    for module, name in (
        (batched, "checked_product"),
        (level2, "agree"),
        (level3, "agree"),
        (level3, "checked_product"),
        (rank_k, "tensor"),
    ):
        monkeypatch.setattr(module, name, refused)


@pytest.mark.parametrize("name", CALLS)
def test_a_plain_call_is_not_checked(name, no_checks):
    CALLS[name]()


@pytest.mark.parametrize("name", CALLS)
def test_the_short_way_leads_to_the_same(name, monkeypatch):
    got = CALLS[name]()
    for module in (batched, level2, level3, rank_k):
        for quick in [key for key in vars(module) if key.startswith("quick_")]:
            monkeypatch.setattr(module, quick, lambda *args: None)
    # Both are sums of five products, none of them larger than 8.
    torch.testing.assert_close(got, CALLS[name](), rtol=0, atol=64 * 2.0**-53 * 8)


ORDERS = {
    "symm": (63, lambda n: trnblas.symm(1.0, torch.ones(n, n), torch.ones(n, 2))),
    "symv": (63, lambda n: trnblas.symv(1.0, torch.ones(n, n), torch.ones(n))),
    "syrk": (_scipy.NUMPY_SYRK, lambda n: trnblas.syrk(1.0, torch.ones(n, 2))),
    "trmm": (47, lambda n: trnblas.trmm(1.0, torch.ones(n, n), torch.ones(n, 2))),
    "trmv": (47, lambda n: trnblas.trmv(torch.ones(n, n), torch.ones(n))),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_largest_order_of_the_short_way(name, no_checks):
    largest, call = ORDERS[name]
    call(largest)
    call(1)
    with pytest.raises(AssertionError, match="were checked"):
        call(largest + 1)
    if name in ("symm", "symv", "syrk"):  # SciPy refuses empty arrays, torch does not
        with pytest.raises(AssertionError, match="were checked"):
            call(0)


def test_a_view_that_is_not_contiguous_takes_the_long_way(no_checks):
    """NumPy would not know its product for a symmetric one."""
    with pytest.raises(AssertionError, match="were checked"):
        trnblas.syrk(1.0, torch.ones(6, 6)[::2, ::2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64], ids=str)
def test_dtypes_that_scipy_would_convert(dtype):
    a = torch.ones(3, 3, dtype=dtype)
    for got in (trnblas.symm(1.0, a, a), trnblas.syrk(1.0, a)):
        assert got.dtype is dtype
        assert torch.equal(got, 3 * a)
    assert trnblas.symv(1.0, a, a[0]).dtype is dtype
