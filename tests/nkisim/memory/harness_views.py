"""What the tests of view methods share: numbered elements, and chains of methods."""

import numpy as np


def numbered(shape):
    """An array whose elements are all different."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape)


def follow(tensor, steps):
    """The view after some methods, each with its arguments."""
    for method, *arguments in steps:
        tensor = getattr(tensor, method)(*arguments)
    return tensor
