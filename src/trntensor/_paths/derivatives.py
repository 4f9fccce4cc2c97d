"""Derivatives of the operations with kernels, computed by operations with kernels.

A contraction is linear in each operand. Its tangent is the sum of contractions with one operand
replaced by its tangent. The gradient of an operand is the contraction of the result's gradient with
the other operands: ``"ij,jk->ik"`` has ``"ik,jk->ij"`` for its first operand.

The MP2 energy of all pairs has the derivatives S = (4 T - 2 T') / D by the integrals T and
G = -T (2 T - T') / D^2 by the differences D. Both are the same for (ia, jb) and (jb, ia).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.operation import total
from trntensor._library import LIBRARY
from trntensor._planning.chains import terms_of
from trntensor._planning.pairs import pair_call, result_labels
from trntensor._planning.subscripts import LETTERS

__all__ = [
    "chain_backward",
    "chain_batched",
    "chain_jvp",
    "contract_rules",
    "mp2_rules",
    "product_of",
]

Gradients = tuple[Tensor | None, ...]


def product_of(
    a: Tensor, b: Tensor, left: str, right: str, out: str, operation: str = "contract"
) -> Tensor:
    """Return a pair computed by an operation, or by torch if there is nothing to sum."""
    if any(x in right and x not in out for x in left):
        result: Tensor = LIBRARY.operations[operation](a, b, f"{left},{right}->{out}")
        return result
    sizes = {x: n for t, y in ((left, a), (right, b)) for x, n in zip(t, y.shape, strict=True)}
    return pair_call(left, right, out, sizes)(a, b)


def contract_rules(operation: str) -> dict[str, Callable[..., Any]]:
    """Return the rules of a contraction of two tensors, computed by this operation."""

    def backward(
        grad: Tensor, needed: Sequence[bool], a: Tensor, b: Tensor, subscripts: str
    ) -> Gradients:
        """Return the gradients of both operands."""
        left, right, out = terms_of(subscripts)
        for_a = product_of(grad, b, out, right, left, operation) if needed[0] else None
        for_b = product_of(grad, a, out, left, right, operation) if needed[1] else None
        return for_a, for_b, None

    def jvp(tangents: Sequence[Tensor | None], a: Tensor, b: Tensor, subscripts: str) -> Tensor:
        """Return the tangent: the sum over operands, each replaced by its tangent."""
        terms = terms_of(subscripts)
        parts = []
        if tangents[0] is not None:
            parts.append(product_of(tangents[0], b, *terms, operation))
        if tangents[1] is not None:
            parts.append(product_of(a, tangents[1], *terms, operation))
        return total(parts)

    def batched(
        info: Any, in_dims: Sequence[int | None], a: Tensor, b: Tensor, subscripts: str
    ) -> tuple[Tensor, int]:
        """Return a batch as one operation with an additional index."""
        left, right, out = terms_of(subscripts)
        more = next(x for x in LETTERS if x not in subscripts)
        a, left = _with_batch(a, left, in_dims[0], more)
        b, right = _with_batch(b, right, in_dims[1], more)
        return product_of(a, b, left, right, more + out, operation), 0

    return {"backward": backward, "jvp": jvp, "batched": batched}


def _with_batch(x: Tensor, labels: str, dim: int | None, more: str) -> tuple[Tensor, str]:
    return (x, labels) if dim is None else (x.movedim(dim, 0), more + labels)


def chain_backward(
    grad: Tensor, needed: Sequence[bool], a: Tensor, b: Tensor, c: Tensor, first: str, second: str
) -> Gradients:
    """Return the gradients of the three operands; the gradient of the intermediate is shared."""
    left, right, t = terms_of(first)
    _, last, out = terms_of(second)
    for_a = for_b = for_c = None
    if needed[0] or needed[1]:
        between = product_of(grad, c, out, last, t)
        for_a = product_of(between, b, t, right, left) if needed[0] else None
        for_b = product_of(between, a, t, left, right) if needed[1] else None
    if needed[2]:
        between = product_of(a, b, left, right, t)
        for_c = product_of(grad, between, out, t, last)
    return for_a, for_b, for_c, None, None


def chain_jvp(
    tangents: Sequence[Tensor | None], a: Tensor, b: Tensor, c: Tensor, first: str, second: str
) -> Tensor:
    """Return the tangent: the sum over operands, each replaced by its tangent."""
    chain, operands, parts = LIBRARY.operations["chain"], [a, b, c], []
    for at in range(3):
        tangent = tangents[at]
        if tangent is not None:
            parts.append(chain(*operands[:at], tangent, *operands[at + 1 :], first, second))
    return total(parts)


def chain_batched(
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
    between = product_of(a, b, left, right, t)
    return product_of(between, c, t, last, more + out), 0


def mp2_rules(operation: str) -> dict[str, Callable[..., Any]]:
    """Return the rules of MP2 energies, with integrals computed by this operation."""

    def backward(
        grad: Tensor, needed: Sequence[bool], b: Tensor, eps_occ: Tensor, eps_vir: Tensor
    ) -> Gradients:
        """Return 2 S B for B and sums of G for the energies, one occupied orbital at a time."""
        wide = torch.promote_types(b.dtype, torch.float32)
        full, occupied, virtual = (x.to(wide) for x in (b, eps_occ, eps_vir))
        above = virtual[:, None, None] + virtual
        rows, by_occ, by_vir = [], [], []
        for i in range(b.shape[0]):
            t = product_of(full[i], full, "ap", "jbp", "ajb", operation)
            swapped = t.transpose(0, 2)
            below = (occupied[i] + occupied)[:, None] - above
            if needed[0]:
                slope = grad * (4 * t - 2 * swapped) / below
                rows.append(2 * product_of(slope, full, "ajb", "jbp", "ap", operation))
            by_difference = -grad * t * (2 * t - swapped) / below.square()
            by_occ.append(2 * by_difference.sum())
            by_vir.append(-2 * by_difference.sum((1, 2)))
        return (
            torch.stack(rows).to(b.dtype) if needed[0] else None,
            torch.stack(by_occ).to(eps_occ.dtype) if needed[1] else None,
            torch.stack(by_vir).sum(0).to(eps_vir.dtype) if needed[2] else None,
        )

    def jvp(
        tangents: Sequence[Tensor | None], b: Tensor, eps_occ: Tensor, eps_vir: Tensor
    ) -> Tensor:
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
