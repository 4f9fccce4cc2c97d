"""Arguments for a kernel, generated from ``--shapes`` and from annotations.

The values are synthetic and the same in every run: floats lie between 0.5 and 1.5, so that roots,
logarithms and quotients exist; integers count from 0 to 127 and repeat.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nkisim.checks import KernelSource
from nkisim.dtypes import DTYPES, DType
from nkisim.intents import DTYPE_NAMES
from nkisim.runs.host import kernel_parameters, tensor_annotations

_ENTRY = re.compile(r"(\w+)\s*=\s*(?:(\w+)\s*\[([^\]]*)\]|([^\s;\[\]]+)(?=[\s;]|$))")
_EXAMPLE = '--shapes "x=bf16[128,512] w=f32[512] eps=1e-6"'


class ArraySpec(NamedTuple):
    """Shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: DType


Shapes = Mapping[str, ArraySpec | int | float | bool | str | None]
"""Arguments of a kernel, by parameter name."""


def parse_shapes(text: str) -> Shapes:
    """Parse a text such as ``"x=bf16[128,512] eps=1e-6"``.

    Raises:
        ValueError: The text cannot be parsed; the message has the part that cannot.
    """
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        if text[at] in " ;,\n\t":
            at += 1
            continue
        match = _ENTRY.match(text, at)
        if match is None:
            raise ValueError(f"shapes: cannot read {text[at:].split()[0]!r}; write {_EXAMPLE}")
        name, dtype, extents, literal = match.groups()
        if name in found:
            raise ValueError(f"shapes: {name} is given twice")
        found[name] = _literal(name, literal) if dtype is None else _spec(name, dtype, extents)
        at = match.end()
    if not found:
        raise ValueError(f"shapes: the text is empty; write {_EXAMPLE}")
    return found


def _spec(name: str, dtype: str, extents: str) -> ArraySpec:
    known = DTYPES.get(DTYPE_NAMES.get(dtype, dtype))
    if known is None:
        raise ValueError(
            f"shapes: {name} has dtype {dtype!r}; accepted: {', '.join((*DTYPE_NAMES, *DTYPES))}"
        )
    parts = [part.strip() for part in extents.split(",") if part.strip()]
    if not all(re.fullmatch(r"[1-9]\d*", part) for part in parts) or not parts:
        raise ValueError(f"shapes: {name} has extents [{extents}]; accepted: positive integers")
    return ArraySpec(tuple(int(part) for part in parts), known)


def _literal(name: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(
            f"shapes: {name}={text} is neither dtype[extents] nor a number; write {_EXAMPLE}"
        ) from None


def made_array(spec: ArraySpec) -> np.ndarray:
    """Return a deterministic array of a shape and dtype."""
    size = int(np.prod(spec.shape))
    if spec.dtype.kind == "packed":
        return np.zeros(spec.shape, spec.dtype.numpy)
    values: np.ndarray = np.arange(size) % (2 if spec.dtype.kind == "bool" else 128)
    if spec.dtype.kind == "float":
        values = np.random.default_rng(size).uniform(0.5, 1.5, size).astype(np.float32)
    return values.astype(spec.dtype.numpy).reshape(spec.shape)


def argument(given: ArraySpec | int | float | bool | str | None) -> Any:
    """Return the argument that an entry of ``Shapes`` stands for."""
    return made_array(given) if isinstance(given, ArraySpec) else given


def arguments_of(function: Any, shapes: Shapes) -> tuple[dict[str, Any], list[str]]:
    """Return arguments for a kernel, and the parameters without a known value.

    ``shapes`` takes precedence over annotations, and annotations over defaults.
    """
    annotated = tensor_annotations(function)
    given: dict[str, Any] = {}
    missing: list[str] = []
    for parameter in kernel_parameters(function):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        name = parameter.name
        spec = annotated.get(name)
        if name in shapes:
            given[name] = argument(shapes[name])
        elif spec is not None and all(type(extent) is int for extent in spec.extents):
            shape = tuple(extent for extent in spec.extents if isinstance(extent, int))
            given[name] = made_array(ArraySpec(shape, spec.dtype or DTYPES["float32"]))
        elif parameter.default is parameter.empty:
            missing.append(name)
    return given, missing


def without_value(kernel: KernelSource, shapes: Shapes) -> list[str]:
    """Return the parameters of a kernel in a file whose value its source does not show.

    None of a kernel with a second decorator, which may give it other parameters.
    """
    if isinstance(kernel.node, ast.ClassDef):
        return ["self"]
    if len(getattr(kernel.node, "decorator_list", ())) > 1:
        return []
    given = kernel.node.args
    named = [*given.posonlyargs, *given.args]
    required = named[: len(named) - len(given.defaults)]
    defaults = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    required += [parameter for parameter, default in defaults if default is None]
    return [p.arg for p in required if p.arg not in shapes and not _is_tensor(kernel, p)]


def _is_tensor(kernel: KernelSource, parameter: ast.arg) -> bool:
    """Return whether an annotation may give a shape."""
    note = parameter.annotation
    if isinstance(note, ast.Name):
        note = kernel.constants.get(note.id, note)
    return note is not None and "tensor[" in ast.unparse(note)


_SCALARS = {"int": "1", "float": "1.0", "bool": "True", "str": "'text'"}


def shapes_hint(kernel: KernelSource, missing: list[str], shapes: Shapes) -> str:
    """Return a text for ``--shapes``: what was given, and the parameters that have no value."""
    given = None if isinstance(kernel.node, ast.ClassDef) else kernel.node.args
    every = [] if given is None else [*given.posonlyargs, *given.args, *given.kwonlyargs]
    notes = {p.arg: ast.unparse(p.annotation) for p in every if p.annotation is not None}
    counts = _operands(kernel.node)
    values = {p.arg: _written(shapes[p.arg]) for p in every if p.arg in shapes}
    for name in missing:
        unannotated = "1" if name in counts else "f32[128,512]"
        values[name] = _SCALARS.get(notes.get(name, ""), unannotated)
    return " ".join(f"{name}={value}" for name, value in values.items())


def _written(given: ArraySpec | int | float | bool | str | None) -> str:
    """Return an entry of ``Shapes`` as ``--shapes`` reads it."""
    if not isinstance(given, ArraySpec):
        return repr(given)
    return f"{given.dtype}[{','.join(map(str, given.shape))}]"


def _operands(node: ast.AST) -> set[str]:
    """Return the names beside ``//`` and ``%``: whole numbers, because a tensor has neither."""
    parts = [n for n in ast.walk(node) if isinstance(n, ast.BinOp)]
    sides = [
        side
        for n in parts
        if isinstance(n.op, ast.FloorDiv | ast.Mod)
        for side in (n.left, n.right)
    ]
    return {side.id for side in sides if isinstance(side, ast.Name)}
