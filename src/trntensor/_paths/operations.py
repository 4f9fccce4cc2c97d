"""The trntensor operations that have a kernel, with their derivatives.

Subscripts of an operation are letters with an explicit output, ``"ij,jk->ik"``, without spaces. No
index is repeated within an operand or summed in one operand alone.

A contraction is linear in each operand. Its tangent is the sum of contractions with one operand
replaced by its tangent. The gradient of an operand is the contraction of the result's gradient with
the other operands: ``"ij,jk->ik"`` has ``"ik,jk->ij"`` for its first operand.

The MP2 energy of all pairs has the derivatives S = (4 T - 2 T') / D by the integrals T and
G = -T (2 T - T') / D^2 by the differences D. Both are the same for (ia, jb) and (jb, ia).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, total
from trnsci.core.backend.operation import Operation
from trntensor._library import LIBRARY
from trntensor._mp2.energies import torch_mp2_energy
from trntensor._planning.chains import terms_of, why_unfused
from trntensor._planning.pairs import pair_call, result_labels
from trntensor._planning.subscripts import LETTERS


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, launch=f"trntensor._paths.kernel_path:{name}", **declaration)


def sizes_of(*pairs: tuple[str, Tensor]) -> dict[str, int]:
    """Return the size of every index of some tensors."""
    return {x: n for labels, tensor in pairs for x, n in zip(labels, tensor.shape, strict=True)}


def _contract(a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    return _by_torch(a, b, *terms_of(subscripts))


def _by_torch(a: Tensor, b: Tensor, left: str, right: str, out: str) -> Tensor:
    return pair_call(left, right, out, sizes_of((left, a), (right, b)))(a, b)


def _contract_flops(a: Tensor, b: Tensor, subscripts: str) -> float:
    left, right, _ = terms_of(subscripts)
    return 2.0 * prod(sizes_of((left, a), (right, b)).values())


class Contraction(Operation):
    """A contraction of two tensors, whose derivatives are contractions of the same operation."""

    def __init__(self, name: str, **declaration: Any) -> None:
        super().__init__(
            LIBRARY,
            name,
            reference=_contract,
            launch=f"trntensor._paths.kernel_path:{name}",
            backward=self._gradients,
            jvp=self._tangent,
            batched=self._batch,
            flops=_contract_flops,
            **declaration,
        )

    def of(self, a: Tensor, b: Tensor, left: str, right: str, out: str) -> Tensor:
        """Return a contraction by its labels; torch computes it if there is nothing to sum."""
        if any(x in right and x not in out for x in left):
            result: Tensor = self(a, b, f"{left},{right}->{out}")
            return result
        return _by_torch(a, b, left, right, out)

    def _gradients(
        self, grad: Tensor, needed: Needed, a: Tensor, b: Tensor, subscripts: str
    ) -> Gradients:
        left, right, out = terms_of(subscripts)
        for_a = self.of(grad, b, out, right, left) if needed[0] else None
        for_b = self.of(grad, a, out, left, right) if needed[1] else None
        return for_a, for_b, None

    def _tangent(self, tangents: Tangents, a: Tensor, b: Tensor, subscripts: str) -> Tensor:
        terms = terms_of(subscripts)
        parts = []
        if tangents[0] is not None:
            parts.append(self.of(tangents[0], b, *terms))
        if tangents[1] is not None:
            parts.append(self.of(a, tangents[1], *terms))
        return total(parts)

    def _batch(
        self, info: Any, in_dims: Sequence[int | None], a: Tensor, b: Tensor, subscripts: str
    ) -> tuple[Tensor, int]:
        """Return a batch as one operation with an additional index."""
        left, right, out = terms_of(subscripts)
        more = next(x for x in LETTERS if x not in subscripts)
        a, left = _with_batch(a, left, in_dims[0], more)
        b, right = _with_batch(b, right, in_dims[1], more)
        return self.of(a, b, left, right, more + out), 0


def _with_batch(x: Tensor, labels: str, dim: int | None, more: str) -> tuple[Tensor, str]:
    return (x, labels) if dim is None else (x.movedim(dim, 0), more + labels)


CONTRACT = Contraction("contract", autocast="lower")


def _contract_too_deep(a: Tensor, b: Tensor, subscripts: str) -> str:
    left, right, out = terms_of(subscripts)
    pairs = zip(left, a.shape, strict=True)
    return _too_deep(prod([size for x, size in pairs if x in right and x not in out]))


def _too_deep(depth: int) -> str:
    from trnblas.nki.launches import MOST_DEPTH

    return f"the kernel sums up to {MOST_DEPTH} products, not {depth}" if depth > MOST_DEPTH else ""


DOUBLEFLOAT_CONTRACT = Contraction(
    "doublefloat_contract", dtypes=("float64",), unsuited=_contract_too_deep
)


# -- chains ----------------------------------------------------------------------------------------


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


def _chain_backward(
    grad: Tensor, needed: Needed, a: Tensor, b: Tensor, c: Tensor, first: str, second: str
) -> Gradients:
    """Return the gradients of the three operands; the gradient of the intermediate is shared."""
    left, right, t = terms_of(first)
    _, last, out = terms_of(second)
    for_a = for_b = for_c = None
    if needed[0] or needed[1]:
        between = CONTRACT.of(grad, c, out, last, t)
        for_a = CONTRACT.of(between, b, t, right, left) if needed[0] else None
        for_b = CONTRACT.of(between, a, t, left, right) if needed[1] else None
    if needed[2]:
        between = CONTRACT.of(a, b, left, right, t)
        for_c = CONTRACT.of(grad, between, out, t, last)
    return for_a, for_b, for_c, None, None


def _chain_batched(
    info: Any,
    in_dims: Sequence[int | None],
    a: Tensor,
    b: Tensor,
    c: Tensor,
    first: str,
    second: str,
) -> tuple[Tensor, int]:
    """Return a batch as two operations, each with an additional index."""
    left, right, t = terms_of(first)
    _, last, out = terms_of(second)
    more = next(x for x in LETTERS if x not in first + second)
    a, left = _with_batch(a, left, in_dims[0], more)
    b, right = _with_batch(b, right, in_dims[1], more)
    c, last = _with_batch(c, last, in_dims[2], more)
    if more in left + right:
        t = result_labels(left, right, more + t)
    between = CONTRACT.of(a, b, left, right, t)
    return CONTRACT.of(between, c, t, last, more + out), 0


CHAIN = _operation(
    "chain",
    reference=_chain,
    backward=_chain_backward,
    linear=(0, 1, 2),
    batched=_chain_batched,
    autocast="lower",
    flops=_chain_flops,
    unsuited=_chain_unsuited,
)


# -- energies --------------------------------------------------------------------------------------


def _mp2_energy(b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    return torch_mp2_energy(b, eps_occ, eps_vir)


def _pairs_flops(b: Tensor, *rest: Any) -> float:
    return 1.0 * b.numel() * b.shape[0] * b.shape[1]


def _mp2_too_deep(b: Tensor, *rest: Any) -> str:
    return _too_deep(b.shape[2])


def _mp2_rules(operation: Contraction) -> dict[str, Callable[..., Any]]:
    """Return the rules of MP2 energies, with integrals of this operation."""

    def backward(
        grad: Tensor, needed: Needed, b: Tensor, eps_occ: Tensor, eps_vir: Tensor
    ) -> Gradients:
        """Return 2 S B for B and sums of G for the energies, one occupied orbital at a time."""
        wide = torch.promote_types(b.dtype, torch.float32)
        full, occupied, virtual = (x.to(wide) for x in (b, eps_occ, eps_vir))
        above = virtual[:, None, None] + virtual
        rows, by_occ, by_vir = [], [], []
        for i in range(b.shape[0]):
            t = operation.of(full[i], full, "ap", "jbp", "ajb")
            swapped = t.transpose(0, 2)
            below = (occupied[i] + occupied)[:, None] - above
            if needed[0]:
                slope = grad * (4 * t - 2 * swapped) / below
                rows.append(2 * operation.of(slope, full, "ajb", "jbp", "ap"))
            by_difference = -grad * t * (2 * t - swapped) / below.square()
            by_occ.append(2 * by_difference.sum())
            by_vir.append(-2 * by_difference.sum((1, 2)))
        return (
            torch.stack(rows).to(b.dtype) if needed[0] else None,
            torch.stack(by_occ).to(eps_occ.dtype) if needed[1] else None,
            torch.stack(by_vir).sum(0).to(eps_vir.dtype) if needed[2] else None,
        )

    def jvp(tangents: Tangents, b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
        """Return the sum of gradients times tangents."""
        wide = torch.promote_types(b.dtype, torch.float32)
        one = torch.ones((), dtype=wide, device=b.device)
        needed = [tangent is not None for tangent in tangents]
        slopes = backward(one, needed, b, eps_occ, eps_vir)
        return total(
            [
                (slope.to(wide) * tangent).sum()
                for slope, tangent in zip(slopes, tangents, strict=True)
                if slope is not None and tangent is not None
            ]
        )

    return {"backward": backward, "jvp": jvp}


MP2_ENERGY = _operation(
    "mp2_energy", reference=_mp2_energy, flops=_pairs_flops, **_mp2_rules(CONTRACT)
)

DOUBLEFLOAT_MP2_ENERGY = _operation(
    "doublefloat_mp2_energy",
    reference=_mp2_energy,
    dtypes=("float64",),
    flops=_pairs_flops,
    unsuited=_mp2_too_deep,
    **_mp2_rules(DOUBLEFLOAT_CONTRACT),
)
