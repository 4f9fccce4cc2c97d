"""Gradients of operations on kernels, with every option, against those of torch in float64."""

from __future__ import annotations

import torch
from torch.func import vjp

import trnfft
import trnfft.nki
from each_case import each_case
from pairwise import pairwise
from trnfft._library import LIBRARY
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, unit_roundoff

NORMS = ("backward", "forward", "ortho")
KINDS = ("fft", "ifft", "rfft", "ihfft", "irfft", "hfft")
TO_HALF = ("rfft", "ihfft")
CASES = [
    ("transform", (2, 4), kind in TO_HALF, kind, [n], norm)
    for kind, n, norm in pairwise(KINDS, (3, 4, 6, 9), NORMS)
]
CASES += [("transform", (2, 4), True, kind, [4], "backward") for kind in ("fft", "ifft", "irfft")]
CASES += [
    ("transform_nd", (2, 3, 4), kind in TO_HALF, f"{kind}n", list(sizes), norm)
    for kind, sizes, norm in pairwise(KINDS, ((3, 4), (2, 5), (4, 6)), NORMS)
]


def assert_same_gradients(name, tensors, *flags):
    """The operation's gradients, through kernels, are the reference's in float64."""
    operation = LIBRARY.operations[name]

    def call(function):
        def of_tensors(*given):
            return function(given[0], flags[0], *given[1:], *flags[1:])

        return of_tensors

    wide = [tensor.double() for tensor in tensors]
    result, pull = vjp(call(operation.reference), *wide)
    grad = random_tensor(*result.shape, seed=9)
    want = pull(grad.double())
    with trnfft.backend("simulator"), launched():
        _, pull = vjp(call(operation), *tensors)
        before = counts()
        got = pull(grad)
        assert (counts() - before).launches
    for found, truth in zip(got, want, strict=True):
        # Sums of up to 24 products, each rounded.
        bound = 32 * unit_roundoff(torch.float32) * float(truth.abs().max())
        assert float((found - truth).abs().max()) <= bound


@each_case(("name", "shape", "real", "kind", "size", "norm"), CASES)
def test_transforms(name, shape, real, kind, size, norm):
    x = random_tensor(*shape, *(() if real else (2,)))
    assert_same_gradients(name, [x], not real, kind, size, norm)


@each_case("is_complex", [True, False])
@each_case("onesided", [True, False])
@each_case("normalized", [True, False])
@each_case("hop", [1, 3, 4])
def test_short_time(is_complex, onesided, normalized, hop):
    if is_complex and onesided:
        onesided = False  # which complex signals always are
    x = random_tensor(2, 9, *((2,) if is_complex else ()))
    window = torch.hann_window(4) + 0.5
    assert_same_gradients("short_time", [x, window], is_complex, hop, onesided, normalized)


def test_vmap_of_transforms_is_one_launch():
    x = random_tensor(3, 2, 4)
    want = torch.fft.rfft(x.double())
    with trnfft.backend("simulator"):
        before = counts()
        got = torch.vmap(lambda rows: trnfft.torch_fft.rfft(rows))(x)
    assert sum((counts() - before).launches.values()) == 1
    assert float((got - want).abs().max()) <= 8 * unit_roundoff(torch.float32) * float(
        want.abs().max()
    )
