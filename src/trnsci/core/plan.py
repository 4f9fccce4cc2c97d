"""What plans of all libraries have: a description that prints, and a cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["Cost", "Plan"]


@dataclass(frozen=True)
class Cost:
    """What an execution takes on a NeuronCore.

    Attributes:
        flops: Floating-point operations.
        hbm_bytes: Bytes that travel between HBM and the chip, both ways.
        launches: Kernels launched.
    """

    flops: int
    hbm_bytes: int
    launches: int = 1

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte moved."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else float("inf")


class Plan(ABC):
    """How an operation will be carried out, decided from shapes and dtypes alone."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What one execution takes."""

    @abstractmethod
    def describe(self) -> str:
        """Return the decisions of the plan, for people to read."""

    def __str__(self) -> str:
        return self.describe()
