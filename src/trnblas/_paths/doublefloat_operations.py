"""Operations on pairs of float32 that are no matrix products: vectors and MP2 energies.

On torch they compute in float64, and derivatives are those of the torch function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._mp2 import energies
from trnblas._paths.accumulation import scaled
from trnblas._paths.sums import two_norm
from trnsci.core.backend.operation import Operation

__all__ = ["DOUBLEFLOAT_AXPY", "DOUBLEFLOAT_DOT", "DOUBLEFLOAT_MP2_ENERGY", "DOUBLEFLOAT_NRM2"]


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(
        LIBRARY,
        name,
        launch=f"trnblas._paths.doublefloat_launches:{name}",
        dtypes=("float32", "float64"),
        **declaration,
    )


def _axpy(alpha: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return (scaled(alpha.double(), x.double()) + y.double()).to(x.dtype)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return torch.dot(x.double(), y.double()).to(x.dtype)


def _nrm2(x: Tensor) -> Tensor:
    return two_norm(x.double()).to(x.dtype)


def _mp2_energy(
    t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    wide = (x.double() for x in (t_flat, eps_occ_chunk, eps_occ_full, eps_vir))
    return energies.mp2_energy(*wide).to(t_flat.dtype)


def _vector_flops(*args: Tensor) -> float:
    return 2.0 * args[-1].numel()


def _t_flops(t_flat: Tensor, *rest: Any) -> float:
    return 6.0 * t_flat.numel()


DOUBLEFLOAT_AXPY = _operation("doublefloat_axpy", reference=_axpy, flops=_vector_flops)
DOUBLEFLOAT_DOT = _operation("doublefloat_dot", reference=_dot, flops=_vector_flops)
DOUBLEFLOAT_NRM2 = _operation("doublefloat_nrm2", reference=_nrm2, flops=_vector_flops)
DOUBLEFLOAT_MP2_ENERGY = _operation("doublefloat_mp2_energy", reference=_mp2_energy, flops=_t_flops)
