"""A kernel that fails is counted, said once per cause, and raised where kernels are required."""

import threading
import warnings

import pytest
import torch

from trnsci.core import counters
from trnsci.core.backend import fallback
from trnsci.core.backend.operation import Operation
from trnsci.core.counters import count_fallback, count_launch, counts
from trnsci.core.errors import KernelError, NkiFallbackWarning

X = torch.ones(2, 2)


@pytest.fixture
def operation(library, make_operation):
    library.set_backend("simulator")
    return make_operation("failing")


def test_the_result_is_the_references_and_the_fallback_is_counted(operation):
    with pytest.warns(NkiFallbackWarning):
        got = operation(X, X, 3.0)
    assert torch.equal(got, 4 * X)
    assert counts().fallbacks == {operation.qualified_name: 1}
    assert not counts().launches


def test_the_warning_says_what_failed_why_and_how_to_make_it_raise(library, operation):
    with pytest.warns(NkiFallbackWarning) as caught:
        operation(X, X, 3.0)
    (warning,) = caught
    assert str(warning.message) == (
        f"{operation.qualified_name}: the kernel failed and torch computed the result "
        f"(ArithmeticError: no tiles for 3.0); {library.require_nki.name}=1 raises instead"
    )
    assert warning.filename == __file__


def test_a_cause_is_said_once_and_counted_each_time(operation):
    with warnings.catch_warnings(record=True, action="always") as caught:
        for alpha in (1.0, 1.0, 2.0, 1.0):
            operation(X, X, alpha)
    assert [w.category for w in caught] == [NkiFallbackWarning] * 2
    assert counts().fallbacks[operation.qualified_name] == 4


def test_causes_are_told_apart_by_200_characters_of_their_first_line():
    said = [
        ("toy.a", ValueError("x" * 200 + "1")),
        ("toy.a", ValueError("x" * 200 + "2")),  # the same cause
        ("toy.a", ValueError("x" * 200 + "\nanother second line")),  # the same cause
        ("toy.a", ValueError("x" * 199 + "2")),
        ("toy.a", KeyError("x" * 200)),
        ("toy.b", ValueError("x" * 200)),
        ("toy.b", ValueError()),
    ]
    with warnings.catch_warnings(record=True, action="always") as caught:
        for operation, error in said:
            fallback.report_fallback(operation, error, "VARIABLE")
    assert [w.category for w in caught] == [NkiFallbackWarning] * 5


def test_a_warning_that_became_an_exception_is_not_taken_for_said(operation):
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(NkiFallbackWarning):
                operation(X, X, 3.0)


@pytest.mark.parametrize("umbrella", [True, False])
def test_required_kernels_raise_their_own_exception(make_library, make_operation, umbrella):
    library = make_library(umbrella, REQUIRE_NKI="1")
    library.set_backend("simulator")
    operation = make_operation("failing", owner=library)
    with pytest.raises(ArithmeticError, match=r"no tiles for 3\.0"):
        operation(X, X, 3.0)
    assert not counts().fallbacks


@pytest.mark.parametrize(
    ("launch", "said"),
    [("without_launch", "launched no kernel"), ("without_result", "returned a NoneType")],
)
def test_a_launch_that_does_not_do_its_part_is_a_failure(library, make_operation, launch, said):
    library.set_backend("simulator")
    operation = make_operation(launch)
    with pytest.warns(NkiFallbackWarning, match=said):
        assert torch.equal(operation(X, X, 3.0), 4 * X)
    refused = pytest.raises(KernelError, match=rf"^{library.name}\.scaled_add: .*{said}")
    with library.requiring("1"), refused:
        operation(X, X, 3.0)


def test_a_kernel_module_that_does_not_exist_is_a_failure(library, make_operation):
    library.set_backend("simulator")
    operation = make_operation("no_such_function")
    with pytest.warns(NkiFallbackWarning, match="AttributeError"):
        assert torch.equal(operation(X, X, 3.0), 4 * X)


def test_a_launch_function_can_be_given_itself(library, make_operation):
    def refusing(launch, x, y, alpha):
        raise ArithmeticError("given itself")

    library.set_backend("simulator")
    with pytest.warns(NkiFallbackWarning, match="given itself"):
        Operation(library, "given", reference=returns_argument, launch=refusing)(X, X, 3.0)


def test_a_reference_that_returns_its_argument_can_stand_in(library, make_operation):
    library.set_backend("simulator")
    operation = make_operation("failing", reference=returns_argument)
    with pytest.warns(NkiFallbackWarning):
        got = operation(X, X, 3.0)
    assert torch.equal(got, X)
    assert got.data_ptr() != X.data_ptr()


def returns_argument(x: torch.Tensor, y: torch.Tensor | None, alpha: float) -> torch.Tensor:
    return x.view(2, 2)


class TestCounters:
    def test_they_start_at_zero_and_can_be_set_back(self):
        assert counts().launches["any"] == 0
        count_launch("any")
        assert counts().launches["any"] == 1
        counters.reset()
        assert counts().launches["any"] == 0

    def test_what_was_read_does_not_change(self):
        before = counts()
        count_launch("any")
        count_fallback("other")
        assert not before.launches
        since = counts() - before
        assert (since.launches, since.fallbacks) == ({"any": 1}, {"other": 1})

    def test_threads_lose_no_count(self):
        def count():
            for _ in range(2000):
                count_launch("any")

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts().launches["any"] == 8000
