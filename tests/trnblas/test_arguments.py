"""Options are accepted by word and letter; whatever does not fit raises and names the argument."""

import numpy as np
import pytest
import torch

import trnblas
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import draw
from .cases import CASES

A = draw((3, 3), torch.float64, 0)
B = draw((3, 3), torch.float64, 1)
X = draw((3,), torch.float64, 2)

CALLS = {
    "gemv": lambda **o: trnblas.gemv(1.0, A, X, **o),
    "symv": lambda **o: trnblas.symv(1.0, A, X, **o),
    "trmv": lambda **o: trnblas.trmv(A, X, **o),
    "gemm": lambda **o: trnblas.gemm(1.0, A, B, **o),
    "batched_gemm": lambda **o: trnblas.batched_gemm(1.0, A[None], B[None], **o),
    "gemmt": lambda **o: trnblas.gemmt(1.0, A, B, **o),
    "symm": lambda **o: trnblas.symm(1.0, A, B, **o),
    "syrk": lambda **o: trnblas.syrk(1.0, A, **o),
    "herk": lambda **o: trnblas.herk(1.0, A, **o),
    "syr2k": lambda **o: trnblas.syr2k(1.0, A, B, **o),
    "trsm": lambda **o: trnblas.trsm(1.0, A, B, **o),
    "batched_trsm": lambda **o: trnblas.batched_trsm(1.0, A[None], B, **o),
    "trmm": lambda **o: trnblas.trmm(1.0, A, B, **o),
}
SPELLINGS = {
    "uplo": [("upper", "U", "u", "Upper", "UPPER"), ("lower", "L", "l", "Lower")],
    "side": [("left", "L", "l", "LEFT"), ("right", "R", "r", "Right")],
    "diag": [("nonunit", "N", "n", "NonUnit"), ("unit", "U", "u", "Unit")],
    "trans": [(False, "N", "n", 0), (True, "T", "t", "C", "c", 1)],
}
OPTIONS = [
    *((name, "uplo") for name in CALLS if name not in ("gemv", "gemm", "batched_gemm")),
    *((name, "side") for name in ("symm", "trsm", "trmm", "batched_trsm")),
    *((name, "diag") for name in ("trmv", "trsm", "trmm", "batched_trsm")),
    *((name, "trans") for name in ("gemv", "trmv", "syrk", "herk", "syr2k", "trsm", "trmm")),
    *((name, t) for name in ("gemm", "batched_gemm", "gemmt") for t in ("transA", "transB")),
]
each_option = pytest.mark.parametrize(("name", "option"), OPTIONS)


@each_option
def test_words_and_letters_mean_the_same(name, option):
    results = []
    for group in SPELLINGS["trans" if option.startswith("trans") else option]:
        values = [CALLS[name](**{option: spelling}) for spelling in group]
        assert all(torch.equal(values[0], value) for value in values)
        results.append(values[0])
    ignores_it = name in ("syrk", "herk", "syr2k") and option == "uplo"
    assert torch.equal(*results) == ignores_it


@each_option
@pytest.mark.parametrize("value", ["X", "", "uppr", "lefty", None, 2, [True]], ids=repr)
def test_unknown_options_are_refused(name, option, value):
    with pytest.raises(FlagError, match=rf"^{name}: {option} must be one of .*, got ") as caught:
        CALLS[name](**{option: value})
    assert isinstance(caught.value, ValueError)
    assert repr(value) in str(caught.value)


def test_conjugation_where_blas_has_none():
    z = draw((3, 3), torch.complex64, 0)
    with pytest.raises(FlagError, match=r"syrk: trans .* got 'C'; herk"):
        trnblas.syrk(1.0, z, trans="C")
    with pytest.raises(FlagError, match=r"syr2k: trans .* got 'C'"):
        trnblas.syr2k(1.0, z, z, trans="C")
    with pytest.raises(FlagError, match=r"herk: trans .* got 'T'; syrk"):
        trnblas.herk(1.0, z, trans="T")
    with pytest.raises(DTypeError, match="herk: alpha must be real"):
        trnblas.herk(1j, z)
    assert torch.equal(trnblas.herk(1.0, z, trans="C"), trnblas.herk(1.0, z, trans=True))


