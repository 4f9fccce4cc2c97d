"""Precisions: what each promises, and how one is chosen for an error."""

from __future__ import annotations

import pytest
import torch

import trnsci
import trntensor
from each_case import each_case
from trnsci.core.counters import counts
from trnsci.core.errors import FlagError
from trnsci.core.testing import random_tensor, refusals_expected
from trntensor import select_precision_for_error


def products(k, dtype=torch.float32):
    return random_tensor(16, k, dtype=dtype), random_tensor(k, 16, dtype=dtype, seed=1)


def error(a, b, precision):
    got = trntensor.einsum("ij,jk->ik", a, b, precision=precision)
    assert got.dtype is a.dtype
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    return float(((got.double() - exact).abs() / size).max())


def test_fast_is_the_default_to_the_bit():
    a, b = products(512)
    assert torch.equal(
        trntensor.einsum("ij,jk->ik", a, b), trntensor.einsum("ij,jk->ik", a, b, precision="fast")
    )


def test_kahan_is_right_to_one_rounding():
    a, b = products(512)
    a[:, ::2] *= 1e4
    # One rounding to float32, and the 512 sums in float64 beside it.
    assert error(a, b, "kahan") <= 2.0**-24 + 512 * 2.0**-53
    x = random_tensor(4, 4, dtype=torch.complex64)
    got = trntensor.einsum("ij,jk->ik", x, x, precision="kahan")
    assert got.dtype is torch.complex64


def test_dd_keeps_what_single_bfloat16_products_lose():
    a, b = products(512)
    lone = float(
        ((a.bfloat16().float() @ b.bfloat16().float() - a @ b).abs() / (a.abs() @ b.abs())).max()
    )
    # Three parts hold all 24 bits; what is left out is 2^-24 of a product, sums are float32 ones.
    assert error(a, b, "dd") <= 2.0**-24 * 512
    assert error(a, b, "dd") < lone / 100
    half = [x.half() for x in products(64)]
    assert error(*half, "dd") <= 2.0**-11 + 64 * 2.0**-24


def test_three_parts_hold_all_bits():
    x = random_tensor(1000)
    assert torch.equal(trntensor.einsum("i,i->i", x, torch.ones(1000), precision="dd"), x)


def test_dd_and_sr_go_along_a_path():
    tensors = [random_tensor(6, 6, seed=at) for at in range(3)]
    want = tensors[0].double() @ tensors[1].double() @ tensors[2].double()
    got = trntensor.einsum("ij,jk,kl->il", *tensors, precision="dd")
    assert torch.allclose(got.double(), want, atol=1e-5)
    narrow = [x.bfloat16() for x in tensors]
    assert trntensor.einsum("ij,jk,kl->il", *narrow, precision="sr").dtype is torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_stochastic_rounding_goes_to_neighbours_and_is_right_in_the_mean(dtype):
    torch.manual_seed(0)
    eps, bits = torch.finfo(dtype).eps, 40_000

    def product(a, b):
        return trntensor.einsum("i,i->i", a.to(dtype), b.to(dtype), precision="sr")

    steps = round((0.3 / eps) ** 0.5)
    factor = torch.full((bits,), 1 + steps * eps)
    below, share = 1 + 2 * steps * eps, steps**2 * eps  # of the square, and of a step beyond it
    drawn = product(factor, factor)
    assert set(drawn.tolist()) == {below, below + eps}
    up = float((drawn > below).float().mean())
    # Six standard deviations of a mean of so many draws.
    assert abs(up - share) <= 6 * (share * (1 - share) / bits) ** 0.5
    kept = torch.tensor([0.0, -1.5, 2.0**-20, torch.inf, -torch.inf])
    assert torch.equal(product(kept, torch.ones(5)), kept.to(dtype))
    assert product(torch.tensor([torch.nan]), torch.ones(1)).isnan()
    assert float(product(torch.tensor([torch.finfo(dtype).tiny]), torch.tensor([0.3]))) >= 0


