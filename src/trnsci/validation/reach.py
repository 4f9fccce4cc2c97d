"""The dtypes and levels of precision at which the call of a case reaches its kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from trnsci.core.backend.launch import SIMULATE
from trnsci.core.backend.precision import LEVELS, precision
from trnsci.core.errors import KernelError
from trnsci.core.evidence import Case
from trnsci.core.examples import DTYPES, with_dtype


def reach(library: str, case: Case) -> dict[str, list[str]]:
    """Return the dtypes of operands that reach the kernel, by level of precision.

    The call of the case is made with operands of each dtype. No kernel runs: torch computes in its
    place. The result is empty for a case that launches its kernel itself.
    """
    if not case.public:
        return {}
    inputs = case.inputs()
    return {
        level: [dtype for dtype in DTYPES if _reached(library, case, inputs, dtype, level)]
        for level in LEVELS
    }


def _reached(library: str, case: Case, inputs: tuple[Any, ...], dtype: str, level: str) -> bool:
    reached = False

    def simulate(kernel: Any) -> Callable[..., Any]:
        nonlocal reached
        reached = reached or kernel.__name__ == case.kernel
        raise KernelError("not run: torch computes in its place")

    chosen = import_module(library)
    with (
        warnings.catch_warnings(),
        chosen.backend("simulator"),
        chosen.LIBRARY.requiring(""),
        SIMULATE.scope(simulate),
        precision(level),
        torch.no_grad(),
    ):
        warnings.simplefilter("ignore")
        try:
            case.call(*with_dtype(inputs, getattr(torch, dtype)))
        except Exception:  # operands that the function does not accept
            return reached
    return reached


def reach_text(reached: dict[str, list[str]]) -> str:
    """Return the dtypes, and the levels where they are not the same at all levels.

    Such as ``"bfloat16 float32, not at doublefloat"``.
    """
    groups: dict[str, list[str]] = {}
    for level in filter(reached.__contains__, LEVELS):  # JSON sorts them by name
        groups.setdefault(" ".join(reached[level]), []).append(level)
    nowhere = groups.pop("", [])
    if not groups:
        return "-"
    if len(groups) == 1:
        (dtypes,) = groups
        return f"{dtypes}, not at {', '.join(nowhere)}" if nowhere else dtypes
    return "; ".join(f"{dtypes} at {', '.join(levels)}" for dtypes, levels in groups.items())
