"""Masks of attention: what they see, where they come from, what they refuse."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

from each_case import each_case
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsparse.attention import block_sparse_attention
from trnsparse.masks import (
    AttentionMask,
    causal_mask,
    dilated_mask,
    global_window_mask,
    local_window_mask,
)


def seen(seq_len, block_size, rule):
    """Return (seq_len, seq_len) booleans from a rule of block row, block column, query and key."""
    i = torch.arange(seq_len)
    q, k = i[:, None], i[None, :]
    return rule(q // block_size, k // block_size, q, k)


@each_case("seq_len", [127, 128, 129, 300])
@each_case(
    ("made", "rule"),
    [
        (lambda n: causal_mask(n, 64), lambda r, c, q, k: q >= k),
        (lambda n: local_window_mask(n, 1, 64), lambda r, c, q, k: (r - c).abs() <= 1),
        (lambda n: dilated_mask(n, 2, 64), lambda r, c, q, k: (r - c) % 2 == 0),
        (
            lambda n: global_window_mask(n, 1, 1, 64, causal=True),
            lambda r, c, q, k: (((r - c).abs() <= 1) | (r < 1) | (c < 1)) & (q >= k),
        ),
    ],
    ids=["causal", "local", "dilated", "global"],
)
def test_builders_see_what_their_rule_says(seq_len, made, rule):
    mask = made(seq_len)
    assert mask.shape == (1, 1, seq_len, seq_len)
    assert torch.equal(mask.to_dense(), seen(seq_len, 64, rule))


@pytest.mark.parametrize(("seq_len", "density"), [(4096, 154 / 1024), (8192, 314 / 4096)])
def test_density_of_a_local_window(seq_len, density):
    assert local_window_mask(seq_len, 2).density == pytest.approx(density)


def test_a_causal_mask_keeps_one_partial_block():
    mask = causal_mask(4096)
    assert mask.n_blocks == 32 * 33 // 2
    assert len(mask.tables()) == 2


@st.composite
def dense_masks(draw):
    shape = tuple(draw(st.integers(1, size)) for size in (2, 2, 20, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    share = draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
    return torch.from_numpy(rng.random(shape) < share)


@given(dense_masks(), st.integers(1, 9), st.integers(1, 9))
def test_the_function_of_a_block_mask_hides_blocks_that_are_not_there(dense, rows, columns):
    """FlexAttention without a compiler asks it for every element."""
    shown = AttentionMask.from_dense(dense, (rows, columns)).to_block_mask().mask_mod
    b, h, q, k = (torch.arange(n) for n in dense.shape)
    got = shown(b[:, None, None, None], h[:, None, None], q[:, None], k)
    assert torch.equal(got, dense)


@given(dense_masks(), st.integers(1, 9), st.integers(1, 9))
def test_every_mask_goes_through_four_tensors_and_back(dense, rows, columns):
    mask = AttentionMask.from_dense(dense, (rows, columns))
    want = dense if dense.shape[:2] != (1, 1) else dense[0, 0]
    assert torch.equal(mask.to_dense(), want)
    assert torch.equal(AttentionMask.of(mask.to_block_mask()).to_dense(), want)
    turned = mask.transpose()
    assert torch.equal(turned.to_dense(), want.mT)
    assert turned.n_blocks == mask.n_blocks


def test_the_block_mask_of_torch_is_taken_as_it_is():
    def document(b, h, q, k):
        return (q // 50 == k // 50) & (q >= k) & (h + 1 > k // 100)

    theirs = create_block_mask(document, 1, 3, 200, 200, device="cpu", BLOCK_SIZE=64)
    i = torch.arange(200)
    h, q, k = torch.arange(3)[:, None, None], i[:, None], i
    assert torch.equal(AttentionMask.of(theirs).to_dense()[0], document(None, h, q, k))
    four = AttentionMask.of(theirs).tensors()
    assert [tuple(x.shape) for x in four] == [(1, 3, 4), (1, 3, 4, 4), (1, 3, 4), (1, 3, 4, 4)]


def test_the_pattern_of_a_block_sparse_matrix():
    matrix = SimpleNamespace(
        block_row_ptrs=torch.tensor([0, 2, 2, 3]),
        block_col_indices=torch.tensor([0, 2, 1]),
        shape=(20, 22),
        block_size=8,
    )
    want = torch.zeros(20, 22, dtype=torch.bool)
    want[:8, :8] = want[:8, 16:] = want[16:, 8:16] = True
    assert torch.equal(AttentionMask.of(matrix).to_dense(), want)


def test_a_mask_that_was_used_is_copied_and_pickled():
    mask = causal_mask(50, 16)
    q = torch.ones(50, 8)
    want = block_sparse_attention(q, q, q, mask)
    for other in (pickle.loads(pickle.dumps(mask)), copy.deepcopy(mask), copy.copy(mask)):
        assert isinstance(other, AttentionMask)
        assert torch.equal(other.to_dense(), mask.to_dense())
        assert torch.equal(block_sparse_attention(q, q, q, other), want)


def test_full_and_partial_blocks_come_apart():
    counts, indices = torch.tensor([1, 1]), torch.tensor([[0, 9], [1, 9]])
    full_counts, full = torch.tensor([0, 1]), torch.tensor([[9, 9], [0, 9]])
    mask = AttentionMask(
        counts,
        indices,
        full_counts,
        full,
        seq_lengths=(8, 8),
        block_size=4,
        mask_mod=lambda b, h, q, k: q >= k,
    )
    assert torch.equal(mask.to_dense(), torch.ones(8, 8, dtype=torch.bool).tril())
    assert repr(mask) == (
        "AttentionMask(shape=(1, 1, 8, 8), block_size=(4, 4), n_blocks=3, density=0.7500)"
    )


@each_case(
    ("counts", "indices", "words"),
    [
        ([1, 3], [[0, 1], [0, 1]], "must be 0 to 2"),
        ([1, -1], [[0, 1], [0, 1]], "must be 0 to 2"),
        ([1, 2], [[0, 1], [0, 2]], "indices must be 0 to 1"),
        ([1, 2], [[0, 1], [1, 1]], "twice"),
        ([1, 1, 1], [[0], [0], [0]], "count 2 rows"),
        ([1, 1], [0, 1], "one dimension more"),
    ],
)
def test_wrong_lists_are_refused(counts, indices, words):
    with pytest.raises(ShapeError, match=words):
        AttentionMask(torch.tensor(counts), torch.tensor(indices), seq_lengths=(8, 8), block_size=4)


def test_wrong_masks_are_refused():
    with pytest.raises(DTypeError, match="BlockMask of torch"):
        AttentionMask.of(torch.ones(3, 3))
    with pytest.raises(DTypeError, match="booleans"):
        AttentionMask.from_dense(torch.ones(3, 3))
    for call, option in (
        (lambda: causal_mask(8, 0), "block_size"),
        (lambda: local_window_mask(8, -1, 4), "window"),
        (lambda: dilated_mask(8, 0, 4), "stride"),
    ):
        with pytest.raises(FlagError, match=option):
            call()
    with pytest.raises(ShapeError, match="blocks must be"):
        AttentionMask.from_blocks(torch.ones(3, 3), (8, 8), 4)


def test_the_picture_of_a_pattern():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    ax = causal_mask(32, 8).plot()
    want = [[1, 0, 0, 0], [2, 1, 0, 0], [2, 2, 1, 0], [2, 2, 2, 1]]
    assert ax.images[0].get_array().tolist() == want
