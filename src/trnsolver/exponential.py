"""Products of matrix exponentials with vectors, which need only products with the matrix."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.core.arguments import broadcast, whole
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.interop import is_wrapped
from trnsci.core.krylov.front import check_matrix, check_right_side
from trnsci.core.krylov.implicit import differentiated, values_of
from trnsci.core.numbers.values import STEPS, finite, untraced
from trnsolver._matrix_functions.taylor import Product, Scaling, scaling
from trnsolver._paths.arguments import at_level, in_full_precision, restored, square_matrix
from trnsolver.operators import OperatorLike, as_operator

__all__ = ["expm_multiply"]

_NAME = "expm_multiply"


@untraced(STEPS)
@in_full_precision
def expm_multiply(
    A: OperatorLike,
    B: Tensor,
    start: float | None = None,
    stop: float | None = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: complex | None = None,
) -> Tensor:
    """Return ``exp(A) @ B``, or ``exp(t A) @ B`` for equidistant times t, by products with A.

    By the Taylor method of Al-Mohy and Higham (2011), with the precision of B. The number of
    products grows with the norm of A; dense products are those of ``trnblas.gemm``. Derivatives
    are those of the steps.

    Args:
        A: Square: a tensor, a sparse matrix, an operator or a function ``v -> A @ v``.
        B: A vector (n,) or columns (n, k), and for a dense A a batch of columns (..., n, k).
        start: First time; with ``stop`` and ``num`` the result has one entry for each time.
        stop: Last time.
        num: Number of times, by default 50.
        endpoint: Whether ``stop`` is the last time, by default True.
        traceA: Trace of A. By default that of a dense or sparse matrix, and 0 for an operator: the
            trace shifts A so that fewer products are needed, and does not change the result.

    Returns:
        Like B, or (num, ...) with times.

    Raises:
        NotFiniteError: B has a NaN or an infinity.
        ConvergenceError: A is not finite, or its norm needs more than a million products.
        FlagError: ``num`` is not positive, or only one of ``start`` and ``stop`` is given.
        ShapeError: The shapes do not fit.

    Example:
        >>> expm_multiply(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.tensor([1.0, 2.0]))
        tensor([3., 2.])
    """
    times = _times(start, stop, num, endpoint)
    check_right_side(_NAME, B, columns=False, name="B")
    check_matrix(_NAME, A, B, "B")
    finite(_NAME, "B", B)
    columns, product, adjoint, trace = _products(A, B, traceA)
    n = columns.shape[-2]
    if not columns.numel():
        columns = columns + product(columns)  # so that it has gradients by A too
        found = columns.reshape(B.shape)
        return restored(found if times is None else torch.stack([found] * times[2]), B.dtype)
    shift = torch.as_tensor(trace, device=columns.device)
    if shift.is_complex() and not columns.is_complex():
        raise DTypeError(f"{_NAME}: traceA is complex, where B is real: {trace}")
    shift = shift.to(columns.dtype) / n

    def shifted(x: Tensor) -> Tensor:
        return torch.addcmul(product(x), shift, x, value=-1)

    def shifted_adjoint(x: Tensor) -> Tensor:
        return adjoint(x) - shift.conj() * x

    def advanced(x: Tensor, time: float) -> Tensor:
        if time == 0.0:
            return x
        return _exponential(shifted, x, shift, time, _scaling(shifted, shifted_adjoint, x, time))

    if times is None:
        return restored(advanced(columns, 1.0).reshape(B.shape), B.dtype)
    first, step, count = times
    x = advanced(columns, first)
    each = [x]
    if count > 1 and step != 0.0:
        rule = _scaling(shifted, shifted_adjoint, columns, step)
        for _ in range(count - 1):
            x = _exponential(shifted, x, shift, step, rule)
            each.append(x)
    each += [x] * (count - len(each))
    return restored(torch.stack([x.reshape(B.shape) for x in each]), B.dtype)


def _times(
    start: float | None, stop: float | None, num: int | None, endpoint: bool | None
) -> tuple[float, float, int] | None:
    """Return the first time, the step and the number of times; None for the time 1."""
    if start is None and stop is None and num is None and endpoint is None:
        return None
    if start is None or stop is None:
        raise FlagError(f"{_NAME}: start and stop must be given, got {start!r} and {stop!r}")
    first, last = float(start), float(stop)
    if not (math.isfinite(first) and math.isfinite(last)):
        raise FlagError(f"{_NAME}: start and stop must be finite, got {start!r} and {stop!r}")
    count = 50 if num is None else whole(_NAME, "num", num, 1, error=FlagError)
    gaps = count if endpoint is False else max(count - 1, 1)
    return first, (last - first) / gaps, count


def _products(
    A: OperatorLike, B: Tensor, traceA: complex | None
) -> tuple[Tensor, Product, Product, Any]:
    """Return B as columns, the products with A and its adjoint, and the trace of A or 0."""
    if isinstance(A, Tensor) and A.layout is torch.strided:
        work = square_matrix(_NAME, "A", A)
        vectors = B.ndim == 1 or B.shape == A.shape[:-1]
        columns = at_level(B).unsqueeze(-1) if vectors else at_level(B)
        work = work.to(columns.dtype)
        batch = broadcast(work.shape[:-2], columns.shape[:-2])
        if columns.shape[-2] != work.shape[-1] or batch != columns.shape[:-2]:
            raise ShapeError(
                f"{_NAME}: B must fit A and have its batch dimensions, got shapes "
                f"{tuple(B.shape)} and {tuple(A.shape)}"
            )
        trace = work.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        return (
            columns,
            lambda x: gemm(1.0, work, x),
            lambda x: gemm(1.0, work, x, transA="C"),
            trace if traceA is None else traceA,
        )
    if B.ndim > 2:
        raise ShapeError(f"{_NAME}: B must be 1-D or 2-D for this A, got shape {tuple(B.shape)}")
    columns = at_level(B.unsqueeze(-1) if B.ndim == 1 else B)
    if hasattr(A, "product_like"):  # a sparse matrix, whose transpose is faster than a derivative
        # Whether products are recorded is decided here and not in each of them.
        with torch.set_grad_enabled(differentiated(A.entries, columns, traceA)):
            op, back = (as_operator(_NAME, each, columns, columns=True) for each in (A, A.H))
        return columns, op, back, A.diagonal().sum() if traceA is None else traceA
    one = as_operator(_NAME, A, columns[:, 0])
    diagonal = getattr(A, "diagonal", None)  # of SciPy's and NumPy's matrices
    if traceA is None:
        traceA = diagonal().sum().item() if callable(diagonal) else 0.0
    return columns, _each_column(one), _each_column(one.adjoint()), traceA


def _each_column(product: Product) -> Product:
    return lambda x: torch.stack([product(column) for column in x.mT], -1)


def _value(x: Tensor) -> Tensor:
    """Return the value of a tensor below the transforms that differentiate it."""
    message = "vmap has no norm of A; give expm_multiply the batch itself"
    return values_of(_NAME, x, message).detach()


def _scaling(product: Product, adjoint: Product, like: Tensor, time: float) -> Scaling:
    def times(call: Product) -> Product:
        return lambda x: _value(call(x)) * time

    with torch.no_grad():
        return scaling(times(product), times(adjoint), _value(like))


def _exponential(product: Product, x: Tensor, shift: Tensor, time: float, rule: Scaling) -> Tensor:
    """Return ``exp(time (A + shift I)) x``.

    A Taylor series ends early where two terms in a row are negligible, but for derivatives, whose
    terms decrease later.
    """
    length = time / rule.steps
    factor = torch.exp(length * shift)
    whole_series = differentiated(x) or is_wrapped(x)
    unit = torch.finfo(x.dtype).eps / 2
    for _ in range(rule.steps):
        total, last = x, _size(x)
        most = last  # at least the size of the total
        for degree in range(1, rule.degree + 1):
            x = product(x) * (length / degree)
            total = total + x
            if degree == 1:  # shows whether A is differentiated
                whole_series = whole_series or differentiated(x)
            if not whole_series:
                size = _size(x)
                most += size
                if last + size <= unit * most and last + size <= unit * _size(total):
                    break
                last = size
        x = total * factor
    return x


def _size(x: Tensor) -> float:
    """Return the largest modulus."""
    return float(torch.linalg.vector_norm(_value(x), math.inf))
