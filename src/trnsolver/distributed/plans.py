"""Communication of a distributed call, computed before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import torch

from trnsci.core.arguments import data_type, flag, integers, whole
from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.plans import (
    AGREEMENT,
    Communication,
    Step,
    agreement_step,
    all_reduced,
)
from trnsci.core.distributed.predictions import messages_between
from trnsci.core.distributed.recording import peak_of, virtual_mesh
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsolver.distributed import positive, tall
from trnsolver.distributed._costs import (
    bound_of,
    computed,
    factorized,
    iterations_computed,
    substitutions,
    tall_computed,
)
from trnsolver.distributed._panels import filled, panels
from trnsparse import SparseMatrix
from trnsparse.distributed import plan as plan_product

__all__ = ["Communication", "plan"]

Function = Literal["tsqr", "lstsq", "rsvd", "msign", "cholesky", "solve_spd", "cg", "minres"]
_SQUARE = ("cholesky", "solve_spd", "cg", "minres")
_FUNCTIONS = ("tsqr", "lstsq", "rsvd", "msign", *_SQUARE)
_SCALAR = 8
"""Bytes of a row count, and of an inner product, which is in float64."""


def plan(
    function: Function,
    rows: Layout | Sequence[int],
    columns: int | None = None,
    *,
    right_sides: int = 1,
    k: int = 1,
    oversampling: int = 10,
    power_iterations: int = 2,
    iterations: int = 1,
    preconditioned: bool = False,
    A: SparseMatrix | Communication | None = None,
    dtype: torch.dtype = torch.float32,
) -> Communication:
    """Return the communication of a call, without a process group.

    ``backward`` of ``solve_spd`` covers the gradient through X only; the gradient through the
    log-determinant adds the ``backward`` of n right-hand sides. ``backward`` of ``cg`` and
    ``minres`` has as many iterations as the call, and one product with x, which runs in the call.

    Args:
        function: Name of the function.
        rows: Layout of the matrix, or the number of rows of each rank, which plain tensors exchange
            in a call without ``layout=``.
        columns: Number of columns of the matrix; None for that of the layout.
        right_sides: Number of columns of the right-hand side.
        k: Rank of ``rsvd``.
        oversampling: Columns of its sketch beyond k.
        power_iterations: Its number of power iterations.
        iterations: Iterations of ``cg`` and ``minres``, from zero to convergence.
        preconditioned: Whether these have M.
        A: The sparse matrix of ``cg`` and ``minres``, or the plan of a product with an operator;
            None for a dense matrix.
        dtype: Dtype of the matrix.

    Raises:
        FlagError: ``function`` is not one of these, or ``preconditioned`` is no bool.
        ShapeError: The matrix is wide, or not square where it must be; or a number is too small.
        DTypeError: ``rows`` are not integers, or ``dtype`` or ``A`` has a wrong type.
    """
    if function not in _FUNCTIONS:
        raise FlagError(f"plan: function must be one of {', '.join(_FUNCTIONS)}, got {function!r}")
    for name, count, least in (
        ("right_sides", right_sides, 1),
        ("k", k, 1),
        ("oversampling", oversampling, 0),
        ("power_iterations", power_iterations, 0),
        ("iterations", iterations, 0),
    ):
        whole("plan", name, count, least, error=ShapeError)
    flag("plan", "preconditioned", preconditioned)
    data_type("plan", "dtype", dtype)
    given: object = A
    if given is not None and not isinstance(given, (SparseMatrix, Communication)):
        kind = type(A).__name__
        raise DTypeError(f"plan: A must be a sparse matrix, a plan or None, got {kind}")
    layout, exchanged = _layout(rows, columns)
    height, width = layout.shape
    square = function in _SQUARE
    if height < width or (square and height != width):
        wanted = "square" if square else "at least as tall as wide"
        raise ShapeError(f"plan: the matrix must be {wanted}, got {height} x {width}")
    steps = [agreement_step((layout.ranks,))]
    options: dict[str, int] = {}
    if function == "rsvd":
        options = {"k": k, "oversampling": oversampling, "power_iterations": power_iterations}
    held = _recorded(function, layout, right_sides, dtype, options)
    if exchanged and A is None:
        others = layout.ranks - 1
        steps.append(_every(layout, "all_gather", "rows of each rank", _SCALAR * others, others))
    problem = f"{height} x {width} in {dtype}"
    backward: list[Step] = []
    if function in ("tsqr", "lstsq", "rsvd", "msign"):
        sketch = min(width, k + oversampling)
        more, backward = _tall(function, layout, right_sides, sketch, power_iterations, dtype)
        arguments = function, layout, right_sides, sketch, power_iterations, dtype
        more.append(tall_computed(*arguments))
    elif function in ("cholesky", "solve_spd"):
        more, backward = _positive(function, layout, right_sides, dtype)
    else:
        product = _product(layout, right_sides, A, dtype)
        more = _iterative(function, layout, right_sides, iterations, preconditioned, product)
        vectors = iterations_computed(
            function, layout, right_sides, iterations, preconditioned, dtype
        )
        more.append(vectors)
        backward = [*product(1, "halo of x" if A is not None else "parts of x"), *more]
        held = _iterative_bytes(function, layout, right_sides, A, dtype).__getitem__
        problem += f", {iterations} iterations"
    bound = bound_of(function, layout, right_sides, dtype)
    mesh = (layout.ranks,)
    return Communication(function, problem, mesh, (*steps, *more), held, bound, tuple(backward))


def _recorded(
    function: str, layout: Layout, sides: int, dtype: torch.dtype, options: dict[str, int]
) -> Callable[[int], int]:
    """Return a function that records the memory of a rank."""
    module = positive if function in _SQUARE else tall
    widths = [layout.shape[1], sides][: 1 + (function in ("lstsq", "solve_spd"))]

    def held(rank: int) -> int:
        made = partial(torch.empty, dtype=dtype, device="meta")
        world = virtual_mesh((layout.ranks,), rank).world
        call = partial(getattr(module, function), group=world, layout=layout, **options)
        return peak_of(lambda: ([made(layout.sizes[rank], n) for n in widths], call))

    return held


def _layout(rows: Layout | Sequence[int], columns: int | None) -> tuple[Layout, bool]:
    """Return the layout of the matrix, and whether ranks exchange it in a call."""
    if columns is not None:
        columns = whole("plan", "columns", columns, 0, error=ShapeError)
    if isinstance(rows, Layout):
        if columns is None and len(rows.shape) < 2:
            raise ShapeError(f"plan: rows must be the layout of a matrix, got shape {rows.shape}")
        width = rows.shape[1] if columns is None else columns
        return Layout((rows.offsets[-1], width), 0, rows.offsets), False
    sizes = integers("plan", "rows", rows, 0)
    offsets = tuple(sum(sizes[:rank]) for rank in range(len(sizes) + 1))
    return Layout((offsets[-1], offsets[-1] if columns is None else columns), 0, offsets), True


def _every(layout: Layout, kind: str, what: str, received: int, messages: int) -> Step:
    return Step(kind, what, (received,) * layout.ranks, messages)


def _summed(layout: Layout, what: str, count: int, times: int = 1) -> Step:
    p = layout.ranks
    return _every(layout, "all_reduce", what, times * all_reduced(count, p), 2 * times * (p - 1))


def _wide(dtype: torch.dtype) -> int:
    """Return the item size of the dtype in which Gram matrices are summed."""
    return 16 if dtype.is_complex else 8


# -- tall matrices ---------------------------------------------------------------------------------


def _tall(
    function: str, layout: Layout, sides: int, sketch: int, power: int, dtype: torch.dtype
) -> tuple[list[Step], list[Step]]:
    n, size, p = layout.shape[1], dtype.itemsize, layout.ranks
    real = dtype.to_real().itemsize

    def triangles(width: int, times: int = 1) -> Step:
        received = times * (p - 1) * width * width * size
        return _every(layout, "all_gather", "triangles", received, times * (p - 1))

    if function == "tsqr":
        return [triangles(n)], [_summed(layout, "Q^H times the gradient", n * n * size)]
    if function == "lstsq":
        return [
            triangles(n),
            _summed(layout, "Q^H B", n * sides * size),
            _summed(layout, "squared residuals", sides * real),
        ], []
    if function == "rsvd":
        return [
            triangles(sketch, power + 1),
            _summed(layout, "Q^H A", sketch * n * size, power + 1),
        ], []
    return [
        _summed(layout, "sum of squares", _SCALAR),
        _summed(layout, "Gram matrices", n * n * _wide(dtype), 2),
    ], []


# -- positive definite matrices --------------------------------------------------------------------


def _positive(
    function: str, layout: Layout, sides: int, dtype: torch.dtype
) -> tuple[list[Step], list[Step]]:
    n, p, cuts, size = layout.shape[0], layout.ranks, panels(layout), dtype.itemsize
    sent = [0] * p
    before = 0
    for at, (owner, start, end) in enumerate(cuts):
        sent[owner] += (end - start) * (end - before)
        if at + 1 < len(cuts):
            following, top, bottom = cuts[at + 1]
            sent[following] += (bottom - top) * start
        before = start
    # Every panel, and all of its columns but the last ones before, which the first two have not.
    broadcasts = len(cuts) + max(0, len(cuts) - 2)
    factor = _from_others(layout, "panels of the factor", sent, size, broadcasts)
    blocks = len(filled(layout))
    triangle = [m * end for m, end in zip(layout.sizes, layout.offsets[1:], strict=True)]

    def substituted(columns: int) -> list[Step]:
        parts = [m * columns for m in layout.sizes]
        return [
            _from_others(layout, "parts of the first solution", parts, size, blocks),
            _to_owner(layout, "sums for the second solution", parts, size, blocks),
        ]

    if function == "solve_spd":
        gathered = [2 * m * sides for m in layout.sizes]
        messages = 2 * min(blocks, p - 1)
        last = _from_others(layout, "solution and gradient", gathered, size, messages, "all_gather")
        both = substitutions(layout, sides, dtype)
        logdet = _summed(layout, "log-determinant", _SCALAR)
        steps = [factor, factorized(layout, dtype), *substituted(sides), both, logdet]
        return steps, [*substituted(sides), both, last]
    exchanged = tuple((n - m) * m * size for m in layout.sizes)
    return [factor, factorized(layout, dtype)], [
        _to_owner(layout, "L^H times the gradient", triangle, size, blocks),
        _to_owner(layout, "sums for L^-H", [m * n for m in layout.sizes], size, blocks),
        _from_others(layout, "rows of the factor", triangle, size, blocks),
        Step("all_to_all", "adjoint of the gradient", exchanged, messages_between(blocks, blocks)),
    ]


def _from_others(
    layout: Layout, what: str, sent: list[int], size: int, messages: int, kind: str = "broadcast"
) -> Step:
    """Return a step in which every rank receives what the others send."""
    received = tuple(size * (sum(sent) - own) for own in sent)
    return Step(kind, what, received, messages * (layout.ranks > 1))


def _to_owner(layout: Layout, what: str, parts: list[int], size: int, messages: int) -> Step:
    """Return a step in which the parts of every rank are summed at that rank."""
    p = layout.ranks
    received = tuple(size * (p - 1) * own for own in parts)
    return Step("reduce_scatter", what, received, messages * (p > 1))


# -- iterative methods -----------------------------------------------------------------------------


def _product(
    layout: Layout, sides: int, A: SparseMatrix | Communication | None, dtype: torch.dtype
) -> Callable[[int, str], list[Step]]:
    """Return the steps of a number of products with the matrix."""
    if A is None:
        n, item, p = layout.shape[0], sides * dtype.itemsize, layout.ranks
        received = tuple((n - m) * item for m in layout.sizes)
        flops, elements = (
            [2 * m * n * sides for m in layout.sizes],
            [m * n + (m + n) * sides for m in layout.sizes],
        )
        one = [
            Step("all_gather", "", received, p - 1),
            computed(layout, "products", flops, elements, dtype, 1),
        ]
    else:
        one = [step for step in _plan_of(A, layout, sides).steps if step.what != AGREEMENT]

    def steps(times: int, what: str) -> list[Step]:
        return [_repeated(step, times, what) for step in one]

    return steps


def _plan_of(A: SparseMatrix | Communication, layout: Layout, sides: int) -> Communication:
    if not isinstance(A, Communication):
        return plan_product("matmul", A, layout, right_sides=sides)
    if A.ranks != layout.ranks:
        raise FlagError(
            f"plan: A must be the plan of a product on {layout.ranks} ranks, got {A.ranks}"
        )
    return A


def _repeated(step: Step, times: int, what: str) -> Step:
    """Return a step that is taken several times, one after another."""
    return replace(
        step,
        what=step.what if step.kind == "compute" else what,
        received=tuple(times * n for n in step.received),
        messages=times * step.messages,
        flops=tuple(times * n for n in step.flops),
        hbm_bytes=tuple(times * n for n in step.hbm_bytes),
        launches=times * step.launches,
    )


def _iterative(
    function: str,
    layout: Layout,
    sides: int,
    iterations: int,
    preconditioned: bool,
    product: Callable[[int, str], list[Step]],
) -> list[Step]:
    """Return the steps from a start at zero to convergence in one go.

    Six sums are those of the norms before and after the iterations. An iteration takes two; with M
    conjugate gradients take one more, and MINRES compares the residual of x at the end.
    """
    sums = 6 + 2 * iterations
    products = iterations + 1
    if preconditioned and function == "cg":
        sums += iterations
    elif preconditioned:
        sums, products = sums + 1, products + 1
    return [
        _summed(layout, "whether x0 is zero", _SCALAR),
        _summed(layout, "inner products", _SCALAR * sides, sums),
        *product(products, "vectors for products"),
    ]


def _iterative_bytes(
    function: str,
    layout: Layout,
    sides: int,
    A: SparseMatrix | Communication | None,
    dtype: torch.dtype,
) -> tuple[int, ...]:
    """Return the bytes of a product and of eight vectors, nine of MINRES, two in float64."""
    n, size = layout.shape[0], dtype.itemsize
    vectors = ((7 if function == "minres" else 6) * size + 2 * _wide(dtype)) * sides
    if A is None:
        return tuple(m * n * size + (2 * n + m) * sides * size + m * vectors for m in layout.sizes)
    of_product = _plan_of(A, layout, sides).peak_bytes
    return tuple(own + m * vectors for own, m in zip(of_product, layout.sizes, strict=True))
