"""Layouts: parts of torch.chunk, parts by weight, and the conversion to DTensor."""

from textwrap import dedent

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from fresh_process import printed_after
from ranks import pool, refusal
from trnsci.core.distributed.layout import (
    Layout,
    even_offsets,
    even_sizes,
    from_dtensor,
    local_of,
    to_dtensor,
)
from trnsci.core.errors import FlagError, ShapeError


@given(st.integers(0, 40), st.integers(1, 9))
def test_even_sizes_are_those_of_chunk(size, ranks):
    parts = torch.arange(size).chunk(ranks)
    wanted = [len(part) for part in parts] + [0] * (ranks - len(parts))
    assert list(even_sizes(size, ranks)) == wanted
    assert even_offsets(size, ranks)[-1] == size
    assert Layout.even((3, size), 1, ranks).is_even


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 6))
def test_weights_are_balanced_up_to_one_row(weights, ranks):
    w = torch.tensor(weights, dtype=torch.float64)
    layout = Layout.by_weight((len(weights), 2), 0, w, ranks)
    assert sum(layout.sizes) == len(weights)
    share = float(w.sum()) / ranks
    heaviest = max(weights, default=0)
    for rank in range(ranks):
        assert float(w[layout.rows(rank)].sum()) <= share + heaviest


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((4,), 1, (0, 4)), ShapeError),
        (((4,), 0, (0, 3)), ShapeError),
        (((4,), 0, (0, 3, 2, 4)), ShapeError),
        (((4,), 0, (1, 4)), ShapeError),
    ],
)
def test_layouts_that_do_not_fit_are_refused(arguments, error):
    with pytest.raises(error, match="Layout: "):
        Layout(*arguments)
    with pytest.raises(FlagError, match="ranks"):
        Layout.even((4,), 0, 0)


def _converted(size):
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    rank = mesh.get_local_rank()
    x = torch.arange(2.0 * size).reshape(size, 2)
    layout = Layout.even(x.shape, 0, mesh.size())
    local = layout.part(x, rank).clone().requires_grad_()
    made = to_dtensor(local, layout, mesh)
    (made * made).sum().backward()
    back, found = from_dtensor(made)
    return [
        torch.equal(made.full_tensor(), x),
        torch.equal(local.grad, 2 * local),
        torch.equal(back, local),
        found == layout,
    ]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_conversion_keeps_values_and_gradients(ranks):
    for size in (0, 2, 7, 9):
        assert pool(ranks).run(_converted, size) == [[True] * 4] * ranks


def _refused():
    mesh = init_device_mesh("cpu", (2,))
    rank = mesh.get_local_rank()
    uneven = Layout((3, 2), 0, (0, 1, 3))
    wrong = DTensor.from_local(
        torch.ones(1 + rank, 2), mesh, [Shard(0)], shape=torch.Size((3, 2)), stride=(2, 1)
    )
    replicated = distribute_tensor(torch.ones(2, 2), mesh, [Replicate()])
    return [
        refusal(lambda: to_dtensor(torch.ones(1 + rank, 2), uneven, mesh)),
        refusal(lambda: to_dtensor(torch.ones(5, 2), uneven, mesh)),
        refusal(lambda: local_of("f", "A", wrong)),
        refusal(lambda: from_dtensor(replicated)),
        refusal(lambda: local_of("f", "A", torch.ones(2))),
    ]


def test_parts_that_chunk_does_not_make_are_refused_with_their_sizes():
    for rank, found in enumerate(pool(2).run(_refused)):
        assert found[0][0] == "ShapeError"
        assert "(2, 1) elements" in found[0][1]
        assert f"rank {rank} of 2" in found[1][1]
        assert f"({2 - rank}, 2), on rank {rank}, got ({1 + rank}, 2)" in found[2][1]
        assert found[3] == ("FlagError", found[3][1])
        assert found[4] == ("DTypeError", found[4][1])
        assert "A must be a DTensor" in found[4][1]


def test_importing_a_library_does_not_import_dtensor():
    code = """
    import sys
    import trnblas, trnblas.distributed
    print(json.dumps("torch.distributed.tensor" in sys.modules))
    """
    assert printed_after("torch", dedent(code)) is False
