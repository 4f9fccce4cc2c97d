"""The predicted time of a call is that of the launches it makes; nothing is computed for it."""

import pytest
import torch

import nkisim
from trnsci.core import explain
from trnsci.core.backend import prediction
from trnsci.core.counters import counts
from trnsci.core.errors import FlagError
from trnsci.core.testing import random_tensor

from .toy_kernel import scaled_add_kernel

X = random_tensor(150, 700)


def profiled(target=None):
    array = X.numpy()
    return nkisim.profile(scaled_add_kernel, target, advice=False)(array, array, 2.0)


@pytest.mark.parametrize("generation", [None, "gen2", "gen3", "gen4"])
def test_the_time_is_that_of_the_profile(library, operation, generation):
    with library.backend("simulator"):
        found = explain(operation, X, X, 2.0)
    got, expected = found.predict(generation), profiled(generation)
    assert got.us == expected.latency_us
    assert got.interval_us == expected.interval_us
    assert got.generation == expected.target
    assert got.open_end == ""
    low, high = expected.interval_us
    time = f"{expected.latency_us:,.1f} us on {expected.target} ({low:,.0f} to {high:,.0f})"
    assert str(got) == f"predicted {time}"
    if generation is None:
        assert str(found).endswith(f"\n    predicted {time}")
    assert not counts().launches


def test_launches_and_operations_add_up(library, make_operation):
    def launch(run, x, y, alpha):
        return run(scaled_add_kernel, run(scaled_add_kernel, x, y, 2.0), y, alpha)

    operation = make_operation()
    operation.launch = launch
    with library.backend("simulator"):
        once = explain(operation, X, X, 2.0).predict()
        twice = explain(lambda: operation(X, X, 2.0) + operation(X, X, 3.0)).predict()
    time = profiled().latency_us
    assert once.us == pytest.approx(2 * time)
    # X of the closure has values, so that the launches may depend on them.
    assert twice.us == 0
    assert "values of operands" in str(twice)


def test_a_launch_that_reads_values_ends_the_prediction(library, make_operation):
    def launch(run, x, y, alpha):
        found = run(scaled_add_kernel, x, y, alpha)
        return run(scaled_add_kernel, x, y, alpha) if found.max() > 3 else found

    operation = make_operation()
    operation.launch = launch
    with library.backend("simulator"):
        found = explain(operation, X, X, 2.0).predict()
    assert found.us == profiled().latency_us
    assert str(found).startswith("predicted at least ")
    assert "the rest depends on values" in str(found)


def test_a_kernel_without_a_time_says_why(library, make_operation, monkeypatch):
    operation = make_operation()
    monkeypatch.setattr(prediction, "MOST_INSTRUCTIONS", 5)
    with library.backend("simulator"):
        text = str(explain(operation, X, X, 2.0).predict())
    assert text.startswith("no predicted time: ")
    assert "executes more than 5 instructions" in text


def test_an_unknown_generation_is_an_error(library, operation):
    with library.backend("simulator"):
        found = explain(operation, X, X, 2.0)
    assert found.predict("trn2").generation == "gen3"
    with pytest.raises(FlagError, match=r"generation: got .gen9., accepted"):
        found.predict("gen9")


def test_a_call_on_torch_has_no_time(operation):
    found = explain(operation, X, X, 2.0)
    assert "predicted" not in str(found)
    assert str(found.predict()) == "no predicted time: no kernel runs"


def test_settings_are_those_of_the_explanation(library, make_operation):
    operation = make_operation()
    seen = []

    def launch(run, x, y, alpha):
        seen.append((library.get_backend(), torch.is_grad_enabled()))
        return run(scaled_add_kernel, x, y, alpha)

    operation.launch = launch
    with library.backend("simulator"):
        found = explain(operation, X, X, 2.0)
    assert library.get_backend() == "auto"
    assert not seen
    assert str(found) == str(found)
    assert seen == [("simulator", False)]
