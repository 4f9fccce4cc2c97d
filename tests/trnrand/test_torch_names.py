"""Draws by torch's own names."""

import pytest
import torch

import trnrand
from each_case import each_case
from trnrand import Generator


def test_rand_and_randn_are_the_standard_laws():
    got = trnrand.rand(2, 3, generator=Generator(1))
    assert torch.equal(got, trnrand.uniform(2, 3, generator=Generator(1)))
    got = trnrand.randn((4,), generator=Generator(1), dtype=torch.float64, requires_grad=True)
    assert got.requires_grad
    want = trnrand.normal(4, generator=Generator(1), dtype=torch.float64)
    assert torch.equal(got.detach(), want)
    also = trnrand.standard_normal(4, generator=Generator(1), dtype=torch.float64)
    assert torch.equal(also, want)
    out = torch.empty(5)
    assert trnrand.rand(5, out=out, generator=Generator(1)) is out


@each_case("dtype", [torch.float32, torch.float16])
@each_case(
    ("like", "plain"), [(trnrand.rand_like, trnrand.rand), (trnrand.randn_like, trnrand.randn)]
)
def test_likes_take_shape_and_dtype(like, plain, dtype):
    model = torch.empty(3, 1, 2, dtype=dtype)
    got = like(model, generator=Generator(1))
    assert got.dtype is dtype
    assert torch.equal(got, plain(3, 1, 2, dtype=dtype, generator=Generator(1)))
    assert like(model, dtype=torch.float64).dtype is torch.float64
    assert like(model, requires_grad=True).requires_grad
    assert like(torch.empty(4, device="meta")).is_meta


def test_integers_like_a_tensor():
    model = torch.empty(100, dtype=torch.int16)
    got = trnrand.randint_like(model, 5, generator=Generator(1))
    assert got.dtype is torch.int16
    assert set(got.tolist()) == set(range(5))
    got = trnrand.randint_like(model, -2, 1, generator=Generator(1))
    assert set(got.tolist()) == {-2, -1, 0}


def test_what_is_no_tensor_is_named():
    with pytest.raises(ValueError, match=r"rand_like: input must be a torch\.Tensor, got list"):
        trnrand.rand_like([1.0])


FORMS = {
    "high, size": ((9, (3, 2)), {}),
    "low, high, size": ((-4, 9, (3, 2)), {}),
    "high, size=": ((9,), {"size": (3, 2)}),
    "low, high, size=": ((-4, 9), {"size": [3, 2]}),
    "low, high=, size=": ((-4,), {"high": 9, "size": (3, 2)}),
    "high=, size=": ((), {"high": 9, "size": torch.Size((3, 2))}),
    "low=, high=, size=": ((), {"low": -4, "high": 9, "size": (3, 2)}),
}


@each_case("args", FORMS.values(), ids=list(FORMS))
def test_randint_takes_the_arguments_of_torch(args):
    given, options = args
    got = trnrand.randint(*given, **options, generator=Generator(1))
    want = torch.randint(*given, **options)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    low = -4 if -4 in given or options.get("low") else 0
    assert torch.equal(got, trnrand.randint(low, 9, (3, 2), generator=Generator(1)))
    assert low <= got.min() <= got.max() < 9


@each_case(
    ("call", "said"),
    [
        (lambda: trnrand.randint(5, high=9), "size is missing"),  # the earlier order, size first
        (lambda: trnrand.randint(5, 9, low=0), "got 2 arguments by position"),
        (lambda: trnrand.randint(5, low=0, high=9, size=(2,)), "got 1 arguments by position"),
        (lambda: trnrand.randint((3, 4)), "high is missing"),
        (lambda: trnrand.randint(10), "size is missing"),
        (lambda: trnrand.randint(), "high is missing"),
        (lambda: trnrand.randint(3, 4, 5), "got 3 arguments by position"),
        (lambda: trnrand.randint(low=3, size=(2,)), "high is missing"),
        (lambda: trnrand.randint(9, (2,), size=(2,)), "size is given twice"),
        (lambda: trnrand.randint(9, size=2), "size must be a sequence of integers, got 2"),
    ],
)
def test_other_forms_of_randint_are_refused(call, said):
    with pytest.raises(ValueError, match=rf"^randint: {said}"):
        call()


@each_case("size", [(3, 2), (7,), ()])
def test_randint_takes_its_size_in_front_of_both_bounds(size):
    got = trnrand.randint(
        *size, low=-4, high=9, generator=Generator(1), **({} if size else {"size": ()})
    )
    assert torch.equal(got, trnrand.randint(-4, 9, size, generator=Generator(1)))


def test_randint_takes_its_size_from_out_and_from_tensors():
    out = torch.empty(4, dtype=torch.int64)
    assert trnrand.randint(9, out=out, generator=Generator(1)) is out
    assert trnrand.randint(torch.tensor([3, 9]), generator=Generator(1)).shape == (2,)
    assert trnrand.randint(9, ()).shape == ()
