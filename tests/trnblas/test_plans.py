"""Plans of products at levels of precision: what they print, and the times they predict."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nkisim
import trnblas
from each_case import each_case
from trnblas._kernels.doublefloat import doublefloat_gemm
from trnblas._kernels.float16x3 import float16x3_gemm
from trnblas._library import LIBRARY
from trnblas._precise import ladder, slicing
from trnblas._precise.model import doublefloat_work
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError, FlagError, ShapeError


def profiled(kernel, order, *options):
    """Return the profile of a product of square matrices."""
    planes = [np.zeros((order, order), np.float32)] * (2 if kernel is float16x3_gemm else 4)
    return nkisim.profile(kernel, "gen3", advice=False)(*planes, *options)


@each_case(("slices", "order"), [(4, 1024), (8, 512)])
def test_times_are_within_an_eighth_of_the_profile(slices, order):
    """Of Tensor, which decides, the difference is below 3%."""
    plan = slices, slicing.chunk_rows(slices, order), slicing.pair_groups(slices, order)
    profile = profiled(doublefloat_gemm, order, *plan, (0, order))
    work = doublefloat_work(order, order, order, slices, "gen3")
    assert work.time_ns == pytest.approx(1e3 * profile.latency_us, rel=1 / 8)
    assert work.tensor_ns == pytest.approx(1e3 * profile.engine_busy_us["tensor"], rel=0.03)


def test_the_time_of_float16x3_is_within_an_eighth_of_the_profile():
    plan = trnblas.plan_gemm(1024, 1024, 1024, precision="float16x3", generation="gen3")
    found = 1e3 * profiled(float16x3_gemm, 1024).latency_us
    assert plan.work.time_ns == pytest.approx(found, rel=1 / 8)


def test_predicted_ratios_to_float32():
    """At most 14 and 13 times float32 at orders 1,024 and 4,096, and 9 times for 1e-10."""
    for order, most in ((1024, 14), (4096, 13)):
        plans = [
            trnblas.plan_gemm(order, order, order, precision=level, generation="gen3")
            for level in ("float32", "float16x3", "doublefloat")
        ]
        times = [plans[0].tiling.time_ns, *(plan.work.time_ns for plan in plans[1:])]
        assert times[1] < times[0]
        assert times[2] <= most * times[0]
        seven = slicing.fewest_slices(1e-10, order)
        assert doublefloat_work(order, order, order, seven, "gen3").time_ns <= 9 * times[0]


def test_a_plan_prints_what_it_promises():
    plan = trnblas.plan_gemm(64, 80, 9000, torch.float64, precision="doublefloat")
    assert plan.bound == slicing.bound(8, 9000) <= 2.0**-45
    assert plan.cost.launches == 3
    shown = str(plan)
    for text in (
        "8 of each operand, 43 pairs",
        f"at most {plan.bound:.3g}, 2**-45.3",
        f"{plan.work.hbm_bytes:,} bytes",
        f"{plan.work.products:,} nc_matmul",
        "Tensor",
        "GpSimd",
    ):
        assert text in shown
    narrow = trnblas.plan_gemm(64, 80, 90, precision="bfloat16")
    assert f"at most {ladder.level_bound('bfloat16', 90):.3g}" in str(narrow)
    assert narrow.cost.hbm_bytes == 2 * 90 * (64 + 80) + 4 * 64 * 80


def test_the_pairs_of_a_plan_are_those_that_the_kernel_multiplies():
    work = doublefloat_work(130, 520, 300, 8, "gen3")
    assert work.products == work.pairs * 2 * 2 * 3


@each_case("level", ["bfloat16", "float16x3", "float32", "doublefloat"])
def test_a_plan_is_executed_at_its_level(level):
    a, b = torch.ones(4, 6), torch.ones(5, 6)
    plan = trnblas.plan_gemm(4, 5, 6, transB=True, precision=level)
    before = counts()
    with LIBRARY.backend("simulator"):
        assert (plan.execute(a, b) == 6).all()
    kernel = "gemm" if level == "float32" else f"{level}_gemm"
    assert (counts() - before).launches == {kernel: 1}
    with pytest.raises(ShapeError, match=r"B must have shape \(5, 6\)"):
        plan.execute(a, b.mT)
    with pytest.raises(DTypeError, match="A must be float32"):
        plan.execute(a.double(), b.double())


def test_wrong_levels_are_named():
    with pytest.raises(FlagError, match="plan_gemm: got precision 'double', accepted: bfloat16"):
        trnblas.plan_gemm(2, 2, 2, precision="double")
    with pytest.raises(DTypeError, match="dtype must be float32 or float64, got bfloat16"):
        trnblas.plan_gemm(2, 2, 2, "bfloat16", precision="doublefloat")
    with pytest.raises(DTypeError, match="dtype must be float32, got float64"):
        trnblas.plan_gemm(2, 2, 2, "float64", precision="float16x3")
    with pytest.raises(FlagError, match="target error: got"):
        trnblas.plan_gemm(2, 2, 10**7, precision="doublefloat")
