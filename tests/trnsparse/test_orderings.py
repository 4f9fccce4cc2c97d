"""Orders of rows and columns, and what they achieve."""

import numpy as np
import pytest
import torch

import trnsparse as ts

from .cases import laplacian_1d, random_dense


def shuffled(dense, seed=0):
    rng = np.random.default_rng(seed)
    rows, columns = (torch.from_numpy(rng.permutation(n)) for n in dense.shape)
    return rows, columns, dense[rows][:, columns]


def test_a_shuffled_chain_is_put_in_line():
    rows, _, _ = shuffled(laplacian_1d(50))
    dense = laplacian_1d(50)[rows][:, rows]
    A = ts.from_dense(dense)
    order = ts.rcm(A)
    assert ts.bandwidth(A) > 10
    assert ts.bandwidth(ts.permuted(A, order)) == 1
    assert torch.equal(ts.permuted(A, order).to_dense(), dense[order][:, order])


def test_shuffled_blocks_are_gathered_again():
    dense = torch.block_diag(*[torch.ones(8, 8)] * 6)
    _, _, mixed = shuffled(dense)
    found = ts.block_ordering(ts.from_dense(mixed), 8)
    assert (found.n_blocks, found.natural_blocks, found.fill) == (6, 36, 1.0)
    assert "6 blocks of 8, 100.0% filled; 36" in str(found)
    blocks = found.apply(ts.from_dense(mixed))
    assert blocks.n_blocks == 6
    B = random_dense(48, 3, 1.0, 1, torch.float32)
    torch.testing.assert_close(found.matmul(blocks, B), mixed @ B)


@pytest.mark.parametrize("shape", [(30, 45), (45, 30), (7, 7), (0, 5), (5, 0)])
def test_never_more_blocks_than_in_the_order_given(shape):
    A = ts.from_dense(random_dense(*shape, 0.05))
    found = ts.block_ordering(A, 4)
    assert found.natural_blocks == A.to_bsr(4).n_blocks
    assert found.n_blocks <= found.natural_blocks
    assert found.apply(A).n_blocks == found.n_blocks
    assert sorted(found.rows.tolist()) == list(range(shape[0]))
    assert sorted(found.columns.tolist()) == list(range(shape[1]))


def test_a_matrix_in_order_stays_as_it_is():
    A = ts.from_dense(torch.block_diag(*[torch.ones(8, 8)] * 3))
    assert ts.block_ordering(A, 8).method == "natural"


def test_empty_and_wrong():
    assert ts.bandwidth(ts.from_dense(torch.zeros(3, 3))) == 0
    with pytest.raises(ValueError, match="square"):
        ts.rcm(ts.from_dense(torch.ones(2, 3)))
    with pytest.raises(ValueError, match="block_size"):
        ts.block_ordering(ts.eye_sparse(3), 0)
