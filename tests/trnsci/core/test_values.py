"""When values of tensors are read, checks for NaN, and functions that are not traced."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import grad, vmap
from torch.nn import Parameter

import trnsolver
import trnsparse
import trntensor
from trnsci.core.errors import NotFiniteError
from trnsci.core.interop import fake_tensor_mode
from trnsci.core.numbers.values import autocast_on, concrete, finite, inert, only_finite

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


DTYPES = [torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
# A short vector is summed as a list, what is longer or has more dimensions by torch.
SHAPES = [(1,), (256,), (257,), (3, 4), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_single_number_decides(dtype, shape):
    numbers = torch.zeros(shape, dtype=dtype)
    assert only_finite(numbers)
    for bad in (math.nan, math.inf, -math.inf):
        numbers.view(-1)[-1] = bad
        assert not only_finite(numbers)
    if dtype.is_complex:
        numbers.view(-1)[-1] = complex(0, math.nan)
        assert not only_finite(numbers)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_whose_sum_or_modulus_overflows_are_finite(dtype, shape):
    largest = torch.finfo(dtype).max
    whole = complex(largest, -largest) if dtype.is_complex else largest
    assert only_finite(torch.full(shape, whole, dtype=dtype))


def test_infinities_do_not_cancel():
    assert not only_finite(torch.tensor([math.inf, -math.inf]))
    assert not only_finite(torch.tensor([[math.inf, -math.inf]]))


def test_nothing_is_finite():
    assert only_finite(torch.empty(0))
    assert only_finite(torch.empty(3, 0))


@pytest.mark.parametrize("kind", [lambda x: x.requires_grad_(), Parameter])
@pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=str)
def test_what_is_differentiated_is_looked_at(kind, shape):
    assert only_finite(kind(torch.ones(shape)))
    assert not only_finite(kind(torch.full(shape, math.nan)))


@pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=str)
def test_where_tangents_are_taken_values_are_looked_at(shape):
    with forward_ad.dual_level():
        assert only_finite(torch.ones(shape))
        assert not only_finite(torch.full(shape, math.nan))


def test_the_error_names_function_and_argument():
    finite("solve", "A", torch.ones(2))
    with pytest.raises(NotFiniteError, match=r"^solve: A must be finite, got NaN or infinity$"):
        finite("solve", "A", torch.tensor([1.0, math.nan]))


@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda x: f(x).sum())])
def test_inside_of_a_transform_nothing_is_said(transform):
    bad = torch.full((2, 3), math.nan)

    def checked(x):
        finite("f", "x", x)
        finite("f", "bad", bad)
        return 2 * x

    assert transform(checked)(bad).shape == (2, 3)


def test_with_fake_tensors_nothing_is_said():
    with FakeTensorMode():
        fake = torch.empty(2, 3)
        finite("f", "fake", fake)
    finite("f", "fake", fake)


def test_in_a_compiled_graph_nothing_is_said():
    def checked(x):
        finite("f", "x", x)
        return 2 * x

    compiled = torch.compile(checked, backend="eager", fullgraph=True)
    assert compiled(torch.full((2, 3), math.nan)).isnan().all()
    torch._dynamo.reset()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("count", [3, 1 << 16, (1 << 16) + 1])  # the last is not carried
def test_numbers_of_a_device_are_looked_at(count):
    numbers = torch.full((count,), torch.finfo(torch.float32).max, device="cuda")
    assert only_finite(numbers)
    numbers[-1] = math.nan
    assert not only_finite(numbers)


A = torch.eye(4) * 2
SPARSE = trnsparse.from_dense(A)
B = torch.ones(4)
CALLS = {
    "trnsolver.cg": lambda b: trnsolver.cg(A, b).x,
    "trnsolver.minres": lambda b: trnsolver.minres(A, b).x,
    "trnsolver.bicgstab": lambda b: trnsolver.bicgstab(A, b).x,
    "trnsolver.gmres": lambda b: trnsolver.gmres(A, b).x,
    "trnsolver.fgmres": lambda b: trnsolver.fgmres(A, b).x,
    "trnsparse.cg": lambda b: trnsparse.cg(SPARSE, b).x,
    "trnsparse.minres": lambda b: trnsparse.minres(SPARSE, b).x,
    "trnsparse.chebyshev": lambda b: trnsparse.chebyshev(SPARSE, b, 1.0, 3.0, 20).x,
    "trnsparse.richardson": lambda b: trnsparse.richardson(SPARSE, b, 0.5, 20).x,
    "trnsparse.spsolve": lambda b: trnsparse.spsolve(SPARSE, b),
    "trntensor.cp_decompose": lambda b: trntensor.cp_decompose(torch.outer(b, b), 1)[1],
    "trntensor.tt_decompose": lambda b: trntensor.tt_decompose(torch.outer(b, b), eps=0.1)[1],
    "trntensor.tt_round": lambda b: trntensor.tt_round([b.reshape(1, 4, 1)], 1)[0],
    "trntensor.tucker_decompose": lambda b: trntensor.tucker_decompose(torch.outer(b, b), (1, 1))[
        0
    ],
}


FEW = ("trnsolver.cg", "trnsparse.cg", "trntensor.tt_round")


@pytest.mark.parametrize("names", [FEW, pytest.param(tuple(CALLS), marks=pytest.mark.slow)])
def test_a_full_graph_is_refused_by_name(names):
    for name in names:
        torch.compiler.reset()
        function = name.partition(".")[2]
        with pytest.raises(Exception, match=rf"{function}: cannot be part of a compiled graph"):
            torch.compile(CALLS[name], fullgraph=True, backend="eager")(B)


@pytest.mark.parametrize("names", [FEW, pytest.param(tuple(CALLS), marks=pytest.mark.slow)])
def test_a_graph_with_breaks_computes_the_same(names):
    for name in names:
        torch.compiler.reset()
        want = CALLS[name](B)
        got = torch.compile(lambda b, n=name: 2 * CALLS[n](b + 0), backend="eager")(B)
        assert torch.equal(got, 2 * want), name
