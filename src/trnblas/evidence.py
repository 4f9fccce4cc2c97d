"""Validation cases of the trnblas kernels: those of the operations, and of kernels without one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import trnblas.mp2  # noqa: F401  (declares the operations of energies)
from trnblas._library import LIBRARY
from trnsci.core.evidence import Case, launcher
from trnsci.core.numbers.doublefloat import planes
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.hardware import TILE

__all__ = ["CASES", "SHIFT", "probe_inputs"]

COLUMNS, DEPTH = 512, 4096
SHIFT = 1.5 * 2.0**17  # rounds to multiples of 2**-6, the first digit
_TIE = 2.0**-24
_CHOSEN = (
    # Sums: ties to even, both ways; just above and below a tie; next to a power of two; exact.
    (1.0, _TIE),
    (1 + 2 * _TIE, _TIE),
    (1.0, _TIE * (1 + 2.0**-20)),
    (1 + 2 * _TIE, _TIE * (1 - 2.0**-20)),
    (1.0, -_TIE / 2),
    (2.0**12, 2.0**-12),
    (1.0, -(1 - _TIE)),
    # Products: ties, and the largest fractions.
    (1 + 2.0**-12, 1 + 2.0**-12),
    (1 + 3 * 2.0**-12, 1 + 2.0**-12),
    (2 - 2 * _TIE, 2 - 2 * _TIE),
    # Digits: ties to even.
    (2.0**-7, 1.0),
    (3 * 2.0**-7, 1.0),
    (-(2.0**-7), 1.0),
    # Values of bfloat16 and float16: ties to even.
    (1 + 2.0**-8, 1.0),
    (1 + 3 * 2.0**-8, 1.0),
    (1 + 2.0**-11, 1.0),
    (1 + 3 * 2.0**-11, 1.0),
    # Subnormal results, the first in float16.
    (3 * 2.0**-20, 1.0),
    (2.0**-100, 2.0**-30),
    (1.5 * 2.0**-126, 2.0**-126),
)

_U2 = 2.0**-48
_PLANES = 2.0**-49  # the rounding of an operand to two planes


def _operands() -> tuple[Tensor, Tensor]:
    """Return numbers in float64 that float32 cannot represent, between 1 and 9 in size."""
    values = (random_tensor(150, 600, seed=seed).double() for seed in range(2))
    a, b = (v.sign() * (1 + v.abs()) * (1 + 2.0**-30) for v in values)
    return a, b


def _launched(name: str) -> Callable[..., Tensor]:
    """Return a function that launches a kernel on the planes of its tensors."""

    def call(*args: Tensor | str) -> Tensor:
        from trnblas._kernels import doublefloat_vectors

        parts = [planes(x) if isinstance(x, Tensor) else (x,) for x in args]
        kernel = getattr(doublefloat_vectors, name)
        high, low = launcher(LIBRARY)(kernel, *(part for group in parts for part in group))
        return high.double() + low.double()

    return call


def _sum_bound(values: Tensor) -> float:
    """Return the bound of a sum in up to four tiles, and of float64's own sum."""
    cancelled = float(values.abs().sum() / values.sum().abs())
    return (3.1 * (4 + 9 + 7) * _U2 + _PLANES + 2.0**-53 * values.numel()) * cancelled


def probe_inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return operands of elementwise operations, and the digits of a product.

    Operands are the same on each partition: rounding that varies shows as a wrong case. Sums of
    products of digits reach 2**24, and 2**24 - 127, which has 24 bits.
    """
    generator = torch.Generator().manual_seed(0)
    chosen = torch.tensor(_CHOSEN).T
    size = COLUMNS - chosen.shape[1]
    fractions = 1 + torch.rand(2, size, generator=generator)
    exponents = torch.randint(-12, 13, (2, size), generator=generator)
    signs = 1 - 2 * torch.randint(0, 2, (2, size), generator=generator)
    drawn = torch.ldexp(fractions * signs, exponents)
    a, b = torch.cat([chosen, drawn], 1)[:, None, :].expand(2, TILE, COLUMNS).contiguous()
    digits = torch.randint(-64, 65, (2, DEPTH, 8), generator=generator)
    digits[:, :, 0:2] = 64
    digits[:, -1, 1] = 63
    left, right = digits.to(torch.bfloat16)
    return a, b, left, right


def _probed_sums(a: Tensor, b: Tensor) -> Tensor:
    """Return the sums of the probe; ``scripts/arithmetic_probe.py`` compares everything."""
    from trnblas._kernels.arithmetic_probe import arithmetic_probe

    digits = probe_inputs()[2:]
    return launcher(LIBRARY)(arithmetic_probe, a, b, *digits, SHIFT)[0][0]


CASES = (
    *LIBRARY.evidence(),
    Case(
        "arithmetic_probe",
        "roundings that doublefloat relies on",
        lambda: probe_inputs()[:2],
        _probed_sums,
        lambda a, b: (a + b).double(),
        "float32 on this machine",
        lambda a, b: 2.0**-50,  # a wrong last bit is larger
        public=False,
    ),
    Case(
        "doublefloat_elementwise",
        "quotient of pairs of float32",
        _operands,
        lambda a, b: _launched("doublefloat_elementwise")(a, b, "divide"),
        lambda a, b: a / b,
        "torch in float64",
        lambda a, b: 5 * _U2 + 2 * _PLANES + 2.0**-52,
        public=False,
    ),
    Case(
        "doublefloat_sum",
        "sum of pairs of float32",
        lambda: _operands()[:1],
        _launched("doublefloat_sum"),
        lambda a: a.sum().reshape(1, 1),
        "torch in float64",
        _sum_bound,
        public=False,
    ),
)