def several(cases):
    """One case of each routine, of those that take several operands."""
    found = {}
    for case in cases:
        if len(case.shapes) > 1:
            found.setdefault(case.name.partition("-")[0], case)
    return found.values()


@pytest.mark.parametrize("case", several(CASES), ids=lambda case: case.name)
def test_operands_of_two_dtypes_or_devices(case):
    name = case.name.partition("-")[0]
    for odd in range(len(case.shapes)):
        tensors = [draw(shape, torch.float64, i) for i, shape in enumerate(case.shapes)]
        tensors[odd] = tensors[odd].float()
        with pytest.raises(DTypeError, match=rf"^{name}: \w+ and \w+ must have one dtype, got"):
            case.call(trnblas, float, *tensors)
        tensors[odd] = tensors[odd].double().to("meta")
        with pytest.raises(RuntimeError, match=rf"^{name}: \w+ and \w+ must be on one device"):
            case.call(trnblas, float, *tensors)
        tensors[odd] = np.ones(case.shapes[odd])
        with pytest.raises(DTypeError, match=rf"^{name}: \w+ must be a torch.Tensor, got ndarray"):
            case.call(trnblas, float, *tensors)
        tensors[odd] = torch.ones(case.shapes[odd], dtype=torch.bool)
        with pytest.raises(DTypeError, match=rf"^{name}: "):
            case.call(trnblas, float, *tensors)


def ones(*shape):
    return torch.ones(shape)


