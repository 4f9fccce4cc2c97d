"""Factors and eigenpairs of trnsolver; operands are read as one triangle."""

from __future__ import annotations

import torch

import trnsolver
from device_problems.problem import Problem


def cholesky(order: int, goal_us: float | None = None) -> Problem:
    """Return a factor; half of the operand is read, and the whole result written."""

    def prepare():
        a = torch.eye(order)
        return lambda: trnsolver.cholesky(a)

    return Problem(
        f"cholesky {order}",
        "trnsolver",
        prepare,
        4 * (order * (order + 1) // 2 + order * order),
        order**3 // 3,
        goal_us=goal_us,
    )


def eigh(order: int, batch: int = 1, goal_us: float | None = None) -> Problem:
    """Return all eigenpairs; the bound is that of their bytes, not of sweeps."""

    def prepare():
        a = torch.eye(order).expand(batch, order, order)
        return lambda: trnsolver.eigh(a)

    return Problem(
        f"eigh {batch} x {order}",
        "trnsolver",
        prepare,
        4 * batch * (order * (order + 1) // 2 + order + order * order),
        goal_us=goal_us,
    )


PROBLEMS = (
    cholesky(512, goal_us=515),
    eigh(64, goal_us=3200),
)
LARGER = (cholesky(768), eigh(96))
ODD = (cholesky(501), cholesky(97), eigh(37, batch=5))
