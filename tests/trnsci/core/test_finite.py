"""Whether numbers are finite: asked of sums, of terms where one overflows, never in graphs."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import grad, vmap
from torch.nn import Parameter

from trnsci.core.errors import NotFiniteError
from trnsci.core.finite import finite, only_finite

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
