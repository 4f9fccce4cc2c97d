"""Functions, visits to files and reads of settings in one call of a library.

    python benchmarks/bench_visits.py                print the table
    python benchmarks/bench_visits.py --calls gemm   also list the functions of a simulated gemm

The third of three calls is measured, since the first ones import and plan, in a ``with backend``
block, from the public function to its return. nkisim, kernels and what they call are left out; so
are torch and the standard library.

- functions: calls of Python functions, without comprehensions and generator expressions.
- stays: visits to a file; consecutive calls within one file are one.
- files: different files.
- questions: calls of functions of the five modules of ``trnsci.core.backend`` that hold settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from bench_calls import problems
from runner import show

import trnblas
import trnfft
import trnrand
import trnsolver
import trnsparse
import trntensor

SOURCES = Path(trnblas.__file__).parents[1]
SETTINGS = frozenset(
    f"trnsci/core/backend/{name}.py"
    for name in ("device", "environment", "library", "precision", "setting")
)
MOST_STAYS = {"gemm": 35, "fft": 45, "A @ x": 40}
MOST_QUESTIONS = 6
LIBRARIES: dict[str, Any] = {
    "gemm": trnblas,
    "axpy": trnblas,
    "fft": trnfft,
    "uniform": trnrand,
    "einsum": trntensor,
    "A @ x": trnsparse,
    "eigh": trnsolver,
}


class Visits(NamedTuple):
    """What a call enters: a file and a function for each call, in order."""

    entered: list[tuple[str, str]]

    @property
    def stays(self) -> int:
        """Visits to files."""
        files = [file for file, _ in self.entered]
        return sum(file != before for file, before in zip(files, ["", *files], strict=False))

    def __str__(self) -> str:
        files = [file for file, _ in self.entered]
        questions = sum(file in SETTINGS for file in files)
        return (
            f"{len(files)} functions, {self.stays} stays, {len(set(files))} files, "
            f"{questions} questions"
        )


def visits(call: Callable[[], object]) -> Visits:
    """Return what the third of three calls enters."""
    entered: list[tuple[str, str]] = []
    inside: list[CodeType] = []  # frames of nkisim and of kernels

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename.removeprefix(f"{SOURCES}/")
        if file.startswith("nkisim/") or "/_kernels/" in file:
            if event == "call":
                inside.append(code)
            elif event == "return":
                inside.pop()
        elif event == "call" and not inside and file != code.co_filename:
            entered.append((file, code.co_qualname))

    call()
    call()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Visits([each for each in entered if not each[1].endswith(("comp>", "expr>"))])


def calls() -> dict[str, Callable[[], object]]:
    """Return the small calls of ``bench_calls``, and an eigenvalue problem."""
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    found: dict[str, Callable[[], object]] = {n: call for n, (call, _) in problems("cpu").items()}
    return {**found, "eigh": lambda: trnsolver.eigh(x @ x.mT)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", metavar="NAME", default="")
    options = parser.parse_args()
    rows = []
    for backend in ("simulator", "pytorch"):
        for name, call in calls().items():
            with LIBRARIES[name].backend(backend):
                found = visits(call)
            goal = ""
            if backend == "simulator":
                limit = f"{MOST_STAYS[name]} stays, " if name in MOST_STAYS else ""
                goal = f"<= {limit}{MOST_QUESTIONS} questions"
            rows.append((f"{name}, {backend}", str(found), goal, ""))
            if name == options.calls and backend == "simulator":
                print("\n".join(f"{file:44}{function}" for file, function in found.entered))
    show(rows)


if __name__ == "__main__":
    main()
