"""Declarations of the trntensor operations that have a kernel.

Subscripts of an operation are letters with an explicit output, ``"ij,jk->ik"``, without spaces. No
index is repeated within an operand or summed in one operand alone.
"""

from __future__ import annotations

from math import prod
from typing import Any

from torch import Tensor

from trnsci.core.backend.operation import Operation
from trntensor._library import LIBRARY
from trntensor._mp2.energies import torch_mp2_energy
from trntensor._paths import derivatives as rules
from trntensor._planning.chains import terms_of, why_unfused
from trntensor._planning.pairs import pair_call

__all__ = ["CHAIN", "CONTRACT", "DOUBLEFLOAT_CONTRACT", "DOUBLEFLOAT_MP2_ENERGY", "MP2_ENERGY"]


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, launch=f"trntensor._paths.kernel_path:{name}", **declaration)


def sizes_of(*pairs: tuple[str, Tensor]) -> dict[str, int]:
    """Return the size of every index of some tensors."""
    return {x: n for labels, tensor in pairs for x, n in zip(labels, tensor.shape, strict=True)}


def _contract(a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    left, right, out = terms_of(subscripts)
    return pair_call(left, right, out, sizes_of((left, a), (right, b)))(a, b)


def _contract_flops(a: Tensor, b: Tensor, subscripts: str) -> float:
    left, right, _ = terms_of(subscripts)
    return 2.0 * prod(sizes_of((left, a), (right, b)).values())


CONTRACT = _operation(
    "contract",
    reference=_contract,
    autocast="lower",
    flops=_contract_flops,
    **rules.contract_rules("contract"),
)


def _contract_too_deep(a: Tensor, b: Tensor, subscripts: str) -> str:
    left, right, out = terms_of(subscripts)
    pairs = zip(left, a.shape, strict=True)
    return _too_deep(prod([size for x, size in pairs if x in right and x not in out]))


def _too_deep(depth: int) -> str:
    from trnblas.nki.launches import MOST_DEPTH

    return f"the kernel sums up to {MOST_DEPTH} products, not {depth}" if depth > MOST_DEPTH else ""


DOUBLEFLOAT_CONTRACT = _operation(
    "doublefloat_contract",
    reference=_contract,
    dtypes=("float64",),
    flops=_contract_flops,
    unsuited=_contract_too_deep,
    **rules.contract_rules("doublefloat_contract"),
)


def _chain(a: Tensor, b: Tensor, c: Tensor, first: str, second: str) -> Tensor:
    return _contract(_contract(a, b, first), c, second)


def _chain_flops(a: Tensor, b: Tensor, c: Tensor, first: str, second: str) -> float:
    left, right, t = terms_of(first)
    last = terms_of(second)[1]
    sizes = sizes_of((left, a), (right, b), (last, c))
    return 2.0 * sum(prod(sizes[x] for x in {*u, *v}) for u, v in ((left, right), (t, last)))


def _chain_unsuited(a: Tensor, b: Tensor, c: Tensor, first: str, second: str) -> str:
    shapes = tuple(a.shape), tuple(b.shape), tuple(c.shape)
    return why_unfused(first, second, shapes, a.element_size())


CHAIN = _operation(
    "chain",
    reference=_chain,
    backward=rules.chain_backward,
    jvp=rules.chain_jvp,
    batched=rules.chain_batched,
    autocast="lower",
    flops=_chain_flops,
    unsuited=_chain_unsuited,
)


def _mp2_energy(b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    return torch_mp2_energy(b, eps_occ, eps_vir)


def _pairs_flops(b: Tensor, *rest: Any) -> float:
    return 1.0 * b.numel() * b.shape[0] * b.shape[1]


def _mp2_too_deep(b: Tensor, *rest: Any) -> str:
    return _too_deep(b.shape[2])


MP2_ENERGY = _operation(
    "mp2_energy", reference=_mp2_energy, flops=_pairs_flops, **rules.mp2_rules("contract")
)

DOUBLEFLOAT_MP2_ENERGY = _operation(
    "doublefloat_mp2_energy",
    reference=_mp2_energy,
    dtypes=("float64",),
    flops=_pairs_flops,
    unsuited=_mp2_too_deep,
    **rules.mp2_rules("doublefloat_contract"),
)
