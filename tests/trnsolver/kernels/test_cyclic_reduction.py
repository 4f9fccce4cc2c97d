"""The kernel of tridiagonal systems: below, at and above powers of two and tiles."""

import numpy as np
import pytest

from trnsolver._kernels.cyclic_reduction import cyclic_reduction
from trnsolver._kernels.limits import TRIDIAGONAL_ORDER

from .harness_solver import EPS, GENERATIONS, run


def dominant(batch, columns, n, seed=0):
    """Diagonally dominant matrices, barely, with diagonals of both signs."""
    rng = np.random.default_rng((seed, batch, columns, n))
    below, above = (rng.uniform(-0.5, 0.5, (batch, n)) for _ in range(2))
    below[:, 0], above[:, -1] = 0, 0
    size = abs(below) + abs(above) + 0.01
    diagonal = size * rng.choice([-1, 1], (batch, n))
    right = rng.standard_normal((batch, columns, n))
    return [x.astype(np.float32) for x in (below, diagonal, above, right)]


def backward_error(below, diagonal, above, right, x):
    """The largest residual of each solution, over the largest element of |A| |x| + |b|."""

    def image(dl, d, du, v):
        total = d[:, None] * v
        total[..., 1:] += dl[:, None, 1:] * v[..., :-1]
        total[..., :-1] += du[:, None, :-1] * v[..., 1:]
        return total

    wide = [part.astype(np.float64) for part in (below, diagonal, above, x)]
    residual = abs(right - image(*wide)).max(-1)
    return (residual / (abs(right) + image(*map(abs, wide))).max(-1)).max()


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    "shape",
    [(3, 2, n) for n in (1, 2, 3, 4, 5, 8, 31, 33)]
    + [(127, 1, 64), (129, 3, 65), (1, 1, 1024), (1, 40, 1000), (2, 1, TRIDIAGONAL_ORDER)],
    ids=str,
)
def test_solutions_have_the_backward_error_of_a_few_roundings(shape, generation):
    """Each step rounds an equation four times, and each unknown when it is substituted."""
    problem = dominant(*shape)
    x = run(cyclic_reduction, generation, *problem)
    assert x.shape == (shape[0], shape[1], shape[2])
    assert backward_error(*problem, x) <= 4 * (shape[2].bit_length() + 1) * EPS / 2


def test_small_integers_are_exact():
    """A x = b with powers of two on the diagonal, and no roundings."""
    below = np.float32([[0, 2, 0, 4]])
    diagonal = np.float32([[1, 4, 2, 8]])
    above = np.float32([[0, 0, 2, 0]])
    x = np.float32([[[3, 5, -7, 2]]])
    right = diagonal * x
    right[..., 1:] += below[:, 1:] * x[..., :-1]
    right[..., :-1] += above[:, :-1] * x[..., 1:]
    assert np.array_equal(run(cyclic_reduction, "gen3", below, diagonal, above, right), x)


def test_the_first_refused_order():
    with pytest.raises(AssertionError, match="order at most 2048, got 2049"):
        run(cyclic_reduction, "gen3", *dominant(1, 1, TRIDIAGONAL_ORDER + 1))
