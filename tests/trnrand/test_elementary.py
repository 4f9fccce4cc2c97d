"""Logarithm, exponential, cosine and sine in float64: accuracy, and one result everywhere."""

import mpmath
import numpy as np
import pytest
import torch

from trnrand._stream import elementary
from trnrand._stream.elementary import _arrays

F64 = torch.float64
DRAW = np.random.default_rng(5)
COUNT = 400

POSITIVE = np.concatenate(
    [DRAW.random(COUNT), 1 + DRAW.uniform(-1e-8, 1e-8, COUNT), 10 ** DRAW.uniform(-300, 300, COUNT)]
)
ABOVE_MINUS_1 = np.concatenate(
    [
        DRAW.uniform(-0.99, 5, COUNT),
        10 ** DRAW.uniform(-18, 0, COUNT),
        -(10 ** DRAW.uniform(-18, -1, COUNT)),
    ]
)
EXPONENTS = np.concatenate([DRAW.uniform(-700, 700, COUNT), DRAW.uniform(-1, 1, COUNT)])
TURNS = (
    np.concatenate(
        [
            DRAW.integers(0, 2**53, COUNT),
            [q * 2**51 + d for q in range(1, 4) for d in range(-40, 40)],
            range(40),
            2**53 - np.arange(1, 40),
        ]
    )
    * 2.0**-53
)

CASES = {
    "log": (POSITIVE, mpmath.log),
    "log1p": (ABOVE_MINUS_1, mpmath.log1p),
    "exp": (EXPONENTS, mpmath.exp),
    "cosine": (TURNS, lambda u: mpmath.cospi(2 * u)),
    "sine": (TURNS, lambda u: mpmath.sinpi(2 * u)),
}


@pytest.mark.parametrize("name", CASES)
def test_errors_are_below_two_units_in_the_last_place(name):
    values, exact = CASES[name]
    got = getattr(_arrays(), name)(torch.from_numpy(values)).tolist()
    with mpmath.workdps(40):
        for x, y in zip(values.tolist(), got, strict=True):
            want = exact(mpmath.mpf(x))
            assert abs(y - want) <= 2 * float(np.spacing(abs(float(want)))), x


def test_ends_of_the_range():
    x = torch.tensor([-torch.inf, -1e300, -800.0, 0.0, 800.0, torch.inf], dtype=F64)
    assert elementary.exp(x).tolist() == [0.0, 0.0, 0.0, 1.0, torch.inf, torch.inf]
    assert elementary.log(torch.ones(1, dtype=F64)).item() == 0
    assert elementary.log(torch.zeros(1, dtype=F64)).item() < -700
    assert elementary.logistic(torch.tensor([-1e4, 0.0, 1e4], dtype=F64)).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("name", ["log", "log1p", "exp"])
def test_compiled_loops_round_the_same(name):
    pytest.importorskip("numba")
    values = torch.from_numpy(CASES[name][0])
    function = getattr(elementary, name)
    assert torch.equal(function(values, compiled=True), function(values))


def test_compiled_normals_are_the_same():
    pytest.importorskip("numba")
    words = DRAW.integers(-(2**63), 2**63 - 1, (3001, 2), endpoint=True)
    words[:3] = [[-1, -1], [0, 0], [2**63 - 1, -(2**63)]]
    blocks = torch.from_numpy(words)
    for one, other in zip(
        elementary.normals(blocks, True), elementary.normals(blocks, True, True), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64, 2500])
@pytest.mark.parametrize("rows", [1, 31, 1025])
def test_compiled_proportions_have_the_bits_of_tensors(rows, width):
    pytest.importorskip("numba")
    x = torch.from_numpy(DRAW.normal(size=(rows, width))) * 300
    assert torch.equal(elementary.proportions(x), elementary.proportions(x, True))


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64])
def test_proportions_sum_to_one(width):
    x = torch.from_numpy(DRAW.normal(size=(50, width))) * 30
    got = elementary.proportions(x)
    # One rounding of each quotient and of the sum, and of width - 1 sums in log2(width) levels.
    assert torch.allclose(got.sum(-1), torch.ones(50, dtype=F64), rtol=0, atol=20 * 2.0**-53)
    assert torch.allclose(got, torch.softmax(x, -1), rtol=2.0**-45, atol=0)
