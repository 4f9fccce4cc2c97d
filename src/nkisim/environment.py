"""Environment variables that are set for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Set an environment variable, for this process and those that it starts, and restore it."""
    earlier = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if earlier is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = earlier
