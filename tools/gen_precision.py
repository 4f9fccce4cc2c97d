#!/usr/bin/env python
"""Write docs/precision-figures.md: digits, bounds and predicted cost of functions at each level.

    python tools/gen_precision.py                      from benchmarks/results/precision.json
    python tools/gen_precision.py --record trnfft      measures these libraries, or all, before

Every example of a library runs at each level on the simulator, with operands enlarged to orders
and lengths of use. Errors are against float64 on torch, times are predicted for gen3.
"""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

import torch  # noqa: E402
from markdown_text import join, table  # noqa: E402
from torch import Tensor  # noqa: E402

from nkisim import profile  # noqa: E402
from nkisim.files import write_text  # noqa: E402
from trnsci.core.backend.launch import SIMULATE  # noqa: E402
from trnsci.core.backend.precision import LEVELS, precision  # noqa: E402
from trnsci.core.counters import counts  # noqa: E402
from trnsci.core.evidence import relative_error  # noqa: E402
from trnsci.core.examples import examples_of, function_of  # noqa: E402
from trnsci.core.nki import nki  # noqa: E402
from trnsci.coverage.survey import on_simulator  # noqa: E402

PAGE = ROOT / "docs" / "precision-figures.md"
RECORD = ROOT / "benchmarks" / "results" / "precision.json"
GROWTH = {"trnblas": 32, "trnfft": 32, "trnsolver": 4, "trnsparse": 1, "trntensor": 16}
"""Libraries with levels, and how many times larger than an example its problem is."""
LARGE = 32
"""Operands with more rows or columns are not enlarged."""
UNCOMPARED = ("eigh_randomized", "hutch_plus_plus", "nystrom", "rsvd", "lu_factor")
UNCOMPARED += ("eigh_generalized", "tucker_decompose")
"""Results of random numbers, scaled factors, and vectors of the multiple values of the problem."""
WIDE = {"float": torch.float64, "compl": torch.complex128}
TRANSFORMS = re.compile(r"i?(fft|rfft|hfft)[2n]?$|i(r|h)fft[2n]?$")
SINGLE = (
    "einsum gemv ger gerc hemv her her2 symv syr syr2 trmv gemm batched_gemm grouped_gemm gemmt "
)
SINGLE += "syrk herk syr2k her2k symm hemm trmm"
FACTORS = {"cholesky", "cholesky_qr", "jacobi_eigh", "jacobi_svd", "lu"}
HEAD = ("function", *LEVELS, "bound at doublefloat", "torch at doublefloat")
INTRODUCTION = """\
Each cell has the digits of the result, from the relative error in the 2-norm, and the predicted
time of all launches on gen3 over that of float32, where this is a kernel. A level without a cell
runs what float32 runs. Times are those of [`nkisim profile`](guides/profiling.md), for operands
that are so many times larger than the examples of the [coverage table](coverage.md): {sizes}. The
ratio grows with the size of products, see [Predicted performance](performance.md).

At doublefloat operands are float64, with digits that float32 does not have; at other levels they
are float32, and taken as exact. *Partly*: torch computes a part. *No digits*: the result
is not unique, such as one of random numbers, or sparse. Iterations stop at their tolerance."""


def main(arguments: list[str]) -> None:
    """Measure if that is wanted, and write the page."""
    figures = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if arguments[:1] == ["--record"]:
        for library in arguments[1:] or GROWTH:
            figures[library] = dict(measured(library, examples_of(library)))
            write_text(RECORD, json.dumps(figures, indent=1) + "\n")
    write_text(PAGE, page(figures))
    print(f"{PAGE}: {sum(map(len, figures.values()))} functions")


