"""Validation cases of the trnsolver kernels: ragged orders, against float64.

Factors that are not unique are multiplied, and the product is compared.
"""

from __future__ import annotations

import torch
from torch import Tensor

import trnsolver
import trnsolver.nki
from trnsci.core.evidence import Case, launcher, product_bound
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver._library import LIBRARY

__all__ = ["CASES"]

_TORCH = "torch in float64"
_ITSELF = "the matrix itself"
_U = unit_roundoff(torch.float32)


def _symmetric(n: int, *batch: int) -> Tensor:
    x = random_tensor(*batch, n, n)
    return (x + x.mT) / 2


def _definite(n: int, *batch: int) -> Tensor:
    x = random_tensor(*batch, n, n) / n**0.5
    return x @ x.mT + torch.eye(n)


def _pairs_product(w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return V diag(w) V^T and V^T V."""
    wide = v.double()
    return (wide * w.double().unsqueeze(-2)) @ wide.mT, wide.mT @ wide


def _pairs(a: Tensor) -> tuple[Tensor, Tensor]:
    w, v = trnsolver.eigh(a)
    return _pairs_product(w, v)


def _pairs_in_groups(a: Tensor) -> tuple[Tensor, Tensor]:
    """Launch the kernel for large orders directly, with few rows per group, which is fast."""
    from trnsolver._paths.kernel_path import eigh_in_groups

    launch = launcher(LIBRARY)
    w, v, _ = eigh_in_groups(launch, a, 4, 4)
    return _pairs_product(w, v)


def _with_identity(a: Tensor) -> tuple[Tensor, Tensor]:
    return a, torch.eye(a.shape[-1]).expand(*a.shape[:-2], a.shape[-1], a.shape[-1])


def _svd(a: Tensor) -> tuple[Tensor, Tensor]:
    u, s, vh = trnsolver.svd(a)
    wide = u.double()
    return (wide * s.double().unsqueeze(-2)) @ vh.double(), wide.mT @ wide


def _qr(a: Tensor) -> tuple[Tensor, Tensor]:
    q, r = trnsolver.qr(a)
    wide = q.double()
    return wide @ r.double(), wide.mT @ wide


def _cholesky(a: Tensor) -> Tensor:
    factor = trnsolver.cholesky(a).double()
    return factor @ factor.mT


def _lu(a: Tensor) -> Tensor:
    p, lower, upper = (x.double() for x in trnsolver.lu(a))
    return p @ lower @ upper


def _inverse_root(a: Tensor) -> Tensor:
    return trnsolver.inv_sqrt_spd_ns(a)[0]


def _exact_inverse_root(a: Tensor) -> Tensor:
    w, v = torch.linalg.eigh(a.double())
    return (v * w.rsqrt()) @ v.mT


def _sign(a: Tensor) -> Tensor:
    return trnsolver.msign(a)


def _exact_sign(a: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(a.double(), full_matrices=False)
    return u @ vh


def _well_conditioned(m: int, n: int) -> Tensor:
    return torch.eye(m, n) + 0.3 * random_tensor(m, n) / m**0.5


def _rows_bound(a: Tensor, *rest: object) -> float:
    """Return the bound of residual and orthogonality: forty roundings for each row."""
    return 40 * _U * a.shape[-2]


def _condition_bound(a: Tensor, *rest: object) -> float:
    return 40 * _U * a.shape[-1] * float(torch.linalg.cond(a.double()).max())


CASES = (
    Case(
        "jacobi_eigh",
        "Jacobi eigh",
        lambda: (_symmetric(7, 5),),
        _pairs,
        _with_identity,
        _ITSELF,
        _rows_bound,
    ),
    Case(
        "block_jacobi_eigh",
        "Jacobi eigh in blocks",
        lambda: (_symmetric(7, 1),),
        _pairs_in_groups,
        _with_identity,
        _ITSELF,
        _rows_bound,
        public=False,
    ),
    Case(
        "rotate_pairs_kernel",
        "Jacobi eigh: rotate_pairs",
        lambda: (
            *(random_tensor(130, 70, seed=i) for i in range(2)),
            *(random_tensor(130, 1, seed=i) for i in range(2, 4)),
        ),
        trnsolver.nki.nki_rotate_pairs,
        lambda x, y, c, s: (
            c.double() * x.double() - s.double() * y.double(),
            s.double() * x.double() + c.double() * y.double(),
        ),
        _TORCH,
        lambda *inputs: 8 * _U,
    ),
    Case(
        "matvec_kernel",
        "matrix times column",
        lambda: (random_tensor(150, 530), random_tensor(530, 1, seed=1)),
        trnsolver.nki.nki_matvec,
        lambda a, v: a.double() @ v.double(),
        _TORCH,
        product_bound,
    ),
    Case(
        "rank2_update_kernel",
        "update of rank two",
        lambda: (random_tensor(150, 150), *(random_tensor(150, 1, seed=i) for i in (1, 2))),
        trnsolver.nki.nki_rank2_update,
        lambda a, u, v: a.double() - u.double() @ v.double().mT - v.double() @ u.double().mT,
        _TORCH,
        lambda *inputs: 8 * _U,
    ),
    Case(
        "cholesky",
        "Cholesky factor",
        lambda: (_definite(130),),
        _cholesky,
        lambda a: a,
        _ITSELF,
        _rows_bound,
    ),
    Case(
        "lu",
        "LU with pivots",
        lambda: (random_tensor(25, 25),),
        _lu,
        lambda a: a,
        _ITSELF,
        _rows_bound,
    ),
    Case(
        "cholesky_qr",
        "QR",
        lambda: (random_tensor(140, 30),),
        _qr,
        _with_identity,
        _ITSELF,
        _rows_bound,
    ),
    Case(
        "jacobi_svd",
        "singular values",
        lambda: (random_tensor(140, 5),),
        _svd,
        _with_identity,
        _ITSELF,
        _rows_bound,
    ),
    Case(
        "inverse_root",
        "inverse square root",
        lambda: (_definite(20),),
        _inverse_root,
        _exact_inverse_root,
        _TORCH,
        _condition_bound,
    ),
    Case(
        "msign",
        "sign of a matrix",
        lambda: (_well_conditioned(40, 20),),
        _sign,
        _exact_sign,
        _TORCH,
        _condition_bound,
    ),
    Case(
        "conjugate_gradients",
        "conjugate gradients",
        lambda: (_definite(40), random_tensor(40, seed=1)),
        lambda a, b: trnsolver.cg(a, b, tol=1e-6, max_iter=20)[0],
        lambda a, b: torch.linalg.solve(a.double(), b.double()),
        _TORCH,
        lambda a, b: 1e-6 * float(torch.linalg.cond(a.double())) + _condition_bound(a),
    ),
)
