"""Shape, dtype and device of the result of a distribution, derived from its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from trnrand._calls.requests import Request
from trnrand._kernels.definitions import Kind
from trnrand.defaults import get_default_generator

Shape: TypeAlias = Sequence[int]

_SEQUENCES = (list, tuple, torch.Size)


@dataclass(frozen=True)
class Law:
    """A distribution and the properties of its results.

    Attributes:
        name: Name of the public function.
        function: Function that validates its arguments and draws.
        leading: Number of positional arguments before the size.
        result_shape: Function of the leading arguments, of ``size`` (empty if none is given) and of
            the options that returns the shape of the result; None where that is the size, or the
            shape that the parameters broadcast to.
        default_dtype: Dtype of the result if the call gives none. None is the dtype of the first
            argument if it is a tensor, else int64.
        kind: Kind of standard samples with a kernel that it is computed from.
        has_dtype: Whether the function has an argument ``dtype``.
        prepare: Function that validates the same arguments and returns the request of a call; None
            where ``function`` does both.
        pathwise: Function of a request and of its parameters, with gradients, that returns the
            samples as a differentiable function of the parameters; None where there is none.
    """

    name: str
    function: Callable[..., Tensor]
    leading: int
    result_shape: Callable[..., Shape] | None
    default_dtype: torch.dtype | None
    kind: Kind | None
    has_dtype: bool
    prepare: Callable[..., Request] | None = None
    pathwise: Callable[..., Tensor] | None = None

    @property
    def elementwise(self) -> bool:
        """True if a sample depends only on its position and its own parameters."""
        return self.leading == 0 and self.result_shape is None

    def size(self, args: Any) -> Any:
        """Return the size given by the positional arguments, None if there is none."""
        size = args[self.leading :]
        if len(size) == 1 and isinstance(size[0], _SEQUENCES):
            return tuple(size[0])
        return size if len(size) else None

    def shape(self, args: Any, options: dict[str, Any]) -> Any:
        """Return the shape of the result."""
        size = self.size(args)
        if self.result_shape is not None:
            return self.result_shape(*args[: self.leading], size=size or (), **options)
        if options.get("out") is not None:
            return options["out"].shape
        if size is not None:
            return size
        tensors = [value.shape for value in options.values() if isinstance(value, Tensor)]
        return broadcast_shape(*tensors)

    def dtype(self, args: Any, options: dict[str, Any]) -> torch.dtype:
        """Return the dtype of the result."""
        if options.get("dtype") is not None:
            return cast(torch.dtype, options["dtype"])
        if options.get("out") is not None:
            return cast(torch.dtype, options["out"].dtype)
        if self.default_dtype is not None:
            return self.default_dtype
        return args[0].dtype if isinstance(args[0], Tensor) else torch.int64


LAWS: dict[str, Law] = {}
"""The distributions by name."""


def device_of(generator: Any, options: dict[str, Any]) -> Any:
    """Return the device of the result."""
    if options.get("device") is not None:
        return options["device"]
    if options.get("out") is not None:
        return options["out"].device
    return (get_default_generator() if generator is None else generator).device


def broadcast_shape(*shapes: Shape) -> Shape:
    """Return the shape that shapes broadcast to; torch.compile can trace it."""
    return cast(Shape, torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