def measured(library: str, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield examples that reach a kernel, with their figures by level."""
    timed = Timed()
    for name in names:
        found = {level: figure_of(library, name, level, timed) for level in LEVELS}
        if any(found.values()):
            yield name, {level: figure for level, figure in found.items() if figure}


def figure_of(library: str, name: str, level: str, timed: Timed) -> dict[str, Any] | None:
    """Return error, time and kernels of an example at a level, or None if it runs no kernel."""
    wide = level == "doublefloat"
    for dtype in ("float64", "complex128") if wide else ("float32", "complex64"):
        for times in (GROWTH[library], 1):
            given = problem(examples_of(library)[name].of(getattr(torch, dtype)), times)
            timed.us, before = 0.0, counts()
            try:
                with on_simulator(), SIMULATE.scope(timed), precision(level):
                    found = called(library, name, given)
                since = counts() - before
                if not since.launches:
                    return None
                exact = called(library, name, given.of(WIDE[dtype[:5]]))
            except Exception:  # operands that do not fit together, or have to be complex
                continue
            errors = [] if name in UNCOMPARED else list(map(error_of, found, exact))
            return {
                "error": float(f"{max(errors):.1e}") if errors else None,
                "us": round(timed.us, 1),
                "kernels": sorted(since.launches),
                "partly": bool(since.refusals or since.fallbacks),
            }
    return None


class Timed:
    """A simulator that adds up the predicted times of launches, by kernels and shapes."""

    def __init__(self) -> None:
        self.us = 0.0
        self._known: dict[Any, float] = {}

    def __call__(self, kernel: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            shapes = [f"{x.dtype}{x.shape}" if hasattr(x, "shape") else repr(x) for x in args]
            key = kernel.__name__, *shapes
            if key not in self._known:
                self._known[key] = profile(kernel, "gen3", advice=False)(*args).latency_us
            self.us += self._known[key]
            return nki.simulate(kernel)(*args)

        return run


def problem(values: Any, times: int) -> Any:
    """Return arguments with enlarged operands, multiplied by 4/3 if they are float64.

    So they have digits that float32 has not. Matrices become blocks of multiples of themselves:
    a Kronecker product with a positive definite matrix, whose condition number is below 4.
    """
    if isinstance(values, (tuple, list)):
        found = [problem(value, times) for value in values]
        return type(values)(*found) if hasattr(values, "_fields") else type(values)(found)
    if isinstance(values, dict):
        return {key: problem(value, times) for key, value in values.items()}
    if not isinstance(values, Tensor) or not (values.is_floating_point() or values.is_complex()):
        return values
    x = values * 4 / 3 if values.dtype in (torch.float64, torch.complex128) else values
    if not x.ndim or max(x.shape[-2:]) > LARGE:
        return x
    places = torch.arange(1.0, times + 1, dtype=torch.float64)
    factors = 0.5 / times**0.5 * torch.cos(places.outer(places)) + torch.diag(1 + places / times)
    return x.repeat(times) if x.ndim == 1 else torch.kron(factors.to(x.dtype), x.contiguous())


def called(library: str, name: str, given: Any) -> list[Tensor]:
    """Return the tensors of numbers that a call returns."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return list(tensors(function_of(library, name)(*given.args, **given.options)))


def tensors(result: Any) -> Iterator[Tensor]:
    """Yield the dense tensors of numbers in a result, such as a solution and its information."""
    if isinstance(result, Tensor):
        if result.layout is torch.strided and (result.is_floating_point() or result.is_complex()):
            yield result
    elif hasattr(result, "imag") and isinstance(result.imag, Tensor):
        yield torch.complex(result.real, result.imag)
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from tensors(part)
    elif hasattr(result, "x"):
        yield from tensors(result.x)


def error_of(found: Tensor, exact: Tensor) -> float:
    """Return the relative error in the 2-norm, or that of moduli: signs and phases may be free."""
    found = found.to(exact.dtype)
    return min(relative_error(found, exact), relative_error(found.abs(), exact.abs()))


# -- the page --------------------------------------------------------------------------------------


def page(figures: dict[str, Any]) -> str:
    """Return the text of the page."""
    sizes = ", ".join(f"{times} in {name}" for name, times in GROWTH.items())
    parts = ["<!-- Written by tools/gen_precision.py from benchmarks/results/precision.json. -->"]
    parts += ["# Digits, bounds and cost of the levels", INTRODUCTION.format(sizes=sizes)]
    for library, found in sorted(figures.items()):
        parts += [f"## {library}", table(HEAD, [row(library, *item) for item in found.items()])]
    return join(parts)


def row(library: str, name: str, levels: dict[str, Any]) -> list[str]:
    """Return the row of an example."""
    base, (function, _, case) = levels.get("float32", {}), name.partition(", ")
    cells = [cell(levels[level], base) if level in levels else "" for level in LEVELS]
    kernels = levels.get("doublefloat", {"kernels": []})["kernels"]
    of_torch = "float64, rounded once" if kernels else "float64"
    label = f"`{function}`" + f", {case}" * bool(case)
    return [label, *cells, bound(library, function, kernels), of_torch]


def bound(library: str, function: str, kernels: list[str]) -> str:
    """Return the bound of a function at doublefloat, and where it is reported or documented."""
    if library in ("trnblas", "trntensor") and function in SINGLE.split() and kernels:
        return "2^-45 of the norms of a row and a column, `trnblas.plan_gemm`"
    if TRANSFORMS.match(function):
        return "`trnfft.plan(...).doublefloat_bound`"
    if FACTORS.intersection(kernels):
        return "[2^-43 or 2^-42](libraries/precision.md#solvers-at-doublefloat) of residuals"
    return ""


def cell(figure: dict[str, Any], base: dict[str, Any]) -> str:
    """Return digits, and the time over that of float32; nothing for what float32 runs."""
    if figure is not base and (figure["kernels"], figure["us"]) == (
        base.get("kernels"),
        base.get("us"),
    ):
        return ""
    error = figure["error"]
    digits = "no digits" if error is None else f"{min(16.0, -math.log10(error or 1e-16)):.1f}"
    over = f", {figure['us'] / base['us']:.1f}x" if base and figure is not base else ""
    return digits + over + ", partly" * figure["partly"]


if __name__ == "__main__":
    main(sys.argv[1:])
