"""When values may be read (``concrete``) and when an operation may leave torch (``inert``)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, vmap
from torch.nn import Parameter

from trnsci.core.eager import autocast_on, concrete, inert
from trnsci.core.interop import fake_tensor_mode

X = torch.ones(2)


class Subclass(torch.Tensor):
    pass


def both(*tensors):
    return concrete(*tensors), inert(*tensors)


TENSORS = {
    "plain": (X, (True, True)),
    "parameter": (Parameter(X.clone(), requires_grad=False), (True, True)),
    "differentiated": (X.clone().requires_grad_(), (True, False)),
    "meta": (X.to("meta"), (False, False)),
    "subclass": (X.as_subclass(Subclass), (False, False)),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_kinds_of_tensors(kind):
    tensor, wanted = TENSORS[kind]
    assert both(tensor) == both(X, tensor) == both(tensor, X) == wanted


def test_gradients_do_not_count_while_they_are_off():
    x = X.clone().requires_grad_()
    with torch.no_grad():
        assert both(x) == both(X, x) == (True, True)


@pytest.mark.parametrize(
    ("surroundings", "wanted"),
    [
        (nullcontext, (True, True)),
        (fake_tensor_mode, (False, False)),
        (forward_ad.dual_level, (True, False)),
        (lambda: torch.autocast("cpu", torch.bfloat16), (True, False)),
        (torch.no_grad, (True, True)),
        (torch.inference_mode, (True, True)),
    ],
)
def test_contexts(surroundings, wanted):
    with surroundings():
        assert both(X) == both(X, X) == wanted


def test_autocast_of_another_device_changes_nothing():
    assert not autocast_on(X)
    with torch.autocast("cpu", torch.bfloat16):
        assert autocast_on(X)
        assert autocast_on(X.to("meta"), X)
        assert not autocast_on(X.to("meta"))
    torch.set_autocast_enabled("cuda", True)
    try:
        assert both(X) == (True, True)
        assert not autocast_on(X)
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda x: f(x).sum())])
def test_inside_a_transform_of_torch_func(transform):
    found = []

    def call(x):
        found.extend(both(X))
        return 2 * x

    transform(call)(X)
    assert found == [False, False]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_while_torch_jit_records():
    found = []

    def call(x):
        found.extend(both(X))
        return 2 * x

    call(X)
    assert found == [True, True]
    found.clear()
    torch.jit.trace(call, X, check_trace=False)
    assert found == [False, False]


@pytest.mark.parametrize("predicate", [concrete, inert])
def test_inside_a_compiled_call(predicate):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: x + (1 if predicate(x) else 2), backend="eager", fullgraph=True
    )
    assert compiled(torch.zeros(1)).item() == 2
    torch.compiler.reset()
