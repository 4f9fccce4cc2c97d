"""Runs kernels on several ranks, and makes inputs whose reductions are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import nkisim
import nkisim.language as nl

DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int32": np.int32}
SHORT_KERNELS = ("C043", "C044", "C045", "C046")
"""Rules about operands of collectives that tests/kernels/ranks.py covers."""
OPS = {"add": nl.add, "minimum": nl.minimum, "maximum": nl.maximum}


def launch(
    kernel: Callable[..., Any],
    by_rank: Sequence[Sequence[Any]],
    cores: int | None = None,
    **options,
) -> nkisim.Report:
    """Report of a kernel on as many ranks as there are lists of arguments; outputs are by rank.

    The kernels are short: they pass their arguments and outputs to collectives, without names.
    """
    options = {"ignore": SHORT_KERNELS, "lnc": cores or 1, **options}
    launched = kernel if cores is None else nkisim.jit(kernel)[cores]
    ranks = len(by_rank)
    checked = nkisim.check(launched, ranks=ranks, **options)
    if ranks > 1:
        return checked([list(arguments) for arguments in by_rank])
    report = checked(*by_rank[0])
    report.outputs = [report.outputs]
    return report


def outputs(kernel: Callable[..., Any], by_rank: Sequence[Sequence[Any]], **options) -> list[Any]:
    """Results by rank of a kernel that must have no finding."""
    report = launch(kernel, by_rank, **options)
    assert not report.findings, str(report)
    return report.outputs


def inputs(ranks: int, shape: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    """One array per rank. Sums over 8 ranks are exact in every dtype and order.

    Floats are multiples of 1/2 below 8 in magnitude, so that sums of 8 are multiples of 1/2 below
    64: 7 bits, and bfloat16 has 8.
    """
    rng = np.random.default_rng(0)
    scale = 1 if dtype == "int32" else 0.5
    return [(rng.integers(-15, 16, shape) * scale).astype(DTYPES[dtype]) for _ in range(ranks)]


def assert_each_equal(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Equal types, shapes and elements on every rank."""
    assert len(got) == len(wanted)
    for rank, (mine, expected) in enumerate(zip(got, wanted, strict=True)):
        assert mine.dtype == expected.dtype
        np.testing.assert_array_equal(mine, expected, err_msg=f"rank {rank}")
