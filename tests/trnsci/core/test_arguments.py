"""Checks of arguments: what passes comes back as torch takes it, what does not is named."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from trnsci.core.arguments import (
    agree,
    also_spelled,
    broadcast,
    expandable,
    floating,
    matrix,
    several,
    square,
    tensor,
    vector,
    whole,
)
from trnsci.core.errors import DeviceError, DTypeError, FlagError, ParameterError, ShapeError


class Index:
    def __index__(self):
        return 7


@pytest.mark.parametrize("value", [7, np.int8(7), np.uint64(7), torch.tensor(7), Index()])
def test_integers_of_any_type_are_python_integers(value):
    found = whole("fft", "n", value, 7, 7)
    assert (type(found), found) == (int, 7)


@pytest.mark.parametrize("value", [True, np.bool_(True), 7.0, "7", None])
def test_what_is_no_integer_is_refused_with_its_type(value):
    with pytest.raises(DTypeError, match=f"^fft: n must be an integer, got {type(value).__name__}"):
        whole("fft", "n", value)


@pytest.mark.parametrize(
    ("bounds", "value", "words"),
    [
        ((1, None), 0, "an integer of at least 1, got 0"),
        ((None, 4), 5, "an integer of at most 4, got 5"),
        ((1, 4), 5, "an integer from 1 to 4, got 5"),
        ((0, 4), -1, "an integer from 0 to 4, got -1"),
    ],
)
def test_bounds_are_inside_and_the_error_is_the_callers(bounds, value, words):
    with pytest.raises(ParameterError, match=f"draw: count must be {words}"):
        whole("draw", "count", value, *bounds, ParameterError)
    inside = value + 1 if value < 1 else value - 1
    assert whole("draw", "count", inside, *bounds) == inside


def test_one_or_several():
    assert several("fftn", "dim", 2) == [2]
    assert several("fftn", "dim", (np.int64(1), -1)) == [1, -1]


@pytest.mark.parametrize(
    ("a", "b"),
    [((), ()), ((3,), ()), ((2, 1), (4,)), ((0,), (1,)), ((5, 1, 3), (2, 1)), ((2, 3), (2, 3))],
)
def test_shapes_broadcast_as_numpy_says(a, b):
    assert broadcast(a, b) == np.broadcast_shapes(a, b)


@pytest.mark.parametrize(("a", "b"), [((2,), (3,)), ((0,), (2,)), ((2, 3), (3, 2))])
def test_shapes_that_do_not_broadcast_are_none(a, b):
    assert broadcast(a, b) is None


def test_an_operand_may_grow_but_not_make_the_result_larger():
    for shape in ((1, 3), (2, 3), (3,), (1,), (), (1, 1)):
        expandable("gemm", "C", torch.ones(shape), (2, 3))
    with pytest.raises(ShapeError, match=r"shape \(2, 3\), got \(2,\)"):
        expandable("gemm", "C", torch.ones(2), (2, 3))
    for shape in ((4, 3), (1, 2, 3), (2, 1, 1)):
        with pytest.raises(ShapeError, match="gemm: C must broadcast to the result's shape"):
            expandable("gemm", "C", torch.ones(shape), (2, 3))


def test_operands_agree_in_dtype_and_device():
    a, b = torch.ones(2), torch.ones(3)
    agree("dot", "x", a, "y", b)
    with pytest.raises(DTypeError, match=r"x and y must have one dtype, got .*float32 and .*64"):
        agree("dot", "x", a, "y", b.double())
    with pytest.raises(DeviceError, match="x and y must be on one device, got cpu and meta"):
        agree("dot", "x", a, "y", b.to("meta"))
    with pytest.raises(DTypeError, match=r"y must be a torch.Tensor, got list"):
        agree("dot", "x", a, "y", [1.0])
    with pytest.raises(DTypeError, match="x must hold numbers"):
        tensor("dot", "x", a > 0)
    with pytest.raises(DTypeError, match="x must hold numbers"):
        agree("dot", "x", a > 0, "y", b > 0)


def test_dimensions_and_kinds_are_asked_for_by_name():
    x = torch.ones(2, 2, 2)
    vector("dot", "x", x[0, 0])
    matrix("gemm", "A", x[0])
    matrix("gemm", "A", x)
    matrix("gemm", "A", x[0], batches=False)
    for wrong in (x[0], x[0, 0, 0]):
        with pytest.raises(ShapeError, match="dot: x must be 1-D"):
            vector("dot", "x", wrong)
    with pytest.raises(ShapeError, match=r"A must be at least 2-D, got shape \(2,\)"):
        matrix("gemm", "A", x[0, 0])
    for wrong in (x, x[0, 0]):
        with pytest.raises(ShapeError, match="A must be 2-D"):
            matrix("gemm", "A", wrong, batches=False)
    for kind in (torch.bfloat16, torch.float64, torch.complex64):
        floating("nrm2", "x", x.to(kind))
    with pytest.raises(DTypeError, match=r"nrm2: x must be floating .*got torch\.int64"):
        floating("nrm2", "x", x.long())


def test_a_square_matrix_is_asked_for_by_name():
    square("trsm", "A", torch.ones(4, 3, 3))
    with pytest.raises(ShapeError, match=r"A must be 2-D, got shape \(4, 3, 3\)"):
        square("trsm", "A", torch.ones(4, 3, 3), batches=False)
    with pytest.raises(ShapeError, match=r"A must be square, got shape \(3, 2\)"):
        square("trsm", "A", torch.ones(3, 2))


def test_an_argument_in_another_spelling():
    @also_spelled("max_iter", "maxiter", "max_iters")
    def method(a, max_iter=7):
        return a, max_iter

    assert method(1) == (1, 7)
    assert method(1, max_iter=2) == method(1, maxiter=2) == method(1, max_iters=2) == (1, 2)
    assert str(inspect.signature(method)) == "(a, max_iter=7)"
    for args, options in (
        ((1, 2), {"maxiter": 3}),
        ((1,), {"max_iter": 2, "maxiter": 3}),
        ((1,), {"maxiter": 2, "max_iters": 3}),
    ):
        said = r"method: .* is another spelling of max_iter; got both"
        with pytest.raises(FlagError, match=said):
            method(*args, **options)
