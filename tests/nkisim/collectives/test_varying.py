"""Collectives of runs of different lengths, and options of all collectives, by NKI version."""

import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from oracles import collectives as oracle
from releases import VERSIONS
from tiles import hbm

from ..harness_cores import no_hang, no_thread_left  # noqa: F401
from .harness import assert_each_equal, launch

LATER = VERSIONS[1:]
SLOTS = 5  # elements per sender in the destinations
GROUPS = {"one": ((0, 1, 2),), "pairs": ((0, 1), (2, 3)), "unsorted": ((3, 0), (1, 2))}


def copied(source):
    """A tensor of the kernel's own in HBM with the contents of an argument.

    Both cores write it, which is C034.
    """
    own = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=own, src=source)
    return own


def on_chip(source):
    """The rows of an argument on one partition of SBUF."""
    rows, columns = source.shape
    tile = nl.ndarray((1, rows, columns), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source.reshape((1, rows, columns)))
    return tile


def ordered(*tensors):
    """Orders the accesses of two cores, where there are two."""
    for tensor in tensors if nl.num_programs() == 2 else ():
        nisa.core_barrier(data=tensor, cores=(0, 1))


def exchanged(a, old, metadata, groups, known, in_sbuf, collective="all_to_all_v"):
    """The destination and the metadata after a collective of runs."""
    received, counts = copied(old), hbm(metadata.shape, nl.uint32)
    rows = on_chip(metadata) if in_sbuf else copied(metadata)
    group = ncc.ReplicaGroup(groups)
    ordered(received, rows)
    getattr(ncc, collective)([a], [received], group, rows, recv_counts_known=known)
    ordered(received, rows)
    nisa.dma_copy(dst=counts.reshape((1, *metadata.shape)) if in_sbuf else counts, src=rows)
    return received, counts


def ragged(groups, gather=False):
    """Counts and starts by (sender, receiver), sources and destinations of other sizes."""
    ranks = sum(len(group) for group in groups)
    rng = np.random.default_rng(1)
    counts, starts = np.zeros((2, ranks, ranks), np.int64)
    for rank in range(ranks):
        group = list(oracle.group_of(rank, groups))
        shape = 1 if gather else len(group)
        counts[rank, group] = rng.integers(0, SLOTS + 1, shape)
        starts[rank, group] = rng.integers(0, 24 - SLOTS, shape)
    data = [np.arange(24, dtype=np.float32).reshape(4, 6) + 100 * r for r in range(ranks)]
    old = [np.full(SLOTS * len(groups[0]), -1.0 - r, np.float32) for r in range(ranks)]
    return counts, starts, data, old


def metadata_of(rank, group, counts, starts, filler=99):
    """Rows 0 to 2 of a rank; row 2 holds what must not matter."""
    rows = [counts[rank, group], starts[rank, group], np.full(len(group), filler)]
    return np.array(rows, np.uint32)


@each_case("nki", LATER)
@each_case("groups", GROUPS.values(), ids=list(GROUPS))
@each_case("known, in_sbuf", [(False, False), (True, False), (False, True)])
def test_runs_land_in_slots_and_their_lengths_are_written(nki, groups, known, in_sbuf):
    counts, starts, data, old = ragged(groups)
    order = [list(oracle.group_of(rank, groups)) for rank in range(len(data))]
    metadata = [metadata_of(r, group, counts, starts) for r, group in enumerate(order)]
    by_rank = [(data[r], old[r], metadata[r], groups, known, in_sbuf) for r in range(len(data))]
    wanted, received = oracle.all_to_slots(data, old, groups, counts, starts)
    report = launch(exchanged, by_rank, nki=nki, target="gen3", source=False)
    assert report.codes == set(), str(report)
    assert_each_equal([got for got, _ in report.outputs], wanted)
    for (_, rows), before, lengths in zip(report.outputs, metadata, received, strict=True):
        np.testing.assert_array_equal(rows[:2], before[:2])
        np.testing.assert_array_equal(rows[2], before[2] if known else lengths)


PLACED = [[[2, 3], [0, 2], [0, 0], [4, 0]], [[3, 1], [1, 4], [0, 0], [0, 5]]]


