"""Derivatives of a few eigenpairs of a Hermitian operator, by implicit differentiation.

For a tangent T of ``A X`` at fixed X, the tangent of w is the real diagonal of ``X^H T``. That of X
has the part ``X ((X^H T) / (w_j - w_i))`` in the span of X, and outside of it, for each pair, the
solution y of ``(A - w_i) y = -T_i`` orthogonal to X. The iteration is not differentiated.

Only what A depends on through ``A X`` is differentiated, so there are first derivatives only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import DerivativeError
from trnsci.core.interop import is_wrapped, transform_level, unwrapped
from trnsci.core.krylov.gmres import flexible_gmres
from trnsci.core.krylov.operators import LinearOperator
from trnsci.core.krylov.runs import Product, Run, Watch
from trnsci.core.krylov.short_recurrences import minres
from trnsci.core.krylov.solve import Method, Stopping, System, solve
from trnsci.core.numbers.values import one_cotangent
from trnsolver._paths import derivatives as rules

_CLOSE = 64
"""Multiple of eps times the norm within which eigenvalues count as equal."""


@dataclass(frozen=True)
class Pairs:
    """Computed eigenpairs, without derivatives.

    Attributes:
        function: The public function, for messages.
        product: Returns the product with a vector, without derivatives.
        inverse: An approximate ``(A - sigma)^-1`` for a sigma close to the values; None without.
        w: Values.
        X: Orthonormal vectors, as columns.
        norm: A lower bound of the norm of the operator.
    """

    function: str
    product: Product
    inverse: Product | None
    w: Tensor
    X: Tensor
    norm: float


def with_derivatives(pairs: Pairs, image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values and vectors with the derivatives of ``image``, which is ``A X``.

    Raises:
        DerivativeError: Differentiating transforms of ``torch.func`` are nested.
    """
    if transform_level() is not None and is_wrapped(image) and is_wrapped(unwrapped(image)):
        raise _first_only(pairs.function)
    w, X = _Pairs.apply(image, pairs.w, pairs.X, pairs)  # type: ignore[no-untyped-call]
    return w, X


class _Pairs(torch.autograd.Function):
    @staticmethod
    def forward(image: Tensor, w: Tensor, X: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return w.clone(), X.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        image, _, _, ctx.pairs = inputs
        while is_wrapped(image):
            image = unwrapped(image)
        ctx.tracked = image.requires_grad
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        pairs: Pairs = ctx.pairs
        if ctx.tracked and torch.is_grad_enabled():
            raise _first_only(pairs.function)
        one_cotangent(f"{pairs.function}: eigenpairs", *grads)
        of_w, of_X = grads
        found = None
        if of_w is not None:
            found = pairs.X * of_w
        if of_X is not None:
            inside = (pairs.X.mH @ of_X) * _over_gaps(pairs)
            part = pairs.X @ inside - _outside(pairs, of_X)
            found = part if found is None else found + part
        return found, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
        pairs: Pairs = ctx.pairs
        projected = pairs.X.mH @ tangent
        moved = pairs.X @ (projected * _over_gaps(pairs)) - _outside(pairs, tangent)
        return rules.real_diagonal(projected), moved


def _over_gaps(pairs: Pairs) -> Tensor:
    """Return ``1 / (w_j - w_i)`` and 0 on the diagonal."""
    w = pairs.w
    limit = _CLOSE * torch.finfo(w.dtype).eps * pairs.norm
    close = (w.diff() <= limit).nonzero().flatten().tolist()  # w ascends
    if close:
        raise _degenerate(pairs.function, close[0], close[0] + 1)
    return rules.over_differences(w)


def _outside(pairs: Pairs, sides: Tensor) -> Tensor:
    """Return, for each column b of a pair, the y orthogonal to X with ``(A - w) y = b - X X^H b``.

    Raises:
        DerivativeError: An eigenvalue is too close to one that is not among the pairs.
    """
    X = pairs.X
    if X.shape[0] <= X.shape[1]:
        return torch.zeros_like(sides)

    unit = pairs.norm or 1.0
    found = []
    for place, w in enumerate(pairs.w.tolist()):

        def shifted(v: Tensor, w: float = w) -> Tensor:
            inside = X @ (X.mH @ v)
            v = v - inside
            # A multiple of the part along X makes the operator regular, and residuals relative to
            # the whole side: its part outside may be no more than rounding.
            return _without(X, pairs.product(v) - w * v) + unit * inside

        found.append(_solved(pairs, shifted, sides[:, place], place))
    return torch.stack(found, -1)


def _without(X: Tensor, v: Tensor) -> Tensor:
    """Return a vector without its part along X."""
    return v - X @ (X.mH @ v)


def _solved(pairs: Pairs, shifted: Product, b: Tensor, place: int) -> Tensor:
    X, unit = pairs.X, pairs.norm or 1.0
    n, eps = b.shape[-1], torch.finfo(pairs.X.dtype).eps
    method: Method = minres
    M: Product | None = None
    limit = 2 * n + 100
    if pairs.inverse is not None:
        inverse = pairs.inverse

        def M(v: Tensor) -> Tensor:
            rest = _without(X, v)
            return _without(X, inverse(rest)) + (v - rest) / unit

        method, limit = _gmres, 20
    system = System(
        pairs.function,
        method,
        Stopping(64 * eps, 0.0, limit),
        M,
        hermitian=True,
        on_failure="ignore",
    )
    operator = LinearOperator(shifted, shifted, n)
    solution = solve(system, operator, b)
    # Rounding allows a residual of eps times the condition number; half of the digits are enough.
    if not solution.residual <= eps**0.5:
        raise _degenerate(pairs.function, place, None)
    return _without(X, solution.x)


def _gmres(op: LinearOperator, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    run = flexible_gmres(op, b, x, M, watch, 40)
    run.iterations = run.matvecs
    return run


def _degenerate(function: str, place: int, other: int | None) -> DerivativeError:
    close = f"value {other} of the result" if other is not None else "a value outside of the result"
    return DerivativeError(
        f"{function}: the vectors of a multiple eigenvalue have no derivative, and value {place} "
        f"is equal or too close to {close}; differentiate the values alone, by backward, or "
        f"compute all copies"
    )


def _first_only(function: str) -> DerivativeError:
    return DerivativeError(
        f"{function}: has first derivatives only; take gradients without create_graph, or those of "
        f"eigh"
    )
