"""Options are accepted by word and letter; whatever does not fit raises and names the argument."""

import numpy as np
import pytest
import torch

import trnblas
from each_case import each_case
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import draw
from .cases import CASES

A = draw((3, 3), torch.float64, 0)
B = draw((3, 3), torch.float64, 1)
X = draw((3,), torch.float64, 2)

CALLS = {
    "gemv": lambda **o: trnblas.gemv(1.0, A, X, **o),
    "symv": lambda **o: trnblas.symv(1.0, A, X, **o),
    "hemv": lambda **o: trnblas.hemv(1.0, A, X, **o),
    "trmv": lambda **o: trnblas.trmv(A, X, **o),
    "trsv": lambda **o: trnblas.trsv(A, X, **o),
    "syr": lambda **o: trnblas.syr(1.0, X, A, **o),
    "syr2": lambda **o: trnblas.syr2(1.0, X, B[0], A, **o),
    "her": lambda **o: trnblas.her(1.0, X, A, **o),
    "her2": lambda **o: trnblas.her2(1.0, X, B[0], A, **o),
    "gemm": lambda **o: trnblas.gemm(1.0, A, B, **o),
    "batched_gemm": lambda **o: trnblas.batched_gemm(1.0, A[None], B[None], **o),
    "gemmt": lambda **o: trnblas.gemmt(1.0, A, B, **o),
    "symm": lambda **o: trnblas.symm(1.0, A, B, **o),
    "hemm": lambda **o: trnblas.hemm(1.0, A, B, **o),
    "syrk": lambda **o: trnblas.syrk(1.0, A, 2.0, B, **o),
    "herk": lambda **o: trnblas.herk(1.0, A, 2.0, B, **o),
    "syr2k": lambda **o: trnblas.syr2k(1.0, A, B, 2.0, B, **o),
    "her2k": lambda **o: trnblas.her2k(1.0, A, B, 2.0, B, **o),
    "trsm": lambda **o: trnblas.trsm(1.0, A, B, **o),
    "batched_trsm": lambda **o: trnblas.batched_trsm(1.0, A[None], B, **o),
    "trmm": lambda **o: trnblas.trmm(1.0, A, B, **o),
    "geam": lambda **o: trnblas.geam(1.0, A, 2.0, B, **o),
    "dgmm": lambda **o: trnblas.dgmm(A, X, **o),
}
WITHOUT_UPLO = ("gemv", "gemm", "batched_gemm", "geam", "dgmm")
SPELLINGS = {
    "uplo": [("upper", "U", "u", "Upper", "UPPER"), ("lower", "L", "l", "Lower")],
    "side": [("left", "L", "l", "LEFT"), ("right", "R", "r", "Right")],
    "diag": [("nonunit", "N", "n", "NonUnit"), ("unit", "U", "u", "Unit")],
    "trans": [(False, "N", "n", 0), (True, "T", "t", "C", "c", 1)],
}
OPTIONS = [
    *((name, "uplo") for name in CALLS if name not in WITHOUT_UPLO),
    *((name, "side") for name in ("symm", "hemm", "trsm", "trmm", "batched_trsm", "dgmm")),
    *((name, "diag") for name in ("trmv", "trsv", "trsm", "trmm", "batched_trsm")),
    *((name, "trans") for name in ("gemv", "trmv", "trsv", "syrk", "herk", "syr2k", "her2k")),
    *((name, "trans") for name in ("trsm", "trmm", "batched_trsm")),
    *((name, t) for name in ("gemm", "batched_gemm", "gemmt") for t in ("transA", "transB")),
    *(("geam", t) for t in ("transA", "transB")),
]
each_option = each_case(("name", "option"), OPTIONS)


@each_option
def test_words_and_letters_mean_the_same(name, option):
    results = []
    for group in SPELLINGS["trans" if option.startswith("trans") else option]:
        values = [CALLS[name](**{option: spelling}) for spelling in group]
        assert all(torch.equal(values[0], value) for value in values)
        results.append(values[0])
    assert not torch.equal(*results)


@each_option
@each_case("value", ["X", "", "uppr", "lefty", None, 2, [True]], ids=repr)
def test_unknown_options_are_refused(name, option, value):
    with pytest.raises(FlagError, match=rf"^{name}: {option} must be one of .*, got ") as caught:
        CALLS[name](**{option: value})
    assert isinstance(caught.value, ValueError)
    assert repr(value) in str(caught.value)


