"""REQUIRE_NKI and ``explain``, as properties of every public function of the six libraries."""

from __future__ import annotations

import copy
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

from public_calls import CALLS, LIBRARIES, NOT_CALLS, function_of, public_functions
from required import requiring
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError

NO_KERNEL = "the function has no kernel"
UNKNOWN = {
    "trnsolver.expm_multiply",
    "trnsolver.eigsh",
    "trnsolver.lobpcg",
    "trnsolver.svds",
    "trnsparse.cg",
    "trnsparse.minres",
    "trnsparse.power_iteration",
    "trntensor.cp_decompose",
    "trntensor.tucker_decompose",
}
"""Functions that reach kernels only after a step that depends on values."""


def callable_here(name):
    return name != "trnsparse.amg_preconditioner" or find_spec("pyamg") is not None


def test_every_public_function_has_a_call_or_a_reason():
    exempt = {name for names in NOT_CALLS.values() for name in names.split()}
    have_none = {name for name in public_functions() if name.partition(".")[2] in exempt}
    assert public_functions() == set(CALLS) | have_none
    assert not set(CALLS) & have_none


def calls_of(library):
    return {n: c for n, c in CALLS.items() if n.startswith(library) and callable_here(n)}


def has_no_kernel(name, args, options, path):
    """Assert that an explanation names the path of kernels or that there are none; return that."""
    got = explain(function_of(name), *args, **options)
    own = [step for step in got.steps if step.operation.startswith(name.partition(".")[0])]
    if name in UNKNOWN:
        assert got.open_end, name
        assert not own, name
        return False
    without = {step.reason.startswith(NO_KERNEL) for step in own}
    assert len(without) == 1, str(got)
    assert {step.path for step in own} <= {"pytorch" if without == {True} else path}, got
    return without == {True}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_call_is_explained_and_works_after_its_explanation(library):
    for name, call in calls_of(library).items():
        args, options = copy.deepcopy(call)  # new operands, in which nothing is kept yet
        with import_module(library).backend("simulator"):
            has_no_kernel(name, args, options, "simulator")
        function_of(name)(*args, **options)


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_a_device_a_required_kernel_raises_and_other_functions_compute(library):
    for name, (args, options) in calls_of(library).items():
        function, args = function_of(name), copy.deepcopy(args)
        with requiring(*LIBRARIES, level="all"):
            without = has_no_kernel(name, args, options, "nki")
        before = counts()
        if without:
            with requiring(*LIBRARIES):
                function(*args, **options)
            assert (counts() - before).no_kernel.total() >= 1, name
            refused = pytest.raises(BackendError, match=r"has no kernel, and .*_REQUIRE_NKI")
            with requiring(*LIBRARIES, level="all"), refused:
                function(*args, **options)
        else:
            refused = pytest.raises(BackendError, match=r"REQUIRE_NKI or its umbrella is on")
            with requiring(*LIBRARIES), refused:
                function(*args, **options)
        assert not (counts() - before).launches


def test_the_size_does_not_matter():
    for order in (1, 300):
        a = torch.ones(order, order)
        with requiring("trnblas"), pytest.raises(BackendError, match="REQUIRE_NKI"):
            function_of("trnblas.gemm")(1.0, a, a)


def test_backend_pytorch_is_an_explicit_choice():
    trnblas = import_module("trnblas")
    with requiring("trnblas", level="all"), trnblas.backend("pytorch"):
        assert torch.equal(trnblas.gemm(1.0, torch.eye(2), torch.eye(2)), torch.eye(2))
        assert trnblas.asum(torch.ones(2)) == 2


def test_what_raises_is_explained_so():
    a = torch.ones(2, 2)
    gemm = function_of("trnblas.gemm")
    with requiring("trnblas"):
        assert str(explain(gemm, 1.0, a, a)).endswith(
            "no NeuronCore with AWS's NKI is found; the call raises"
        )
        assert str(explain(gemm, 1.0, a.double(), a.double())).endswith(
            "the kernel does not take torch.float64; the call raises"
        )
    with requiring("trnblas", level="all"):
        text = str(explain(function_of("trnblas.asum"), a))
    assert text.endswith("has no kernel; the call raises")


@pytest.mark.parametrize("thing", [torch.ones(2), (1, 2), "gemm", None, 3.0])
def test_explain_takes_a_function_only(thing):
    with pytest.raises(TypeError, match=r"explain: the first argument must be a function, got a "):
        explain(thing)
