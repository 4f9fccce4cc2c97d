"""Communication plans of distributed functions, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from trnblas.distributed.pairs import batched_pair_energy, pair_steps
from trnblas.distributed.panels import product_steps
from trnblas.distributed.products import accumulation, gemm, gradient_schedule
from trnblas.distributed.symmetric import mirror_moves, symmetric_product, syrk
from trnblas.distributed.triangular import triangular_system, trsm
from trnsci.core.arguments import data_type, integers, several
from trnsci.core.distributed.layout import dims_of
from trnsci.core.distributed.plans import Communication, LowerBound, Step, agreement_step
from trnsci.core.distributed.recording import operand, peaks, virtual_mesh
from trnsci.core.distributed.schedule import FREE, Move, Schedule
from trnsci.core.errors import FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

_FUNCTIONS = ("gemm", "syrk", "trsm", "batched_pair_energy")
_WORDS = {"": "", "m": "rows", "n": "columns", "k": "the sum"}


def plan(
    function: str,
    *shapes: Sequence[int],
    mesh: int | Sequence[int],
    in_placements: Sequence[Sequence[Placement]] | None = None,
    placements: Sequence[Placement] | None = None,
    dtype: torch.dtype = torch.float32,
    transA: bool | str = False,
    transB: bool | str = False,
    trans: bool | str = False,
    side: str = "left",
    uplo: str = "upper",
) -> Communication:
    """Return the communication of a call; it needs no process group.

    Peak memory is for a call with a factor other than 1, for which ``trsm`` copies the right-hand
    sides, and for the current level of precision: all levels but float32 copy operands.

    Args:
        function: ``"gemm"``, ``"syrk"``, ``"trsm"`` or ``"batched_pair_energy"``.
        *shapes: Shapes of the operands: A and B; A for ``syrk``; B for the energy.
        mesh: Number of ranks, or of ranks along each mesh dimension.
        in_placements: Placements of each operand. By default, a mesh of one dimension splits rows,
            and the second dimension of a mesh splits columns. The energy has one placement.
        placements: Placements of the result, as in the call.
        dtype: Dtype of the operands.
        transA: Transposition of A, for ``gemm``.
        transB: Transposition of B, for ``gemm``.
        trans: Transposition of A, for ``syrk`` and ``trsm``.
        side: Side of A, for ``trsm``.
        uplo: Triangle of A, for ``trsm``.

    Raises:
        FlagError: The function, the mesh or placements are invalid.
        ShapeError: The shapes are incompatible.
    """
    if function not in _FUNCTIONS:
        raise FlagError(f"plan: function must be one of {', '.join(_FUNCTIONS)}, got {function!r}")
    grid = tuple(several("plan", "mesh", mesh, 1, FlagError))
    if len(grid) not in (1, 2):
        raise FlagError(f"plan: mesh must have 1 or 2 dimensions, got {grid}")
    count, ndim = {"syrk": (1, 2), "batched_pair_energy": (1, 3)}.get(function, (2, 2))
    data_type("plan", "dtype", dtype)
    dims = tuple(integers("plan", f"shapes[{at}]", shape) for at, shape in enumerate(shapes))
    if len(dims) != count or any(len(shape) != ndim for shape in dims):
        raise ShapeError(
            f"plan: {function} takes {count} shapes of {ndim} dimensions, got {shapes}"
        )
    if function == "batched_pair_energy":
        return _pairs(dims[0], grid, dtype)
    given = _default(grid)[:count] if in_placements is None else in_placements
    if not isinstance(given, Sequence) or len(given) != count:
        raise FlagError(
            f"plan: in_placements must have one entry for each of {count} operands, got {given!r}"
        )
    for at, each in enumerate(given):
        dims_of("plan", f"in_placements[{at}]", each, ndim, len(grid))
    operands = [(shape, each, dtype) for shape, each in zip(dims, given, strict=True)]
    here = virtual_mesh(grid, 0)
    tensors = [operand(here, *each) for each in operands]
    routine: Any
    bound = None
    if function == "trsm":
        flags = (side, uplo, trans, "nonunit")
        solved = triangular_system(
            "plan", 1.0, tensors[0], tensors[1], flags, placements
        ).system.plan
        n, columns = solved.sizes
        problem = f"order {n}, {columns} right-hand sides"
        splits = [("rows", "columns")[dim or 0] for dim in solved.by]
        steps = solved.steps
        backward = (*solved.adjoint().steps, *product_steps(solved.gradient()))
        routine = partial(trsm, side=side, uplo=uplo, trans=trans)
    else:
        if function == "gemm":
            factors, pair = (1.0, 0.0), (tensors[0], tensors[1], None)
            made = accumulation("plan", factors, pair, (transA, transB), placements)
            routine = partial(gemm, transA=transA, transB=transB)
            bound = _bound(made.product.plan)
        else:
            made = symmetric_product("plan", (1.0, 0.0), tensors[0], None, trans, placements)
            routine = partial(syrk, trans=trans, uplo=uplo)
        chosen = made.product.plan
        (m, k), (_, n) = chosen.shapes
        problem = f"({m}, {k}) @ ({k}, {n})"
        splits = [_WORDS[index] for index in chosen.by]
        steps, backward = product_steps(chosen), _product_backward(chosen)
        if function == "syrk":
            there, back = _mirror_steps(chosen)
            steps, backward = steps + there, back + backward
    over = [f"{word} over {size}" for word, size in zip(splits, grid, strict=True) if size > 1]
    words = ", ".join(over) or "one rank"
    return Communication(
        function=f"trnblas.distributed.{function}",
        problem=f"{problem} in {dtype}, {words}",
        mesh=grid,
        steps=(agreement_step(grid), *steps),
        held=peaks(grid, operands, partial(routine, 2.0, placements=placements)),
        lower_bound=bound,
        backward=backward,
    )


def _product_backward(chosen: Schedule) -> tuple[Step, ...]:
    gradients = (gradient_schedule(chosen, place) for place in (0, 1))
    return tuple(step for each in gradients for step in product_steps(each))


def _mirror_steps(chosen: Schedule) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the exchange of triangles, and that of its gradient."""
    turned = {"slice": "all_gather", "all_gather": "slice", "all_to_all": "all_to_all"}
    there = mirror_moves(chosen)
    back = [Move(turned[m.kind], m.mesh_dim, m.new, m.old) for m in reversed(there)]
    forward, backward = (
        tuple(chosen.mesh.step(m, "C", chosen.shape) for m in each if m.kind not in FREE)
        for each in (there, back)
    )
    return forward, backward


