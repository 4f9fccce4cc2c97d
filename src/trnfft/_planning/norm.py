"""Normalisation of transforms."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Norm"]

Norm: TypeAlias = Literal["forward", "backward", "ortho"] | None
