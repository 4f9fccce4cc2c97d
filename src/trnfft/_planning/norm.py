"""Normalisation of transforms."""

from __future__ import annotations

from typing import Literal, TypeAlias

Norm: TypeAlias = Literal["forward", "backward", "ortho"] | None
