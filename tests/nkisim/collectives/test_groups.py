"""Collectives that cannot work: malformed groups, ranks that differ, ranks that never come."""

import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import hbm, sbuf, stored

from ..harness_cores import SEEDS, no_hang, no_thread_left  # noqa: F401
from .harness import SHORT_KERNELS, inputs, launch, outputs

TRIO = ncc.ReplicaGroup([[0, 1, 2]])


def line_of(function, text):
    """Number of the only line of a function that contains a text."""
    code = function.__code__
    last = max(number for *_, number in code.co_lines() if number)
    with open(code.co_filename) as source:
        lines = source.read().splitlines()
    (found,) = [n for n in range(code.co_firstlineno, last + 1) if text in lines[n - 1]]
    return found


def numbered(ranks, shape=(6, 4)):
    """Arguments of each rank: an array and its rank."""
    return [(array, rank) for rank, array in enumerate(inputs(ranks, shape))]


def only_finding(report):
    assert len(report.findings) == 1, str(report)
    return report.findings[0]


# -- groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([[0, 0, 1, 2]], id="twice-in-a-group"),
        pytest.param([[0, 1], [1, 2]], id="in-two-groups"),
        pytest.param([[0, 1], [2]], id="unequal"),
        pytest.param([[0, 1, 3]], id="beyond-the-world"),
        pytest.param([[0, 1, -1]], id="negative"),
        pytest.param([[1, 2]], id="without-a-caller"),
        pytest.param([], id="empty"),
        pytest.param([0, 1, 2], id="flat"),
        pytest.param(3, id="number"),
        pytest.param(None, id="none"),
    ],
)
def test_malformed_groups_are_refused_by_every_collective(groups):
    group = ncc.ReplicaGroup(groups)
    calls = [
        lambda a, b: ncc.all_reduce([a], [b], group, nl.add),
        lambda a, b: ncc.all_gather([a], [hbm((18, 4))], group, 0),
        lambda a, b: ncc.reduce_scatter([a], [hbm((2, 4))], group, 0, nl.add),
        lambda a, b: ncc.all_to_all([a], [b], group, 0),
        lambda a, b: ncc.collective_permute_implicit([[a]], [[b]], group),
        lambda a, b: ncc.collective_permute_implicit_reduce([[a]], [[a]], [[b]], group, nl.add),
        lambda a, b: ncc.collective_permute_implicit_current_processing_rank_id(0, group),
    ]
    for call in calls:

        def kernel(a, call=call):
            result = stored(a)
            call(a, result)
            return result

        report = launch(kernel, [[a] for a in inputs(3, (6, 4))])
        assert report.codes == {"C022"}
        assert report.outputs is None


def test_a_group_of_one_needs_no_ranks():
    def kernel(a):
        total = hbm(a.shape)
        ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0]]), nl.add)
        return total

    (a,) = inputs(1, (6, 4))
    np.testing.assert_array_equal(nkisim.simulate(kernel, ignore=SHORT_KERNELS)(a), a)


def test_a_group_may_be_a_field_or_a_position():
    def kernel(a):
        first, second = hbm(a.shape), hbm(a.shape)
        ncc.all_reduce([a], [first], ncc.ReplicaGroup([[0, 1]]), nl.add)
        ncc.all_reduce([a], [second], ncc.ReplicaGroup(groups=[[0, 1]]), nl.add)
        return first, second

    for first, second in outputs(kernel, [[a] for a in inputs(2, (6, 4))]):
        np.testing.assert_array_equal(first, second)


# -- ranks that differ -----------------------------------------------------------------------------


def other_collective(a, rank):
    total = hbm((6, 4))
    if rank == 1:
        ncc.all_to_all([a], [total], TRIO, 0)  # one
    else:
        ncc.all_reduce([a], [total], TRIO, nl.add)  # others
    return total


def other_operator(a, rank):
    total = hbm((6, 4))
    if rank == 1:
        ncc.all_reduce([a], [total], TRIO, nl.maximum)  # one
    else:
        ncc.all_reduce([a], [total], TRIO, nl.add)  # others
    return total


