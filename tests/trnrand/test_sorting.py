"""Orders of keys are those of a stable sort, whatever bits keys share."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnrand
from trnrand._sampling.sorting import _bucket_order, _packed_order, sorting_order

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(keys=KEYS)
def test_the_order_is_that_of_a_stable_sort(keys):
    order = sorting_order(torch.tensor(keys, dtype=torch.int64))
    assert order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@given(
    keys=st.lists(st.integers(-8, 8), min_size=2, max_size=40), scale=st.sampled_from([1, 2**59])
)
def test_keys_that_share_bits_are_in_order_too(keys, scale):
    keys = [key * scale for key in keys]
    order = sorting_order(torch.tensor(keys, dtype=torch.int64))
    assert order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@given(keys=st.one_of(KEYS, st.lists(st.integers(-8, 8), max_size=40)))
def test_buckets_give_the_same_order(keys):
    pytest.importorskip("numba")
    order = _bucket_order(torch.tensor(keys, dtype=torch.int64))
    assert order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


def test_large_permutations_are_the_same_with_and_without_numba(monkeypatch):
    pytest.importorskip("numba")
    compiled = trnrand.randperm(30_001, generator=trnrand.Generator(3))
    monkeypatch.setattr("trnrand._stream.numba_loops.compiled_wanted", lambda n: False)
    assert torch.equal(compiled, trnrand.randperm(30_001, generator=trnrand.Generator(3)))


def test_what_the_low_bits_would_decide_is_not_guessed():
    assert _packed_order(torch.tensor([1 << 40, 3 << 40])).tolist() == [0, 1]
    assert _packed_order(torch.tensor([3 << 40, -(1 << 40)])).tolist() == [1, 0]
    assert _packed_order(torch.tensor([7, 6])) is None
