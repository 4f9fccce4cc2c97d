"""Agreement: ranks that differ, and errors of one rank, are one error on every rank."""

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ranks import Watched, pool, rank_numbers, refusal
from trnsci.core.distributed.agreement import SIGNATURE_BYTES, agreement
from trnsci.core.distributed.groups import ranks_of, ranks_of_mesh
from trnsci.core.distributed.plans import agreement_step
from trnsci.core.errors import BackendError, ShapeError


def _agreed(texts, errors, mesh, check=True):
    """Return the error of this rank, or None, and the bytes that it received."""
    rank = dist.get_rank()
    there = init_device_mesh("cpu", mesh)

    def call():
        with agreement("f", mesh=there, check=check) as describe:
            if errors[rank]:
                raise errors[rank]
            describe(texts[rank])

    with Watched() as seen:
        found = refusal(call)
    return found, seen.received


@pytest.mark.parametrize("mesh", rank_numbers([(1,), (3,), (2, 2), (3, 2)]))
def test_equal_arguments_pass_and_take_the_bytes_of_the_plan(mesh):
    step = agreement_step(mesh)
    ranks = len(step.received)
    found = pool(ranks).run(_agreed, ["same"] * ranks, [None] * ranks, mesh)
    assert found == [(None, count) for count in step.received]
    assert (
        pool(ranks).run(_agreed, ["same"] * ranks, [None] * ranks, mesh, False)
        == [(None, 0)] * ranks
    )


@pytest.mark.parametrize("mesh", [(4,), (2, 2)])
def test_a_difference_is_named_on_every_rank(mesh):
    long = "x" * 600  # beyond the text that is exchanged: the hash differs
    for texts, said in (
        (["a", "b", "a", "a"], ("on rank 0, 2, 3: a, mesh [", "; on rank 1: b, mesh [")),
        ([long, long, long, long + "y"], ("on rank 0, 1, 2: xxx",)),
    ):
        for (kind, text), _ in pool(4).run(_agreed, texts, [None] * 4, mesh):
            assert kind == "RankError"
            assert text.startswith("f: all ranks must give the same arguments, got ")
            assert all(each in text for each in said)


def test_an_error_of_one_rank_is_raised_on_every_rank():
    errors = [None, None, ShapeError("f: A must be square, got 2 x 3"), None]
    found = [error for error, _ in pool(4).run(_agreed, ["a"] * 4, errors, (2, 2))]
    assert found[2] == ("ShapeError", "f: A must be square, got 2 x 3")
    for rank in (0, 1, 3):
        assert found[rank] == ("ShapeError", "f: on rank 2: A must be square, got 2 x 3")


def test_errors_of_other_classes_and_of_several_ranks():
    errors = [ZeroDivisionError("no"), ShapeError("f: bad"), ShapeError("f: bad"), None]
    found = [error for error, _ in pool(4).run(_agreed, ["a"] * 4, errors, (4,))]
    assert [kind for kind, _ in found] == [
        "ZeroDivisionError",
        "ShapeError",
        "ShapeError",
        "RankError",
    ]
    assert found[3][1] == "f: on rank 0: no; on rank 1, 2: bad"


def _on_some_ranks(texts):
    """Two meshes of two ranks at a time, and a group of two ranks."""
    rank = dist.get_rank()
    rows = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))["column"]
    groups = [dist.new_group(each) for each in ([0, 1], [2, 3])]

    def call(**where):
        with agreement("f", **where) as describe:
            describe(texts[rank])

    with Watched() as seen:
        found = [refusal(lambda: call(mesh=rows)), refusal(lambda: call(group=groups[rank // 2]))]
    return found, seen.received


def test_a_mesh_or_group_of_some_ranks_compares_these_alone():
    for rank, (found, received) in enumerate(pool(4).run(_on_some_ranks, ["a", "b", "c", "c"])):
        assert received == 2 * SIGNATURE_BYTES
        for error in found:
            if rank > 1:
                assert error is None
            else:
                assert error[0] == "RankError"
                assert "on rank 0: a" in error[1]
                assert "on rank 1: b" in error[1]


def _bad_groups():
    half = dist.new_group([0])
    mesh = DeviceMesh("cpu", [0], _init_backend=True)
    # A group of one rank: one of two could be closed here while the other still connects to it.
    gone = [dist.new_group([each]) for each in (0, 1)][dist.get_rank()]
    dist.destroy_process_group(gone)
    three = init_device_mesh("cpu", (1, 2, 1))
    return [
        refusal(lambda: ranks_of("f", half)),
        refusal(lambda: ranks_of_mesh("f", mesh)),
        refusal(lambda: ranks_of("f", gone)),
        refusal(lambda: ranks_of_mesh("f", three)),
        refusal(lambda: ranks_of("f", "world")),
    ]


def test_groups_that_cannot_be_used_are_refused():
    with pytest.raises(BackendError, match=r"f: torch\.distributed has no process group"):
        ranks_of("f")
    first, second = pool(2).run(_bad_groups)
    assert first[:2] == [None, None]
    assert second[0] == (
        "BackendError",
        "f: group must contain the calling rank, got one without rank 1",
    )
    assert second[1][0] == "BackendError"
    assert "without rank 1" in second[1][1]
    for found in (first, second):
        assert found[2][0] == "BackendError"
        assert "destroyed" in found[2][1]
        assert found[3] == ("FlagError", "f: the mesh must have 1 or 2 dimensions, got 3")
        assert found[4] == ("BackendError", "f: group must be a ProcessGroup or None, got str")
