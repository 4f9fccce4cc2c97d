"""Factorizations, eigenproblems and iterative solvers that report the error of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci import __version__ as __version__
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning
from trnsolver._library import LIBRARY
from trnsolver.banded import solve_banded, solve_tridiagonal
from trnsolver.direct import det, inv, inv_spd, lstsq, pinv, slogdet, solve, solve_spd
from trnsolver.eigen import eigh, eigh_generalized, eigvalsh
from trnsolver.errors import (
    AccuracyError,
    AccuracyWarning,
    ConvergenceError,
    ConvergenceWarning,
    LinAlgError,
    NotFiniteError,
    NotPositiveDefiniteError,
    SingularMatrixError,
)
from trnsolver.exponential import expm_multiply
from trnsolver.factor import cholesky, cholqr2, lu, qr, schur, svd, svdvals
from trnsolver.factored import cho_factor, cholesky_solve, lu_factor, lu_solve
from trnsolver.functions import (
    expm,
    inv_sqrt_spd,
    inv_sqrt_spd_ns,
    msign,
    orthogonalize,
    polar,
)
from trnsolver.iterative import bicgstab, cg, fgmres, gmres, minres, plot_residuals
from trnsolver.lanczos import eigsh, svds
from trnsolver.lobpcg import lobpcg
from trnsolver.nonsymmetric import eig, eigvals
from trnsolver.operators import LinearOperator
from trnsolver.powers import matrix_power, sqrtm
from trnsolver.preconditioners import (
    block_jacobi_preconditioner,
    ichol_preconditioner,
    jacobi_preconditioner,
    ssor_preconditioner,
)
from trnsolver.randomized import eigh_randomized, hutch_plus_plus, nystrom, rsvd
from trnsolver.tridiagonal import eigh_tridiagonal

if TYPE_CHECKING:
    from trnsolver import distributed as distributed
    from trnsolver import nki as nki

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "AccuracyError",
    "AccuracyWarning",
    "ConvergenceError",
    "ConvergenceWarning",
    "LinAlgError",
    "LinearOperator",
    "NkiFallbackWarning",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "SingularMatrixError",
    "backend",
    "bicgstab",
    "block_jacobi_preconditioner",
    "cg",
    "cho_factor",
    "cholesky",
    "cholesky_solve",
    "cholqr2",
    "det",
    "eig",
    "eigh",
    "eigh_generalized",
    "eigh_randomized",
    "eigh_tridiagonal",
    "eigsh",
    "eigvals",
    "eigvalsh",
    "expm",
    "expm_multiply",
    "fgmres",
    "get_backend",
    "gmres",
    "hutch_plus_plus",
    "ichol_preconditioner",
    "inv",
    "inv_spd",
    "inv_sqrt_spd",
    "inv_sqrt_spd_ns",
    "jacobi_preconditioner",
    "lobpcg",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matrix_power",
    "minres",
    "msign",
    "nystrom",
    "orthogonalize",
    "pinv",
    "plot_residuals",
    "polar",
    "qr",
    "rsvd",
    "schur",
    "set_backend",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_spd",
    "solve_tridiagonal",
    "sqrtm",
    "ssor_preconditioner",
    "svd",
    "svds",
    "svdvals",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
__getattr__, __dir__ = surface(
    __name__,
    LIBRARY,
    {"distributed": "trnsolver.distributed", "nki": "trnsolver.nki"},
)
