"""The pieces of a tridiagonalisation against float64."""

import numpy as np

from each_case import each_case
from trnsolver._kernels.householder import matvec_kernel, rank2_update_kernel

from .harness_solver import EPS, GENERATIONS, run


def values(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


@each_case("generation", GENERATIONS)
@each_case("shape", [(1, 1), (3, 5), (127, 1), (128, 512), (129, 513)])
def test_matvec(shape, generation):
    a, v = values(*shape), values(shape[1], 1, seed=1)
    got = run(matvec_kernel, generation, a, v)
    wide = a.astype(np.float64), v.astype(np.float64)
    bound = shape[1] * EPS * (abs(wide[0]) @ abs(wide[1]))
    assert (abs(got - wide[0] @ wide[1]) <= bound).all()


@each_case("generation", GENERATIONS)
@each_case("n", [1, 2, 127, 128, 129, 513])
def test_rank2_update(n, generation):
    a, u, v = values(n, n), values(n, 1, seed=1), values(n, 1, seed=2)
    got = run(rank2_update_kernel, generation, a, u, v)
    wide_a, wide_u, wide_v = (x.astype(np.float64) for x in (a, u, v))
    outer = wide_u @ wide_v.T
    bound = 2 * EPS * (abs(wide_a) + abs(outer) + abs(outer.T))
    assert (abs(got - (wide_a - outer - outer.T)) <= bound).all()


def test_a_tridiagonalisation_keeps_the_spectrum():
    n = 9
    x = values(n, n)
    a = given = (x + x.T) / 2
    for k in range(n - 2):
        v = a[:, k : k + 1].astype(np.float64).copy()
        v[: k + 1] = 0
        v[k + 1] += np.sign(v[k + 1]) * np.linalg.norm(v)
        v /= np.linalg.norm(v)
        v = v.astype(np.float32)
        w = 2 * run(matvec_kernel, "gen3", a, v)
        u = w - v * (v.T @ w)
        a = run(rank2_update_kernel, "gen3", a, u, v)
    assert abs(np.tril(a, -2)).max() <= 20 * EPS * abs(given).max()
    got = np.linalg.eigvalsh(a.astype(np.float64))
    want = np.linalg.eigvalsh(given.astype(np.float64))
    assert abs(got - want).max() <= 20 * n * EPS * abs(want).max()
