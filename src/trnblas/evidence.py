"""Validation cases of the trnblas kernels: shapes with ragged edges, compared with float64."""

from __future__ import annotations

import torch
from torch import Tensor

import trnblas
import trnblas.nki
from trnblas._doublefloat_evidence import CASES as DOUBLEFLOAT_CASES
from trnblas._precise.slicing import PROMISE
from trnsci.core.evidence import Case, product_bound
from trnsci.core.testing import random_tensor, unit_roundoff

__all__ = ["CASES"]

_TORCH = "torch in float64"
_U = unit_roundoff(torch.float32)


def _matrices() -> tuple[Tensor, Tensor]:
    return random_tensor(150, 260), random_tensor(260, 530, seed=1)


def _rounded_matrices() -> tuple[Tensor, Tensor]:
    """Return float32 matrices that bfloat16 can represent, so that only sums are rounded."""
    a, b = _matrices()
    return a.bfloat16().float(), b.bfloat16().float()


def _wide_matrices() -> tuple[Tensor, Tensor]:
    """Return matrices in float64 that float32 cannot represent."""
    a, b = random_tensor(150, 260).double(), random_tensor(260, 140, seed=1).double()
    return a + a.flip(0) * 2.0**-30, b + b.flip(1) * 2.0**-30


def _norms_over_product(a: Tensor, b: Tensor) -> float:
    """Return the factor from errors by norms of rows and columns to a relative L2 error."""
    a, b = a.double(), b.double()
    return float(a.norm() * b.norm() / (a @ b).norm())


def _doublefloat_bound(a: Tensor, b: Tensor) -> float:
    """Return the promise of doublefloat products, and the roundings of the float64 reference."""
    rounded = a.shape[-1] * unit_roundoff(torch.float64)
    return (PROMISE + rounded) * _norms_over_product(a, b)


def _float16x3_bound(a: Tensor, b: Tensor) -> float:
    """Return the bound from float16 slices and the one left out, and that of three times K sums."""
    return (3 * 2.0**-22 / (a.shape[-1] * _U) + 3) * product_bound(a, b)


def _batches() -> tuple[Tensor, Tensor]:
    return random_tensor(3, 100, 140), random_tensor(3, 140, 90, seed=1)


def _square() -> tuple[Tensor, Tensor]:
    return random_tensor(150, 150), random_tensor(150, 70, seed=1)


def _panels() -> tuple[Tensor, Tensor]:
    return random_tensor(150, 200), random_tensor(150, 200, seed=1)


def _triangle(n: int = 150, *batch: int) -> Tensor:
    """Return a well-conditioned upper triangle."""
    off = torch.triu(random_tensor(*batch, n, n), 1) / n
    return off + 2 * torch.eye(n)


def _system() -> tuple[Tensor, Tensor]:
    return _triangle(), random_tensor(150, 70, seed=1)


def _systems() -> tuple[Tensor, Tensor]:
    return _triangle(60, 3), random_tensor(3, 60, 20, seed=1)


def _symmetric(a: Tensor) -> Tensor:
    return torch.triu(a) + torch.triu(a, 1).mT


