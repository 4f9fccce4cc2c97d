"""Functions of NKI in a source: their arguments by parameter, and which of them give tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache

from nkisim import versions

# Functions of nki.language that give no tensor.
_NO_TENSOR = {
    *("abs_max", "abs_min", "affine_range", "device_print", "ds", "dynamic_range", "fori_loop"),
    *("is_hbm", "is_on_chip", "is_psum", "is_sbuf", "no_reorder", "num_programs", "program_id"),
    *("program_ndim", "random_seed", "sequential_range", "static_range", "store", "while_loop"),
}


@cache
def tensor_functions() -> frozenset[str]:
    """Return the functions of nki.language that give a tensor, in any version."""
    known = (versions.names_of(v)["nki.language"]["functions"] for v in versions.VERSIONS)
    return frozenset().union(*known) - _NO_TENSOR


@cache
def writes_tile(name: str) -> bool:
    """Return whether a function of nki.isa writes to ``dst``, so that its Beta 1 form gave a tile.

    Functions that return a generation or a register do not, nor do enums.
    """
    known = (versions.parameter_names(v, "nki.isa", name) for v in versions.VERSIONS)
    return name == "builtin_custom_op" or any("dst" in parameters for parameters in known)


def _parameters(path: str) -> tuple[str, ...] | None:
    """Return the parameters of a function of NKI in the version in force, or in the next with it.

    None for another function.
    """
    module, _, name = path.rpartition(".")
    if module not in ("nki.collectives", "nki.isa", "nki.language"):
        return None
    for version in (versions.in_force(), *versions.VERSIONS):
        if versions.parameters(version, module, name) is not None:
            return versions.parameter_names(version, module, name)
    return None


def arguments_of(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr] | None:
    """Return the arguments of a call by parameter, or None if they cannot be told apart.

    They cannot if there are stars, too many arguments, or two for one parameter.
    """
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(parameters):
        return None
    found = dict(zip(parameters, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in found:
            return None
        found[keyword.arg] = keyword.value
    return found


def nki_arguments(call: ast.Call, path: str) -> dict[str, ast.expr]:
    """Return the arguments of a function of NKI by parameter; none if that is not certain."""
    parameters = _parameters(path)
    return {} if parameters is None else arguments_of(call, parameters) or {}
