"""Declarations of the trnblas operations that have a kernel.

An operation pairs a torch function with the kernel that computes the same result. Its arguments are
types of torch custom operators: tensors, numbers, flags and the letters ``N``, ``T``, ``C``.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._mp2 import energies
from trnblas._paths import derivatives as rules
from trnblas._paths import mp2_derivatives as energy_rules
from trnblas._paths.arguments import checked_product
from trnblas._paths.flags import Trans
from trnblas._paths.level_operations import (
    BFLOAT16_GEMM,
    DOUBLEFLOAT_GEMM,
    DOUBLEFLOAT_TRSM,
    FLOAT16X3_GEMM,
)
from trnblas._paths.torch_path import (
    torch_gemm,
    torch_gemmt,
    torch_symm,
    torch_syr2k,
    torch_syrk,
    torch_trmm,
    torch_trsm,
)
from trnsci.core.backend.operation import Operation
from trnsci.core.dtypes import dtype_name

__all__ = [
    "BATCHED_GEMM",
    "BATCHED_PAIR_ENERGY",
    "BATCHED_TRSM",
    "BFLOAT16_GEMM",
    "DOUBLEFLOAT_GEMM",
    "DOUBLEFLOAT_TRSM",
    "FLOAT16X3_GEMM",
    "GEMM",
    "GEMMT",
    "MP2_ENERGY",
    "PAIR_ENERGY",
    "SYMM",
    "SYR2K",
    "SYRK",
    "TRMM",
    "TRSM",
]


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, launch=f"trnblas._paths.kernel_path:{name}", **declaration)


def _one_matrix(*args: Any) -> str:
    batched = any(isinstance(arg, Tensor) and arg.ndim > 2 for arg in args)
    return "the kernel takes single matrices, not batches" if batched else ""


# -- products --------------------------------------------------------------------------------------


def _gemm(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, trans_a: str, trans_b: str
) -> Tensor:
    return torch_gemm(checked_product("gemm", alpha, a, b, beta, c, trans_a, trans_b))


def _gemm_flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    trans_b = rest[-1]
    columns = b.shape[-1 if trans_b == "N" else -2]
    batch = b.shape[0] if a.ndim == 2 and b.ndim == 3 else 1
    return 2.0 * a.numel() * columns * batch


GEMM = _operation(
    "gemm",
    reference=_gemm,
    backward=rules.gemm_backward,
    linear=(0, 1),
    added=(2, 4),
    batched=rules.gemm_batched,
    autocast="lower",
    flops=_gemm_flops,
)
BATCHED_GEMM = _operation(
    "batched_gemm",
    reference=_gemm,
    backward=rules.gemm_backward,
    linear=(0, 1),
    added=(2, 4),
    autocast="lower",
    flops=_gemm_flops,
)


def _gemmt(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    upper: bool,
) -> Tensor:
    return torch_gemmt(checked_product("gemmt", alpha, a, b, beta, c, trans_a, trans_b), upper)


def _gemmt_flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return _gemm_flops(a, b, *rest[:-1]) / 2


GEMMT = _operation(
    "gemmt",
    reference=_gemmt,
    backward=rules.gemmt_backward,
    jvp=rules.gemmt_jvp,
    autocast="lower",
    flops=_gemmt_flops,
    unsuited=_one_matrix,
)


# -- symmetric matrices ----------------------------------------------------------------------------


def _symm(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, left: bool, upper: bool
) -> Tensor:
    return torch_symm(alpha, a, b, beta, c, left, upper)


def _sided_flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return 2.0 * b.numel() * a.shape[-1]


SYMM = _operation(
    "symm",
    reference=_symm,
    backward=rules.symm_backward,
    linear=(0, 1),
    added=(2, 4),
    autocast="lower",
    flops=_sided_flops,
    unsuited=_one_matrix,
)


def _syrk(a: Tensor, c: Tensor | None, alpha: float, beta: float, trans: str) -> Tensor:
    return torch_syrk(alpha, a, beta, c, cast(Trans, trans))


def _syrk_flops(a: Tensor, c: Tensor | None, alpha: float, beta: float, trans: str) -> float:
    return 1.0 * a.numel() * a.shape[-2 if trans == "N" else -1]


SYRK = _operation(
    "syrk",
    reference=_syrk,
    backward=rules.syrk_backward,
    jvp=rules.syrk_jvp,
    autocast="lower",
    flops=_syrk_flops,
    unsuited=_one_matrix,
)


def _syr2k(a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, trans: str) -> Tensor:
    return torch_syr2k(alpha, a, b, beta, c, cast(Trans, trans))


def _syr2k_flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return 2.0 * a.numel() * a.shape[-2 if rest[-1] == "N" else -1]


SYR2K = _operation(
    "syr2k",
    reference=_syr2k,
    backward=rules.syr2k_backward,
    linear=(0, 1),
    added=(2, 4),
    autocast="lower",
    flops=_syr2k_flops,
    unsuited=_one_matrix,
)


# -- triangular matrices ---------------------------------------------------------------------------


def _trsm(
    a: Tensor, b: Tensor, alpha: float, left: bool, upper: bool, trans: str, unit: bool
) -> Tensor:
    return torch_trsm(alpha, a, b, left, upper, cast(Trans, trans), unit)


def _trmm(
    a: Tensor, b: Tensor, alpha: float, left: bool, upper: bool, trans: str, unit: bool
) -> Tensor:
    return torch_trmm(alpha, a, b, left, upper, cast(Trans, trans), unit)


def _triangle_flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return _sided_flops(a, b) / 2


def _too_large_to_solve(a: Tensor, *rest: Any) -> str:
    from trnblas._kernels.trsm import MAX_ORDER

    order = a.shape[-1]
    return f"the kernel solves up to order {MAX_ORDER}, not {order}" if order > MAX_ORDER else ""


_SOLUTION: dict[str, Any] = {
    "reference": _trsm,
    "backward": rules.trsm_backward,
    "jvp": rules.trsm_jvp,
    "from_result": True,
    "flops": _triangle_flops,
    "unsuited": _too_large_to_solve,
}
TRSM = _operation("trsm", batched=rules.trsm_batched, **_SOLUTION)
BATCHED_TRSM = _operation("batched_trsm", **_SOLUTION)
TRMM = _operation(
    "trmm",
    reference=_trmm,
    backward=rules.trmm_backward,
    jvp=rules.trmm_jvp,
    autocast="lower",
    flops=_triangle_flops,
    unsuited=_one_matrix,
)


# -- energies --------------------------------------------------------------------------------------


def _too_many_functions(b: Tensor, *rest: Any) -> str:
    from trnblas._kernels.energy_panels import most_functions

    name = dtype_name(b.dtype)
    most = most_functions(name)
    naux = b.shape[-1]
    return f"the kernel takes up to {most} auxiliary functions, not {naux}" if naux > most else ""


def _t_flops(t_flat: Tensor, *rest: Any) -> float:
    return 6.0 * t_flat.numel()


def _pair_flops(b_i: Tensor, *rest: Any) -> float:
    return 2.0 * b_i.numel() * b_i.shape[0]


def _all_pairs_flops(b: Tensor, *rest: Any) -> float:
    return 2.0 * b.numel() * b.shape[0] * b.shape[1]


MP2_ENERGY = _operation("mp2_energy", reference=energies.mp2_energy, flops=_t_flops)
PAIR_ENERGY = _operation(
    "pair_energy",
    reference=energies.pair_energy,
    backward=energy_rules.pair_energy_backward,
    jvp=energy_rules.pair_energy_jvp,
    flops=_pair_flops,
    unsuited=_too_many_functions,
)
BATCHED_PAIR_ENERGY = _operation(
    "batched_pair_energy",
    reference=energies.batched_pair_energy,
    backward=energy_rules.batched_pair_energy_backward,
    jvp=energy_rules.batched_pair_energy_jvp,
    flops=_all_pairs_flops,
    unsuited=_too_many_functions,
)