def other_shape(a, rank):
    total = hbm((6, 4))
    if rank == 1:
        ncc.all_reduce([a[0:3]], [total[0:3]], TRIO, nl.add)  # one
    else:
        ncc.all_reduce([a], [total], TRIO, nl.add)  # others
    return total


def other_number(a, rank):
    total, more = hbm((6, 4)), hbm((6, 4))
    if rank == 1:
        ncc.all_reduce([a, a], [total, more], TRIO, nl.add)  # one
    else:
        ncc.all_reduce([a], [total], TRIO, nl.add)  # others
    return total


def other_order(a, rank):
    total, swapped = hbm((6, 4)), hbm((6, 4))
    if rank == 1:
        ncc.all_to_all([a], [swapped], TRIO, 0)  # one
        ncc.all_reduce([a], [total], TRIO, nl.add)
    else:
        ncc.all_reduce([a], [total], TRIO, nl.add)  # others
        ncc.all_to_all([a], [swapped], TRIO, 0)
    return total


def other_pairs(a, rank):
    total = hbm((6, 4))
    if rank == 1:
        ncc.collective_permute([a], [total], [(0, 1), (1, 2), (2, 0)])  # one
    else:
        ncc.collective_permute([a], [total], [(1, 0), (2, 1), (0, 2)])  # others
    return total


DIFFERENT = [
    other_collective,
    other_operator,
    other_shape,
    other_number,
    other_order,
    other_pairs,
]


@each_case("kernel", DIFFERENT)
@each_case("seed", [None, *SEEDS])
def test_ranks_that_issue_different_collectives_are_reported_with_both_lines(kernel, seed):
    report = launch(kernel, numbered(3), schedule_seed=seed)
    finding = only_finding(report)
    assert finding.rule.id == "C023"
    assert finding.file == __file__
    assert finding.line in (line_of(kernel, "# one"), line_of(kernel, "# others"))
    for mark, rank in (("# one", 1), ("# others", 0)):
        assert f"rank {rank} issues" in finding.message
        assert f"{__file__}:{line_of(kernel, mark)}" in finding.message
    assert report.outputs is None


# -- ranks that never come -------------------------------------------------------------------------


def leaves_early(a, rank):
    total = hbm((6, 4))
    if rank != 1:
        ncc.all_reduce([a], [total], TRIO, nl.add)  # waits
    return total


def one_round_less(a, rank):
    total = hbm((6, 4))
    for _ in range(3 - (rank == 1)):
        ncc.all_reduce([a], [total], TRIO, nl.add)  # waits
    return total


def not_all_permute(a, rank):
    total = stored(a)
    if rank != 1:  # the pairs do not name rank 1, but it must call
        ncc.collective_permute([a], [total], [(0, 2), (2, 0)])  # waits
    return total


@each_case("kernel", [leaves_early, one_round_less, not_all_permute])
@each_case("seed", [None, *SEEDS])
def test_ranks_that_wait_for_ever_are_named_with_their_line(kernel, seed):
    finding = only_finding(launch(kernel, numbered(3), schedule_seed=seed))
    line = line_of(kernel, "# waits")
    assert finding.rule.id == "C024"
    assert (finding.file, finding.line) == (__file__, line)
    assert len(finding.notes) == 3
    for rank in (0, 2):
        (note,) = [note for note in finding.notes if note.startswith(f"rank {rank} waits")]
        assert f"{__file__}:{line}" in note
    assert "rank 1 has ended" in finding.notes


@pytest.mark.parametrize("strictness", ["simulate", "strict"])
def test_a_missing_rank_raises(strictness):
    arguments = [list(pair) for pair in numbered(3)]
    options = {"strictness": strictness, "ignore": SHORT_KERNELS}
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(leaves_early, ranks=3, **options)(arguments)
    assert caught.value.rule_id == "C024"


def crossed_groups(a, rank):
    total = hbm((6, 4))
    pair, everyone = ncc.ReplicaGroup([[0, 1], [2, 3]]), ncc.ReplicaGroup([[0, 1, 2, 3]])
    first, second = (pair, everyone) if rank == 0 else (everyone, pair)
    ncc.all_reduce([a], [total], first, nl.add)  # first
    ncc.all_reduce([a], [total], second, nl.add)  # second
    return total


