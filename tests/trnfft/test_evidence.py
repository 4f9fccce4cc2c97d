"""The cases that validate kernels: what they are made of, and that their truth is torch's too."""

from __future__ import annotations

import pytest
import torch

import trnfft
from trnfft.evidence import CASES
from trnsci.core.evidence import relative_error

U = 2.0**-24
SHAPES = {
    "butterfly": [(3, 256)],
    "butterfly_stage_kernel": [(3, 256)],
    "dft": [(5, 200)],
    "stacked": [(2, 2048)],
    "four_step": [(2, 2048)],
    "bluestein": [(2, 1031)],
    "rfft": [(5, 200)],
    "irfft": [(5, 101)],
    "two_d": [(2, 130, 20)],
    "stacked_image": [(1024, 20)],
    "n_d": [(6, 10, 12, 7)],
    "stft": [(2, 1000), (200,)],
    "doublefloat_transform": [(3, 600)],
    "complex_mask": [(70, 130), (70, 130)],
}
REAL = {"four_step", "rfft", "stft"}
ITSELF = {"butterfly", "butterfly_stage_kernel"}  # launched without a public function


@pytest.fixture(params=CASES, ids=lambda case: case.kernel)
def case(request):
    return request.param


def test_inputs_are_different_tensors_of_these_shapes(case):
    inputs = case.inputs()
    assert [tuple(x.shape) for x in inputs] == SHAPES[case.kernel]
    assert inputs[0].is_complex() is (case.kernel not in REAL)
    assert case.public is (case.kernel not in ITSELF)
    assert len({x.flatten()[0].item() for x in inputs}) == len(inputs)


def test_what_torch_gives_is_inside_of_the_bound(case):
    inputs = case.inputs()
    want, bound = case.expected(*inputs), case.bound(*inputs)
    assert want.dtype is torch.complex128 or case.kernel == "irfft"
    assert relative_error(want * (1 + 2 * bound), want) > bound
    if case.public:
        with trnfft.backend("pytorch"):
            assert relative_error(case.call(*inputs), want) <= bound
    # Of a mask two products and a sum, in both parts.
    bounds = {"complex_mask": 3 * U * 2**0.5, "doublefloat_transform": 2e-13}
    assert bound == pytest.approx(bounds.get(case.kernel, 2e-6))


@pytest.mark.parametrize("kernel", sorted(ITSELF))
def test_kernels_that_are_launched_themselves_give_the_transform(kernel):
    (case,) = [case for case in CASES if case.kernel == kernel]
    (x,) = case.inputs()
    assert relative_error(case.call(x[:1]), case.expected(x[:1])) <= 2e-6
