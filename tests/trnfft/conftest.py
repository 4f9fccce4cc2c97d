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
def noting(monkeypatch):
    """Returns a list to which some classes add the shape of everything that they compute."""

    def noted_by(*kinds):
        shapes = []

        def noted(of):
            def computed(kept, x):
                result = of(kept, x)
                if result is not None:
                    shapes.append(tuple(x.shape))
                return result

            return computed

        for kind in kinds:
            monkeypatch.setattr(kind, "of", noted(kind.of))
        return shapes

    return noted_by


@pytest.fixture
def computed(noting):
    """The shapes that descriptors computed."""
    return noting(Descriptor, TwoDescriptors)