@each_case("value", ["X", None, [True]], ids=repr)
def test_unknown_options_of_plain_calls_are_refused(value):
    """The calls without an accumulator, which have a shorter way."""
    for call, option in (
        (lambda v: trnblas.syrk(1.0, A, uplo=v), "uplo"),
        (lambda v: trnblas.syrk(1.0, A, trans=v), "trans"),
        (lambda v: trnblas.symm(1.0, A, B, side=v), "side"),
        (lambda v: trnblas.symm(1.0, A, B, uplo=v), "uplo"),
        (lambda v: trnblas.symv(1.0, A, X, uplo=v), "uplo"),
        (lambda v: trnblas.trmv(A, X, trans=v), "trans"),
    ):
        with pytest.raises(FlagError, match=f"{option} must be one of"):
            call(value)


def test_conjugation_where_blas_has_none():
    z = draw((3, 3), torch.complex64, 0)
    with pytest.raises(FlagError, match=r"syrk: trans .* got 'C'; herk"):
        trnblas.syrk(1.0, z, trans="C")
    with pytest.raises(FlagError, match=r"syr2k: trans .* got 'C'; her2k"):
        trnblas.syr2k(1.0, z, z, trans="C")
    with pytest.raises(FlagError, match=r"herk: trans .* got 'T'; syrk"):
        trnblas.herk(1.0, z, trans="T")
    with pytest.raises(FlagError, match=r"her2k: trans .* got 'T'; syr2k"):
        trnblas.her2k(1.0, z, z, trans="T")
    with pytest.raises(DTypeError, match="herk: alpha must be real"):
        trnblas.herk(1j, z)
    with pytest.raises(DTypeError, match="herk: beta must be real"):
        trnblas.herk(1.0, z, 1j, z)
    with pytest.raises(DTypeError, match="her2k: beta must be real"):
        trnblas.her2k(1.0, z, z, 1j, z)
    with pytest.raises(DTypeError, match="her: alpha must be real"):
        trnblas.her(1j, z[0])
    with pytest.raises(DTypeError, match="her: alpha must be real"):
        trnblas.her(torch.tensor(1j, requires_grad=True), z[0])
    with pytest.raises(DTypeError, match="rot: c must be real"):
        trnblas.rot(z, z, 1j, 0.0)
    assert torch.equal(trnblas.her2k(1.0, z, z, trans="C"), trnblas.her2k(1.0, z, z, trans=True))
    assert torch.equal(trnblas.herk(1.0, z, trans="C"), trnblas.herk(1.0, z, trans=True))


def several(cases):
    """One case of each routine, of those that take several operands."""
    # grouped_gemm names the entries of its lists.
    cases = [case for case in cases if not case.name.startswith("grouped")]
    found = {}
    for case in cases:
        if len(case.shapes) > 1:
            found.setdefault(case.name.partition("-")[0], case)
    return found.values()


