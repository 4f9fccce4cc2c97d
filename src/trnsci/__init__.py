"""trnsci: the shared core of the six libraries, and their command line."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("trnsci")

__all__: list[str] = []
