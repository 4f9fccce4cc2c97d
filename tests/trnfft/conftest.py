"""Fixtures for what is kept of transforms."""

from __future__ import annotations

import pytest

from trnfft import _eager
from trnfft._descriptors import Descriptor, TwoDescriptors


@pytest.fixture
def nothing_is_kept():
    """Transforms as in a fresh process."""
    _eager.forget()
    yield
    _eager.forget()


@pytest.fixture
def computed(monkeypatch):
    """The shapes that descriptors computed."""
    shapes = []

    def noting(of):
        def noted(descriptor, x):
            result = of(descriptor, x)
            if result is not None:
                shapes.append(tuple(x.shape))
            return result

        return noted

    for kind in (Descriptor, TwoDescriptors):
        monkeypatch.setattr(kind, "of", noting(kind.of))
    return shapes