def test_sr_is_right_in_the_mean():
    torch.manual_seed(0)
    a, b = (x.bfloat16() for x in products(64))
    exact = a.double() @ b.double()
    draws = [trntensor.einsum("ij,jk->ik", a, b, precision="sr").double() for _ in range(400)]
    steps = 2.0**-7 * exact.abs() + 1e-6
    assert bool(((torch.stack(draws) - exact).abs() <= steps).all())
    # The mean of 400 draws of one step: six standard deviations of at most half a step.
    assert bool(((torch.stack(draws).mean(0) - exact).abs() <= 6 * steps / 2 / 20).all())
    whole = random_tensor(3, 3)
    assert torch.equal(trntensor.einsum("ij,jk", whole, whole, precision="sr"), whole @ whole)


@each_case(
    ("dtype", "k", "target", "precision"),
    [
        (torch.bfloat16, 4, 0.1, "fast"),
        (torch.bfloat16, 512, 0.1, "sr"),
        (torch.bfloat16, 64, 0.003, "dd"),
        (torch.bfloat16, 16, 1e-5, "kahan"),
        (torch.float32, 64, 1e-5, "fast"),
        (torch.float32, 64, 1e-8, "kahan"),
        (torch.float64, 64, 1e-13, "fast"),
    ],
)
def test_the_published_table(dtype, k, target, precision):
    assert select_precision_for_error(dtype, k, target) == precision


def test_the_sharp_model_knows_that_sums_are_float32():
    assert select_precision_for_error(torch.bfloat16, 512, 0.01, model="sharp") == "fast"
    assert select_precision_for_error(torch.float32, 512, 2e-5, model="sharp") == "dd"
    with pytest.raises(ValueError, match="the best is kahan"):
        select_precision_for_error(torch.bfloat16, 64, 0.003, model="sharp")
    with pytest.raises(ValueError, match="model must be"):
        select_precision_for_error(torch.bfloat16, 64, 0.003, model="new")


@each_case("target", [0.0, -1.0, float("nan"), "x"])
def test_targets_that_are_no_positive_numbers_are_named(target):
    x = torch.ones(2, 2)
    with pytest.raises(FlagError, match=f"target_forward_error must be above 0, got {target!r}"):
        trntensor.einsum("ij,jk->ik", x, x, target_forward_error=target)


def test_a_target_chooses_the_precision():
    a, b = (x.float() for x in products(16))
    target = 10 * 2.0**-24  # 16 terms in float32 have a larger bound
    got = trntensor.einsum("ij,jk->ik", a, b, target_forward_error=target)
    assert torch.equal(got, trntensor.einsum("ij,jk->ik", a, b, precision="dd"))
    with pytest.raises(ValueError, match="no precision reaches 1e-20"):
        trntensor.einsum("ij,jk->ik", a, b, target_forward_error=1e-20)
    # The result itself is rounded to bfloat16.
    with pytest.raises(ValueError, match=r"no precision reaches 1e-05 for torch\.bfloat16"):
        trntensor.einsum("ij,jk->ik", a.bfloat16(), b.bfloat16(), target_forward_error=1e-5)
    many = trntensor.multi_einsum(("ij,jk->ik", a, b), ("ij->i", a), target_forward_error=target)
    assert torch.equal(many[0], got)


DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex128], ids=str)
def test_a_target_that_is_accepted_is_reached(dtype):
    a, b = (random_tensor(32, 32, dtype=torch.complex128, seed=k) for k in (1, 2))
    a, b = (x if dtype.is_complex else x.real for x in (a, b))
    a, b = a.to(dtype), b.to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    want, size = a.to(wide) @ b.to(wide), a.to(wide).abs() @ b.to(wide).abs()
    for exponent in range(-60, 0, 3):
        try:
            got = trntensor.einsum("ij,jk->ik", a, b, target_forward_error=2.0**exponent)
        except FlagError:
            continue
        # The reference in float64 has an error of its own.
        own = 0.0 if wide is not dtype else 32 * 2.0**-52
        assert float(((got.to(wide) - want).abs() / size).max()) <= 2.0**exponent + own


# -- doublefloat ---------------------------------------------------------------------------------


def counted(call, *args, **options):
    """Return a result on the simulator, and the launches and refusals."""
    before = counts()
    with trntensor.backend("simulator"):
        result = call(*args, **options)
    found = counts() - before
    return result, found.launches, found.refusals