def test_groups_entered_in_crossed_order_are_reported():
    finding = only_finding(launch(crossed_groups, numbered(4)))
    assert finding.rule.id == "C024"
    line = line_of(crossed_groups, "# first")
    assert [f"rank {r}" in note and f":{line}" in note for r, note in enumerate(finding.notes)] == [
        True
    ] * 4


def test_ranks_that_order_their_group_differently_do_not_meet():
    def kernel(a, rank):
        total = hbm((6, 4))
        group = [[0, 1]] if rank == 0 else [[1, 0]]
        ncc.all_reduce([a], [total], ncc.ReplicaGroup(group), nl.add)
        return total

    assert only_finding(launch(kernel, numbered(2))).rule.id == "C024"


@each_case("seed", [None, *SEEDS])
def test_an_error_of_one_rank_wins_over_the_wait_of_the_others(seed):
    def kernel(a, rank):
        total = hbm((6, 4))
        nl.store(total, nl.load(a))
        if rank == 2:
            raise LookupError("rank 2 has no table")
        ncc.all_reduce([a], [total], TRIO, nl.add)
        return total

    with pytest.raises(LookupError, match="rank 2 has no table"):
        launch(kernel, numbered(3), schedule_seed=seed)


# -- ranks of two cores ----------------------------------------------------------------------------


def test_the_second_core_alone_in_a_collective_is_reported():
    def kernel(a):
        total = hbm(a.shape)
        if nl.program_id(0) == 1:
            ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return total

    report = launch(kernel, [[a] for a in inputs(2, (6, 4))], cores=2)
    finding = only_finding(report)
    assert finding.rule.id == "C024"
    assert {note.split(" waits")[0] for note in finding.notes if "waits" in note} == {
        "rank 0 core 1",
        "rank 1 core 1",
    }


def test_the_first_core_alone_in_a_collective_is_reported():
    def kernel(a):
        total = hbm(a.shape)
        if nl.program_id(0) == 0:
            ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return total

    assert "C024" in launch(kernel, [[a] for a in inputs(2, (6, 4))], cores=2).codes


def test_a_barrier_and_a_collective_that_cross_are_reported():
    def kernel(a):
        total = hbm(a.shape)
        if nl.program_id(0) == 0:
            nisa.core_barrier(data=total, cores=(0, 1))
        ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
        if nl.program_id(0) == 1:
            nisa.core_barrier(data=total, cores=(0, 1))
        return total

    finding = only_finding(launch(kernel, [[a] for a in inputs(2, (6, 4))], cores=2))
    assert finding.rule.id in ("C009", "C024")
    assert len(finding.notes) == 4
    assert all(f"{__file__}:" in note for note in finding.notes)


# -- operands --------------------------------------------------------------------------------------


def test_an_unwritten_source_is_reported_once_with_the_number_of_ranks():
    def kernel(a):
        source, total = hbm(a.shape), hbm(a.shape)
        ncc.all_reduce([source], [total], TRIO, nl.add)
        return total

    report = launch(kernel, [[a] for a in inputs(3, (6, 4))])
    finding = next(f for f in report if f.rule.id == "M005")
    assert finding.count == 3
    assert finding.operand == "srcs[0]"


