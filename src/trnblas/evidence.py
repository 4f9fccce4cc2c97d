"""Validation cases of the trnblas kernels: those of the operations, and of kernels without one."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

import trnblas.mp2  # noqa: F401  (declares the operations of energies)
from trnblas._library import LIBRARY
from trnblas._precise.planes import planes
from trnblas._precise.probe import SHIFT, probe_inputs
from trnsci.core.evidence import Case, launcher
from trnsci.core.testing import random_tensor

__all__ = ["CASES"]

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


def _probed_sums(a: Tensor, b: Tensor) -> Tensor:
    """Return the sums of the probe; ``probe`` itself compares everything, bit by bit."""
    from trnblas._kernels.arithmetic_probe import arithmetic_probe

    digits = probe_inputs()[2:]
    return launcher(LIBRARY)(arithmetic_probe, a, b, *digits, SHIFT)[0][0]


CASES = (
    *(case for operation in LIBRARY.operations.values() for case in operation.evidence),
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
