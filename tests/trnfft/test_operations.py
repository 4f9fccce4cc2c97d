"""How much work a call is, and what its kernel does not take."""

from __future__ import annotations

import math

import pytest
import torch

import trnfft.nki  # noqa: F401  (declares operations)
from each_case import each_case
from trnfft._kernels.dft import LARGEST_N
from trnfft._library import LIBRARY
from trnfft.short_time import SHORT_TIME
from trnfft.transforms import TRANSFORM

M, N, K, BATCH = 3, 4, 5, 6


def e(*shape):
    return torch.empty(shape)


# Five operations for each point and halving of a transform, which has one halving at least; eight
# for each term of a complex product, six for each element of a mask.
FLOPS = [
    ("transform", (e(BATCH, 16, 2), True, "fft", [16], "backward"), 5 * BATCH * 16 * 4),
    ("transform", (e(BATCH, 10, 2), True, "fft", [16], "backward"), 5 * BATCH * 16 * 4),
    ("transform", (e(2, BATCH, 16), False, "rfft", [16], "backward"), 5 * 2 * BATCH * 16 * 4),
    ("transform", (e(BATCH, 1, 2), True, "fft", [1], "backward"), 5 * BATCH),
    ("transform", (e(BATCH, 3), False, "rfft", [3], "backward"), 5 * BATCH * 3 * math.log2(3)),
    ("transform_nd", (e(BATCH, 4, 8, 2), True, "fft2", (4, 8), "backward"), 5 * BATCH * 32 * 5),
    ("transform_nd", (e(BATCH, 1, 1, 2), True, "fft2", (1, 1), "backward"), 5 * BATCH),
    ("short_time", (e(BATCH, 40), False, e(16), 8, True, False), 5 * BATCH * 4 * 16 * 4),
    ("short_time", (e(BATCH, 39), False, e(16), 8, True, False), 5 * BATCH * 3 * 16 * 4),
    ("short_time", (e(BATCH, 40, 2), True, e(16), 8, True, False), 5 * BATCH * 4 * 16 * 4),
    ("short_time", (e(BATCH, 3), False, e(1), 1, True, False), 5 * BATCH * 3),
    ("complex_gemm", (e(M, K, 2), e(K, N, 2)), 8 * M * K * N),
    ("complex_gemm_bf16", (e(M, K, 2), e(K, N, 2)), 8 * M * K * N),
    ("complex_linear", (e(M, K, 2), e(N, K, 2), None), 8 * M * K * N),
    ("complex_mask", (e(M, K, 2), e(M, K, 2)), 6 * M * K),
]


@each_case(("name", "args", "want"), FLOPS)
def test_the_work_of_a_call(name, args, want):
    assert LIBRARY.operations[name]._flops(*args) == pytest.approx(want)


def test_frames_that_the_kernel_takes():
    def reason(points):
        return SHORT_TIME.refusal(e(1, 4096), False, e(points), 8, True, False)

    assert reason(LARGEST_N) == ""
    assert reason(LARGEST_N + 1) == f"the kernel takes frames of up to {LARGEST_N} points"


def test_transforms_without_a_plan_say_why():
    def reason(n):
        return TRANSFORM.refusal(e(1, 4, 2), True, "fft", [n], "backward")

    assert reason(4) == ""
    assert "no kernel transforms 268435457 points" in reason(2**28 + 1)
