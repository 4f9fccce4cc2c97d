"""Plain calls reach torch or SciPy without the checks, which take longer than they do."""

import pytest
import torch

import trnblas
from trnblas import _quick, _scipy, batched, level2, level3, rank_k

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


FACTORS = (0.0, 1.0, -1.0, 2.0, 1)
INTEGERS = torch.ones(5, 5, dtype=torch.int64)
SQUARE = ("left", "upper")


def is_short(result):
    return result is not None


@pytest.mark.parametrize("alpha", FACTORS)
@pytest.mark.parametrize("beta", FACTORS)
def test_factors_that_have_a_short_way(alpha, beta):
    """Plain floats; alpha is not zero, and beta is where there is no accumulator, and only there.

    Of integers torch would drop the fraction of a factor, so theirs are one.
    """
    plain = type(alpha) is float and alpha != 0 and type(beta) is float
    alone, added = plain and beta == 0, plain and beta != 0
    product, vector = _quick.quick_product, _quick.quick_vector
    for a, c in ((A, C), (MANY, MANY)):
        assert is_short(product(alpha, a, a, beta, None, False, False)) is alone
        assert is_short(product(alpha, a, a, beta, c, False, False)) is added
    for operands in ((A, MANY), (MANY, A)):
        assert is_short(product(alpha, *operands, beta, None, False, False)) is (
            alone and alpha == 1
        )
        assert not is_short(product(alpha, *operands, beta, MANY, False, False))
    assert is_short(product(alpha, INTEGERS, INTEGERS, beta, None, False, False)) is (
        alone and alpha == 1
    )
    assert not is_short(product(alpha, INTEGERS, INTEGERS, beta, INTEGERS, False, False))
    assert is_short(vector(alpha, A, X, beta, None, False)) is (alone and alpha == 1)
    assert is_short(vector(alpha, A, X, beta, Y, False)) is added
    assert not is_short(vector(alpha, INTEGERS, INTEGERS[0], beta, INTEGERS[0], False))
    assert is_short(_quick.quick_symmetric(alpha, A, B, beta, *SQUARE)) is alone
    assert is_short(_quick.quick_symmetric_vector(alpha, A, X, beta, "upper")) is alone
    assert is_short(_quick.quick_rank_k(alpha, A, beta, False, "upper")) is alone
    some = type(alpha) is float and alpha != 0
    assert is_short(_quick.quick_solution(alpha, WELL, B, *SQUARE, False, "nonunit")) is some
    assert is_short(_quick.quick_triangular(alpha, A, B, *SQUARE, False)) is some
    assert is_short(_quick.quick_triangular(alpha, INTEGERS, INTEGERS, *SQUARE, False)) is (
        some and alpha == 1
    )


def test_what_has_no_short_way():
    """Other words than flags, ranks, shapes and dtypes that do not fit, one operand on meta."""
    meta, single = A.to("meta"), B.float()
    product, symmetric = _quick.quick_product, _quick.quick_symmetric
    for wrong in (
        product(1.0, A, meta, 0.0, None, False, False),
        product(1.0, A, B, 0.0, None, "T", False),
        product(1.0, A, B, 0.0, None, False, "N"),
        product(1.0, A[None, None], B, 0.0, None, False, False),
        product(1.0, A, single, 0.0, None, False, False),
        product(1.0, A, B, 1.0, C.to("meta"), False, False),
        product(1.0, [1.0], B, 0.0, None, False, False),
        _quick.quick_vector(1.0, A, X, 0.0, None, "T"),
        _quick.quick_solution(1.0, WELL, single, *SQUARE, False, "nonunit"),
        _quick.quick_solution(1.0, WELL, meta, *SQUARE, False, "nonunit"),
        _quick.quick_solution(1.0, WELL, B, "middle", "upper", False, "nonunit"),
        symmetric(1.0, A, single, 0.0, *SQUARE),
        symmetric(1.0, A, B[:3], 0.0, *SQUARE),
        symmetric(1.0, A[:3], B, 0.0, *SQUARE),
        symmetric(1.0, A, B[:, :0], 0.0, *SQUARE),
        symmetric(1.0, A, torch.ones(5, 64, dtype=A.dtype), 0.0, *SQUARE),
        _quick.quick_symmetric_vector(1.0, A, X.float(), 0.0, "upper"),
        _quick.quick_symmetric_vector(1.0, A, X[:3], 0.0, "upper"),
        _quick.quick_symmetric_vector(1.0, A[:3], X, 0.0, "upper"),
        _quick.quick_rank_k(1.0, A, 0.0, "T", "upper"),
        _quick.quick_rank_k(1.0, A, 0.0, False, "middle"),
        _quick.quick_rank_k(1.0, A[:, :0], 0.0, False, "upper"),
        _quick.quick_triangular(1.0, A[:3], B, *SQUARE, False),
        _quick.quick_triangular(1.0, A, meta, *SQUARE, False),
    ):
        assert wrong is None
    assert is_short(symmetric(1.0, A, torch.ones(5, 63, dtype=A.dtype), 0.0, *SQUARE))
    assert is_short(symmetric(1.0, A, torch.ones(63, 5, dtype=A.dtype), 0.0, "right", "upper"))
    assert not is_short(symmetric(1.0, A, torch.ones(64, 5, dtype=A.dtype), 0.0, "right", "upper"))


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("mirrors", [True, False])
def test_a_rank_k_update_on_cuda_is_a_product_and_its_mirror(alpha, trans, mirrors, monkeypatch):
    seen = []
    monkeypatch.setattr(_quick._cuda, "mirror_in_place", lambda c: seen.append(c) or mirrors)
    monkeypatch.setattr(_quick, "comes_symmetric", lambda *_: False)
    got = _quick._symmetric_product(alpha, A[:3], trans)
    want = alpha * (A[:3].mT @ A[:3] if trans else A[:3] @ A[:3].mT)
    torch.testing.assert_close(got, want, rtol=0, atol=64 * 2.0**-53 * 8)
    assert (got is seen[0]) is mirrors
    assert torch.equal(got, got.mT) or mirrors
    assert _quick._symmetric_product(alpha, INTEGERS, trans) is None
    monkeypatch.setattr(_quick, "comes_symmetric", lambda *_: True)
    found = _quick._symmetric_product(alpha, A[:3], trans)
    assert len(seen) == 1
    assert torch.allclose(found, got.triu() + got.triu(1).mT)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("function", [trnblas.symm, trnblas.trmm])
def test_what_is_recorded_is_no_constant(function):
    """A result of SciPy would be one to ``torch.jit.trace``."""
    x, other = torch.eye(6), torch.arange(36.0).reshape(6, 6)
    recorded = torch.jit.trace(lambda x: function(1.0, x, x), x, check_trace=False)
    torch.testing.assert_close(recorded(other), function(1.0, other, other))
