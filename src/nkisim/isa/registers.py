"""Registers of the engine sequencers."""

from __future__ import annotations

from nkisim.memory import NKIObject

__all__ = ["VirtualRegister"]


class VirtualRegister(NKIObject):
    """A 32-bit integer that dynamic loops and dynamic addresses can use.

    Attributes:
        value: Its contents, or None before anything was put into it.
    """

    value: int | None = None
