"""The benchmark's operators compute what they are named for, and their times are of known sizes."""

import sys
from pathlib import Path

import numpy as np
import pytest

import nkisim

from ..each_case import each_case

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def operators():
    before = list(sys.path)
    sys.path.insert(0, str(TOOLS))
    from calibration import operators

    yield operators
    sys.path[:] = before


RNG = np.random.default_rng(0)


def integers(*shape, dtype=np.float32, low=-8, high=9):
    """Return small integers, whose sums and products are exact."""
    return RNG.integers(low, high, shape).astype(dtype)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def reference_of_rope(x, cos, sin):
    n = len(x)
    heads = x.reshape(n, -1, 2, 64).astype(np.float64)
    c, s = cos[:, None], sin[:, None]
    one, two = heads[:, :, 0], heads[:, :, 1]
    return np.stack([one * c - two * s, two * c + one * s], axis=2).reshape(n, -1)


def reference_of_blur(x, weights):
    n = len(x)
    padded = np.pad(x.astype(np.float64), 3)
    return sum(
        weights[7 * i + j] * padded[i : i + n, j : j + n] for i in range(7) for j in range(7)
    )


def reference_of_jacobi(x):
    out = x.copy()
    out[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4
    return out


def reference_of_attention(q, k, v):
    """Each query attends to all keys up to the end of its block of 128."""
    out = []
    for first in range(0, len(q), 128):
        weights = np.exp(q[first : first + 128].astype(np.float64) @ k[: first + 128].T)
        out.append(weights @ v[: first + 128] / weights.sum(1, keepdims=True))
    return np.concatenate(out)


def softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
    return powers / powers.sum(1, keepdims=True)


def layernorm(x, weight, bias):
    mean = x.mean(1, keepdims=True, dtype=np.float64)
    return (x - mean) / np.sqrt(x.var(1, keepdims=True, dtype=np.float64) + 1e-5) * weight + bias


def silu(x):
    return x / (1 + np.exp(-x))


EXACT = {
    "relu": ((integers(700),), lambda x: np.maximum(x, 0)),
    "mul2": ((integers(300_001),), lambda x: 2 * x),
    "dropout": ((integers(70_000), integers(70_000)), lambda x, mask: 1.25 * x * mask),
    "interleave": (
        (integers(270_007), integers(270_007)),
        lambda a, b: np.stack([a, b], 1).reshape(-1),
    ),
    "matrix_copy": ((integers(300 * 300),), lambda x: x),
    "vector_add": ((integers(128, 300), integers(128, 300)), lambda a, b: a + b),
    "jacobi_stencil_2d": ((integers(259, 259),), reference_of_jacobi),
    "gaussian_blur": ((integers(140, 140), integers(49)), reference_of_blur),
    "rope": ((integers(160, 4096), integers(160, 64), integers(160, 64)), reference_of_rope),
    "matrix_transpose": ((integers(256, 256),), lambda x: x.T),
    "matrix_transpose i8": ((integers(256, 256, dtype=np.int8),), lambda x: x.T),
    "batched_matmul": ((integers(4, 160, 160), integers(4, 160, 160)), lambda a, b: a @ b),
    "argmax": ((normal(256, 640),), lambda x: x.argmax(1)[:, None]),
    "keys_by_values": (
        (integers(256, 96), integers(256, 96)),
        lambda k, v: k.T @ np.concatenate([v, np.ones((len(v), 1))], 1),
    ),
}

# Float32 sums of at most 1024 terms of one sign or of bounded cancellation, and a few roundings.
CLOSE = {
    "softmax": ((normal(256, 1500),), softmax),
    "rmsnorm": (
        (normal(256, 1500), normal(1500)),
        lambda x, w: x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5) * w,
    ),
    "l2_norm": (
        (normal(256, 1500),),
        lambda x: x / np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True) + 1e-5),
    ),
    "layernorm": ((normal(128, 2500), normal(2500), normal(2500)), layernorm),
    "fused_activation": (
        (normal(70_000), normal(70_000), normal(70_000)),
        lambda x, gate, bias: silu(x.astype(np.float64) * gate + bias),
    ),
    "positive": ((normal(200, 32),), lambda x: np.where(x > 0, x + 1.0, np.exp(x))),
    "queries_by_sums": (
        (np.abs(normal(256, 160)), np.abs(normal(160, 161))),
        lambda q, s: q @ s[:, :-1] / (q @ s[:, -1:] + 1e-5),
    ),
    "flash_attention": (
        tuple(normal(256, 128) / 4 for _ in range(3)),
        reference_of_attention,
    ),
}


def computed(operators, name, arguments):
    modules = (operators.streams, operators.row_operators, operators.matrix_operators)
    (kernel,) = (found for m in modules if (found := vars(m).get(name)) is not None)
    cores = 1 if name == "layernorm" else 2
    run = nkisim.simulate(nkisim.jit(kernel)[cores], target="trn2", nki=operators.NKI)
    return np.asarray(run(*arguments))


@each_case("name", tuple(EXACT))
def test_operators_on_integers_are_exact(name, operators):
    arguments, reference = EXACT[name]
    found = computed(operators, name.split()[0], arguments)
    assert np.array_equal(found, reference(*arguments))


@each_case("name", tuple(CLOSE))
def test_operators_on_floats_differ_by_rounding(name, operators):
    arguments, reference = CLOSE[name]
    found, wanted = computed(operators, name, arguments), reference(*arguments)
    # At most 2,500 roundings of half a float32 ulp each add up, relative to the largest result.
    assert np.abs(found - wanted).max() <= 2500 * 2**-24 * np.abs(wanted).max()


def test_dequantized_rows_have_their_scales(operators):
    x, scales = integers(512, 700, dtype=np.int8, low=-127, high=128), np.abs(normal(512)) + 0.1
    found = computed(operators, "dequantize_rowwise", (x, scales))
    wanted = x * scales[:, None].astype(np.float64) / 127
    assert np.abs(found - wanted).max() <= 2**-11 * np.abs(wanted).max() * 1.01


def test_every_published_time_has_kernels_and_operands(operators):
    assert len(operators.OPERATORS) == 271
    for operator in operators.OPERATORS:
        for _, shapes in operators.launches(operator.name, operator.size):
            assert len(operators.operands(operator, shapes)) == len(shapes)
        assert operator.us > 0
