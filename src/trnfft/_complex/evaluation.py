"""Evaluation of torch functions on complex tensors: on parts by a rule, or natively by torch.

A function with a rule is computed on parts if none of its arguments is native complex. Torch
computes everything else on native complex tensors. Complex results are wrapped as ComplexTensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnfft._complex.arguments import HALVES
from trnfft._complex.functions import ON_PARTS_ALWAYS, RULES, matrix_product
from trnfft._complex.methods import ComplexMethods
from trnfft._complex.parts import Parts
from trnsci.core.errors import DTypeError

Kind: TypeAlias = type[ComplexMethods]

# Keyword names of the operands, in the positional order that rules expect.
OPERAND_KEYWORDS = ("input", "tensors", "other", "mat2", "exponent")


def evaluate(
    kind: Kind, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return ``function`` of arguments that contain an instance of ``kind``."""
    if kwargs.get("out", args) is None:  # torch passes out=None to the functions it calls
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    found: list[ComplexMethods | Tensor] = []
    _find((args, tuple(kwargs.values())), found)
    native = any(isinstance(z, Tensor) or z._native is not None for z in found)
    rule = RULES.get(function.__name__)
    if rule is not None and (not native or function.__name__ in ON_PARTS_ALWAYS):
        operands = [kwargs[name] for name in OPERAND_KEYWORDS if name in kwargs]
        options = {name: kwargs[name] for name in kwargs if name not in OPERAND_KEYWORDS}
        result = rule(function, *map(to_parts, (*args, *operands)), **to_parts(options))
        if result is not NotImplemented:
            return from_parts(kind, result)
    if "out" in kwargs:
        raise DTypeError(f"{function.__name__}: out= is not supported with a ComplexTensor")
    product = rule is matrix_product
    result = function(*to_native(args, product), **to_native(kwargs, product))
    if args and result is args[0]:  # an in-place function of a native tensor
        return result
    parts = {(z.part_dtype if isinstance(z, ComplexMethods) else z.dtype.to_real()) for z in found}
    half = parts.pop() if len(parts) == 1 else None
    return from_native(kind, result, half if half in HALVES else None)


def _find(value: Any, found: list[ComplexMethods | Tensor]) -> None:
    """Append every complex tensor in ``value``, native or not, to ``found``."""
    if isinstance(value, ComplexMethods) or (isinstance(value, Tensor) and value.is_complex()):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for entry in value:
            _find(entry, found)


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``change`` applied to everything that is not a container."""
    if isinstance(value, (tuple, list)) and not isinstance(value, (Parts, torch.Size)):
        return type(value)([_map(entry, change) for entry in value])
    if isinstance(value, dict):
        return {key: _map(entry, change) for key, entry in value.items()}
    return change(value)


def to_parts(value: Any) -> Any:
    """Return an argument with complex tensors and numbers replaced by their parts."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, ComplexMethods):
            return leaf._split()
        if isinstance(leaf, (complex, np.complexfloating)):
            number: Any = complex(leaf)
            return Parts(number.real, number.imag)
        return leaf

    return _map(value, change)


def from_parts(kind: Kind, result: Any) -> Any:
    """Return a result with parts replaced by complex tensors."""

    def change(leaf: Any) -> Any:
        return kind._fitting(*leaf) if isinstance(leaf, Parts) else leaf

    return _map(result, change)


def to_native(value: Any, product: bool = False) -> Any:
    """Return an argument with complex tensors made native, and for a product real tensors too."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, ComplexMethods):
            return leaf._widened()
        # A matrix product, unlike other functions, does not promote dtypes.
        return leaf + 0j if product and isinstance(leaf, Tensor) else leaf

    return _map(value, change)


def from_native(kind: Kind, result: Any, half: torch.dtype | None) -> Any:
    """Return ``result`` with complex tensors wrapped, and rounded to ``half`` if given."""

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not (leaf.is_complex() or leaf.is_floating_point()):
            return leaf
        wrapped = kind.from_torch_complex(leaf) if leaf.is_complex() else leaf
        return wrapped if half is None else wrapped.to(half)

    return _map(result, change)
