"""Whose values may be read: plain tensors, and nothing that torch has to see."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import grad, vmap
from torch.nn import Parameter

from trnsci.core.eager import (
    bare_matrix,
    readable,
    settled,
    unchecked,
    untracked,
    untransformed,
    unwatched,
)

X = torch.ones(2)


class Subclass(torch.Tensor):
    pass


# For each tensor whether it is readable, unwatched and untracked, and can be looked at.
TENSORS = {
    "plain": (X, (True, True, True, True)),
    "parameter": (Parameter(X.clone(), requires_grad=False), (True, True, True, True)),
    "differentiated": (X.clone().requires_grad_(), (False, True, False, True)),
    "on another device": (X.to("meta"), (False, False, True, True)),
    "of another class": (X.as_subclass(Subclass), (False, False, False, False)),
}


def asked(tensor):
    return readable(tensor), unwatched(tensor), untracked(tensor), not unchecked(tensor)


@pytest.mark.parametrize("kind", TENSORS)
def test_what_a_tensor_is_decides(kind):
    tensor, wanted = TENSORS[kind]
    assert asked(tensor) == wanted
    # One operand that may not be read is enough, be it the first or the second.
    assert readable(X, tensor) is wanted[0]
    assert readable(tensor, X) is wanted[0]


def test_gradients_that_are_off_do_not_matter():
    x = X.clone().requires_grad_()
    with torch.no_grad():
        assert readable(x)
        assert readable(x, x)
        assert readable(X, x)
        assert untracked(x)


@pytest.mark.parametrize(
    ("surroundings", "wanted"),
    [
        (nullcontext, (True, True, True, True)),
        (FakeTensorMode, (False, False, False, False)),
        (forward_ad.dual_level, (False, False, False, True)),
        (lambda: torch.autocast("cpu", torch.bfloat16), (False, True, True, True)),
        (torch.no_grad, (True, True, True, True)),
        (torch.inference_mode, (True, True, True, True)),
    ],
)
def test_what_is_in_force_decides(surroundings, wanted):
    with surroundings():
        found = asked(X)
    assert found == wanted


@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda x: f(x).sum())])
def test_inside_of_a_transform_nothing_is_read(transform):
    found = []

    def seen(x):
        found.extend(asked(X))
        return 2 * x

    transform(seen)(X)
    assert found == [False] * 4


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_recorded_call_reads_nothing():
    found, matrix = [], torch.ones(2, 2)

    def seen(x):
        found.extend(asked(X))
        found.extend((settled(), untransformed(X), bare_matrix(matrix)))
        return 2 * x

    seen(X)
    assert found == [True] * 7
    found.clear()
    torch.jit.trace(seen, X, check_trace=False)
    assert found == [False] * 7


@pytest.mark.parametrize("question", [readable, unwatched, untracked, lambda x: not unchecked(x)])
def test_a_compiled_call_reads_nothing(question):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: x + (1 if question(x) else 2), backend="eager", fullgraph=True
    )
    assert compiled(torch.zeros(1)).item() == 2
    torch._dynamo.reset()
