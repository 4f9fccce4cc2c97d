"""``check_op``: right operators pass, and each planted fault fails with the name of its check."""

import pytest
import torch

from nkitorch import nki_op, wrap_nki
from nkitorch.testing import check_op

from .kernels import bump, bump_silently, halves, sum_and_square, twice


def operator_of(name, factor=2.0, slope=2.0):
    """An operator that scales, with a backward."""

    @nki_op(f"nkichecked::{name}")
    def scale(x: torch.Tensor) -> torch.Tensor:
        return twice(x, factor)

    scale.register_autograd(lambda ctx, grad: twice(grad, slope))
    return scale


@nki_op("nkichecked::bump_", mutates_args=("y",))
def bump_op(x: torch.Tensor, y: torch.Tensor) -> None:
    bump(x, y)


@nki_op("nkichecked::hidden")
def hidden(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return bump(x, y)


def X(*shape, dtype=torch.float32, requires_grad=False):
    draw = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape or (4, 8), generator=draw, dtype=dtype, requires_grad=requires_grad)


def add_to(x, y):
    y.add_(x)


RIGHT = {
    "kernel": (twice, lambda x: 2 * x, (X(),)),
    "constant": (twice, lambda x, f: f * x, (X(), 3.0)),
    "grid": (wrap_nki(halves)[[(2,)]], lambda x: 2 * x, (X(),)),
    "16 bits": (twice, lambda x: 2 * x, (X(dtype=torch.bfloat16),)),
    "gradient": (operator_of("right"), lambda x: 2 * x, (X(requires_grad=True),)),
    "write": (bump_op, add_to, (X(), X())),
    "several": (
        sum_and_square,
        lambda pair: (pair[0] + pair[1], (pair[0] * pair[0]).bfloat16(), pair[0]),
        ((X(), X()),),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_operator_passes(name):
    op, reference, case = RIGHT[name]
    before = [part.clone() for part in case if isinstance(part, torch.Tensor)]
    check_op(op, reference, case)
    after = [part for part in case if isinstance(part, torch.Tensor)]
    assert all(map(torch.equal, before, after)), "the case was written"


def otherwise_compiled(x):
    return twice(x, 2.0 if torch.compiler.is_compiling() else 3.0)


PLAIN = (X(),)
PAIR = (X(), X())
WRONG = {
    "values": (twice, lambda x: 2.001 * x, PLAIN, "results: .* elements are wrong"),
    "dtype": (twice, lambda x: (2 * x).to(torch.int32), PLAIN, r"results: got torch\.float32"),
    "an argument": (bump_op, lambda x, y: None, PAIR, "results: .* elements are wrong"),
    "a gradient": (
        operator_of("steep", slope=2.5),
        lambda x: 2 * x,
        (X(requires_grad=True),),
        "gradients: .* elements are wrong",
    ),
    "no gradient": (
        twice,
        lambda x: 2 * x,
        (X(requires_grad=True),),
        "eager call: kernel twice has no backward",
    ),
    "mutates_args": (
        hidden,
        lambda x, y: y.add_(x),
        PAIR,
        "eager call: .* writes argument y, which mutates_args does not have",
    ),
    "a finding": (bump_silently, lambda x, y: y.add_(x) * 0 + 2 * x, PAIR, r"eager call: .*M029"),
    "a graph": (otherwise_compiled, lambda x: 3 * x, PLAIN, "compiled: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_named(name):
    op, reference, case, message = WRONG[name]
    with pytest.raises(AssertionError, match=f"check_op, case 0, {message}"):
        check_op(op, reference, case)


def test_the_case_that_fails_is_named():
    cases = (X(),), (X(3, 5),)
    with pytest.raises(AssertionError, match="check_op, case 1, results"):
        check_op(twice, lambda x: x * (2 if len(x) == 4 else 3), *cases)
    with pytest.raises(ValueError, match="got no case"):
        check_op(twice, lambda x: 2 * x)
