"""Eigenpairs with information on their accuracy."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

from torch import Tensor

Info = TypeVar("Info")


class InformedPairs(tuple[Tensor, Tensor], Generic[Info]):
    """``(eigenvalues, eigenvectors)`` with ``info``."""

    info: Info

    def __new__(cls, eigenvalues: Tensor, eigenvectors: Tensor, info: Info) -> Self:
        """Return the pair with its information."""
        made = super().__new__(cls, (eigenvalues, eigenvectors))
        made.info = info
        return made

    def __getnewargs__(self) -> tuple[Tensor, Tensor, Info]:  # copies and pickles
        return (*self, self.info)

    @property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues, ascending."""
        return self[0]

    @property
    def eigenvectors(self) -> Tensor:
        """Eigenvectors, as columns."""
        return self[1]