@each_case("case", several(CASES), ids=lambda case: case.name)
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
    (lambda: trnblas.axpy(1.0, ones(3, 1), ones(4)), r"axpy: x and y must have one shape, got"),
    (lambda: trnblas.axpy(1.0, ones(4), ones(3, 4)), r"axpy: x and y must have one shape, got"),
    (lambda: trnblas.swap(ones(3), ones(4)), r"swap: x and y must have one shape, got"),
    (lambda: trnblas.rot(ones(3), ones(4), 1.0, 0.0), r"rot: x and y must have one shape, got"),
    (lambda: trnblas.rotg(ones(3), ones(4)), r"rotg: a and b must have one shape, got"),
    (
        lambda: trnblas.rotm(ones(3), ones(4), ones(5)),
        r"rotm: x and y must have one shape, got \(3,\) and \(4,\)",
    ),
    (
        lambda: trnblas.rotm(ones(3), ones(3), ones(4)),
        r"rotm: param must have shape \(5,\), got \(4,\)",
    ),
    (
        lambda: trnblas.rotmg(ones(2), ones(2), ones(3), ones(2)),
        r"rotmg: d1 and x1 must have one shape, got \(2,\) and \(3,\)",
    ),
    (lambda: trnblas.dot(ones(3, 3), ones(3, 3)), r"dot: x must be 1-D, got shape \(3, 3\)"),
    (lambda: trnblas.dot(ones(3), ones(3, 1)), r"dot: y must be 1-D, got shape \(3, 1\)"),
    (lambda: trnblas.dotc(ones(2, 2), ones(4)), r"dotc: x must be 1-D, got shape \(2, 2\)"),
    (lambda: trnblas.dotc(ones(3), ones(4)), "dotc: x and y must have as many elements, got 3"),
    (lambda: trnblas.dot(ones(3), ones(4)), "dot: x and y must have as many elements, got 3 and 4"),
    (lambda: trnblas.gemv(1.0, ones(3), ones(3)), r"gemv: A must be at least 2-D, got"),
    (lambda: trnblas.gemv(1.0, ones(1, 1), torch.ones(())), r"gemv: x must be at least 1-D, got"),
    (lambda: trnblas.gemv(1.0, ones(2, 3, 3), ones(4, 3)), r"gemv: the batch dimensions of A and"),
    (lambda: trnblas.gemv(1.0, ones(2, 3), ones(2)), r"gemv: op\(A\) and x .* \(2, 3\) .* \(2,\)"),
    (lambda: trnblas.gemv(1.0, ones(2, 3), ones(3), 1.0, ones(3)), r"gemv: y must .* \(2,\), got"),
    (lambda: trnblas.gemv(1.0, ones(2, 3), ones(3, 1)), r"gemv: op\(A\) and x .* x \(3, 1\)"),
    (lambda: trnblas.symv(1.0, ones(2, 3), ones(3)), r"symv: A must be square, got shape \(2, 3\)"),
    (lambda: trnblas.trmv(ones(2, 3), ones(3)), r"trmv: A must be square"),
    (lambda: trnblas.trmv(ones(3, 3), ones(2)), r"trmv: op\(A\) and x"),
    (lambda: trnblas.trsv(ones(2, 3), ones(3)), r"trsv: A must be square"),
    (lambda: trnblas.trsv(ones(3, 3), ones(2)), r"trsv: op\(A\) and x"),
    (lambda: trnblas.hemv(1.0, ones(2, 3), ones(3)), r"hemv: A must be square"),
    (lambda: trnblas.ger(1.0, torch.ones(()), ones(3)), r"ger: x must be at least 1-D"),
    (lambda: trnblas.ger(1.0, ones(2), torch.ones(())), r"ger: y must be at least 1-D"),
    (lambda: trnblas.gerc(1.0, ones(2, 3), ones(3, 4)), r"gerc: the batch dimensions of x and y"),
    (lambda: trnblas.syr(1.0, ones(3), ones(3)), r"syr: A must hold matrices \(3, 3\), got \(3,\)"),
    (lambda: trnblas.syr(1.0, ones(3), ones(2, 3, 3)), r"syr: A must broadcast to the result's"),
    (lambda: trnblas.syr2(1.0, ones(3), ones(2)), r"syr2: x and y must have as many elements"),
    (lambda: trnblas.her2(1.0, ones(3), ones(3), ones(2, 2)), r"her2: A must hold matrices"),
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
    (lambda: trnblas.syrk(1.0, ones(3, 2), 1.0, ones(3)), r"syrk: C must hold matrices \(3, 3\)"),
    (lambda: trnblas.syrk(1.0, ones(3, 2), 1.0, ones(2, 3, 3)), r"syrk: C must broadcast"),
    (
        lambda: trnblas.syr2k(1.0, ones(3, 2), ones(3, 2), 1.0, ones(3)),
        r"syr2k: C must hold matrices \(3, 3\), got \(3,\)",
    ),
    (lambda: trnblas.her2k(1.0, ones(3, 2), ones(2, 3)), r"her2k: A and B must be matrices of one"),
    (lambda: trnblas.hemm(1.0, ones(3, 3), ones(2, 3)), r"hemm: A and B .* on the left of"),
    (lambda: trnblas.geam(1.0, ones(3, 2), 1.0, ones(2, 3)), r"geam: op\(A\) and op\(B\) must be"),
    (lambda: trnblas.geam(1.0, ones(1, 2), 1.0, ones(3, 2)), r"geam: op\(A\) and op\(B\) must be"),
    (lambda: trnblas.geam(1.0, ones(3), 1.0, ones(3)), r"geam: A must be at least 2-D"),
    (lambda: trnblas.dgmm(ones(3, 2), ones(2)), r"dgmm: x must have one element for each row"),
    (lambda: trnblas.dgmm(ones(3, 2), ones(3), "R"), r"dgmm: x must .* each column of A"),
    (lambda: trnblas.dgmm(ones(2, 3, 2), ones(4, 3)), r"dgmm: the batch dimensions of A and x"),
    (lambda: trnblas.grouped_gemm(1.0, [ones(2, 2)], []), r"grouped_gemm: A and B must .* 1 and 0"),
    (
        lambda: trnblas.grouped_gemm(1.0, [ones(2, 3)], [ones(2, 3)]),
        r"^grouped_gemm: A and B must agree in the contracted dimension",
    ),
    (
        lambda: trnblas.grouped_gemm(1.0, [ones(2, 2)], [ones(2, 2)], 1.0, []),
        r"grouped_gemm: A and C must have as many matrices, got 1 and 0",
    ),
    (
        lambda: trnblas.grouped_gemm([1.0, 2.0], [ones(2, 2)], [ones(2, 2)]),
        r"grouped_gemm: alpha must be one value or 1 of them, got 2",
    ),
    (
        lambda: trnblas.grouped_gemm(1.0, [ones(2)], [ones(2, 2)]),
        r"grouped_gemm: A\[0\] must be 2-D",
    ),
    (lambda: trnblas.herk(1.0, ones(3)), r"herk: A must be at least 2-D"),
    (lambda: trnblas.syr2k(1.0, ones(3, 2), ones(2, 3)), r"syr2k: A and B must be matrices of one"),
    (lambda: trnblas.gemmt(1.0, ones(3, 2), ones(2, 4)), r"gemmt: .* square, got shape \(3, 4\)"),
    (lambda: trnblas.trsm(1.0, ones(3, 3), ones(3)), r"trsm: B must be at least 2-D"),
    (lambda: trnblas.trsm(1.0, ones(2, 3), ones(3, 3)), r"trsm: A must be square"),
    (lambda: trnblas.trmm(1.0, ones(3, 3), ones(2, 3)), r"trmm: A and B"),
    (lambda: trnblas.scal(ones(2), ones(2)), r"scal: alpha must be a number or a 0-d tensor"),
]


