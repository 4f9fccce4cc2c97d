"""Matrix functions at doublefloat: the steps of their references, with products at the level."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.conversions import widest
from trnsolver._doublefloat.arithmetic import only_finite, product
from trnsolver.functions import inverse_root_steps
from trnsolver.signs import quintic_steps


def msign(
    launch: Launcher, a: Tensor, steps: int, first: float, third: float, fifth: float
) -> Tensor:
    only_finite("msign", a)
    found = quintic_steps(partial(product, launch), widest(a), steps, first, third, fifth)
    return found.to(a.dtype)


def inverse_root(
    launch: Launcher, a: Tensor, max_iter: int, tol: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return roots, the number of steps of each, and its last residual."""
    only_finite("inv_sqrt_spd_ns", a)
    multiply = partial(product, launch)
    x, steps, residual = inverse_root_steps(multiply, widest(a), max_iter, tol, early=True)
    real = a.real.dtype
    return x.to(a.dtype), steps.to(real), residual.to(real)
