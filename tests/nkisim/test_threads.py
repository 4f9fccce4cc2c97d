"""Simulations in several threads: each has its own memory, findings, target and outcome."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl


@nkisim.jit
def in_step(source, barrier, rounds, target):
    """Adds ``source`` to itself, waiting for the other thread before every instruction."""
    assert nisa.get_nc_version() == target
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf, address=(0, 0))
    acc = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf, address=(0, 4096))
    barrier.wait(timeout=60)
    nisa.dma_copy(dst=tile, src=source)
    barrier.wait(timeout=60)
    nisa.memset(dst=acc, value=0.0)
    for _ in range(rounds):
        barrier.wait(timeout=60)
        nisa.tensor_tensor(dst=acc, data1=acc, data2=tile, op=nl.add)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    barrier.wait(timeout=60)
    nisa.dma_copy(dst=out, src=acc)
    return out


def test_two_runs_in_step_keep_their_memories_and_targets_apart():
    barrier = threading.Barrier(2)
    inputs = [np.full((128, 8), value, np.float32) for value in (1.0, 100.0)]
    targets = [("gen3", nisa.nc_version.gen3), ("gen4", nisa.nc_version.gen4)]

    def run(i):
        name, version = targets[i]
        return nkisim.check(in_step, target=name)(inputs[i], barrier, 5, version)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(run, range(2)))
    for report, data in zip(reports, inputs, strict=True):
        np.testing.assert_array_equal(report.outputs, 5 * data)


@nkisim.jit
def reads_too_much(source, barrier):
    tile = nl.ndarray((8, 8), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:4], src=source)
    barrier.wait(timeout=60)
    out = nl.ndarray((8, 8), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    barrier.wait(timeout=60)
    return out


@nkisim.jit
def reads_what_it_wrote(source, barrier):
    tile = nl.ndarray((8, 4), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    barrier.wait(timeout=60)
    out = nl.ndarray((8, 4), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    barrier.wait(timeout=60)
    return out


@nkisim.jit
def stops(source, barrier):
    tile = nl.ndarray((8, 4), dtype=source.dtype, buffer=nl.sbuf)
    barrier.wait(timeout=60)
    barrier.wait(timeout=60)
    nisa.dma_copy(dst=tile, src=source[:, 0:3])
    return source


def test_findings_stay_with_their_run():
    barrier = threading.Barrier(3)
    source = np.ones((8, 4), np.float32)
    kernels = [reads_too_much, reads_what_it_wrote, stops]
    with ThreadPoolExecutor(3) as pool:
        wrong, right, stopped = pool.map(
            lambda kernel: nkisim.check(kernel)(source, barrier), kernels
        )
    assert "M001" in wrong.codes
    assert not right.codes & {"M001", "S058"}
    np.testing.assert_array_equal(right.outputs, source)
    assert "S058" in stopped.codes
    assert "M001" not in stopped.codes
    assert stopped.outputs is None


def test_a_thread_inside_no_kernel_stays_outside():
    """A run in one thread does not let another thread issue instructions."""
    inside, done = threading.Barrier(2), threading.Barrier(2)

    def elsewhere():
        inside.wait(timeout=60)
        try:
            with pytest.raises(nkisim.NkiValidationError) as caught:
                nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
            return caught.value.rule_id
        finally:
            done.wait(timeout=60)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(elsewhere)
        nkisim.check(waits)(np.ones((4, 4), np.float32), inside, done)
        assert other.result() == "L063"


@nkisim.jit
def waits(source, inside, done):
    inside.wait(timeout=60)
    done.wait(timeout=60)
    return source


@nkisim.jit
def doubled(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_one_simulator_may_be_called_from_many_threads():
    # First and later calls race for whatever a first call prepares.
    sim = nkisim.simulate(doubled)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((16 + i % 3, 5 + i % 7)).astype(np.float32) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(sim, inputs))
    for got, data in zip(results, inputs, strict=True):
        np.testing.assert_array_equal(got, data + data)
