"""The language of a version: what 0.7.0 allows because Python traces kernels, and 0.6.0 refuses."""

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from each_case import each_case
from nkisim.diagnostics import RULES
from nkisim.versions import VERSIONS
from nkisim.versions.rules import CHANGES, held, verdicts

from .traced_kernels import KERNELS

X = np.arange(32 * 48, dtype=np.float32).reshape(32, 48) / 7
ALSO_BEFORE = {"slots", "dataclasses_with_classmethods", "compiled_loop"}
"""Kernels that 0.6.0 accepts too, with warnings."""


@pytest.fixture(autouse=True)
def newest(monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.7")


def test_there_are_forty():
    assert len(KERNELS) == 40


@each_case("name", list(KERNELS))
def test_a_traced_kernel_may_be_any_python(name):
    report = nkisim.check(KERNELS[name], nki="0.7", target="gen3", lnc=1, source=True)(X)
    assert report.findings == [], str(report)


@each_case("name", list(KERNELS))
def test_the_release_before_refuses_it(name):
    report = nkisim.check(KERNELS[name], nki="0.6", target="gen3", source=True)(X)
    assert bool(report.errors) == (name not in ALSO_BEFORE), str(report)


def test_the_old_front_end_judges_by_the_language_before(monkeypatch):
    kernel = KERNELS["list_comprehension"]
    assert nkisim.check(kernel, nki="0.7", target="gen3", source=True)(X).codes == set()
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "custom")
    assert nkisim.check(kernel, nki="0.7", target="gen3", source=True)(X).codes == {"A045", "L006"}


def test_the_table_names_rules_that_exist():
    assert set(CHANGES) <= set(RULES)
    for id in CHANGES:
        assert list(verdicts(id)) == list(VERSIONS)
    assert held("L006", "0.6.0").verdict == "holds"
    assert held("L028", "0.5.0").verdict == "holds"
    assert held("L028", "0.6.0").verdict == held("L006", "0.7.0").verdict == "off"
    assert verdicts("L027") == {}


@each_case(("nki", "found"), [("0.5", {"L028"}), ("0.6", set()), ("0.7", set())])
def test_a_copy_by_assignment_is_legal_from_0_6_on(nki, found):
    def copied(x):
        tile = nl.load(x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        out[0:16, 0:48] = tile[0:16, 0:48]
        out[16:32] = tile[16:32]
        return out

    report = nkisim.check(copied, nki=nki, target="gen3", source=True)(X)
    assert report.codes == found
    if not found:
        np.testing.assert_array_equal(nkisim.simulate(copied, nki=nki, target="gen3")(X), X)
