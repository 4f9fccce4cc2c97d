"""Draws by torch's own names."""

import pytest
import torch

import trnrand
from trnrand import Generator


def test_rand_and_randn_are_the_standard_laws():
    got = trnrand.rand(2, 3, generator=Generator(1))
    assert torch.equal(got, trnrand.uniform(2, 3, generator=Generator(1)))
    got = trnrand.randn((4,), generator=Generator(1), dtype=torch.float64, requires_grad=True)
    assert got.requires_grad
    want = trnrand.standard_normal(4, generator=Generator(1), dtype=torch.float64)
    assert torch.equal(got.detach(), want)
    out = torch.empty(5)
    assert trnrand.rand(5, out=out, generator=Generator(1)) is out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
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
