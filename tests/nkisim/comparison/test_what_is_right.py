"""Dtypes, integers, ties and what a comparison says of them."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
from nkisim.trials.arguments import Arguments
from nkisim.trials.references import Reference

torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
functional = torch.nn.functional

X = np.random.default_rng(3).standard_normal((16, 48)).astype(np.float32)
BFLOAT16, FP8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2)
# A reference is called with tensors if its module has torch and not NumPy.
NAMES = {"torch": torch, "functional": functional, "__builtins__": __builtins__}


def torch_function(text):
    return eval(f"lambda x, *rest: {text}", dict(NAMES))


def quantised(x):
    return np.clip(np.round(x / 0.0175), -127, 127)


@pytest.mark.parametrize(
    ("kind", "function"),
    [("int32", quantised), ("int8", quantised), (FP8, lambda x: x), (BFLOAT16, lambda x: x)],
)
def test_zeros_are_wrong(kind, function):
    found = nkisim.compare(np.zeros(X.shape, kind), function, out_dtype="float8_e5m2")(X)
    assert not found.passed
    right = function(X.astype(np.float64)).astype(kind)
    assert nkisim.compare(right, function, out_dtype="float8_e5m2")(X).passed


@pytest.mark.parametrize("large", [1.0, 4096.0])
def test_log_softmax_and_the_backward_of_softmax_in_float32_are_right(large):
    x, y = torch.from_numpy(large * X), torch.from_numpy(X[::-1].copy())
    for text in (
        "functional.log_softmax(x, -1)",
        "torch.softmax(x, -1) * (rest[0] - (rest[0] * torch.softmax(x, -1)).sum(-1, keepdim=True))",
    ):
        function = torch_function(text)
        assert nkisim.compare(function(x, y), function)(x.numpy(), y.numpy()).passed


@pytest.mark.parametrize(
    ("got", "inputs", "out_dtype", "problem"),
    [
        ("float32", "float32", None, ""),
        ("float32", BFLOAT16, None, ""),
        (BFLOAT16, BFLOAT16, None, ""),
        (BFLOAT16, "float32", None, "output 0 is bfloat16, and the narrowest input is float32"),
        (BFLOAT16, "float32", "bf16", ""),
        ("float16", "float32", "bf16", ""),
        (FP8, "float32", "bf16", "output 0 is float8_e5m2, and --out-dtype is bfloat16"),
        (FP8, FP8, None, ""),
        ("int32", "float32", None, "output 0 is int32, and the reference's float32 has "),
    ],
)
def test_a_narrower_type_is_named_by_the_caller(got, inputs, out_dtype, problem):
    x = X.astype(inputs)
    for function in (torch_function("x * 2"), lambda x: x + x):
        outputs = (2 * x.astype(np.float32)).astype(got)
        found = nkisim.compare(outputs, function, out_dtype=out_dtype)(x)
        assert found.problem.startswith(problem)
        assert found.passed == (not problem), found


def test_the_reference_may_return_a_wider_type_than_its_inputs():
    x = X.astype(BFLOAT16)
    found = nkisim.compare(x, torch_function("x.float()"))(x)
    assert found.problem.startswith("output 0 is bfloat16, and the reference's is float32")
    assert (found.dtypes, found.reference_dtypes) == (("bfloat16",), ("float32",))


def test_a_narrow_result_of_a_reference_is_its_own_dtype():
    function = torch_function("x.to(torch.bfloat16)")
    assert nkisim.compare(X, function)(X).reference_dtypes == ("bfloat16",)


@pytest.mark.parametrize(
    ("values", "kind", "passed"),
    [
        ([0.0, 3.0, 127.0], "int8", True),
        ([0.0, 3.0, 128.0], "int8", False),
        ([-1.0, 3.0], "uint32", False),
        ([0.5, 3.0], "int32", False),
        ([0.0, 1.0], "bool", True),
        ([0.0, 2.0], "bool", False),
        ([np.nan, 2.0], "int32", True),
    ],
)
def test_integer_outputs_need_a_reference_of_integers(values, kind, passed):
    x = np.array(values, np.float32)
    got = np.nan_to_num(x).astype(kind)
    assert nkisim.compare(got, lambda x: x)(x).passed == passed


@pytest.mark.parametrize(("most", "passed"), [(256, True), (257, False)])
def test_a_float_output_holds_a_reference_of_integers_exactly(most, passed):
    x = np.array([1, 2, most], np.int32)
    found = nkisim.compare(x.astype(BFLOAT16), lambda x: x)(x)
    assert found.passed == passed, found
    assert nkisim.compare((x > 1).astype(BFLOAT16), lambda x: x > 1)(x).passed
    assert not nkisim.compare(np.float32(x) + np.float32(1e-6), lambda x: x)(x).passed


@pytest.mark.parametrize(
    ("x", "off", "passed"),
    [(2.5, 1, True), (2.5, 2, False), (2.4, 1, False), (3.0, 1, False), (3.0, -1, False)],
)
def test_integers_may_be_off_by_one_at_a_tie(x, off, passed):
    given = np.array([[x]], np.float32)
    right = np.round(given).astype(np.int32)
    assert nkisim.compare(right, np.round)(given).passed
    assert nkisim.compare(right + off, np.round)(given).passed == passed


def test_a_value_that_is_an_integer_by_chance_is_at_no_tie():
    x = np.array([[3.0]], np.float32)
    assert not nkisim.compare(np.int32([[7]]), lambda x: 2 * x)(x).passed


@pytest.mark.parametrize(
    ("got", "passed"),
    [(np.inf, True), (57344.0, True), (np.nan, True), (-np.inf, False), (0.0, False)],
)
def test_a_result_beyond_its_type_is_infinite_or_the_largest(got, passed):
    x = np.array([[1e6, 1.0]], np.float32)
    outputs = np.array([[got, 1.0]]).astype(FP8)
    assert nkisim.compare(outputs, lambda x: x, out_dtype="float8_e5m2")(x).passed == passed


def test_a_reference_that_rounds_nothing_leaves_one_rounding():
    x = np.array([[1e6, 1e-3]], np.float32)
    assert nkisim.compare(x, lambda x: x)(x).passed
    assert not nkisim.compare(x + np.float32([[0, 1e-8]]), lambda x: x)(x).passed


def test_results_without_a_function():
    assert nkisim.compare(2 * X, 2 * X)(X).passed
    assert not nkisim.compare(2 * X + np.float32(1e-3), 2 * X)(X).passed
    found = nkisim.compare([X, X > 0], (X, X > 0))()
    assert (found.passed, found.dtypes) == (True, ("float32", "bool"))
    assert not nkisim.compare([X, X < 0], (X, X > 0))().passed


def test_complex_results_are_pairs():
    z = X + 1j * X[::-1]
    assert nkisim.compare(z.astype(np.complex64), z)().passed
    assert not nkisim.compare(z.conj().astype(np.complex64), z)().passed


def test_the_sentence_has_the_types_and_every_part():
    function = torch_function("functional.log_softmax(x, -1)")
    found = nkisim.compare(function(torch.from_numpy(X)), function)(X)
    assert found.tolerance.startswith("float32 within 3.4e-06 of the element (one rounding, and 55")
    assert "times the reference's own error in its row" in found.tolerance
    assert "inputs' last digits" in found.tolerance
    wrong = nkisim.compare(1.01 * X, lambda x: x)(X)
    assert "768 elements are wrong; output 0 at (" in str(wrong)
    assert wrong.tolerance in str(wrong)


def test_arguments_of_compare():
    with pytest.raises(ValueError, match="out_dtype: got 'int8'; accepted: float8_e4m3,"):
        nkisim.compare(X, X, out_dtype="int8")
    with pytest.raises(ValueError, match="reference: ZeroDivisionError"):
        nkisim.compare(X, lambda x: 1 / 0)(X)
    assert nkisim.compare([X], (X, X))().problem == "1 outputs, and the reference has 2"
    assert nkisim.compare(X.T, X)().problem.startswith("output 0 has shape (48, 16)")


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (np.sqrt, False),
        (lambda x: 1.0 / x, False),
        (lambda x: np.linalg.norm(x, axis=-1), False),
        (lambda x: np.std(x, axis=-1), False),
        (lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True), False),
        (lambda x: np.maximum(x, 0.0), False),
        (lambda x: x * x, True),
        (lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True), True),
        (lambda x: x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5), True),
        (lambda x: np.sqrt(x.var(axis=-1) + 1e-5), True),
    ],
)
def test_what_a_reference_takes(function, takes):
    zeros = Arguments((np.zeros((4, 16), np.float32),), {})
    assert Reference(function).takes(zeros) == takes
    assert Reference(function).takes(Arguments((1.5 + X % 1,), {}))


def test_what_a_comparison_says_of_several_outputs():
    wrong = X.copy()
    wrong[3, 5] += 1.0
    wrong[4, 6] = np.nan
    found = nkisim.compare([X, wrong], lambda x: (x, x))(x=X)
    assert (found.passed, found.wrong, found.output, found.index) == (False, 2, 1, (4, 6))
    assert (found.norm, nkisim.compare(3 * X, X)().norm) == (np.inf, pytest.approx(2.0))
    near = nkisim.compare(np.nextafter(X, np.float32(9)), lambda x: x)(X)
    assert (near.passed, near.ulps) == (True, pytest.approx(1.0))


def test_a_given_tolerance_replaces_the_relative_one():
    function = torch_function("3.0 * x")
    assert not nkisim.compare(3.003 * X, function)(X).passed
    found = nkisim.compare(3.003 * X, function, tolerance=0.01)(X)
    assert (found.passed, found.relative) == (True, 0.01)
    assert found.tolerance.startswith("float32 within 1.0e-02 of the element plus up to ")


def test_where_float32_overflows_the_reference_is_no_measure():
    x = np.array([[1e15], [2.0]], np.float32)

    def by_the_fourth_power(x):
        return np.sqrt(x**4)

    exact = np.array([[1e30], [4.0]], np.float32)
    assert nkisim.compare(exact, by_the_fourth_power)(x).passed
    assert nkisim.compare(np.float32([[np.inf], [4.0]]), by_the_fourth_power)(x).passed
    assert not nkisim.compare(np.float32([[np.inf], [4.0]]), lambda x: x * x)(x).passed


def test_a_row_beyond_its_type_hides_no_other_row():
    x = np.array([[1e30, 1e30], [2.0, 2.0]], np.float32)
    right = np.array([[np.inf, np.inf], [4.0, 4.0]], np.float32)
    assert nkisim.compare(right, lambda x: x * x)(x).passed
    assert not nkisim.compare(right - np.float32(1e-4), lambda x: x * x)(x).passed


def test_a_reference_may_refuse_inputs_that_were_not_given():
    def of_these(x):
        assert x.max() <= np.float32(X.max())
        return 2.0 * x

    assert nkisim.compare(2 * X, of_these)(X).passed
    assert not nkisim.compare(2.01 * X, of_these)(X).passed
