"""A kernel that does not accept a call warns once per public function and reason, at the call."""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import ExitStack, contextmanager

import pytest
import torch
from torch.func import grad, jvp, vmap

import trnblas
import trnsolver
import trnsparse
import trntensor
from required import on_simulator, requiring
from trnsci import precision
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, NkiRefusalWarning
from trnsci.core.testing import random_tensor

A = random_tensor(4, 4, dtype=torch.float64)
SPD = A @ A.mT + torch.eye(4, dtype=torch.float64)
REASON = "the kernel does not take torch.float64"


@contextmanager
def recorded():
    """The refusals that are warned about, on the simulator."""
    found = []
    with warnings.catch_warnings(record=True, action="always") as caught:
        with on_simulator("trnblas", "trnsolver", "trnsparse", "trntensor"):
            yield found
        found += [one for one in caught if one.category is NkiRefusalWarning]


def texts(found):
    return [str(one.message) for one in found]


def here():
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def test_the_warning_names_function_reason_and_how_to_make_it_raise():
    with recorded() as found:
        trnblas.gemm(1.0, A, A)
        line = here() - 1
    assert texts(found) == [
        f"trnblas.gemm: torch computes the result ({REASON}); TRNBLAS_REQUIRE_NKI=1 raises instead"
    ]
    assert (found[0].filename, found[0].lineno) == (__file__, line)


def test_the_function_is_the_one_that_was_called_whatever_it_calls():
    with recorded() as found:
        trnsolver.solve(SPD, A)
        line = here() - 1
        trntensor.einsum("ij,jk->ik", A, A)
        trnblas.her(1.0, A[0], SPD)
    assert [text.partition(":")[0] for text in texts(found)] == [
        "trnsolver.solve",
        "trntensor.einsum",
        "trnblas.her",
    ]
    assert "torch computes trnsolver.lu (" in texts(found)[0]
    assert found[0].lineno == line
    assert {one.filename for one in found} == {__file__}


def test_once_for_each_function_and_reason_but_counted_each_time():
    before = counts()
    with recorded() as found:
        for _ in range(3):
            trnblas.gemm(1.0, A, A)
            trnblas.symm(1.0, A, A)
            trnblas.gemm(1.0, A.long(), A.long())
    assert [text.partition(";")[0] for text in texts(found)] == [
        f"trnblas.gemm: torch computes the result ({REASON})",
        f"trnblas.symm: torch computes the result ({REASON})",
        "trnblas.gemm: torch computes the result (the kernel does not take torch.int64)",
    ]
    assert (counts() - before).refusals["trnblas.gemm", REASON] == 3


def test_a_level_without_a_kernel_is_a_reason():
    x = SPD.float()
    ones = torch.ones(len(x))
    with recorded() as found, precision("doublefloat"):
        trnsparse.screened_spmm(x, ones, x, 0.5)
        trnsparse.screened_spmm(x, ones, x, 0.5)
    assert texts(found) == [
        "trnsparse.screened_spmm: torch computes the result (the kernel does not have precision "
        "'doublefloat'); TRNSPARSE_REQUIRE_NKI=1 raises instead"
    ]


@pytest.mark.parametrize("backend", ["auto", "pytorch"])
def test_a_backend_that_requests_no_kernels_does_not_warn(backend):
    with recorded() as found, trnblas.backend(backend):
        trnblas.gemm(1.0, A, A)
    assert not found


@pytest.mark.parametrize(("backend", "warns"), [("auto", False), ("nki", True)])
def test_on_the_simulator_of_the_environment_the_backend_decides(
    make_library, make_operation, backend, warns
):
    library = make_library(USE_SIMULATOR="1")
    with recorded() as found, library.backend(backend):
        make_operation(owner=library)(A, None, 1.0)
    assert counts().refusals
    assert len(found) == warns


def test_functions_without_a_kernel_and_explanations_do_not_warn():
    with recorded() as found:
        trnblas.asum(A)
        trnblas.axpy(2.0, A, A)
        explain(trnblas.gemm, 1.0, A, A)
    assert not found


def test_required_kernels_raise_without_a_warning():
    refused = pytest.raises(BackendError, match=REASON)
    with recorded() as found, requiring("trnblas"), refused:
        trnblas.gemm(1.0, A, A)
    assert not found


def test_a_warning_that_became_an_exception_is_raised_each_time():
    for _ in range(2):
        with on_simulator("trnblas"), warnings.catch_warnings():
            warnings.simplefilter("error", NkiRefusalWarning)
            with pytest.raises(NkiRefusalWarning, match=r"^trnblas\.gemm: "):
                trnblas.gemm(1.0, A, A)


def test_threads_share_one_warning():
    barrier = threading.Barrier(8)

    def call():
        with trnblas.backend("simulator"):
            barrier.wait()
            trnblas.gemm(1.0, A, A)

    threads = [threading.Thread(target=call) for _ in range(8)]
    with recorded() as found:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 1
    assert found[0].filename == __file__


def test_transforms_warn_once_at_the_call_inside_of_them():
    def product(a):
        return trnblas.gemm(1.0, a, a).sum()

    with recorded() as found:
        for _ in range(2):
            vmap(product)(torch.stack([A, A]))
            grad(product)(A)
            vmap(grad(product))(torch.stack([A, A]))
            jvp(product, (A,), (A,))
    assert [text.partition(":")[0] for text in texts(found)] == ["trnblas.gemm"]
    assert (found[0].filename, found[0].lineno) == (__file__, product.__code__.co_firstlineno + 1)


def test_a_compiled_call_warns_when_it_is_compiled_at_the_call_of_the_graph():
    torch.compiler.reset()
    compiled = torch.compile(lambda a: trnblas.gemm(1.0, a, a), backend="eager", fullgraph=True)
    with recorded() as found:
        compiled(A)
        line = here() - 1
        compiled(A)
    assert [text.partition(":")[0] for text in texts(found)] == ["trnblas.gemm"]
    assert (found[0].filename, found[0].lineno) == (__file__, line)
    torch.compiler.reset()


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_backward_pass_warns_once_where_it_is_started(library, make_operation, in_thread):
    inner = make_operation()

    def backward(gradient, needed, x, y, alpha):
        inner.refuse("no kernel for gradients")
        return alpha * gradient, None, None

    outer = make_operation(backward=backward)
    x = torch.ones(2, 2, requires_grad=True)
    with library.backend("simulator"), ExitStack() as stack:
        results = [outer(x, None, 2.0).sum() for _ in range(2)]
        found = stack.enter_context(recorded())

        def differentiate():
            with library.backend("simulator"):
                for result in results:
                    result.backward()

        if in_thread:
            thread = threading.Thread(target=differentiate)
            thread.start()
            thread.join()
        else:
            differentiate()
    assert [text.partition(";")[0] for text in texts(found)] == [
        f"{inner.qualified_name}: torch computes the result (no kernel for gradients)"
    ]
    assert found[0].filename == __file__
    assert torch.equal(x.grad, torch.full((2, 2), 4.0))
