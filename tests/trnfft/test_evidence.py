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
    "complex_gemm": [(70, 130), (130, 90)],
    "complex_gemm_bf16": [(70, 130), (130, 90)],
    "complex_linear": [(70, 130), (50, 130), (50, 130)],
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
    if case.kernel not in {"complex_gemm", "complex_gemm_bf16", "complex_linear", "complex_mask"}:
        assert bound == 2e-6


def test_complex_products_are_bounded_as_real_ones_of_twice_the_depth():
    def bound(a, b):
        real = torch.cat([torch.cat([a.real, -a.imag], 1), torch.cat([a.imag, a.real], 1)])
        both = torch.cat([b.real, b.imag])
        magnitudes = (real.abs() @ both.abs()).norm()
        return 2 * a.shape[1] * U * float(magnitudes / (real @ both).norm())

    cases = {case.kernel: case for case in CASES}
    a, b = cases["complex_gemm"].inputs()
    wide = a.to(torch.complex128), b.to(torch.complex128)
    assert cases["complex_gemm"].bound(a, b) == pytest.approx(bound(*wide))
    halved = [torch.view_as_complex(torch.view_as_real(x).bfloat16().float()) for x in (a, b)]
    wide = [x.to(torch.complex128) for x in halved]
    assert cases["complex_gemm_bf16"].bound(a, b) == pytest.approx(bound(*wide))
    x, re, im = cases["complex_linear"].inputs()
    weight = torch.complex(re.double(), im.double()).mT
    assert cases["complex_linear"].bound(x, re, im) == pytest.approx(
        bound(x.to(torch.complex128), weight)
    )
    # Two products and a sum, in both parts.
    assert cases["complex_mask"].bound(a, a) == pytest.approx(3 * U * 2**0.5)


@pytest.mark.parametrize("kernel", sorted(ITSELF))
def test_kernels_that_are_launched_themselves_give_the_transform(kernel):
    (case,) = [case for case in CASES if case.kernel == kernel]
    (x,) = case.inputs()
    assert relative_error(case.call(x[:1]), case.expected(x[:1])) <= 2e-6
