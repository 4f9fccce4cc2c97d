"""The aids for tests: what they accept and what they refuse."""

import numpy as np
import pytest
import torch

from trnsci.core.counters import count_fallback, count_launch
from trnsci.core.testing import BACKENDS, launched, random_tensor, sum_bound, unit_roundoff


def test_a_problem_is_the_same_for_the_same_shape_and_seed():
    assert torch.equal(random_tensor(3, 4), random_tensor(3, 4))
    assert not torch.equal(random_tensor(3, 4), random_tensor(3, 4, seed=1))
    assert not torch.equal(random_tensor(3, 4).flatten(), random_tensor(4, 3).flatten())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_a_problem_is_the_same_one_in_every_dtype(dtype):
    wide = random_tensor(3, 4, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    assert torch.equal(random_tensor(3, 4, dtype=dtype), wide.to(dtype))


def test_unit_roundoff_is_half_the_spacing_above_one():
    assert unit_roundoff(torch.float32) == 2.0**-24
    assert unit_roundoff(torch.bfloat16) == 2.0**-8


def test_the_bound_of_a_long_sum():
    """Of 2**22 terms in float32, n u is 1/4 and n u / (1 - n u) is 1/3, whatever is returned."""
    for dtype, final in ((torch.float32, 2.0**-24), (torch.bfloat16, 2.0**-8)):
        bound = sum_bound(np.array([3.0]), 2**22, dtype)
        assert bound == pytest.approx(3 * (1 / 3 + final * 4 / 3), rel=1e-14)


@pytest.mark.parametrize("length", [1, 2, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bound_holds_for_a_sum_made_one_term_at_a_time(length, dtype):
    x, y = random_tensor(50, length, dtype=dtype), random_tensor(50, length, dtype=dtype, seed=1)
    total = torch.zeros(50, dtype=dtype)
    for k in range(length):
        total = total + x[:, k] * y[:, k]
    wide = x.to(torch.float64).numpy() * y.to(torch.float64).numpy()
    exact = np.sum(wide.astype(np.longdouble), axis=1)
    error = np.abs(total.to(torch.float64).numpy() - exact)
    # Products of float64 are not exact in float64 either: one more rounding each.
    slack = np.abs(wide).sum(axis=1) * unit_roundoff(torch.float64)
    bound = sum_bound(np.abs(wide).sum(axis=1), length, dtype)
    assert (error <= bound + slack).all()


def test_the_bound_refuses_a_sum_that_was_rounded_to_bfloat16():
    x = random_tensor(50, 10)
    exact = x.double().numpy().sum(axis=1)
    rough = x.to(torch.bfloat16).double().numpy().sum(axis=1)
    bound = sum_bound(np.abs(x.double().numpy()).sum(axis=1), 10, torch.float32)
    assert (np.abs(rough - exact) > bound).any()


def test_launched_accepts_a_block_that_launches():
    with launched("a", "b"):
        count_launch("a")
        count_launch("b")


def test_launched_refuses_a_block_that_launches_another_kernel():
    count_launch("a")  # before the block
    said = r"not launched: \['a'\]; launched were {'b': 1}"
    with pytest.raises(AssertionError, match=said), launched("a"):
        count_launch("b")


def test_launched_refuses_a_block_that_falls_back():
    count_launch("a")
    with pytest.raises(AssertionError, match=r"fell back to torch: {'toy.a': 1}"), launched():
        count_fallback("toy.a")


def test_launched_lets_the_blocks_own_exception_through():
    with pytest.raises(KeyError), launched("a"):
        raise KeyError


@pytest.mark.parametrize("name", BACKENDS)
def test_every_machine_has_the_backends(library, name):
    library.set_backend(name)
    assert library.path() == name
