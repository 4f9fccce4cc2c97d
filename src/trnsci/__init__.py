"""trnsci: the shared core of the six libraries, and their command line.

Part of the distribution ``nkisim``, like the libraries.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__: list[str] = []
