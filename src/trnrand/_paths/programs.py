"""Types of generator programs below ``Generator``, which builds them: steps and protocols.

``trnrand.programs`` implements the protocols on top of ``Generator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from torch import Tensor

from trnrand._paths.arguments import parsed_size

__all__ = ["Program", "ProgramSteps", "Step"]


@dataclass(frozen=True)
class Step:
    """One draw of a program.

    Attributes:
        law: Distribution to draw from.
        n: Number of samples.
        parameters: Parameters of the distribution, as its ``*_into`` function takes them.
        out: Name of the buffer.
    """

    law: Literal["normal", "uniform", "exponential"]
    n: int
    parameters: Mapping[str, float]
    out: str

    def __post_init__(self) -> None:
        parsed_size(f"{self.law} step {self.out!r}", (self.n,))


class Program(Protocol):
    """A sequence of draws with its own position; ``GeneratorProgram`` implements it."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The draws, in order."""

    def stream_into(self, buffers: Mapping[str, Tensor]) -> None:
        """Fill the named buffers, step after step; the next call continues the stream."""


class ProgramSteps(Protocol):
    """Builder of a program; every step returns the builder. ``ProgramBuilder`` implements it."""

    def normal(self, n: int, mean: float = 0.0, std: float = 1.0, out: str = "z") -> Self:
        """Add a draw of n normals."""

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0, out: str = "u") -> Self:
        """Add a draw of n uniforms on [low, high)."""

    def exponential(self, n: int, rate: float = 1.0, out: str = "e") -> Self:
        """Add a draw of n exponentials."""

    def build(self) -> Program:
        """Return the program."""
