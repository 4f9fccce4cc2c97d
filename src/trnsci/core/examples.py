"""Calls that are declared with an operation: examples, and validation cases of its kernels.

An example is one small legal call of a public function that computes with tensors. A library has
its examples in its module ``examples``, under the name of the function. A name such as ``"fft,
prime length"`` is a further call of the same function that may take another path.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci.core.numbers.conversions import real_dtype

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int64")
"""Dtypes of operands that the suite is examined with."""


class Example(NamedTuple):
    """The arguments of a call, in float32 or complex64."""

    args: tuple[Any, ...]
    options: dict[str, Any]

    def of(self, dtype: torch.dtype) -> Example:
        """Return the call with operands of another dtype; see ``with_dtype``."""
        return Example(*with_dtype(tuple(self), dtype))


@dataclass(frozen=True)
class Case:
    """A validation case: one call that runs a kernel, and its expected result.

    Attributes:
        kernel: The name of the kernel's function, as in the launch counters.
        title: Name for people.
        inputs: Returns the arguments; the same ones at each call.
        call: The public function, as a function of the inputs.
        expected: The expected result as a function of the inputs, computed independently.
        reference: Description of that computation, such as ``"torch in float64"``.
        bound: Largest relative error in the L2 norm, as a function of the inputs; 0 for equal bits.
        public: Whether the call reaches the kernel through a public function under
            ``set_backend``; kernels meant for use inside other kernels are launched directly.
        decided_by_values: Whether the executed instructions depend on values, as in a loop that
            ends on the device; such a kernel cannot be checked without values.
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


def example(*args: Any, **options: Any) -> Example:
    """Return the example with these arguments."""
    return Example(args, options)


def examples_of(library: str) -> Mapping[str, Example]:
    """Return the examples of a library by name."""
    found: Mapping[str, Example] = import_module(f"{library}.examples").EXAMPLES
    return found


def function_of(library: str, name: str) -> Callable[..., Any]:
    """Return the function of an example; ``"mp2.energy"`` is one of the library's module mp2."""
    module, _, function = f"{library}.{name.partition(',')[0]}".rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def public_functions(library: str) -> list[str]:
    """Return the functions in ``__all__`` of a library; classes are none."""
    module = import_module(library)
    values = {name: getattr(module, name) for name in module.__all__}
    return [name for name, it in values.items() if callable(it) and not inspect.isclass(it)]


def with_dtype(values: Any, dtype: torch.dtype) -> Any:
    """Return copies of arguments with another dtype.

    Tensors and sparse matrices of floating point or complex numbers are converted, and dtypes
    replaced. Where some operands are complex, the others are converted to the real part of
    ``dtype``. Everything else is copied.

    Args:
        values: A tensor, sparse matrix, dtype or other argument, or a tuple, list or dict of them.
        dtype: The dtype.
    """
    other = real_dtype(dtype) if any(it.is_complex for it in _dtypes(values)) else dtype
    return _converted(values, dtype, other)


def _dtypes(values: Any) -> list[torch.dtype]:
    """Return the dtypes in arguments: those of operands, and those given as such."""
    if isinstance(values, dict):
        values = tuple(values.values())
    if isinstance(values, (tuple, list)):
        return [dtype for value in values for dtype in _dtypes(value)]
    found = values if isinstance(values, torch.dtype) else getattr(values, "dtype", None)
    return [found] if isinstance(found, torch.dtype) else []


def _converted(values: Any, dtype: torch.dtype, other: torch.dtype) -> Any:
    if isinstance(values, dict):
        return {key: _converted(value, dtype, other) for key, value in values.items()}
    if isinstance(values, (tuple, list)):
        parts = [_converted(value, dtype, other) for value in values]
        return type(values)(*parts) if hasattr(values, "_fields") else type(values)(parts)
    found = _dtypes(values)
    if not found or not (found[0].is_floating_point or found[0].is_complex):
        return copy.deepcopy(values)
    target = dtype if found[0].is_complex else other
    if isinstance(values, torch.dtype):
        return target
    if isinstance(values, Tensor) and values.is_complex() and not target.is_complex:
        values = values.real
    return copy.deepcopy(values).to(target)
