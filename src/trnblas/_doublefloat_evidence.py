"""Validation cases of the double-float kernels that are no matrix products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import trnblas
from trnblas._library import LIBRARY
from trnblas._precise.planes import planes
from trnblas._precise.probe import SHIFT, probe_inputs
from trnblas.mp2 import nki_mp2_energy
from trnsci.core.evidence import Case, launcher
from trnsci.core.testing import random_tensor

__all__ = ["CASES"]

_U2 = 2.0**-48
_PLANES = 2.0**-49  # the rounding of an operand to two planes
_ROUNDED = 2.0**-52  # of the float64 result and the float64 reference


def _wide(*shape: int, seed: int = 0) -> Tensor:
    """Return numbers in float64 that float32 cannot represent, between 1 and 9 in size."""
    values = random_tensor(*shape, seed=seed).double()
    return values.sign() * (1 + values.abs()) * (1 + 2.0**-30)


def _launched(name: str) -> Callable[..., Tensor]:
    """Return a function that launches a kernel on the planes of its tensors."""

    def call(*args: Tensor | str) -> Tensor:
        from trnblas._kernels import doublefloat_vectors

        parts = [planes(x) if isinstance(x, Tensor) else (x,) for x in args]
        kernel = getattr(doublefloat_vectors, name)
        high, low = launcher(LIBRARY)(kernel, *(part for group in parts for part in group))
        return high.double() + low.double()

    return call


def _operands() -> tuple[Tensor, Tensor]:
    return _wide(150, 600), _wide(150, 600, seed=1)


def _vectors() -> tuple[Tensor, Tensor]:
    return _wide(70_000), _wide(70_000, seed=1)


def _sum_bound(values: Tensor) -> float:
    """Return the bound of a sum in up to four tiles, and of float64's own sum."""
    cancelled = float(values.abs().sum() / values.sum().abs())
    return (3.1 * (4 + 9 + 7) * _U2 + _PLANES + 2.0**-53 * values.numel()) * cancelled


def _dot_bound(x: Tensor, y: Tensor) -> float:
    products = x * y
    cancelled = float(products.abs().sum() / products.sum().abs())
    return _sum_bound(products) + (9 * _U2 + _PLANES) * cancelled


def _axpy_bound(x: Tensor, y: Tensor) -> float:
    terms = (0.3 * x).abs() + y.abs()
    return (2.0**-44 + _ROUNDED) * float(terms.norm() / (0.3 * x + y).norm())


def _orbitals() -> tuple[Tensor, Tensor, Tensor]:
    """Return integrals of 3 occupied and 50 virtual orbitals, and energies."""
    factors = _wide(150, 40)
    occupied = -torch.linspace(1.0, 0.2, 3, dtype=torch.float64)
    return factors @ factors.mT, occupied, torch.linspace(0.1, 1.5, 50, dtype=torch.float64)


def _energy(t: Tensor, occupied: Tensor, virtual: Tensor) -> Tensor:
    return _energy_terms(t, occupied, virtual).sum()


def _energy_terms(t: Tensor, occupied: Tensor, virtual: Tensor) -> Tensor:
    """Return the terms of the energy by its definition."""
    integrals = t.reshape(len(occupied), len(virtual), len(occupied), len(virtual))
    gaps = (occupied[:, None] - virtual)[..., None, None] + (occupied[:, None] - virtual)
    return integrals * (2 * integrals - integrals.transpose(1, 3)) / gaps


def _energy_bound(t: Tensor, occupied: Tensor, virtual: Tensor) -> float:
    """Return 21 roundings of a term, 3.1 for each of 2 rows of tiles, 1 column and 16 halvings."""
    terms = _energy_terms(t, occupied, virtual)
    once = (21 + 3.1 * 19) * _U2 + 3 * _PLANES + 2.0**-53 * 200
    return once * float(terms.abs().sum() / terms.sum().abs())


def _probed_sums(a: Tensor, b: Tensor) -> Tensor:
    """Return the sums of the probe; ``probe`` itself compares everything, bit by bit."""
    from trnblas._kernels.arithmetic_probe import arithmetic_probe

    digits = probe_inputs()[2:]
    return launcher(LIBRARY)(arithmetic_probe, a, b, *digits, SHIFT)[0][0]


CASES = (
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
        lambda a, b: 5 * _U2 + 2 * _PLANES + _ROUNDED,
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
    Case(
        "doublefloat_dot",
        "inner product in pairs of float32",
        _vectors,
        lambda x, y: trnblas.dot(x, y, precision="doublefloat"),
        lambda x, y: x @ y,
        "torch in float64",
        _dot_bound,
    ),
    Case(
        "doublefloat_axpy",
        "alpha x + y in pairs of float32",
        _vectors,
        lambda x, y: trnblas.axpy(0.3, x, y, precision="doublefloat"),
        lambda x, y: 0.3 * x + y,
        "torch in float64",
        _axpy_bound,
    ),
    Case(
        "doublefloat_mp2_energy",
        "MP2 energy in pairs of float32",
        _orbitals,
        lambda t, occ, vir: nki_mp2_energy(t, occ, occ, vir, precision="doublefloat"),
        _energy,
        "the definition in float64",
        _energy_bound,
    ),
)
