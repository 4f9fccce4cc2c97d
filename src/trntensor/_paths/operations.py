"""The operations that plans of contractions consist of, with their derivatives.

Subscripts of an operation are letters with an explicit output, ``"ij,jk->ik"``, without spaces. No
index is repeated within an operand or summed in one operand alone.

A contraction is linear in each operand. Its tangent is the sum of contractions with one operand
replaced by its tangent. The gradient of an operand is the contraction of the result's gradient with
the other operands: ``"ij,jk->ik"`` has ``"ik,jk->ij"`` for its first operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, total
from trnsci.core.backend.operation import Operation
from trnsci.core.examples import Example, example
from trnsci.core.numbers.planes import embedded, joined, parts, real_length
from trnsci.core.testing import random_tensor
from trntensor._library import LIBRARY
from trntensor._planning.chains import extents_of, terms_of, why_unfused
from trntensor._planning.pairs import pair_call, result_labels
from trntensor._planning.subscripts import LETTERS


def _contract(a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    return _by_torch(a, b, *terms_of(subscripts))


def _by_torch(a: Tensor, b: Tensor, left: str, right: str, out: str) -> Tensor:
    return pair_call(left, right, out, extents_of((left, a.shape), (right, b.shape)))(a, b)


def _contract_flops(a: Tensor, b: Tensor, subscripts: str) -> float:
    left, right, _ = terms_of(subscripts)
    return 2.0 * prod(extents_of((left, a.shape), (right, b.shape)).values())


def _by_parts(real: Callable[..., Tensor], a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    """Return a complex contraction as one contraction of real operands with two more indices.

    One added index is over the parts of the operands and is summed. The other is over the parts of
    the result. The smaller operand becomes 2 x 2 blocks of parts.
    """
    left, right, out = terms_of(subscripts)
    if a.numel() < b.numel():
        a, b, left, right = b, a, right, left
    p, q = [x for x in LETTERS if x not in subscripts][:2]
    operands = parts(a[..., None]), embedded(b[..., None, None])
    return joined(real(*operands, f"{left}{p},{right}{p}{q}->{out}{q}"))[..., 0]


class Contraction(Operation):
    """A contraction of two tensors, whose derivatives are contractions of the same operation."""

    def __init__(self, name: str, **declaration: Any) -> None:
        super().__init__(
            LIBRARY,
            name,
            reference=_contract,
            launch=f"trntensor._paths.kernel_path:{name}",
            by_parts=_by_parts,
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


def _einsum_example() -> Example:
    return example("ij,jk->ik", random_tensor(4, 4), random_tensor(4, 4, seed=1))


def _multi_einsum_example() -> Example:
    return example(_einsum_example().args, ("ij->ji", random_tensor(4, 4)))


CONTRACT = Contraction(
    "contract",
    autocast="lower",
    examples={"einsum": _einsum_example, "multi_einsum": _multi_einsum_example},
)


def _contract_too_deep(a: Tensor, b: Tensor, subscripts: str) -> str:
    left, right, out = terms_of(subscripts)
    pairs = zip(left, a.shape, strict=True)
    return too_deep(
        real_length(a, prod([size for x, size in pairs if x in right and x not in out]))
    )


def too_deep(depth: int) -> str:
    """Return why a doublefloat kernel does not sum so many products, or ""."""
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
    sizes = extents_of((left, a.shape), (right, b.shape), (last, c.shape))
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


def _three_index_example() -> Example:
    orbitals = random_tensor(4, 4)
    return example(random_tensor(4, 4, 4), orbitals[:, :2], orbitals[:, 2:])


def _four_index_example() -> Example:
    a, b = random_tensor(4, 4), random_tensor(4, 4, seed=1)
    return example(random_tensor(4, 4, 4, 4), a, a, b, b)


CHAIN = Operation(
    LIBRARY,
    "chain",
    reference=_chain,
    launch="trntensor._paths.kernel_path:chain",
    backward=_chain_backward,
    linear=(0, 1, 2),
    batched=_chain_batched,
    autocast="lower",
    flops=_chain_flops,
    unsuited=_chain_unsuited,
    examples={
        "ao_to_mo_transform": _three_index_example,
        "four_index_transform": _four_index_example,
    },
)