@each_case("nki", ["0.4.0", "0.5.0"])
def test_runs_land_at_the_places_of_row_3(nki):
    def kernel(a, metadata):
        received = copied(a)
        rows = copied(metadata)
        ncc.all_to_all_v([a], [received], ncc.ReplicaGroup([[0, 1]]), rows, has_rdispls=True)
        return received

    data = [np.arange(8, dtype=np.float32), 10 + np.arange(8, dtype=np.float32)]
    metadata = [np.array(rows, np.uint32) for rows in PLACED]
    report = launch(kernel, list(zip(data, metadata, strict=True)), nki=nki, target="gen3")
    wanted = [array.copy() for array in data]
    for r, rows in enumerate(PLACED):
        for sender in range(2):
            count, first = PLACED[sender][0][r], PLACED[sender][1][r]
            wanted[r][rows[3][sender] : rows[3][sender] + count] = data[sender][first:][:count]
    assert report.codes <= {"M007"}, str(report)  # what was copied is overwritten
    assert_each_equal(report.outputs, wanted)


# -- all_gather_v ----------------------------------------------------------------------------------

FOUR = ((0, 1, 2, 3),)


@each_case("in_sbuf, known", [(False, False), (False, True), (True, False)])
def test_every_rank_gets_the_runs_of_all(in_sbuf, known):
    counts, starts, data, old = ragged(FOUR, gather=True)
    metadata = [metadata_of(r, list(FOUR[0]), counts, starts) for r in range(4)]
    for rows in metadata:
        rows[:2, 1:] = 77  # only the first column is read
    by_rank = [
        (data[r], old[r], metadata[r], FOUR, known, in_sbuf, "all_gather_v") for r in range(4)
    ]
    options = {"nki": "0.6.0", "target": "gen3", "source": False}
    if in_sbuf:  # which of the cores would have the lengths is not documented
        report = launch(exchanged, by_rank, **options)
        assert report.codes == {"C037"}
    else:
        report = launch(exchanged, by_rank, cores=2, **options)
        assert report.codes <= {"C034"}, str(report)
    wanted, received = oracle.all_to_slots(data, old, FOUR, counts, starts)
    assert_each_equal([got for got, _ in report.outputs], wanted)
    for (_, rows), lengths in zip(report.outputs, received, strict=True):
        np.testing.assert_array_equal(rows[2], [99] * 4 if known else lengths)


