"""The operations that plans of contractions consist of.

Subscripts of an operation are letters with an explicit output, ``"ij,jk->ik"``, without spaces. No
index is repeated within an operand or summed in one operand alone.

A contraction is linear in each operand. Its tangent is the sum of contractions with one operand
replaced by its tangent. The gradient of an operand is the contraction of the result's gradient with
the other operands: ``"ij,jk->ik"`` has ``"ik,jk->ij"`` for its first operand.

A launch passes operands in their memory layout if the dimensions of each group of indices are
adjacent; else they are permuted first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.examples import Example, example
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.numbers.planes import embedded, joined, parts, real_length
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.tiling import Layout
from trnsci.core.tiles.tiling_gemm import gemm_tiling
from trntensor._library import LIBRARY
from trntensor._planning.chains import (
    Roles,
    chain_block,
    extents_of,
    roles_of,
    terms_of,
    why_unfused,
)
from trntensor._planning.pairs import around, groups_of, pair_call, result_labels
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
            by_parts=_by_parts,
            backward=self._gradients,
            linear=(0, 1),
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


def contract_launch(launch: Launcher, a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    """Return a contraction by one launch."""
    from trntensor._kernels.contraction import contract  # here, because it imports NKI

    left, right, out = terms_of(subscripts)
    sizes = extents_of((left, a.shape), (right, b.shape))
    groups = groups_of(left, right, out, sizes)
    batch, rows, columns, depth = groups[:4]
    shared = ""
    if not batch:
        # Indices of an operand before its summed ones are a batch that shares the other operand.
        before, after = around(left, depth), around(right, depth)
        if before is not None:
            (batch, rows), shared = before, "b"
        elif after is not None:
            (batch, columns), shared = after, "a"
    trailing = [x for x in out if x in rows + columns]
    if rows and columns and trailing[-1] in rows:
        a, b, left, right, rows, columns = b, a, right, left, columns, rows
        shared = {"a": "b", "b": "a", "": ""}[shared]
    narrow = 1 in (prod(sizes[x] for x in rows), prod(sizes[x] for x in columns))
    of_a, of_b = ("" if shared == name else batch for name in "ab")
    a, a_order = _grouped(a, left, {"b": of_a, "r": rows, "d": depth}, sizes, narrow)
    b, b_order = _grouped(b, right, {"b": of_b, "d": depth, "c": columns}, sizes, narrow)
    order = _order(out, {"b": batch, "r": rows, "c": columns}, sizes) or ""
    direct = order.replace("b", "") == "rc" and order[-1] != "b"
    if narrow and order[1:2] == "b":
        direct = False
    if not direct:
        order = "brc" if batch else "rc"
    extents = {"b": batch, "r": rows, "c": columns, "d": depth}
    size = {name: prod(sizes[x] for x in group) for name, group in extents.items()}
    layouts = _layout(a_order), _layout(b_order)
    between = order[1] == "b", a_order[1] == "b", b_order[1] == "b"
    tiling = gemm_tiling(
        size["r"],
        size["c"],
        size["d"],
        dtype_name(a.dtype),
        a_layout=layouts[0],
        b_layout=layouts[1],
        batch=size["b"],
        shared=shared,
    )
    shape = tuple(size[name] for name in order)
    result = launch(contract, a, b, shape, *layouts, between, tiling.blocks)
    if direct:
        return result.reshape([sizes[x] for x in out])
    return _placed(result, batch + rows + columns, out, sizes)


def _grouped(
    x: Tensor, labels: str, groups: Mapping[str, str], sizes: Mapping[str, int], narrow: bool
) -> tuple[Tensor, str]:
    """Return an operand of a product as a matrix or a batch, and the order of its groups."""
    real = {name: group for name, group in groups.items() if group}
    found, order = _ordered(x, labels, real, sizes)
    if order[-1] == "b" or (narrow and order[1:2] == "b"):
        have = "".join(groups[name] for name in order)
        found, order = _permuted(found.reshape([sizes[i] for i in have]), have, real, sizes)
    missing = [name for name in groups if name not in order and name != "b"]
    for name in missing:  # a vector is a matrix of one row or column
        at = 1 if order[:1] == "b" else 0
        found, order = found.unsqueeze(at), order[:at] + name + order[at:]
    return found, order


def _layout(order: str) -> Layout:
    bare = order.replace("b", "")
    return "rows" if bare[0] == "d" else "columns"


CONTRACT = Contraction(
    "contract",
    launch=contract_launch,
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


def _doublefloat_launch(launch: Launcher, a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    from trnblas.nki.launches import doublefloat_product

    left, right, out = terms_of(subscripts)
    sizes = extents_of((left, a.shape), (right, b.shape))
    batch, rows, columns, depth, _ = groups_of(left, right, out, sizes)
    a, _ = _permuted(a, left, {"b": batch, "r": rows, "d": depth}, sizes)
    b, _ = _permuted(b, right, {"b": batch, "d": depth, "c": columns}, sizes)
    return _placed(doublefloat_product(launch, a, b), batch + rows + columns, out, sizes)


DOUBLEFLOAT_CONTRACT = Contraction(
    "doublefloat_contract",
    launch=_doublefloat_launch,
    dtypes=("float64",),
    unsuited=_contract_too_deep,
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


def _chain_launch(
    launch: Launcher, a: Tensor, b: Tensor, c: Tensor, first: str, second: str
) -> Tensor:
    from trntensor._kernels.chain import Extents, chain

    roles = roles_of(first, second)
    assert isinstance(roles, Roles)
    left, right, _ = terms_of(first)
    _, last, out = terms_of(second)
    sizes = extents_of((left, a.shape), (right, b.shape), (last, c.shape))
    x, y, x_labels, y_labels = (a, b, left, right) if roles.x_first else (b, a, right, left)
    groups = {"d": roles.d, "k": roles.k, "l": roles.l, "r": roles.r, "n": roles.n}
    size = {name: prod(sizes[label] for label in group) for name, group in groups.items()}
    x, x_order = _ordered(x, x_labels, _some(groups, "dkl"), sizes)
    if x_order[-1] == "d" and x_order != "d":
        have = "".join(groups[name] for name in x_order)
        x, x_order = _permuted(
            x.reshape([sizes[i] for i in have]), have, _some(groups, "dkl"), sizes
        )
    y, y_order = _ordered(y, y_labels, _some(groups, "dr"), sizes)
    c, c_order = _ordered(c, last, _some(groups, "kn"), sizes)
    order = _order(out, _some(groups, "lrn"), sizes)
    wanted = order if order is not None else "lrn"
    steps, out_steps = _steps(x_order, size), _steps(wanted, size)
    d, k, l, r, n = (size[name] for name in "dklrn")  # noqa: E741
    extents = Extents(
        d,
        k,
        l,
        r,
        n,
        block=chain_block(roles, sizes, a.element_size()),
        x_d=steps["d"],
        x_k=steps["k"],
        x_l=steps.get("l", 0),
        out_l=out_steps.get("l", 0),
        out_r=out_steps.get("r", 0),
        out_n=out_steps.get("n", 0),
        t_moves=wanted[-1:] != "n",
    )
    shape = tuple(size[name] for name in wanted) or (1,)
    result = launch(
        chain,
        x,
        _matrix(y, y_order, "d", size),
        _matrix(c, c_order, "k", size),
        shape,
        "columns" if y_order == "rd" else "rows",
        "columns" if c_order == "nk" else "rows",
        extents,
    )
    if order is not None:
        return result.reshape([sizes[label] for label in out])
    return _placed(result, roles.l + roles.r + roles.n, out, sizes)


def _some(groups: Mapping[str, str], names: str) -> dict[str, str]:
    return {name: groups[name] for name in names if groups[name]}


def _steps(order: str, size: Mapping[str, int]) -> dict[str, int]:
    """Return the stride of each group in a contiguous tensor, in elements."""
    found, step = {}, 1
    for name in reversed(order):
        found[name] = step
        step *= size[name]
    return found


def _matrix(x: Tensor, order: str, first: str, size: Mapping[str, int]) -> Tensor:
    """Return an operand as a matrix of its two groups, or as one column if it has one group."""
    return x if len(order) == 2 else x.reshape(size[first], 1)


CHAIN = Operation(
    LIBRARY,
    "chain",
    reference=_chain,
    launch=_chain_launch,
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


# -- operands of launches --------------------------------------------------------------------------


def _placed(result: Tensor, have: str, out: str, sizes: Mapping[str, int]) -> Tensor:
    """Return a result with one dimension for each index, in the order of ``out``."""
    return result.reshape([sizes[x] for x in have]).permute([have.index(x) for x in out])


def _order(labels: str, groups: Mapping[str, str], sizes: Mapping[str, int]) -> str | None:
    """Return the group names in the order of the dimensions; None if groups are interleaved."""
    order = sorted((g for g in groups if groups[g]), key=lambda g: labels.index(groups[g][0]))
    return "".join(order) if "".join(groups[g] for g in order) == labels else None


def _ordered(
    x: Tensor, labels: str, groups: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[Tensor, str]:
    """Return an operand with one dimension per group, in its own order if possible."""
    order = _order(labels, groups, sizes)
    if order is None:
        return _permuted(x, labels, groups, sizes)
    return x.reshape([prod(sizes[label] for label in groups[name]) for name in order]), order


def _permuted(
    x: Tensor, labels: str, groups: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[Tensor, str]:
    """Return an operand with its groups permuted to the given order."""
    places = [labels.index(label) for group in groups.values() for label in group]
    shape = [prod(sizes[label] for label in group) for group in groups.values()]
    return x.permute(places).reshape(shape), "".join(groups)
