"""trnsci: the shared core of the six libraries, and their command line."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("trnsci")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__: list[str] = []