@each_case(("call", "message"), WRONG_SHAPES, ids=lambda v: v if v is str else "")
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


WHOLE = torch.ones(2, 2, dtype=torch.int64)
FRACTIONS = {
    "gemm alpha": lambda: trnblas.gemm(1.5, WHOLE, WHOLE),
    "gemm alpha beside": lambda: trnblas.gemm(1.5, WHOLE, WHOLE, 1.0, WHOLE),
    "gemm beta": lambda: trnblas.gemm(1.0, WHOLE, WHOLE, 0.5, WHOLE),
    "batched_gemm alpha": lambda: trnblas.batched_gemm(1.5, WHOLE[None], WHOLE[None]),
    "batched_gemm beta": lambda: trnblas.batched_gemm(1.0, WHOLE[None], WHOLE[None], 0.5, WHOLE),
    "grouped_gemm alpha": lambda: trnblas.grouped_gemm(1.5, [WHOLE], [WHOLE]),
    "gemmt alpha": lambda: trnblas.gemmt(1.5, WHOLE, WHOLE),
    "gemv alpha": lambda: trnblas.gemv(1.5, WHOLE, WHOLE[0], 1.0, WHOLE[0]),
    "gemv beta": lambda: trnblas.gemv(1.0, WHOLE, WHOLE[0], 0.5, WHOLE[0]),
    "symv alpha": lambda: trnblas.symv(1.5, WHOLE, WHOLE[0]),
    "hemv beta": lambda: trnblas.hemv(1.0, WHOLE, WHOLE[0], 0.5, WHOLE[0]),
    "symm alpha": lambda: trnblas.symm(1.5, WHOLE, WHOLE),
    "hemm beta": lambda: trnblas.hemm(1.0, WHOLE, WHOLE, 0.5, WHOLE),
    "syrk alpha": lambda: trnblas.syrk(1.5, WHOLE),
    "herk beta": lambda: trnblas.herk(1.0, WHOLE, 0.5, WHOLE),
    "syr2k alpha": lambda: trnblas.syr2k(1.5, WHOLE, WHOLE),
    "her2k beta": lambda: trnblas.her2k(1.0, WHOLE, WHOLE, 0.5, WHOLE),
    "trmm alpha": lambda: trnblas.trmm(1.5, WHOLE, WHOLE),
    "axpy alpha": lambda: trnblas.axpy(1.5, WHOLE, WHOLE),
    "scal alpha": lambda: trnblas.scal(1.5, WHOLE),
    "ger alpha": lambda: trnblas.ger(1.5, WHOLE[0], WHOLE[0], WHOLE),
    "gerc alpha": lambda: trnblas.gerc(1.5, WHOLE[0], WHOLE[0]),
    "syr alpha": lambda: trnblas.syr(1.5, WHOLE[0]),
    "syr2 alpha": lambda: trnblas.syr2(1.5, WHOLE[0], WHOLE[0]),
    "her alpha": lambda: trnblas.her(1.5, WHOLE[0]),
    "her2 alpha": lambda: trnblas.her2(1.5, WHOLE[0], WHOLE[0]),
    "geam alpha": lambda: trnblas.geam(1.5, WHOLE, 1.0, WHOLE),
    "geam beta": lambda: trnblas.geam(1.0, WHOLE, 0.5, WHOLE),
}


