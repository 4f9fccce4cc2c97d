"""Tensor contractions and decompositions on torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trntensor._library import (
    LIBRARY,  # first: its ImportError explains how to install torch
)

# isort: split
from trnsci import __version__ as __version__
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning
from trntensor._paths.precision import select_precision_for_error
from trntensor.contraction import einsum, multi_einsum
from trntensor.convergence import ConvergenceReport
from trntensor.cp import cp_decompose, cp_reconstruct
from trntensor.plans import (
    ContractionPlan,
    clear_plan_cache,
    estimate_flops,
    plan_cache_info,
    plan_contraction,
)
from trntensor.quantum import ao_to_mo_transform, four_index_transform, mp2_energy
from trntensor.residency import from_xla, to_xla
from trntensor.tensor_train import tt_decompose, tt_inner, tt_norm, tt_reconstruct, tt_round
from trntensor.tucker import tucker_decompose, tucker_reconstruct

if TYPE_CHECKING:
    from trntensor import distributed as distributed
    from trntensor import nki as nki
    from trntensor import parallel as parallel

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "ContractionPlan",
    "ConvergenceReport",
    "NkiFallbackWarning",
    "ao_to_mo_transform",
    "backend",
    "clear_plan_cache",
    "cp_decompose",
    "cp_reconstruct",
    "einsum",
    "estimate_flops",
    "four_index_transform",
    "from_xla",
    "get_backend",
    "get_precision",
    "mp2_energy",
    "multi_einsum",
    "plan_cache_info",
    "plan_contraction",
    "precision",
    "select_precision_for_error",
    "set_backend",
    "set_precision",
    "to_xla",
    "tt_decompose",
    "tt_inner",
    "tt_norm",
    "tt_reconstruct",
    "tt_round",
    "tucker_decompose",
    "tucker_reconstruct",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
set_precision = LIBRARY.set_precision
get_precision = LIBRARY.get_precision
precision = LIBRARY.precision
__getattr__, __dir__ = surface(
    __name__,
    LIBRARY,
    {
        "distributed": "trntensor.distributed",
        "nki": "trntensor.nki",
        "parallel": "trntensor.parallel",
    },
)
