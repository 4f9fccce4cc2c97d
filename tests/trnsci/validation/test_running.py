"""A case that is wrong in any way makes a failed record, which says why."""

import dataclasses
import re

import pytest
import torch

import trnblas.evidence
from trnsci.core.testing import random_tensor
from trnsci.validation import run_case
from trnsci.validation.running import find_case

GEMM = dataclasses.replace(
    find_case("trnblas", "gemm"), inputs=lambda: (random_tensor(9, 8), random_tensor(8, 7))
)


def with_gemm(monkeypatch, **changes):
    monkeypatch.setattr(trnblas.evidence, "CASES", (dataclasses.replace(GEMM, **changes),))
    return run_case("trnblas", "gemm", values_on=("gen3",), advice=False)


def test_a_right_kernel_passes(monkeypatch):
    record = with_gemm(monkeypatch)
    assert (record.status, record.message) == ("passed", "")
    assert record.title == "GEMM"
    assert record.reference == "torch in float64"
    assert record.values_on == ("gen3",)
    assert set(record.generations) == {"gen2", "gen3", "gen4"}
    assert {"date", "nkisim", "torch", "numpy", "python"} <= set(record.stamp)
    assert len(record.fingerprint) == 16


def test_advice_is_given_once_and_can_be_left_out():
    speed = run_case("trnblas", "syrk", values_on=("gen3",)).speed
    assert speed["gen3"]["advice"]
    assert speed["gen2"]["advice"] == speed["gen4"]["advice"] == []
    without = run_case("trnblas", "syrk", values_on=("gen3",), advice=False).speed
    assert without == speed | {"gen3": speed["gen3"] | {"advice": []}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"expected": lambda a, b: 2 * (a.double() @ b.double())}, "the result is off by 0.5"),
        ({"expected": lambda a, b: a}, "the result is off by a NaN, an infinity or another shape"),
        ({"call": lambda a, b: a @ b}, "did not launch the kernel"),
        ({"call": lambda a, b: a @ torch.zeros(3)}, "RuntimeError: "),
        ({"kernel": "another"}, "KernelError: trnblas.evidence has no case"),
    ],
    ids=["wrong value", "wrong shape", "torch computed it", "raises", "no case"],
)
def test_what_is_wrong_is_said(monkeypatch, changes, said):
    record = with_gemm(monkeypatch, **changes)
    assert record.status == "failed"
    assert said in record.message


def reads_what_nothing_wrote(nisa, a, b):
    nisa.tensor_copy(dst=b, src=a)


def writes_what_nothing_reads(nisa, a, b):
    nisa.memset(dst=a, value=1.0)
    nisa.tensor_copy(dst=b, src=a)


@pytest.mark.parametrize(
    ("fault", "rule", "source"),
    [(reads_what_nothing_wrote, "M001", True), (writes_what_nothing_reads, "W004", False)],
)
def test_a_finding_fails_on_every_generation(monkeypatch, fault, rule, source):
    from trnblas._kernels.gemm import gemm
    from trnsci.core.nki import nisa, nl

    original = gemm.function

    def careless(*arguments):
        tiles = [nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        fault(nisa, *tiles)
        return original(*arguments)

    monkeypatch.setattr(gemm, "func", careless)
    # Errors in the source alone, such as ``*arguments``, leave a time to predict.
    monkeypatch.setenv("NKISIM_SOURCE_RULES", "1" if source else "0")
    record = with_gemm(monkeypatch)
    assert record.status == "failed"
    assert record.error <= record.bound
    text = rf"\[{rule}\] [a-z-]+: .+, test_running.py:\d+, on gen2, gen3, gen4"
    assert re.search(text, record.message), record.message
    assert all(rule in found for found in record.generations.values()), record.generations
    assert all("us" in speed for speed in record.speed.values())


def test_the_finding_explains_a_wrong_result(monkeypatch):
    from trnblas._kernels.gemm import gemm
    from trnsci.core.nki import nisa, nl

    original = gemm.function

    def unwritten(*arguments):
        result = original(*arguments)
        tile = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=result[0:4, 0:4], src=tile)
        return result

    monkeypatch.setattr(gemm, "func", unwritten)
    record = with_gemm(monkeypatch)
    assert record.status == "failed"
    first, *_, last = record.message.split("; ")
    assert first.startswith("error[M001] "), record.message
    assert "test_running.py:" in first
    assert "off by a NaN, an infinity or another shape" in last


def test_a_call_that_falls_back_fails(monkeypatch):
    def refused(*arguments):
        raise RuntimeError("no room")

    monkeypatch.setattr("trnblas.matrix_products.GEMM.launch", refused)
    record = run_case("trnblas", "gemm", values_on=("gen3",))
    assert record.status == "failed"
    assert "no room" in record.message
    assert record.launches == 0


def test_the_settings_are_left_as_they_were():
    run_case("trnblas", "pair_energy", values_on=("gen3",))
    assert trnblas.LIBRARY.required() == ""
    assert trnblas.get_backend() == "auto"
