"""Where a loop and its helper meet: bytes from the begin of the helper's memory.

What both threads change has a cache line of its own.
"""

__all__ = [
    "CALLED",
    "CODE",
    "COUNT",
    "DATA",
    "INSIDE",
    "MUTEX",
    "OPEN",
    "OWNED",
    "ROWS",
    "SIGNAL",
    "SIZE",
    "TAKEN",
]

OWNED = 0
"""Whether a thread has the helper."""

CODE, DATA, COUNT = 8, 16, 24
"""The loop: its code, its arguments, and how many parts it has."""

OPEN, TAKEN, INSIDE = 64, 128, 192
"""Whether there is a loop, how many parts of it were asked for, and whether the helper is in it."""

CALLED, MUTEX, SIGNAL = 256, 320, 448
"""Whether the helper was called, and the system's means to wait for that."""

SIZE = 576

ROWS = 8
"""Rows of a tile in one part of a loop over rows."""