def test_a_collective_writes_its_destination():
    def kernel(a):
        total = sbuf((12, 4))
        ncc.all_reduce([nl.load(a)], [total[0:6]], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return stored(total)

    report = launch(kernel, [[a] for a in inputs(2, (6, 4))])
    finding = next(f for f in report if f.rule.id == "M001")
    assert "24 of 48" in finding.message


@pytest.mark.parametrize("iteration", [-1, 3, 100])
def test_ring_iterations_end_with_the_group(iteration):
    def kernel(a):
        ncc.collective_permute_implicit_current_processing_rank_id(iteration, TRIO)
        return stored(a)

    assert only_finding(launch(kernel, [[a] for a in inputs(3, (6, 4))])).rule.id == "C027"


@pytest.mark.parametrize(
    ("ranks", "groups", "most"), [(4, [[0, 1, 2, 3]], 4), (4, [[0, 1], [2, 3]], 2)]
)
def test_the_number_of_channels_depends_on_the_group(ranks, groups, most):
    for channels in range(1, 7):

        def kernel(a, channels=channels):
            received = [hbm(a.shape) for _ in range(channels)]
            ncc.collective_permute_implicit(
                [[a]] * channels,
                [[t] for t in received],
                ncc.ReplicaGroup(groups),
                channel_ids=list(range(channels)),
            )
            return tuple(received)

        codes = launch(kernel, [[a] for a in inputs(ranks, (6, 4))]).codes
        assert codes == (set() if channels <= most else {"C026"})


@pytest.mark.parametrize(
    "operator", [nl.multiply, nl.subtract, nl.logical_and, "add", None], ids=repr
)
def test_other_operators_are_refused_by_every_reduction(operator):
    calls = [
        lambda a, b: ncc.all_reduce([a], [b], TRIO, operator),
        lambda a, b: ncc.reduce_scatter([a], [hbm((2, 4))], TRIO, 0, operator),
        lambda a, b: ncc.collective_permute_implicit_reduce([[a]], [[a]], [[b]], TRIO, operator),
    ]
    for call in calls:

        def kernel(a, call=call):
            result = stored(a)
            call(a, result)
            return result

        assert launch(kernel, [[a] for a in inputs(3, (6, 4))]).codes == {"C021"}


@each_case(
    ("metadata", "options"),
    [
        pytest.param([[4, 4], [0, 5]], {}, id="beyond-the-source"),
        pytest.param([[5, 5], [0, 0]], {}, id="beyond-the-destination"),
        pytest.param(
            [[4, 4], [0, 4], [4, 4], [0, 5]],
            {"recv_counts_known": True, "has_rdispls": True},
            id="placed-beyond-the-destination",
        ),
        pytest.param([[4, 4], [0, 4], [4, 5]], {"recv_counts_known": True}, id="other-count"),
        pytest.param([[4, 4], [0, 4]], {"recv_counts_known": True}, id="row-missing"),
        pytest.param([[4, 4]], {}, id="one-row"),
        pytest.param([[4, 4, 0], [0, 4, 8]], {}, id="column-too-many"),
        pytest.param([4, 4, 0, 4], {}, id="flat"),
    ],
)
def test_ragged_runs_must_fit(metadata, options):
    def kernel(a, metadata):
        received = hbm((8,))
        ncc.all_to_all_v([a], [received], ncc.ReplicaGroup([[0, 1]]), metadata, **options)
        return received

    arguments = (np.zeros(8, np.float32), np.array(metadata, np.uint32))
    report = launch(kernel, [arguments] * 2, target="gen3")
    assert only_finding(report).rule.id == "C029"


# -- calls -----------------------------------------------------------------------------------------


def test_a_call_takes_one_list_with_an_entry_per_rank():
    sim = nkisim.simulate(leaves_early, ranks=2)
    a = inputs(1, (6, 4))[0]
    with pytest.raises(TypeError, match="ranks=2"):
        sim(a, 0)
    with pytest.raises(TypeError, match="ranks=2"):
        sim(inputs_per_rank=[[a, 0], [a, 1]])
    with pytest.raises(ValueError, match="3 entries for 2 ranks"):
        sim([[a, 0]] * 3)


@pytest.mark.parametrize("ranks", [0, -1, 1.5, "2"])
def test_ranks_are_a_positive_number(ranks):
    with pytest.raises(ValueError, match="ranks"):
        nkisim.simulate(leaves_early, ranks=ranks)


def test_collectives_belong_into_a_kernel():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        ncc.rank_id()
    assert caught.value.rule_id == "L063"


def test_an_unknown_argument_is_refused():
    def kernel(a):
        ncc.all_reduce(srcs=[a], dsts=[stored(a)], replica_group=TRIO, op=nl.add, dim=0)
        return a

    with pytest.raises(TypeError, match="dim"):
        nkisim.simulate(kernel, ranks=3)([[a] for a in inputs(3, (6, 4))])