def _pairs(shape: tuple[int, ...], grid: tuple[int, ...], dtype: torch.dtype) -> Communication:
    from torch.distributed.tensor import Replicate, Shard

    nocc, nvir, naux = shape
    steps, backward = pair_steps((nocc, nvir, naux), grid, dtype.itemsize)
    every = (Replicate(),) * len(grid)
    given = [
        (shape, (Shard(0), *every[1:]), dtype),
        ((nocc,), every, dtype),
        ((nvir,), every, dtype),
    ]

    def call(B: Any, occupied: Any, virtual: Any, check: bool) -> None:
        batched_pair_energy(B, occupied.to_local(), virtual.to_local(), check=check)

    return Communication(
        function="trnblas.distributed.batched_pair_energy",
        problem=f"{nocc} occupied and {nvir} virtual orbitals, {naux} functions, in {dtype}",
        mesh=grid,
        steps=(agreement_step(grid), *steps),
        held=peaks(grid, given, call),
        backward=tuple(backward),
    )


def _default(grid: tuple[int, ...]) -> tuple[tuple[Placement, ...], ...]:
    from torch.distributed.tensor import Shard

    split = (Shard(0), Shard(1))[: len(grid)]
    return split, split


def _bound(chosen: Schedule) -> LowerBound | None:
    """Return the memory-independent lower bound for products without replicated operands.

    The bound is proven by Al Daas, Ballard, Grigori, Kumar and Rouse (SPAA 2022). With sides
    d1 >= d2 >= d3 and p ranks, some rank accesses at least D elements. It starts and ends with
    1 / p of all elements, so it communicates the difference.
    """
    grid = chosen.mesh.shape
    splits = (*chosen.given, chosen.result)
    pairs = (pair for split in splits for pair in zip(split, grid, strict=True))
    if any(dim is None and size > 1 for dim, size in pairs):
        return None
    p = prod(grid)
    first, second, third = sorted(chosen.sizes.values(), reverse=True)
    if not third:
        return None
    if p * second <= first:
        accessed = (first * second + first * third) / p + second * third
    elif p * third**2 <= first * second:
        accessed = 2 * (first * second * third**2 / p) ** 0.5 + first * second / p
    else:
        accessed = 3 * (first * second * third / p) ** (2 / 3)
    owned = (first * second + first * third + second * third) / p
    name = "Al Daas et al. 2022, any algorithm with one copy of each matrix"
    return LowerBound(max(0, int((accessed - owned) * chosen.mesh.itemsize)), name)
