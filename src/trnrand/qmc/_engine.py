"""Base class of point sequences: a position, and draws from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self, SupportsIndex

import torch
from torch import Tensor

from trnrand.errors import ParameterError
from trnrand.qmc._arguments import MAX_DIMS, floating, whole


class PointEngine(ABC):
    """A sequence of points in the unit cube, drawn in order from a position.

    A point is a function of its index: draws of any sizes give the points of one draw, and a new
    engine with the same arguments and the position as ``start_index`` continues the sequence.
    """

    #: Name in error messages.
    _function: str
    #: Number of points of the sequence.
    _length: int

    def __init__(self, n_dims: SupportsIndex, start_index: SupportsIndex) -> None:
        self.n_dims = whole(self._function, "n_dims", n_dims, 1, MAX_DIMS)
        self._start = whole(self._function, "start_index", start_index, 0)
        self.position = self._start

    @abstractmethod
    def _points(self, start: int, count: int, dtype: torch.dtype) -> Tensor:
        """Return points as a (count, n_dims) tensor on the CPU."""

    def draw(
        self,
        n_points: SupportsIndex = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Return the next points as an (n_points, n_dims) tensor, and move past them.

        Raises:
            ParameterError: ``n_points`` is not an integer of at least 0 or exceeds the end of the
                sequence, or ``dtype`` is none of float64, float32, float16 and bfloat16.
        """
        floating(self._function, dtype)
        count = self._checked_count(n_points)
        points = self._points(self.position, count, dtype)
        self.position += count
        return points if device is None else points.to(device)

    def skip(self, n_points: SupportsIndex) -> Self:
        """Move past points without computing them, and return the engine."""
        self.position += self._checked_count(n_points)
        return self

    def reset(self) -> Self:
        """Move to the initial position, and return the engine."""
        self.position = self._start
        return self

    def _checked_count(self, n_points: SupportsIndex) -> int:
        count = whole(self._function, "n_points", n_points, 0)
        if self.position + count > self._length:
            raise ParameterError(
                f"{self._function}: start_index + n_points must be at most {self._length}, the "
                f"length of the sequence, got {self.position} + {count}"
            )
        return count