@each_case("name", FRACTIONS)
def test_fractions_of_integers_are_refused(name):
    factor = name.split()[1]
    with pytest.raises(DTypeError, match=rf"{factor} must be whole for torch.int64, got"):
        FRACTIONS[name]()
    with (
        pytest.raises(DTypeError, match=rf"{factor} must be whole for torch.int64, got"),
        trnblas.backend("simulator"),
    ):
        FRACTIONS[name]()


FORGOTTEN = {
    "gemm": lambda beta: trnblas.gemm(1.0, ones(2, 2), ones(2, 2), beta),
    "gemm scaled": lambda beta: trnblas.gemm(2.0, ones(2, 2), ones(2, 2), beta),
    "batched_gemm": lambda beta: trnblas.batched_gemm(1.0, ones(2, 2, 2), ones(2, 2), beta),
    "gemmt": lambda beta: trnblas.gemmt(1.0, ones(2, 2), ones(2, 2), beta),
    "symm": lambda beta: trnblas.symm(1.0, ones(2, 2), ones(2, 2), beta),
    "hemm": lambda beta: trnblas.hemm(1.0, ones(2, 2), ones(2, 2), beta),
    "syrk": lambda beta: trnblas.syrk(1.0, ones(2, 2), beta),
    "herk": lambda beta: trnblas.herk(1.0, ones(2, 2), beta),
    "syr2k": lambda beta: trnblas.syr2k(1.0, ones(2, 2), ones(2, 2), beta),
    "her2k": lambda beta: trnblas.her2k(1.0, ones(2, 2), ones(2, 2), beta),
    "gemv": lambda beta: trnblas.gemv(1.0, ones(2, 2), ones(2), beta),
    "gemv scaled": lambda beta: trnblas.gemv(2.0, ones(2, 2), ones(2), beta),
    "symv": lambda beta: trnblas.symv(1.0, ones(2, 2), ones(2), beta),
    "hemv": lambda beta: trnblas.hemv(1.0, ones(2, 2), ones(2), beta),
}


@each_case("beta", [0.5, 1, float("nan"), torch.tensor(2.0)], ids=str)
@each_case("name", FORGOTTEN)
def test_a_factor_of_no_accumulator_is_refused(name, beta):
    for backend in ("pytorch", "simulator"):
        with (
            trnblas.backend(backend),
            pytest.raises(FlagError, match=r"beta must be 0 where [Cy] is not given, got"),
        ):
            FORGOTTEN[name](beta)


@each_case("name", FORGOTTEN)
def test_zero_is_a_factor_of_no_accumulator(name):
    for zero in (0, 0.0, -0.0, np.float32(0)):
        assert torch.equal(FORGOTTEN[name](zero), FORGOTTEN[name](0.0))


