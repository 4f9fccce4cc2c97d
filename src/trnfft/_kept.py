"""Transforms that come often, computed by what is prepared once in place of torch.

In every call torch describes a transform to the library that computes it, and looks for what it
knows of it, which for short transforms takes longer than to compute them. What is kept here was
prepared as torch prepares it, by the same library, and computes the same.

Its results are torch's, bit for bit: it is tried against torch's function before it is used, and
where anything differs or fails torch computes. A result therefore does not tell who computed it,
and who does may depend on what was called before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from trnsci.core.shortcuts import never

__all__ = ["CALLS", "KEPT", "LARGEST", "LONGEST", "REALS", "Form", "Kept", "Prepared"]

KEPT = 64
"""Transforms that are remembered, least recently used ones forgotten first."""
CALLS = 8
"""Transforms that torch computes before one is prepared, which takes as long as so many."""
LARGEST = 1 << 20
"""Entries of an input above which what torch does beside computing takes no time."""
LONGEST = 1 << 16
"""Points of a dimension above which nothing is kept; the tables of a prime take 80 bytes each."""
REALS = frozenset({torch.float32, torch.float64})
"""The dtypes of real input that is transformed."""

_SAMPLE = 1024
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
        mirrored: Whether the input is real though the result is a whole spectrum, whose second half
            is then the mirror image of the first.
    """

    name: str
    forward: bool
    halved: int | None
    rank: int
    n: int | None = None
    norm: str | None = None
    mirrored: bool = False

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
        """Return what torch computes, half a spectrum without a conjugation left for later."""
        function: Callable[..., Tensor] = getattr(torch.fft, self.name)
        if self.rank == 1 and self.name[-1] not in "2n":
            found = function(x, self.n, -1, self.norm)
            return found.resolve_conj() if self.halved == 1 else found
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

    __slots__ = ("_form", "_left", "_prepare", "open", "prepared", "recognises")

    def __init__(
        self,
        form: Form,
        dtype: torch.dtype,
        shape: torch.Size,
        prepare: Callable[[], Prepared] | None,
        calls: int = CALLS,
        longest: int = LONGEST,
    ) -> None:
        """Begin to count calls.

        Args:
            form: What is transformed, and how.
            dtype: Of the inputs.
            shape: Of the inputs.
            prepare: What prepares them; None where nothing can.
            calls: How many of them come before it does, and that call.
            longest: The points of a vector up to which it does.
        """
        self.prepared: Prepared | None = None
        self.recognises: Callable[[Tensor], bool] = never
        self._form, self._left, self._prepare = form, calls, prepare
        self.open = (
            prepare is not None
            and len(shape) >= form.rank >= 1
            and dtype in (REALS if form.mirrored or form.halved == 1 else _COMPLEXES)
            and (size := math.prod(shape)) > 0
            and min(points := form.points(shape)) > 0
            and (
                points[0] <= longest
                if len(shape) == 1
                else size <= LARGEST and max(points) <= LONGEST
            )
        )

    def attempt(self, x: Tensor) -> Tensor | None:
        """Prepare and try a transform, after so many calls that it cannot have been in vain.

        Args:
            x: The input of this call, by which it is tried.

        Returns:
            What torch computed in the trial; None where there was none.
        """
        self._left -= 1
        if self._left > 0 or self._prepare is None:
            return None
        # Two threads may both get here. Then what one of them prepared is dropped, and freed.
        self.open = False
        try:
            want = self._form.by_torch(x)
        except Exception:  # for torch to raise where nothing is tried
            return None
        try:
            prepared = self._prepare()
            if _is_rounded(want):
                agrees = _agrees(prepared, x, want)
            else:
                drawn = _drawn_like(x)
                agrees = _agrees(prepared, drawn, self._form.by_torch(drawn))
            if agrees:
                self.prepared = prepared
        except Exception:  # whatever another library makes of it
            return want
        return want


def _agrees(prepared: Prepared, x: Tensor, want: Tensor) -> bool:
    """Return whether this computes what torch computes, and leaves its input as it is."""
    copy = x.clone()  # x may be a user's
    got = prepared.of(copy)
    return (
        got is not None
        and got.stride() == want.stride()
        and got.is_conj() == want.is_conj()
        and _same(got, want)
        and _same(copy, x)
    )


def _is_rounded(result: Tensor) -> bool:
    """Return whether rounding made enough entries of a result to tell computations apart.

    The last bit of a rounded number is one as often as not. Of zeros, infinities and spectra of
    impulses it is zero, in whatever way they were computed.
    """
    bits = _bits(result).flatten()[:_SAMPLE]
    return 8 * int(torch.count_nonzero(bits & 1)) >= bits.numel()


def _drawn_like(x: Tensor) -> Tensor:
    """Return a tensor with entries from a generator of its own."""
    generator = torch.Generator().manual_seed(x.numel())
    parts = (*x.shape, 2) if x.is_complex() else x.shape
    drawn = torch.empty(parts, dtype=x.dtype.to_real(), device="cpu")
    drawn = drawn.uniform_(-1.0, 1.0, generator=generator).to(x.device)
    return torch.view_as_complex(drawn) if x.is_complex() else drawn


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one dtype have one shape and the same bits."""
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: Tensor) -> Tensor:
    """Return the bits of a tensor as integers, the lowest those of a part of an entry."""
    if tensor.dtype is torch.complex64:
        return tensor.resolve_conj().view(torch.int64)
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.view(torch.int32 if real.dtype is torch.float32 else torch.int64)
