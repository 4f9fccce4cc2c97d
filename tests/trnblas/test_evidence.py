"""The cases that validate kernels: what they are made of, and that their truth is torch's too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import trnblas
from trnblas.evidence import CASES
from trnsci.core.evidence import relative_error

U = 2.0**-24
SOURCE = Path(trnblas.__file__).parents[1]
BY_KERNEL = {case.kernel: case for case in CASES}
SHAPES = {
    "gemm": [(150, 260), (260, 530)],
    "batched_gemm": [(3, 100, 140), (3, 140, 90)],
    "complex_gemm": [(70, 130), (130, 90)],
    "symm": [(150, 150), (150, 70)],
    "gemmt": [(150, 200), (200, 150)],
    "syrk": [(150, 200)],
    "syr2k": [(150, 200), (150, 200)],
    "trmm": [(150, 150), (150, 70)],
    "trsm": [(150, 150), (150, 70)],
    "batched_trsm": [(3, 60, 60), (3, 60, 20)],
    "pair_energy": [(40, 70), (40, 70), (), (), (40,)],
    "batched_pair_energy": [(5, 40, 70), (5,), (40,)],
    "mp2_energy": [(5, 40, 70), (5,), (40,)],
    "doublefloat_gemm": [(150, 260), (260, 140)],
    "float16x3_gemm": [(150, 260), (260, 530)],
    "bfloat16_gemm": [(150, 260), (260, 530)],
    "arithmetic_probe": [(128, 512), (128, 512)],
    "doublefloat_elementwise": [(150, 600), (150, 600)],
    "doublefloat_sum": [(150, 600)],
    "doublefloat_dot": [(70_000,), (70_000,)],
    "doublefloat_axpy": [(70_000,), (70_000,)],
    "doublefloat_mp2_energy": [(150, 150), (3,), (50,)],
}


@pytest.fixture(params=CASES, ids=lambda case: case.kernel)
def case(request):
    return request.param


def test_inputs_are_the_same_ones_at_each_call(case):
    inputs, again = case.inputs(), case.inputs()
    assert [tuple(torch.as_tensor(x).shape) for x in inputs] == SHAPES[case.kernel]
    assert all(torch.equal(*map(torch.as_tensor, pair)) for pair in zip(inputs, again, strict=True))
    # Two operands of one shape are two operands.
    assert not any(
        torch.equal(torch.as_tensor(x), torch.as_tensor(y))
        for i, x in enumerate(inputs)
        for y in inputs[:i]
        if torch.as_tensor(x).shape == torch.as_tensor(y).shape
    )


def test_what_torch_gives_is_inside_of_the_bound_and_a_little_more_is_not(case):
    inputs = case.inputs()
    want, bound = case.expected(*inputs), case.bound(*inputs)
    with trnblas.backend("pytorch"):
        got = case.call(*inputs)
    assert relative_error(got, want) <= bound < 1e-3
    assert want.dtype is (torch.complex128 if case.kernel == "complex_gemm" else torch.float64)
    assert relative_error(want * (1 + 2 * bound), want) > bound


def test_the_truth_is_computed_by_no_function_of_the_libraries_but_its_own_definition(case):
    """Functions of the module that declares the case may state the definition."""
    called, inputs = set(), case.inputs()
    sys.setprofile(lambda frame, event, argument: called.add(frame.f_code.co_filename))
    try:
        case.expected(*inputs)
    finally:
        sys.setprofile(None)
    ours = {file for file in called if Path(file).is_relative_to(SOURCE)}
    assert ours <= {case.expected.__code__.co_filename}


def test_bounds_of_products_are_their_depth_in_roundings_times_their_cancellation():
    def bound(a, b):
        return a.shape[-1] * U * float((a.abs() @ b.abs()).norm() / (a @ b).norm())

    names = ("gemm", "batched_gemm", "symm", "gemmt", "syrk", "syr2k", "trmm")
    inputs = {name: [x.double() for x in BY_KERNEL[name].inputs()] for name in names}
    found = {name: BY_KERNEL[name].bound(*inputs[name]) for name in names}
    wanted = {name: bound(*inputs[name]) for name in ("gemm", "batched_gemm")}
    a, b = BY_KERNEL["complex_gemm"].inputs()
    found["complex_gemm"] = BY_KERNEL["complex_gemm"].bound(a, b)
    # Each part of the result is a real product of twice the depth.
    real = torch.cat([torch.cat([a.real, -a.imag], 1), torch.cat([a.imag, a.real], 1)])
    wanted["complex_gemm"] = bound(real.double(), torch.cat([b.real, b.imag]).double())
    a, b = inputs["trmm"]
    wanted["trmm"] = bound(a.triu(), b)
    a, b = inputs["symm"]
    wanted["symm"] = bound(a.triu() + a.triu(1).mT, b)
    wanted["gemmt"] = 2 * bound(*inputs["gemmt"])
    (a,) = inputs["syrk"]
    wanted["syrk"] = bound(a, a.mT)
    a, b = inputs["syr2k"]
    wanted["syr2k"] = bound(torch.cat([a, b], 1), torch.cat([b, a], 1).mT)
    assert found == {name: pytest.approx(value) for name, value in wanted.items()}


def test_triangles_are_far_from_singular_and_their_bound_is_their_condition():
    for case in (BY_KERNEL["trsm"], BY_KERNEL["batched_trsm"]):
        a, b = case.inputs()
        assert torch.equal(a, a.triu())
        assert torch.equal(a.diagonal(dim1=-2, dim2=-1), torch.full(a.shape[:-1], 2.0))
        condition = float(torch.linalg.cond(a.double()).max())
        assert condition < 2
        assert case.bound(a, b) == pytest.approx(2 * a.shape[-1] * U * condition)


def test_terms_of_an_energy_have_one_sign_and_their_bound_is_what_sums_may_lose():
    names = ("pair_energy", "batched_pair_energy", "mp2_energy")
    pair, pairs, of_integrals = (BY_KERNEL[name] for name in names)
    b, occupied, virtual = pairs.inputs()
    assert (b >= 1).all()
    assert occupied.tolist() == pytest.approx([-1.0, -0.8, -0.6, -0.4, -0.2])
    assert (virtual[0], virtual[-1]) == (torch.tensor(0.1), torch.tensor(1.5))
    assert (pairs.expected(b, occupied, virtual)) < 0
    grown = []
    for left in b.double():
        for right in b.double():
            t = left @ right.mT
            grown.append(((2 * t * (2 * t + t.mT)).sum(), (t * (2 * t - t.mT)).sum()))
    ratio = float(sum(top for top, _ in grown) / sum(bottom for _, bottom in grown))
    wanted = (70 * ratio + 10 + 2 * 40 + 5**2) * U
    assert pairs.bound(b, occupied, virtual) == pytest.approx(wanted)
    assert of_integrals.bound(b, occupied, virtual) == pytest.approx(wanted)
    first = pair.inputs()
    assert torch.equal(first[0], b[0])
    assert torch.equal(first[1], b[1])
    assert (first[2], first[3]) == (occupied[0], occupied[1])
    assert pair.bound(*first) == pairs.bound(b[:2], occupied[:2], virtual)


def test_operands_of_doublefloat_are_not_float32_and_the_bounds_are_those_of_the_levels():
    levels = ("doublefloat", "float16x3", "bfloat16")
    doublefloat, float16x3, bfloat16 = (BY_KERNEL[f"{level}_gemm"] for level in levels)
    a, b = doublefloat.inputs()
    for x in (a, b):
        assert x.dtype is torch.float64
        assert not torch.equal(x, x.float().double())
    norms = a.norm(dim=1)[:, None] * b.norm(dim=0)
    wanted = (2.0**-45 + 260 * 2.0**-53) * norms.norm() / (a @ b).norm()
    assert doublefloat.bound(a, b) == pytest.approx(float(wanted))
    a, b = (x.double() for x in float16x3.inputs())
    magnitudes = (a.abs() @ b.abs()).norm() / (a @ b).norm()
    wanted = (3 * 2.0**-22 + 3 * 260 * U) * magnitudes
    assert float16x3.bound(a, b) == pytest.approx(float(wanted))
    for x in bfloat16.inputs():
        assert torch.equal(x, x.bfloat16().float())
