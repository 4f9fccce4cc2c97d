"""Krylov methods for a dense matrix on a CPU, on arrays, whose operations cost half of torch's.

A step of a small system costs what its calls do, and one of a large system what it takes to read
the matrix. So conjugate gradients have a form of their own: calls are few and make no arrays, and
of a large matrix that is symmetric, which the first product tells, one triangle is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arrays import array_of
from trnsolver import _krylov
from trnsolver._krylov import Product, Run, Watch, begun, ended, inner, norm, tell

__all__ = ["has_arrays", "on_arrays"]

_TRIANGLE = 400
"""Order from which on half of a matrix is read faster than all of it: caches hold smaller ones."""


def has_arrays(method: Any, dense: Tensor | None, b: Tensor) -> bool:
    """Return whether a system is one for ``on_arrays``."""
    return dense is not None and b.is_cpu and method in _METHODS


def on_arrays(
    method: Any, dense: Tensor, b: Tensor, x: Tensor, M: Product | None, watch: Watch
) -> Run:
    """Return how a method of ``_krylov`` goes for a dense system on a CPU."""
    wrapped = None if M is None else (lambda r: array_of(M(torch.from_numpy(r))))
    given = (array_of(dense), array_of(b), array_of(x).copy(), wrapped, watch)
    with np.errstate(all="ignore"):  # what is no number is seen in the residual
        run: Run = _METHODS[method](*given)
    run.x = torch.from_numpy(run.x)
    return run


def _by_products(method: Callable[..., Run]) -> Callable[..., Run]:
    return lambda matrix, *rest: method(matrix.__matmul__, *rest)


def _conjugate_gradients(matrix: Any, b: Any, x: Any, M: Product | None, watch: Watch) -> Run:
    """Return what ``_krylov.conjugate_gradients`` does; x is written over."""
    whole = product = matrix.__matmul__
    axpy, dot = _axpy(b.dtype), _dot(b.dtype)
    goal, limit, told = watch.goal, watch.limit, watch.callback is not None
    r, products = begun(whole, b, x)
    norms = [norm(r)]
    run = Run(x, norms, 0, products, "limit")
    asked = len(b) < _TRIANGLE
    while norms[-1] > goal and run.iterations < limit:
        before = norms[-1]
        z = r if M is None else M(r)
        p, rho = z.copy(), dot(r, z)
        while run.iterations < limit:
            image = product(p)
            run.matvecs += 1
            if not asked:
                product, asked = _cheaper(matrix, p, image), True
                run.matvecs += 1
            curvature = dot(p, image)
            if not 0 < curvature < math.inf:
                run.reason = "breakdown" if math.isfinite(curvature) else "diverged"
                norms[-1] = norm(b - whole(x))
                run.matvecs += 1
                return run
            alpha = rho / curvature
            axpy(p, x, alpha)
            axpy(image, r, -alpha)
            z = r if M is None else M(r)
            fresh = dot(r, z)
            run.iterations += 1
            norms.append(math.sqrt(fresh) if M is None else norm(r))
            if told:
                tell(watch, run)
            if norms[-1] <= goal:
                break
            p *= fresh / rho
            p += z
            rho = fresh
        r = b - whole(x)
        run.matvecs += 1
        norms[-1] = norm(r)
        if norms[-1] > 0.5 * before and run.iterations < limit:
            run.reason = "stagnated"
            break
    return ended(run, watch)


_METHODS: dict[Any, Callable[..., Run]] = {
    _krylov.conjugate_gradients: _conjugate_gradients,
    _krylov.minres: _by_products(_krylov.minres),
    _krylov.bicgstab: _by_products(_krylov.bicgstab),
}


def _dot(dtype: Any) -> Callable[[Any, Any], float]:
    """Return the real part of ``a^H b``, summed in float64."""
    if dtype == np.float64:
        return lambda a, b: float(a @ b)
    return lambda a, b: float(inner(a, b).real)


def _axpy(dtype: Any) -> Callable[[Any, Any, float], Any]:
    """Return ``y <- y + factor * x``."""
    blas = _blas()
    if blas is None:
        return lambda x, y, factor: np.add(y, factor * x, out=y)
    routine = blas.get_blas_funcs("axpy", dtype=dtype)
    return lambda x, y, factor: routine(x, y, a=factor)


def _cheaper(matrix: Any, p: Any, image: Any) -> Product:
    """Return how to multiply: by one triangle if that gives the image of p too, to rounding."""
    blas = _blas()
    if blas is None or np.iscomplexobj(matrix) or not matrix.flags.c_contiguous:
        return matrix.__matmul__
    symv = blas.get_blas_funcs("symv", dtype=matrix.dtype)
    turned = matrix.T  # as BLAS has matrices

    def triangle(v: Any) -> Any:
        return symv(1.0, turned, v)

    rounding = len(p) * float(np.finfo(matrix.dtype).eps)
    return triangle if norm(triangle(p) - image) <= rounding * norm(image) else matrix.__matmul__


def _blas() -> Any:
    try:
        from scipy.linalg import blas
    except ImportError:
        return None
    return blas
