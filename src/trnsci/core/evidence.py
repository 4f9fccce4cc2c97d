"""What the kernels of a library are, and the cases that show that they are right.

A library names its cases in its module ``evidence``: a call of the public interface for each
kernel, what the call must give, and how far from it the result may be. ``trnsci validate`` runs
them; ``trnsci status`` shows what came out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.library import Library
from trnsci.core.testing import unit_roundoff

__all__ = ["Case", "KernelSource", "kernels_of", "launcher", "product_bound", "relative_error"]

_SECTION = re.compile(r"^Lever\s+(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Case:
    """One call that runs a kernel, and what it must give.

    Attributes:
        kernel: The kernel's function, as launches are counted.
        title: What people call it.
        inputs: Makes the arguments; the same ones at each call.
        call: The public function, as a function of the inputs.
        expected: What it must give, as a function of the inputs, from another source.
        reference: That source in words, such as ``"torch in float64"``.
        bound: Largest relative error in the L2 norm, as a function of the inputs; 0 for equal bits.
        public: Whether the call reaches the kernel as ``set_backend`` does; some kernels are there
            to be called by other kernels' authors, and are launched themselves.
        decided_by_values: Whether values decide what the kernel executes, as in a loop that ends
            on the device: it cannot be checked without them.
    """

    kernel: str
    title: str
    inputs: Callable[[], tuple[Any, ...]]
    call: Callable[..., Any]
    expected: Callable[..., Any]
    reference: str
    bound: Callable[..., float]
    public: bool = True
    decided_by_values: bool = False


@dataclass(frozen=True)
class KernelSource:
    """A kernel as its source shows it.

    Attributes:
        library, name: Whose it is, and the name of its function.
        module: Where it is.
        summary: The first line of the module.
        lever: What of the hardware it uses, as the module says.
    """

    library: str
    name: str
    module: str
    summary: str
    lever: str


def kernels_of(library: str) -> list[KernelSource]:
    """Return the kernels of a library in the order of their modules; imports neither it nor NKI."""
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        return []
    found = []
    for path in sorted((Path(spec.origin).parent / "_kernels").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        text = ast.get_docstring(tree) or ""
        lever = _SECTION.search(text)
        said = " ".join(lever[1].split()) if lever else ""
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list)):
                module = f"{library}._kernels.{path.stem}"
                summary = text.partition("\n")[0]
                found.append(KernelSource(library, node.name, module, summary, said))
    return found


def _is_jit(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called) == "nki.jit"


def launcher(library: Library) -> Launcher:
    """Return what launches a kernel itself, where the backend of its library says."""
    return Launcher("nki" if library.path() == "nki" else "simulator")


def relative_error(got: Any, want: Any) -> float:
    """Return the L2 distance of two results, or tuples of results, relative to what is wanted.

    Results of unequal shape are infinitely far apart, and so is NaN from anything.
    """
    pairs = list(zip(_flat(got), _flat(want), strict=False))
    if len(_flat(got)) != len(_flat(want)) or any(g.shape != w.shape for g, w in pairs):
        return float("inf")
    distance = sum(float((_wide(g) - _wide(w)).abs().square().sum()) for g, w in pairs)
    size = sum(float(_wide(w).abs().square().sum()) for _, w in pairs)
    if distance != distance:
        return float("inf")
    return (distance / size) ** 0.5 if size else distance**0.5


def product_bound(a: Tensor, b: Tensor) -> float:
    """Return how far a float32 product of matrices may be from the exact one, relatively in L2.

    Sums of K products in any order are off by at most K roundings of the sum of their magnitudes.
    """
    wide_a, wide_b = a.double(), b.double()
    magnitudes = float((wide_a.abs() @ wide_b.abs()).norm())
    return a.shape[-1] * unit_roundoff(torch.float32) * magnitudes / float((wide_a @ wide_b).norm())


def _flat(result: Any) -> list[Tensor]:
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [torch.as_tensor(part) for part in parts]


def _wide(part: Tensor) -> Tensor:
    return part.to(torch.complex128 if part.is_complex() else torch.float64)
