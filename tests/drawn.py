"""The number of examples of a property."""

from hypothesis import settings

SHARE = 1.0
"""Share of the examples that are tried; conftest.py sets it for runs without the slow tests."""


def examples(count):
    """Return a decorator for ``count`` examples, half of them in runs without the slow tests."""
    return settings(max_examples=max(2, round(SHARE * count)))