@each_case("nki", VERSIONS[:3])
def test_versions_before_have_no_all_gather_v(nki, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", nki)
    assert not hasattr(ncc, "all_gather_v")
    monkeypatch.setenv("NKISIM_NKI", "0.6.0")
    assert hasattr(ncc, "all_gather_v")


# -- limits ----------------------------------------------------------------------------------------


def called(collective, ranks, rows, *, target, nki, cores=None, groups=None, **options):
    """Rules that a collective of runs of one element breaks."""
    group = ncc.ReplicaGroup(groups or [list(range(ranks))])

    def kernel(a, metadata):
        received = hbm((len(group.groups[0]),))
        nisa.dma_copy(dst=received, src=a[0 : len(group.groups[0])])
        own = copied(metadata)
        getattr(ncc, collective)([a], [received], group, own, **options)
        return received

    count = len(group.groups[0])
    metadata = np.array([[1] * count, [0] * count, [1] * count, list(range(count))], np.uint32)
    rank = (np.zeros(16, np.float32), metadata[:rows])
    return launch(kernel, [rank] * ranks, cores, target=target, nki=nki, source=False).codes


def test_all_gather_v_needs_four_ranks_of_two_cores_without_places():
    on = {"target": "gen3", "nki": "0.6.0"}
    assert called("all_gather_v", 4, 3, cores=2, **on) <= {"C034"}
    assert "C037" in called("all_gather_v", 4, 3, **on)
    assert "C037" in called("all_gather_v", 2, 3, cores=2, **on)
    assert "C037" in called("all_gather_v", 4, 4, cores=2, has_rdispls=True, **on)


@each_case("nki", LATER)
def test_all_to_all_v_on_gen4_needs_whole_devices_of_two_cores(nki):
    assert called("all_to_all_v", 2, 3, target="gen3", nki=nki) == set()
    assert called("all_to_all_v", 8, 3, cores=2, target="gen4", nki=nki) <= {"C034"}
    for ranks, cores, groups in (
        (8, None, None),
        (4, 2, None),
        (8, 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ):
        found = called("all_to_all_v", ranks, 3, cores=cores, groups=groups, target="gen4", nki=nki)
        assert "C037" in found, (ranks, cores, groups)


@each_case("nki", LATER)
def test_places_are_for_gen4_from_0_6_on(nki):
    found = called("all_to_all_v", 2, 4, target="gen3", nki=nki, has_rdispls=True)
    assert found == ({"C037"} if nki == "0.6.0" else set())


MISFITS = {
    "two rows": [[1, 1], [0, 1]],
    "five rows": [[1, 1], [0, 1], [0, 0], [0, 1], [0, 0]],
    "a column too many": [[1, 1, 0], [0, 1, 0], [0, 0, 0]],
    "beyond the source": [[1, 1], [0, 8], [0, 0]],
    "beyond its slot": [[5, 1], [0, 1], [0, 0]],
}


@each_case("nki", LATER)
@each_case("metadata", MISFITS.values(), ids=list(MISFITS))
def test_metadata_must_fit(nki, metadata):
    def kernel(a, metadata):
        received = copied(a)
        ncc.all_to_all_v([a], [received], ncc.ReplicaGroup([[0, 1]]), copied(metadata))
        return received

    rank = (np.zeros(8, np.float32), np.array(metadata, np.uint32))
    assert launch(kernel, [rank] * 2, nki=nki, target="gen3", source=False).codes == {"C029"}


def test_metadata_lies_contiguously():
    def kernel(a, metadata):
        received = copied(a)
        own = copied(metadata)
        ncc.all_to_all_v([a], [received], ncc.ReplicaGroup([[0, 1]]), own[:, 0:2])
        return received

    metadata = np.array([[1, 1, 9], [0, 1, 9], [0, 0, 9]], np.uint32)
    report = launch(kernel, [(np.zeros(8, np.float32), metadata)] * 2, nki="0.6.0", target="gen3")
    assert "contiguously" in report.findings[0].message


# -- options ---------------------------------------------------------------------------------------

PAIR = ncc.ReplicaGroup([[0, 1]])
CALLS = {
    "all_reduce": lambda a, o, **k: ncc.all_reduce([a], [o], PAIR, nl.add, **k),
    "collective_permute": lambda a, o, **k: ncc.collective_permute([a], [o], [(0, 1), (1, 0)], **k),
    "collective_permute_implicit": lambda a, o, **k: ncc.collective_permute_implicit(
        [[a]], [[o]], PAIR, **k
    ),
    "all_to_all": lambda a, o, **k: ncc.all_to_all([a], [o], PAIR, 0, **k),
}


def codes(call, nki, target, **options):
    def kernel(a):
        out = hbm(a.shape)
        call(a, out, **options)
        return out

    rank = (np.zeros((4, 4), np.float32),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKI_LNC1_SHARED_HBM", "1")
        return launch(kernel, [rank] * 2, nki=nki, target=target, source=False).codes


@each_case("call", CALLS.values(), ids=list(CALLS))
def test_priority_is_0_to_3_on_gen4_from_0_4_on(call):
    assert codes(call, "0.3.0", "gen4", priority=0) == {"A025"}
    for nki in LATER:
        for priority in (None, 0, 3):
            assert codes(call, nki, "gen4", priority=priority) == set()
        assert codes(call, nki, "gen3", priority=0) == {"A033"}
        for priority in (4, -1, 1.5, True, "0"):
            assert codes(call, nki, "gen4", priority=priority) == {"A025"}, priority


@each_case("call", CALLS.values(), ids=list(CALLS))
def test_a_name_is_text_from_0_5_on(call):
    assert codes(call, "0.4.0", "gen3", name="sum") == {"A025"}
    for nki in ("0.5.0", "0.6.0"):
        assert codes(call, nki, "gen3", name="sum") == set()
        assert codes(call, nki, "gen3", name=3) == {"A025"}


@each_case("nki", VERSIONS)
def test_objects_are_exported_by_the_language_from_0_4_on(nki, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", nki)
    assert hasattr(ncc, "NKIObject") == hasattr(nisa, "NKIObject") == (nki == "0.3.0")
    assert hasattr(nl, "NKIObject")


def test_rank_ids_check_their_name():
    with pytest.raises(TypeError, match="name must be None or text"):
        nkisim.simulate(lambda x: ncc.rank_id(name=3), nki="0.6")(np.zeros((1, 1), np.float32))
