"""Kernel inventory of a library, and the validation cases of its kernels.

A library has its cases in its module ``evidence``. ``trnsci validate`` runs them; ``trnsci status``
shows the results.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.library import Library
from trnsci.core.examples import Case
from trnsci.core.testing import unit_roundoff

__all__ = ["Case", "KernelSource", "kernels_of", "launcher", "product_bound", "relative_error"]

_SECTION = re.compile(r"^Lever\s+(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class KernelSource:
    """A kernel, described by its source.

    Attributes:
        library, name: Its library, and the name of its function.
        module: Its module.
        summary: The first line of the module docstring.
        lever: The hardware feature it uses, from the module docstring.
    """

    library: str
    name: str
    module: str
    summary: str
    lever: str


@cache
def kernels_of(library: str) -> tuple[KernelSource, ...]:
    """Return the kernels of a library in module order, without importing the library or NKI.

    Its sources are read once in a process.
    """
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        return ()
    found = []
    for path in sorted((Path(spec.origin).parent / "_kernels").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        text = ast.get_docstring(tree) or ""
        lever = _SECTION.search(text)
        lever_text = " ".join(lever[1].split()) if lever else ""
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list)):
                module = f"{library}._kernels.{path.stem}"
                summary = text.partition("\n")[0]
                found.append(KernelSource(library, node.name, module, summary, lever_text))
    return tuple(found)


def _is_jit(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called) == "nki.jit"


def launcher(library: Library) -> Launcher:
    """Return a launcher for direct kernel calls, on the path that the library's backend selects."""
    return Launcher("nki" if library.path() == "nki" else "simulator")


def relative_error(got: Any, want: Any) -> float:
    """Return the relative L2 error of a result, or of all parts of one.

    It is infinite for NaN, for unequal shapes, and for dtypes that cannot hold the result.
    """
    import nkisim  # here, because libraries start without it

    return nkisim.compare(got, want)().norm


def product_bound(a: Tensor, b: Tensor) -> float:
    """Return the bound on the relative L2 error of a float32 matrix product.

    A sum of K products in any order has an error of at most K roundings of the sum of their
    magnitudes.
    """
    wide_a, wide_b = a.double(), b.double()
    magnitudes = float((wide_a.abs() @ wide_b.abs()).norm())
    return a.shape[-1] * unit_roundoff(torch.float32) * magnitudes / float((wide_a @ wide_b).norm())