def test_integers_where_only_numbers_of_a_field_have_an_answer():
    whole = torch.ones(2, 2, dtype=torch.int32)
    with pytest.raises(DTypeError, match="trsm: A must be floating point or complex"):
        trnblas.trsm(1, whole, whole)
    with pytest.raises(DTypeError, match="nrm2: x must be floating point or complex"):
        trnblas.nrm2(whole)
    with pytest.raises(DTypeError, match="trsv: A must be floating point or complex"):
        trnblas.trsv(whole, whole[0])
    with pytest.raises(DTypeError, match="rot: x must be floating point or complex"):
        trnblas.rot(whole, whole, 1, 0)
    with pytest.raises(DTypeError, match="rotg: a must be floating point or complex"):
        trnblas.rotg(whole, whole)


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
    assert trnblas.nrm2(e(0, 3).double()) == 0
    assert trnblas.axpy(2.0, e(0), e(0)).shape == (0,)
    assert trnblas.scal(2.0, e(0, 2)).shape == (0, 2)
    assert torch.equal(trnblas.gemv(2.0, e(3, 0), e(0)), torch.zeros(3))
    assert torch.equal(trnblas.gemv(2.0, e(3, 0), e(0), 2.0, ones(3)), 2 * ones(3))
    assert trnblas.dotc(e(0), e(0)) == 0
    assert [t.shape for t in trnblas.swap(e(0), e(0))] == [(0,), (0,)]
    assert [t.shape for t in trnblas.rot(e(0), e(0), 1.0, 0.0)] == [(0,), (0,)]
    assert all(t.shape == (0,) for t in trnblas.rotg(e(0), e(0)))
    assert trnblas.gerc(2.0, e(0), e(3)).shape == (0, 3)
    assert trnblas.geam(2.0, e(0, 3), 1.0, e(0, 3)).shape == (0, 3)
    assert trnblas.dgmm(e(0, 3), e(0)).shape == (0, 3)
    assert trnblas.trsv(e(0, 0), e(0)).shape == (0,)
    assert trnblas.hemv(2.0, e(0, 0), e(0)).shape == (0,)
    for update in (trnblas.syr, trnblas.her):
        assert update(2.0, e(0)).shape == (0, 0)
        assert update(2.0, e(0, 3)).shape == (0, 3, 3)
    for update in (trnblas.syr2, trnblas.her2):
        assert update(2.0, e(0), e(0)).shape == (0, 0)
    assert torch.equal(trnblas.her2k(2.0, e(3, 0), e(3, 0)), torch.zeros(3, 3))
    assert torch.equal(trnblas.her2k(2.0, e(3, 0) + 0j, e(3, 0) + 0j), torch.zeros(3, 3) + 0j)
    assert trnblas.hemm(2.0, e(0, 0) + 0j, e(0, 3) + 0j).shape == (0, 3)
    assert trnblas.symv(2.0, e(0, 0), e(0)).shape == (0,)
    assert trnblas.trmv(e(0, 0), e(0)).shape == (0,)
    assert trnblas.ger(2.0, e(0), e(3)).shape == (0, 3)
    assert torch.equal(trnblas.gemm(2.0, e(2, 0), e(0, 3)), torch.zeros(2, 3))
    assert torch.equal(trnblas.gemm(1.0, e(2, 0), e(0, 3), 3.0, ones(2, 3)), 3 * ones(2, 3))
    assert trnblas.gemm(2.0, e(0, 4), e(4, 3)).shape == (0, 3)
    assert trnblas.batched_gemm(2.0, e(0, 2, 4), e(0, 4, 3)).shape == (0, 2, 3)
    assert trnblas.batched_gemm(2.0, e(0, 2, 4), e(4, 3)).shape == (0, 2, 3)
    assert trnblas.batched_gemm(2.0, e(2, 4), e(0, 4, 3)).shape == (0, 2, 3)
    assert trnblas.batched_gemm(2.0, e(2, 3, 4), e(4, 0), 1.0, e(2, 3, 0)).shape == (2, 3, 0)
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
    assert trnblas.nrm2(x) == trnblas.asum(x) == 3
    assert trnblas.iamax(x) == 0
    assert trnblas.axpy(2.0, x, x) == -9
    assert trnblas.scal(2.0, x) == -6
    for value in (trnblas.nrm2(x), trnblas.asum(x)):
        assert value.shape == ()
