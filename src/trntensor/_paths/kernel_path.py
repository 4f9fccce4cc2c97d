"""Kernel launches: each function maps the arguments of an operation to one kernel launch.

Each function has the name of its operation and takes a launcher and the operation's arguments.
Operands are passed in their memory layout if the dimensions of each group are adjacent; else they
are permuted first. Importing this module imports NKI.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from trnblas.nki import kernels as energy_kernels
from trnblas.nki.launches import doublefloat_energy, doublefloat_product, orbitals_at_once
from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.tiles.tiling import Layout
from trnsci.core.tiles.tiling_gemm import gemm_tiling
from trntensor._kernels import chain as chain_kernels
from trntensor._kernels import contraction as contraction_kernels
from trntensor._planning.chains import Roles, chain_block, extents_of, roles_of, terms_of
from trntensor._planning.pairs import around, groups_of


def contract(launch: Launcher, a: Tensor, b: Tensor, subscripts: str) -> Tensor:
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
    result = launch(contraction_kernels.contract, a, b, shape, *layouts, between, tiling.blocks)
    if direct:
        return result.reshape([sizes[x] for x in out])
    return _placed(result, batch + rows + columns, out, sizes)


def doublefloat_contract(launch: Launcher, a: Tensor, b: Tensor, subscripts: str) -> Tensor:
    left, right, out = terms_of(subscripts)
    sizes = extents_of((left, a.shape), (right, b.shape))
    batch, rows, columns, depth, _ = groups_of(left, right, out, sizes)
    a, _ = _permuted(a, left, {"b": batch, "r": rows, "d": depth}, sizes)
    b, _ = _permuted(b, right, {"b": batch, "d": depth, "c": columns}, sizes)
    return _placed(doublefloat_product(launch, a, b), batch + rows + columns, out, sizes)


def chain(launch: Launcher, a: Tensor, b: Tensor, c: Tensor, first: str, second: str) -> Tensor:
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
    extents = chain_kernels.Extents(
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
        chain_kernels.chain,
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


def mp2_energy(launch: Launcher, b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    occupied, virtual = (eps.to(torch.float32) for eps in (eps_occ, eps_vir))
    if b.shape[2] <= energy_kernels.most_functions(dtype_name(b.dtype)):
        return launch(energy_kernels.batched_pair_energy, b, occupied, virtual).reshape(())
    # The panels of one orbital do not fit in SBUF, so its integrals are stored in HBM: two
    # launches per orbital. Integrals of 16-bit factors would be rounded to 16 bits there.
    b = b.float()
    flat = b.flatten(0, 1)
    parts = []
    for i in range(b.shape[0]):
        t = contract(launch, b[i], flat, "ap,bp->ab")
        parts.append(launch(energy_kernels.mp2_energy, t, occupied[i : i + 1], occupied, virtual))
    return torch.stack(parts).sum()


def doublefloat_mp2_energy(launch: Launcher, b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    nocc, nvir, _ = b.shape
    flat = b.flatten(0, 1)
    size = orbitals_at_once(nocc, nvir)
    total = b.new_zeros(())
    for i in range(0, nocc, size):
        t = doublefloat_product(launch, b[i : i + size].flatten(0, 1), flat.mT)
        total = total + doublefloat_energy(launch, t, eps_occ[i : i + size], eps_occ, eps_vir)
    return total


def _placed(result: Tensor, have: str, out: str, sizes: Mapping[str, int]) -> Tensor:
    """Return a result with one dimension for each index, in the order of ``out``."""
    return result.reshape([sizes[x] for x in have]).permute([have.index(x) for x in out])


def _some(groups: Mapping[str, str], names: str) -> dict[str, str]:
    return {name: groups[name] for name in names if groups[name]}


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
