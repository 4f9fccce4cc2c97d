"""BLAS threads during runs: one, and as many as before afterwards."""

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import nkisim
import nkisim.language as nl

BLAS = ThreadpoolController().select(user_api="blas")


def numbers():
    return [library.get_num_threads() for library in BLAS.lib_controllers]


@pytest.fixture(autouse=True)
def three_threads():
    with BLAS.limit(limits=3):
        if set(numbers()) != {3}:
            pytest.skip("this BLAS library cannot be told its number of threads")
        yield
        assert set(numbers()) == {3}


def run(body):
    """Run a kernel that copies its input and calls ``body`` in between."""

    def kernel(x):
        body()
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    nkisim.simulate(kernel)(np.ones((2, 2), np.float32))


def test_a_run_holds_blas_to_one_thread():
    seen = []
    run(lambda: seen.extend(numbers()))
    assert set(seen) == {1}


def test_an_exception_puts_the_threads_back():
    def fail():
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        run(fail)


def in_a_thread(body):
    thread = threading.Thread(target=body)
    thread.start()
    return thread


def test_a_run_inside_another_leaves_the_threads_to_it():
    seen = []

    def body():
        in_a_thread(lambda: run(lambda: None)).join()
        seen.extend(numbers())

    run(body)
    assert set(seen) == {1}


def test_a_run_that_began_earlier_and_ends_later_changes_nothing():
    begun, ended = threading.Event(), threading.Event()
    thread = in_a_thread(lambda: run(lambda: (begun.set(), ended.wait(60))))
    assert begun.wait(60)
    run(lambda: None)
    ended.set()
    thread.join()
    assert set(numbers()) == {3}