def _solution(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(a.double(), b.double(), upper=True)


def _solve_bound(a: Tensor, b: Tensor) -> float:
    """Return n roundings times the condition of the triangle (Higham, theorem 8.5)."""
    return 2 * a.shape[-1] * _U * float(torch.linalg.cond(a.double()).max())


def _orbitals() -> tuple[Tensor, Tensor, Tensor]:
    """Return positive integrals and energies, so that all terms of the sum have one sign."""
    occupied = -torch.linspace(1.0, 0.2, 5)
    return random_tensor(5, 40, 70).abs() + 1, occupied, torch.linspace(0.1, 1.5, 40)


def _pair_energy(b_i: Tensor, b_j: Tensor, e_i: float, e_j: float, virtual: Tensor) -> Tensor:
    """Return the energy of one pair by its definition, in float64."""
    t = b_i.double() @ b_j.double().mT
    e = virtual.double()
    return (t * (2 * t - t.mT) / (e_i + e_j - e[:, None] - e)).sum()


def _all_pairs(b: Tensor, occupied: Tensor, virtual: Tensor) -> Tensor:
    n = len(occupied)
    e = occupied.tolist()
    pairs = [_pair_energy(b[i], b[j], e[i], e[j], virtual) for i in range(n) for j in range(n)]
    return torch.stack(pairs).sum()


def _integrals(b: Tensor) -> Tensor:
    flat = b.double().flatten(0, 1)
    return (flat @ flat.mT).float()


def _energy_bound(b: Tensor, occupied: Tensor, virtual: Tensor) -> float:
    """Return the bound from the roundings of two integrals, of a term and of its sums.

    Sums go over the virtual orbitals on the free axis, then on partitions, then over pairs. A term
    is T (2 T - T') with T and T' of one sign, so a relative error of T is amplified by up to
    2 T (2 T + T') / (T (2 T - T')).
    """
    t = torch.einsum("iap,jbp->ijab", b.double(), b.double())
    grown = float((2 * t * (2 * t + t.mT)).sum() / (t * (2 * t - t.mT)).sum())
    return (b.shape[2] * grown + 10 + 2 * len(virtual) + len(occupied) ** 2) * _U


def _first_pair() -> tuple[Tensor, Tensor, float, float, Tensor]:
    b, occupied, virtual = _orbitals()
    return b[0], b[1], float(occupied[0]), float(occupied[1]), virtual


def _first_bound(b_i: Tensor, b_j: Tensor, e_i: float, e_j: float, virtual: Tensor) -> float:
    return _energy_bound(torch.stack([b_i, b_j]), torch.tensor([e_i, e_j]), virtual)


CASES = (
    Case(
        "gemm",
        "GEMM",
        _matrices,
        lambda a, b: trnblas.gemm(1.0, a, b),
        lambda a, b: a.double() @ b.double(),
        _TORCH,
        product_bound,
    ),
    Case(
        "batched_gemm",
        "batched GEMM",
        _batches,
        lambda a, b: trnblas.batched_gemm(1.0, a, b),
        lambda a, b: a.double() @ b.double(),
        _TORCH,
        product_bound,
    ),
    Case(
        "symm",
        "symmetric product",
        _square,
        lambda a, b: trnblas.symm(1.0, a, b),
        lambda a, b: _symmetric(a.double()) @ b.double(),
        _TORCH,
        lambda a, b: product_bound(_symmetric(a), b),
    ),
    Case(
        "gemmt",
        "triangle of a product",
        lambda: (random_tensor(150, 200), random_tensor(200, 150, seed=1)),
        lambda a, b: torch.triu(trnblas.gemmt(1.0, a, b)),
        lambda a, b: torch.triu(a.double() @ b.double()),
        _TORCH,
        lambda a, b: 2 * product_bound(a, b),
    ),
    Case(
        "syrk",
        "rank-k update",
        lambda: _panels()[:1],
        lambda a: trnblas.syrk(1.0, a),
        lambda a: a.double() @ a.double().mT,
        _TORCH,
        lambda a: product_bound(a, a.mT),
    ),
    Case(
        "syr2k",
        "rank-2k update",
        _panels,
        lambda a, b: trnblas.syr2k(1.0, a, b),
        lambda a, b: a.double() @ b.double().mT + b.double() @ a.double().mT,
        _TORCH,
        lambda a, b: product_bound(torch.cat([a, b], 1), torch.cat([b, a], 1).mT),
    ),
    Case(
        "trmm",
        "triangular product",
        _system,
        lambda a, b: trnblas.trmm(1.0, a, b),
        lambda a, b: torch.triu(a.double()) @ b.double(),
        _TORCH,
        product_bound,
    ),
    Case(
        "trsm",
        "triangular solve",
        _system,
        lambda a, b: trnblas.trsm(1.0, a, b),
        _solution,
        _TORCH,
        _solve_bound,
    ),
    Case(
        "batched_trsm",
        "batched triangular solve",
        _systems,
        lambda a, b: trnblas.batched_trsm(1.0, a, b),
        _solution,
        _TORCH,
        _solve_bound,
    ),
    Case(
        "pair_energy",
        "fused MP2 energy of a pair",
        _first_pair,
        trnblas.nki.nki_fused_gemm_energy,
        _pair_energy,
        "the definition in float64",
        _first_bound,
    ),
    Case(
        "batched_pair_energy",
        "fused MP2 energy",
        _orbitals,
        trnblas.nki.nki_batched_pair_energy,
        _all_pairs,
        "the definition in float64",
        _energy_bound,
    ),
    Case(
        "mp2_energy",
        "MP2 energy of integrals",
        _orbitals,
        lambda b, occ, vir: trnblas.nki.nki_mp2_energy(_integrals(b), occ, occ, vir),
        _all_pairs,
        "the definition in float64",
        _energy_bound,
    ),
    Case(
        "doublefloat_gemm",
        "product in pairs of float32",
        _wide_matrices,
        lambda a, b: trnblas.gemm(1.0, a, b, precision="doublefloat"),
        lambda a, b: a @ b,
        _TORCH,
        _doublefloat_bound,
    ),
    Case(
        "float16x3_gemm",
        "product by three of float16",
        _matrices,
        lambda a, b: trnblas.gemm(1.0, a, b, precision="float16x3"),
        lambda a, b: a.double() @ b.double(),
        _TORCH,
        _float16x3_bound,
    ),
    Case(
        "bfloat16_gemm",
        "product of float32 rounded to bfloat16",
        _rounded_matrices,
        lambda a, b: trnblas.gemm(1.0, a, b, precision="bfloat16"),
        lambda a, b: a.double() @ b.double(),
        _TORCH,
        product_bound,
    ),
    *DOUBLEFLOAT_CASES,
)
