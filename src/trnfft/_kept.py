"""Transforms that come often, computed by what is prepared once in place of torch.

In every call torch describes a transform to the library that computes it, and looks for what it
knows of it, which for short transforms takes longer than to compute them. What is kept here was
prepared as torch prepares it, by the same library, and computes the same.

Its results are torch's, bit for bit: it is tried against torch's function before it is used, and
where anything differs or fails torch computes. A result therefore does not tell who computed it,
and unlike the choice of SciPy this one may depend on what was called before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from trnsci.core.shortcuts import never

__all__ = ["CALLS", "KEPT", "LARGEST", "LONGEST", "Form", "Kept", "Prepared"]

KEPT = 64
"""Transforms that are remembered, least recently used ones forgotten first."""
CALLS = 8
"""Transforms that torch computes before one is prepared, which takes as long as so many."""
LARGEST = 1 << 20
"""Entries of an input above which what torch does beside computing takes no time."""
LONGEST = 1 << 16
"""Points of a dimension above which nothing is kept; the tables of a prime take 80 bytes each."""

_REALS = frozenset({torch.float32, torch.float64})
_COMPLEXES = frozenset({torch.complex64, torch.complex128})


class Form(NamedTuple):
    """A transform over the last dimensions of contiguous tensors, of whatever shape and dtype.

    Attributes:
        name: Torch's function for it.
        forward: The sign of its angles.
        halved: Which side has half a spectrum, and the other reals: 0 for the input, 1 for the
            result, None where both are complex.
        rank: How many dimensions are transformed.
        n: Points of the last one; None for what the function takes by default.
        norm: The normalisation; None for the default.
    """

    name: str
    forward: bool
    halved: int | None
    rank: int
    n: int | None = None
    norm: str | None = None

    def points(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the points along the transformed dimensions of inputs of a shape."""
        *others, last = shape[len(shape) - self.rank :]
        if self.halved == 0:
            last = 2 * (last - 1) if self.n is None else self.n
        return (*others, last)

    def sides(self, shape: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the transformed dimensions of inputs of a shape and those of their results."""
        points = self.points(shape)
        sides = [points, points]
        if self.halved is not None:
            sides[self.halved] = (*points[:-1], points[-1] // 2 + 1)
        return sides

    def scale(self, points: int) -> float:
        """Return what multiplies the sums over so many points."""
        if self.norm == "ortho":
            return 1.0 / math.sqrt(points)
        return 1.0 / points if self.forward is (self.norm == "forward") else 1.0

    def result_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype of the results of inputs of a dtype."""
        return dtype.to_real() if self.halved == 0 else dtype.to_complex()

    def by_torch(self, x: Tensor) -> Tensor:
        """Return what torch computes."""
        function: Callable[..., Tensor] = getattr(torch.fft, self.name)
        if self.rank == 1 and self.name[-1] not in "2n":
            return function(x, self.n, -1, self.norm)
        return function(x, None, tuple(range(-self.rank, 0)), self.norm)


class Prepared(Protocol):
    """A transform of contiguous tensors of one shape and dtype that needs only to be computed."""

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a tensor, None on failure or in another place."""
        ...


class Kept:
    """What is known of the transforms of one form, dtype and shape, in one place.

    Attributes:
        prepared: What computes them, once it has been tried; None while torch does.
        open: Whether that may change.
        recognises: What tells the last input that it computed, and others like it.
    """

    __slots__ = ("_calls", "_of", "_prepare", "open", "prepared", "recognises")

    def __init__(
        self,
        form: Form,
        dtype: torch.dtype,
        shape: torch.Size,
        prepare: Callable[[], Prepared] | None,
        device: Any = "cpu",
    ) -> None:
        """Begin to count calls.

        Args:
            form: What is transformed, and how.
            dtype: Of the inputs.
            shape: Of the inputs.
            prepare: What prepares them; None where nothing can.
            device: Where they are tried.
        """
        self.prepared: Prepared | None = None
        self.recognises: Callable[[Tensor], bool] = never
        self._of = form, dtype, shape, device
        self._prepare = prepare
        self._calls = 0
        self.open = (
            prepare is not None
            and len(shape) >= form.rank >= 1
            and dtype in (_REALS if form.halved == 1 else _COMPLEXES)
            and 0 < math.prod(shape) <= LARGEST
            and min(points := form.points(shape)) > 0
            and max(points) <= LONGEST
        )

    def attempt(self) -> None:
        """Prepare and try a transform, after so many calls that it cannot have been in vain."""
        self._calls += 1
        if self._calls < CALLS or self._prepare is None:
            return
        # Two threads may both get here. Then what one of them prepared is dropped, and freed.
        self.open = False
        try:
            prepared = self._prepare()
            if _agrees(prepared, *self._of):
                self.prepared = prepared
        except Exception:  # whatever another library or torch makes of it
            return


def _agrees(
    prepared: Prepared, form: Form, dtype: torch.dtype, shape: Sequence[int], device: Any
) -> bool:
    """Return whether this computes what torch computes, and leaves its input as it is."""
    generator = torch.Generator().manual_seed(math.prod(shape))
    drawn = torch.empty(*shape, 2 if dtype.is_complex else 1, dtype=dtype.to_real(), device="cpu")
    drawn = drawn.uniform_(-1.0, 1.0, generator=generator).to(device)
    x = torch.view_as_complex(drawn) if dtype.is_complex else drawn[..., 0]
    before, want = x.clone(), form.by_torch(x)
    got = prepared.of(x)
    return (
        got is not None and got.stride() == want.stride() and _same(got, want) and _same(x, before)
    )


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one dtype have one shape and the same bits."""
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.view(torch.int32 if real.dtype is torch.float32 else torch.int64)