WRONG_SHAPES = [
    (lambda: trnblas.axpy(1.0, ones(3), ones(4)), r"axpy: x and y must .* \(3,\) and \(4,\)"),
    (lambda: trnblas.dot(ones(3), ones(4)), "dot: x and y must have as many elements, got 3 and 4"),
    (lambda: trnblas.gemv(1.0, ones(3), ones(3)), r"gemv: A must be 2-D, got shape \(3,\)"),
    (lambda: trnblas.gemv(1.0, ones(2, 3), ones(2)), r"gemv: op\(A\) and x .* \(2, 3\) .* \(2,\)"),
    (lambda: trnblas.gemv(1.0, ones(2, 3), ones(3), 1.0, ones(3)), r"gemv: y must .* \(2,\), got"),
    (lambda: trnblas.gemv(1.0, ones(2, 3), ones(3, 1)), r"gemv: x must be 1-D, got shape \(3, 1\)"),
    (lambda: trnblas.symv(1.0, ones(2, 3), ones(3)), r"symv: A must be square, got shape \(2, 3\)"),
    (lambda: trnblas.trmv(ones(2, 3), ones(3)), r"trmv: A must be square"),
    (lambda: trnblas.trmv(ones(3, 3), ones(2)), r"trmv: op\(A\) and x"),
    (lambda: trnblas.ger(1.0, ones(2, 1), ones(3)), r"ger: x must be 1-D"),
    (lambda: trnblas.ger(1.0, ones(2), torch.ones(())), r"ger: y must be 1-D"),
    (lambda: trnblas.ger(1.0, ones(2), ones(3), ones(3, 2)), r"ger: A must .* \(2, 3\), got"),
    (lambda: trnblas.gemm(1.0, ones(4, 8), ones(7, 3)), r"gemm: A and B .* \(4, 8\) and \(7, 3\)"),
    (
        lambda: trnblas.gemm(1.0, ones(4, 8), ones(8, 3), transA=True),
        r"gemm: A and B .* \(4, 8\) transposed and \(8, 3\)",
    ),
    (lambda: trnblas.gemm(1.0, torch.ones(()), ones(3, 3)), r"gemm: A must be at least 2-D, got"),
    (lambda: trnblas.gemm(1.0, ones(3, 3), ones(3)), r"gemm: B must be at least 2-D, got"),
    (lambda: trnblas.gemm(1.0, ones(2, 3, 3), ones(4, 3, 3)), r"gemm: the batch dimensions"),
    (
        lambda: trnblas.gemm(1.0, ones(2, 3), ones(3, 4), 1.0, ones(5, 2, 4)),
        r"gemm: C must broadcast to the result's shape \(2, 4\), got \(5, 2, 4\)",
    ),
    (lambda: trnblas.gemm(1.0, ones(1, 3), ones(3, 4), 1.0, ones(2, 4)), r"gemm: C must"),
    (lambda: trnblas.batched_gemm(1.0, ones(3, 3), ones(3, 3)), r"batched_gemm: A or B must be a"),
    (lambda: trnblas.batched_trsm(1.0, ones(3, 3), ones(3, 3)), r"batched_trsm: A or B must be a"),
    (lambda: trnblas.symm(1.0, ones(3, 2), ones(3, 3)), r"symm: A must be square"),
    (
        lambda: trnblas.symm(1.0, ones(3, 3), ones(2, 3)),
        r"symm: A and B .* on the left of \(2, 3\)",
    ),
    (lambda: trnblas.symm(1.0, ones(3, 3), ones(3, 2), side="R"), r"symm: .* on the right of"),
    (lambda: trnblas.syrk(1.0, ones(3)), r"syrk: A must be at least 2-D"),
    (lambda: trnblas.syrk(1.0, ones(3, 2), 1.0, ones(2, 2)), r"syrk: C must .* \(3, 3\)"),
    (lambda: trnblas.herk(1.0, ones(3)), r"herk: A must be at least 2-D"),
    (lambda: trnblas.syr2k(1.0, ones(3, 2), ones(2, 3)), r"syr2k: A and B must be matrices of one"),
    (lambda: trnblas.gemmt(1.0, ones(3, 2), ones(2, 4)), r"gemmt: .* square, got shape \(3, 4\)"),
    (lambda: trnblas.trsm(1.0, ones(3, 3), ones(3)), r"trsm: B must be at least 2-D"),
    (lambda: trnblas.trsm(1.0, ones(2, 3), ones(3, 3)), r"trsm: A must be square"),
    (lambda: trnblas.trmm(1.0, ones(3, 3), ones(2, 3)), r"trmm: A and B"),
    (lambda: trnblas.scal(ones(2), ones(2)), r"scal: alpha must be a number or a 0-d tensor"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_SHAPES, ids=lambda v: v if v is str else "")
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(ShapeError, match=f"^{message}"):
        call()


def test_factors_that_do_not_suit():
    real, whole, z = ones(2, 2), torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2) + 0j
    with pytest.raises(DTypeError, match=r"gemm: alpha must be real for torch.float32, got 1j"):
        trnblas.gemm(1j, real, real)
    with pytest.raises(DTypeError, match=r"gemm: beta must be whole for torch.int64, got 0.5"):
        trnblas.gemm(1, whole, whole, 0.5, whole)
    with pytest.raises(DTypeError, match="gemm: alpha must be a number or a 0-d tensor, got str"):
        trnblas.gemm("2", real, real)
    with pytest.raises(DTypeError, match="scal: alpha must be real"):
        trnblas.scal(torch.tensor(1j), real)
    with pytest.raises(DTypeError, match="scal: alpha must not change the dtype"):
        trnblas.scal(torch.tensor(0.5, requires_grad=True), whole)
    assert trnblas.gemm(2.0, whole, whole).dtype is torch.int64
    assert torch.equal(trnblas.gemm(np.float32(2), real, real), 4 * real)
    assert torch.equal(trnblas.gemm(1j, z, z), 2j * z)
    # A factor whose beta is not used is not looked at.
    assert torch.equal(trnblas.gemm(1.0, real, real, beta="unused"), 2 * real)


