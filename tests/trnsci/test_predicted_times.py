"""``explain`` predicts the device time of the launches that the same call makes."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

import nkisim
import trnfft
import trntensor
from each_case import each_case
from required import on_simulator
from trnsci.core import explain
from trnsci.core.backend.launch import SIMULATE
from trnsci.core.examples import examples_of, function_of

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")
CALLS = [(library, name) for library in LIBRARIES for name in examples_of(library)]
# fmt: off
READ_VALUES = {
    ("trnfft", "stft"),  # the tables have the window in them
    *(("trnsolver", name) for name in (
        # A matrix of low rank needs a further launch.
        "hutch_plus_plus", "lstsq", "nystrom", "pinv", "polar", "rsvd", "svd", "svdvals",
        "cg",  # converged or not
    )),
    *(("trnsparse", name) for name in (
        "cg, BSRMatrix", "chebyshev", "richardson", "screened_spmm", "sddmm", "spmm",
        "spmm, BSRMatrix", "spmm, equal rows", "spmv", "spmv_symmetric",
    )),
    ("trntensor", "tt_round"),
}
"""Calls whose launches depend on values: the time of those before is all that can be predicted."""
# fmt: on


def launched(function, *args, **options):
    """Return the sum of the predicted times of the launches of a call, in us."""
    times = []

    def simulate(kernel):
        def run(*arguments):
            times.append(nkisim.profile(kernel, advice=False)(*arguments).latency_us)
            return nkisim.simulate(kernel)(*arguments)

        return run

    with SIMULATE.scope(simulate):
        function(*args, **options)
    return pytest.approx(sum(times), rel=1e-9)


def compare(call):
    """Compare the prediction of a call with its launches."""
    function, given = function_of(*call), deepcopy(examples_of(call[0])[call[1]])
    with on_simulator(*LIBRARIES):
        explanation = explain(function, *given.args, **given.options)
        if not any(step.predict for step in explanation.steps):
            return  # no kernel
        found = explanation.predict()
        assert bool(found.open_end) == (call in READ_VALUES), found
        if not found.open_end:
            assert found.us == launched(function, *given.args, **given.options)


@pytest.mark.filterwarnings("ignore")
@each_case("call", [call for call in CALLS if call[0] in ("trnfft", "trntensor")][::4])
def test_the_prediction_is_that_of_the_launches(call):
    compare(call)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@each_case("call", CALLS)
def test_the_prediction_of_any_call_is_that_of_its_launches(call):
    compare(call)


def test_plans_show_the_time_of_their_execution():
    plan = trnfft.plan((3, 130, 90), (1, 2), kind="rfft2")
    x = torch.ones(plan.shape)
    with on_simulator("trnfft"):
        us = launched(plan.execute, x).expected
    assert dict(plan.decisions())["model"].startswith(f"predicted {us:,.1f} us on gen3 (")
    contraction = trntensor.plan_contraction("ij,jk,kl->il", *(torch.ones(9, 9),) * 3)
    assert "model" not in dict(contraction.decisions())
    with on_simulator("trntensor"):
        us = launched(contraction.execute, *(torch.ones(9, 9),) * 3).expected
        assert dict(contraction.decisions())["model"].startswith(f"predicted {us:,.1f} us on gen3")
