"""What the tests of view methods share: numbered elements, and chains of methods."""

import numpy as np

import nkisim
import nkisim.language as nl


def numbered(shape):
    """An array whose elements are all different."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape)


def follow(tensor, steps):
    """The view after some methods, each with its arguments."""
    for method, *arguments in steps:
        tensor = getattr(tensor, method)(*arguments)
    return tensor


def shape_after(shape, steps, buffer=nl.sbuf, nki="0.6"):
    """The shape of a view, without reading it."""
    seen = []

    def kernel(x):
        seen.append(follow(nl.ndarray(shape, dtype=nl.float32, buffer=buffer), steps).shape)
        return x

    nkisim.simulate(kernel, nki=nki)(np.ones((2, 2), np.float32))
    return seen[0]