def test_integers_where_only_numbers_of_a_field_have_an_answer():
    whole = torch.ones(2, 2, dtype=torch.int32)
    with pytest.raises(DTypeError, match="trsm: A must be floating point or complex"):
        trnblas.trsm(1, whole, whole)
    with pytest.raises(DTypeError, match="nrm2: x must be floating point or complex"):
        trnblas.nrm2(whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("grad", [False, True])
def test_factors_as_tensors(dtype, grad):
    a, b = draw((3, 4), torch.float32, 0), draw((4, 2), torch.float32, 1)
    c = draw((3, 2), torch.float32, 2)
    alpha = torch.tensor(0.5, dtype=dtype, requires_grad=grad)
    beta = torch.tensor(-2.0, dtype=dtype, requires_grad=grad)
    got = trnblas.gemm(alpha, a, b, beta, c)
    assert got.dtype is torch.float32
    assert got.requires_grad == grad
    # Powers of two: the order of scaling changes no rounding of the product, the sum has one.
    torch.testing.assert_close(
        got.detach(), trnblas.gemm(0.5, a, b, -2.0, c), rtol=2.0**-20, atol=2.0**-20
    )


def e(*shape):
    return torch.empty(shape)


def test_empty_operands():
    assert trnblas.dot(e(0), e(0)) == 0
    assert trnblas.asum(e(0)) == 0
    assert trnblas.nrm2(e(0, 3)) == 0
    assert trnblas.axpy(2.0, e(0), e(0)).shape == (0,)
    assert trnblas.scal(2.0, e(0, 2)).shape == (0, 2)
    assert torch.equal(trnblas.gemv(2.0, e(3, 0), e(0)), torch.zeros(3))
    assert torch.equal(trnblas.gemv(2.0, e(3, 0), e(0), 2.0, ones(3)), 2 * ones(3))
    assert trnblas.symv(2.0, e(0, 0), e(0)).shape == (0,)
    assert trnblas.trmv(e(0, 0), e(0)).shape == (0,)
    assert trnblas.ger(2.0, e(0), e(3)).shape == (0, 3)
    assert torch.equal(trnblas.gemm(2.0, e(2, 0), e(0, 3)), torch.zeros(2, 3))
    assert torch.equal(trnblas.gemm(1.0, e(2, 0), e(0, 3), 3.0, ones(2, 3)), 3 * ones(2, 3))
    assert trnblas.gemm(2.0, e(0, 4), e(4, 3)).shape == (0, 3)
    assert trnblas.batched_gemm(2.0, e(0, 2, 4), e(0, 4, 3)).shape == (0, 2, 3)
    assert trnblas.batched_gemm(2.0, e(0, 2, 4), e(4, 3)).shape == (0, 2, 3)
    assert trnblas.batched_gemm(2.0, e(2, 4), e(0, 4, 3)).shape == (0, 2, 3)
    assert torch.equal(trnblas.syrk(2.0, e(3, 0)), torch.zeros(3, 3))
    assert trnblas.syrk(2.0, e(0, 3)).shape == (0, 0)
    assert torch.equal(trnblas.herk(2.0, e(3, 0) + 0j), torch.zeros(3, 3) + 0j)
    assert torch.equal(trnblas.syr2k(2.0, e(3, 0), e(3, 0)), torch.zeros(3, 3))
    assert torch.equal(trnblas.gemmt(2.0, e(3, 0), e(0, 3)), torch.zeros(3, 3))
    for function in (trnblas.symm, trnblas.trmm, trnblas.trsm):
        assert function(2.0, e(0, 0), e(0, 3)).shape == (0, 3)
        assert function(2.0, ones(3, 3), e(3, 0)).shape == (3, 0)


def test_scalars_are_vectors_of_one_element():
    x = torch.tensor(-3.0)
    assert trnblas.dot(x, x) == 9
    assert trnblas.nrm2(x) == trnblas.asum(x) == 3
    assert trnblas.iamax(x) == 0
    assert trnblas.axpy(2.0, x, x) == -9
    assert trnblas.scal(2.0, x) == -6
    for value in (trnblas.dot(x, x), trnblas.nrm2(x), trnblas.asum(x)):
        assert value.shape == ()
