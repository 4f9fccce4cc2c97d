"""Factors and eigenpairs of trnsolver; operands are read as one triangle."""

from __future__ import annotations

import torch

import trnsolver
from device_problems.problem import Problem

_DTYPES = {"float32": torch.float32, "complex64": torch.complex64}


def cholesky(order: int, dtype: str = "float32", goal_us: float | None = None) -> Problem:
    """Return a factor; half of the operand is read, and the whole result written."""

    def prepare():
        a = torch.eye(order, dtype=_DTYPES[dtype])
        return lambda: trnsolver.cholesky(a)

    parts = 2 if dtype == "complex64" else 1
    return Problem(
        _named(f"cholesky {order}", dtype),
        "trnsolver",
        prepare,
        4 * parts * (order * (order + 1) // 2 + order * order),
        parts * parts * order**3 // 3,
        goal_us=goal_us,
    )


def eigh(
    order: int, batch: int = 1, dtype: str = "float32", goal_us: float | None = None
) -> Problem:
    """Return all eigenpairs; the bound is that of their bytes, not of sweeps."""

    def prepare():
        a = torch.eye(order, dtype=_DTYPES[dtype]).expand(batch, order, order)
        return lambda: trnsolver.eigh(a)

    parts = 2 if dtype == "complex64" else 1
    return Problem(
        _named(f"eigh {batch} x {order}", dtype),
        "trnsolver",
        prepare,
        4 * batch * (parts * (order * (order + 1) // 2 + order * order) + order),
        goal_us=goal_us,
    )


def _named(name: str, dtype: str) -> str:
    return name if dtype == "float32" else f"{name} {dtype}"


PROBLEMS = (
    cholesky(512, goal_us=515),
    # Goals of the model whose iterations of device loops overlap, times 2.1: what the same kernel
    # takes where they do not.
    eigh(64, goal_us=6713),
    # Goals of complex matrices are 4.5 times the real time, 1.3 times that of twice the order.
    cholesky(512, "complex64", goal_us=2318),
    eigh(32, dtype="complex64", goal_us=7070),
)
LARGER = (cholesky(768), eigh(96), cholesky(128), cholesky(128, "complex64"))
ODD = (cholesky(501), cholesky(97), eigh(37, batch=5))