@each_case("dtype", [torch.float32, torch.float64])
@each_case(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(5, 20), (20, 7)]),
        ("bij,kjb->bki", [(3, 4, 9), (5, 9, 3)]),
        ("i,i->", [(30,), (30,)]),
        ("ij,j->i", [(4, 9), (9,)]),
        ("ijk,ljk->li", [(3, 4, 5), (2, 4, 5)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
    ],
)
def test_doublefloat_is_a_launch_of_the_product_kernel(text, shapes, dtype):
    """Within 2**-45 of the norms of the summed rows, and the rounding of the result.

    The reference in float64 has an error of at most 30 * 2**-53 times the same norms.
    """
    a, b = (random_tensor(*shape, seed=at).to(dtype) for at, shape in enumerate(shapes))
    got, launches, refusals = counted(trntensor.einsum, text, a, b, precision="doublefloat")
    assert got.dtype is dtype
    assert (launches, refusals) == ({"doublefloat_gemm": 1}, {})
    wide = a.double(), b.double()
    want = torch.einsum(text, *wide)
    of_a = torch.einsum(text, wide[0] ** 2, torch.ones_like(wide[1])).sqrt()
    of_b = torch.einsum(text, torch.ones_like(wide[0]), wide[1] ** 2).sqrt()
    bound = (2.0**-45 + 30 * 2.0**-53) * of_a * of_b + torch.finfo(dtype).eps / 2 * want.abs()
    assert ((got.double() - want).abs() <= bound).all()


def test_doublefloat_of_several_operands_is_a_launch_for_each_product():
    a, b, c = (random_tensor(6, 6, seed=seed) for seed in range(3))
    want = (a.double() @ b.double() @ c.double()).float()
    with trnsci.precision("doublefloat"):
        got, launches, refusals = counted(trntensor.einsum, "ij,jk,kl->il", a, b, c)
        plan = trntensor.plan_contraction("ij,jk,kl->il", a, b, c)
    # Two products of entries below 4 with sums of 6 terms: errors of 2**-45 * 6 * 16, twice.
    assert torch.allclose(got, want, rtol=2.0**-23, atol=2.0**-37)
    assert (launches, refusals) == ({"doublefloat_gemm": 2}, {})
    assert plan.precision == "doublefloat"
    assert counted(str, plan)[0].count("doublefloat_gemm") == 2


def test_equal_doublefloat_contractions_are_one_launch():
    a, b, c = (random_tensor(4, 4, seed=seed) for seed in range(3))
    calls = ("ij,jk->ik", a, b), ("ij,jk->ik", a, c)
    _, launches, _ = counted(trntensor.multi_einsum, *calls, precision="doublefloat")
    assert launches == {"doublefloat_gemm": 1}


def test_the_gradient_of_doublefloat_is_doublefloat():
    a, b = random_tensor(4, 9).requires_grad_(), random_tensor(9, 5, seed=1).requires_grad_()
    with trnsci.precision("doublefloat"):
        result, _, _ = counted(trntensor.einsum, "ij,jk->ik", a, b)
    _, launches, refusals = counted(torch.autograd.grad, result.sum(), (a, b))
    assert (launches, refusals) == ({"doublefloat_gemm": 2}, {})


@refusals_expected()
def test_kahan_runs_on_torch_and_says_so():
    a = random_tensor(4, 4)
    _, launches, refusals = counted(trntensor.einsum, "ij,jk->ik", a, a, precision="kahan")
    assert not launches
    assert refusals


@each_case("dtype", [torch.complex64, torch.complex128])
def test_complex_doublefloat_is_one_launch_for_each_pair(dtype):
    a, b, c = (random_tensor(*s, dtype=dtype, seed=s[0]) for s in [(4, 9), (9, 5), (5, 3)])
    got, launches, refusals = counted(
        trntensor.einsum, "ij,jk,kl->il", a, b.conj(), c, precision="doublefloat"
    )
    assert (launches, refusals) == ({"doublefloat_gemm": 2}, {})
    want, size = (
        torch.linalg.multi_dot(x)
        for x in (
            [x.to(torch.complex128) for x in (a, b.conj(), c)],
            [x.to(torch.complex128).abs() for x in (a, b, c)],
        )
    )
    # Two products, each with sqrt(2) times 2**-45 of 2-norms, at most 9 times the magnitudes.
    rounding = torch.finfo(dtype).eps
    assert float((got - want).abs().max()) <= (2 * 9 * 2.0**-44 + rounding) * float(size.max())
