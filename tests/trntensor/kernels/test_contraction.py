"""The contraction kernel: every layout without a copy, one launch, clean on every generation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import trntensor
from comparing import assert_within
from each_case import each_case
from trnsci.core.backend.launch import SIMULATE
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, strict_simulation, sum_bound
from trntensor._paths.operations import CONTRACT


def check(subscripts, sizes, generation, dtype=torch.float32):
    """Contract in strict simulation, and hold the result against float64 sums."""
    left, right = subscripts.partition("->")[0].split(",")
    a = random_tensor(*(sizes[x] for x in left), dtype=dtype)
    b = random_tensor(*(sizes[x] for x in right), dtype=dtype, seed=1)
    before = counts()
    with trntensor.backend("simulator"), strict_simulation(generation), launched("contract"):
        got = CONTRACT(a, b, subscripts)
    assert (counts() - before).launches["contract"] == 1
    wide = [x.double().numpy() for x in (a, b)]
    want = np.einsum(subscripts, *wide)
    length = int(np.prod([sizes[x] for x in left if x in right]))
    bound = sum_bound(np.einsum(subscripts, *map(np.abs, wide)), length, dtype)
    assert got.dtype is dtype
    assert (np.abs(got.double().numpy() - want) <= bound).all()


ORDERS = [
    f"{''.join(a)},{''.join(b)}->{''.join(out)}"
    for a, b, out in (
        ("bik", "bkj", "bij"),
        ("bki", "bjk", "bji"),
        ("ibk", "kbj", "ibj"),
        ("kbi", "jbk", "jbi"),
        ("ikb", "kjb", "ijb"),
        ("bik", "bkj", "ibj"),
        ("bik", "bkj", "ijb"),
        ("kib", "bjk", "jib"),
    )
]


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("subscripts", ORDERS)
def test_a_batch_anywhere(subscripts, generation):
    check(subscripts, {"b": 3, "i": 5, "j": 7, "k": 9}, generation)


@each_case("i", [127, 128, 129])
@each_case("k", [127, 129])
def test_tiles_and_one_more_or_less(i, k):
    check("ibk,kbj->ibj", {"b": 2, "i": i, "j": 3, "k": k}, "gen2")
    check("ki,jk->ji", {"i": i, "j": 130, "k": k}, "gen3")


@pytest.mark.parametrize("columns", [511, 513])
def test_banks_and_one_more_or_less(columns):
    check("bik,bkj->bij", {"b": 2, "i": 4, "j": columns, "k": 6}, "gen4", torch.bfloat16)
    check("bik,bkj->bij", {"b": 2, "i": 4, "j": columns, "k": 6}, "gen2", torch.float16)


@each_case("shape", list(itertools.product((1, 3), repeat=4)))
def test_extents_of_one(shape):
    sizes = dict(zip("bijk", shape, strict=True))
    check("ibk,kbj->ibj", sizes, "gen2")
    check("bki,bkj->bji", sizes, "gen2")


def test_groups_of_several_indices():
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 2, "f": 3}
    for subscripts in ("abcd,cdef->abef", "abcd,dcef->eabf", "acbd,cedf->afbe", "aecd,becd->eab"):
        check(subscripts, sizes, "gen3")


def test_operands_are_not_copied_where_their_groups_are_neighbours():
    seen = []

    def simulate(kernel):
        import nkisim

        run = nkisim.simulate(kernel)

        def noted(*args):
            seen.extend(x.ctypes.data for x in args if isinstance(x, np.ndarray))
            return run(*args)

        return noted

    a, b = random_tensor(3, 2, 4), random_tensor(4, 2, 5)
    with trntensor.backend("simulator"), SIMULATE.scope(simulate):
        trntensor.einsum("ibk,kbj->ibj", a, b)
    assert seen == [a.data_ptr(), b.data_ptr()]


def test_a_bfloat16_result_is_rounded_once():
    a, b = (random_tensor(4, 300, dtype=torch.bfloat16, seed=s) for s in (0, 1))
    with trntensor.backend("simulator"), launched("contract"):
        got = trntensor.einsum("ik,jk->ij", a, b)
    wide = [x.double().numpy() for x in (a, b)]
    want, size = wide[0] @ wide[1].T, np.abs(wide[0]) @ np.abs(wide[1].T)
    import ml_dtypes

    narrow = got.float().numpy().astype(ml_dtypes.bfloat16)
    assert_within(narrow, want, sum_bound(size, 300, torch.float32))
