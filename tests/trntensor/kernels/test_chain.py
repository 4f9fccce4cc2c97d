"""The fused kernel: two contractions, one launch, nothing between them in HBM."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
import torch

import trntensor
from each_case import each_case
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, strict_simulation, unit_roundoff
from trntensor._paths.operations import CHAIN
from trntensor._planning.chains import chain_block, roles_of

SIZES = ("d", "k", "l", "r", "n")


def check(x_order, out_order, sizes, generation, dtype=torch.float32, flipped=False, watchers=()):
    y_order, c_order = ("rd", "nk") if flipped else ("dr", "kn")
    x, y, c = (
        random_tensor(*(sizes[i] for i in order), dtype=dtype, seed=at)
        for at, order in enumerate((x_order, y_order, c_order))
    )
    before = counts()
    simulation = strict_simulation(generation, watchers=watchers)
    with trntensor.backend("simulator"), simulation, launched("chain"):
        got = CHAIN(x, y, c, f"{x_order},{y_order}->klr", f"klr,{c_order}->{out_order}")
    assert sum((counts() - before).launches.values()) == 1
    wide = [t.double().numpy() for t in (x, y, c)]
    subscripts = f"{x_order},{y_order},{c_order}->{out_order}"
    want = np.einsum(subscripts, *wide, optimize=True)
    size = np.einsum(subscripts, *map(np.abs, wide), optimize=True)
    # The sums of both products in float32, and two roundings to the dtype.
    grown = (sizes["d"] + sizes["k"] + 2) * 2.0**-24 + 2 * unit_roundoff(dtype)
    assert got.dtype is dtype
    assert (np.abs(got.double().numpy() - want) <= 1.01 * grown * size).all()


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("x_order", ["dkl", "kdl", "ldk", "dlk", "lkd", "kld"])
@each_case("out_order", ["lrn", "rnl", "nlr"])
def test_every_order(x_order, out_order, generation):
    sizes = {"d": 5, "k": 6, "l": 3, "r": 4, "n": 7}
    check(x_order, out_order, sizes, generation, flipped=generation == "gen3")


@pytest.mark.parametrize("out_order", ["lrn", "rnl"])
@pytest.mark.parametrize(
    "extents",
    [
        (127, 129, 2, 3, 130),
        (128, 128, 1, 513, 7),
        (129, 127, 3, 2, 128),
        (3, 130, 9, 1, 513),
        (130, 2, 70, 3, 1),
        (1, 1, 1, 1, 1),
    ],
)
def test_tiles_and_one_more_or_less(extents, out_order):
    sizes = dict(zip(SIZES, extents, strict=True))
    check("dkl", out_order, sizes, "gen2")
    check("dkl", out_order, sizes, "gen4", torch.bfloat16)
    check("dkl", out_order, sizes, "gen3", torch.float16)


def test_nothing_between_the_products_travels():
    moved = []

    def watch(event):
        if event.instruction == "dma_copy":
            for _, tensor in (*event.reads, *event.writes):
                if "hbm" in str(tensor.buffer):
                    moved.append(prod(tensor.shape))

    sizes = {"d": 130, "k": 140, "l": 6, "r": 10, "n": 20}
    check("dkl", "rnl", sizes, "gen3", watchers=(watch,))
    d, k, loose, r, n = (sizes[name] for name in SIZES)
    assert sum(moved) == d * k * loose + d * r + k * n + r * n * loose


def test_what_does_not_fit_is_two_launches():
    roles = roles_of("dkl,dr->klr", "klr,kn->rnl")
    huge = {"d": 10, "k": 4000, "l": 1, "r": 2000, "n": 2}
    assert chain_block(roles, huge, 4) == 0
    assert chain_block(roles, {**huge, "k": 100}, 4) == 1
    a, b, c = random_tensor(2, 3, 4), random_tensor(2, 3, 5), random_tensor(5, 6)
    before = counts()
    with trntensor.backend("simulator"):  # a batch is not fused
        got = trntensor.einsum("bij,bik,kl->bjl", a, b, c)
    assert torch.allclose(got, torch.einsum("bij,bik,kl->bjl", a, b, c), atol=1e-4)
    assert dict((counts() - before).launches) == {"contract": 2}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("ab,c->abc", "abc,cd->abd", "nothing to sum"),
        ("zab,zbc->zac", "zac,cd->zad", "a batch of products"),
        ("ab,bc->ac", "ac,acd->d", "of both operands"),
    ],
)
def test_why_a_chain_is_not_fused(first, second, reason):
    assert reason in roles_of(first, second)
