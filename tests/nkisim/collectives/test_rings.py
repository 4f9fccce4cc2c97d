"""Algorithms written with collectives: rings, ragged exchanges, and ranks of two cores."""

import numpy as np
import pytest

import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.collectives import (
    collective_permute_implicit_current_processing_rank_id as processing_rank,
)
from oracles import collectives as oracle
from tiles import hbm, sbuf, stored

from .harness import OPS, assert_each_equal, inputs, launch, outputs

RINGS = [
    pytest.param([[0, 1]], id="2"),
    pytest.param([[0, 1, 2]], id="3"),
    pytest.param([[0, 1, 2, 3, 4, 5, 6, 7]], id="8"),
    pytest.param([[0, 1], [2, 3]], id="pairs"),
    pytest.param([[2, 0, 3, 1]], id="unsorted"),
    pytest.param([[5, 1, 3], [0, 4, 2]], id="unsorted-triples"),
]
each_ring = each_case("groups", RINGS)


def size(groups):
    return sum(map(len, groups))


# -- rings -----------------------------------------------------------------------------------------


@each_ring
@each_case("memory", ["hbm", "sbuf"])
def test_a_ring_step_receives_from_the_rank_before(groups, memory):
    def step(a):
        mine, received = (a, hbm(a.shape)) if memory == "hbm" else (nl.load(a), sbuf(a.shape))
        ncc.collective_permute_implicit([[mine]], [[received]], ncc.ReplicaGroup(groups))
        return stored(received)

    data = inputs(size(groups), (4, 3))
    assert_each_equal(outputs(step, [[a] for a in data]), oracle.ring_step(data, groups))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_channels_carry_one_tensor_each(channels):
    def step(*tensors):
        received = [hbm(t.shape, t.dtype) for t in tensors]
        ncc.collective_permute_implicit(
            [[t] for t in tensors],
            [[t] for t in received],
            ncc.ReplicaGroup([[0, 1, 2]]),
            channel_ids=list(range(channels)),
        )
        return tuple(received)

    kinds = [((4, 3), "float32"), ((2, 5), "bfloat16"), ((3, 3), "int32"), ((1, 7), "float32")]
    data = [inputs(3, *kind) for kind in kinds[:channels]]
    got = outputs(step, list(zip(*data, strict=True)))
    for channel, tensors in enumerate(data):
        wanted = oracle.ring_step(tensors, [[0, 1, 2]])
        assert_each_equal([results[channel] for results in got], wanted)


@each_ring
def test_the_processing_rank_goes_around_the_ring(groups):
    def owners(a):
        length = len(groups[0])
        out, row = hbm((1, length), nl.int32), sbuf((1, length), nl.int32)
        for step in range(length):
            nisa.register_store(
                row[0:1, step : step + 1], processing_rank(step, ncc.ReplicaGroup(groups))
            )
        nisa.dma_copy(dst=out, src=row)
        return out

    got = outputs(owners, [[a] for a in inputs(size(groups), (2, 2))])
    for rank, result in enumerate(got):
        group = oracle.group_of(rank, groups)
        assert result[0].tolist() == [oracle.ring_owner(rank, s, group) for s in range(len(group))]


def chunk(tensor, number):
    """The ``number``-th slice along the first dimension, by a register."""
    _, rows, columns = tensor.shape
    return tensor.ap([[columns, rows], [1, columns]], scalar_offset=number, indirect_dim=0)


def ring_all_gather(groups):
    """The kernel that gathers by passing chunks around; results lie in the order of rank ids."""

    def kernel(a):
        group, ranks = ncc.ReplicaGroup(groups), size(groups)
        out = hbm((ranks, *a.shape), a.dtype)
        nl.store(out.reshape((ranks * a.shape[0], a.shape[1])), zeros(ranks * a.shape[0], a))
        held = a
        for step in range(len(groups[0])):
            nisa.dma_copy(dst=chunk(out, processing_rank(step, group)), src=held)
            if step + 1 < len(groups[0]):
                received = hbm(a.shape, a.dtype)
                ncc.collective_permute_implicit([[held]], [[received]], group)
                held = received
        return out

    return kernel


def zeros(rows, like):
    return nl.zeros((rows, like.shape[1]), dtype=like.dtype, buffer=nl.sbuf)


@each_ring
@each_case("dtype", ["float32", "bfloat16", "int32"])
def test_an_all_gather_by_a_ring(groups, dtype):
    data = inputs(size(groups), (4, 3), dtype)
    got = outputs(ring_all_gather(groups), [[a] for a in data])
    wanted = []
    for rank in range(size(groups)):
        result = np.zeros((size(groups), 4, 3), data[0].dtype)
        for peer in oracle.group_of(rank, groups):
            result[peer] = data[peer]
        wanted.append(result)
    assert_each_equal(got, wanted)


def ring_reduce_scatter(groups, op):
    """The kernel that reduces chunks on their way: chunk c starts behind rank c and ends at it."""

    def kernel(a):
        group, length = ncc.ReplicaGroup(groups), len(groups[0])
        shape = a.shape[1:]

        def own(step):
            picked = hbm(shape, a.dtype)
            nisa.dma_copy(dst=picked, src=chunk(a, processing_rank(step, group)))
            return picked

        partial = hbm(shape, a.dtype)
        ncc.collective_permute_implicit([[own(1)]], [[partial]], group)
        for step in range(2, length):
            received = hbm(shape, a.dtype)
            ncc.collective_permute_implicit_reduce(
                [[partial]], [[own(step)]], [[received]], group, OPS[op]
            )
            partial = received
        total = sbuf(shape, a.dtype)
        nisa.tensor_tensor(dst=total, data1=nl.load(partial), data2=nl.load(own(0)), op=OPS[op])
        return stored(total)

    return kernel


@each_ring
@each_case("op", OPS)
@each_case("dtype", ["float32", "bfloat16"])
def test_a_reduce_scatter_by_a_ring(groups, op, dtype):
    ranks = size(groups)
    data = inputs(ranks, (ranks, 4, 3), dtype)
    got = outputs(ring_reduce_scatter(groups, op), [[a] for a in data])
    wanted = [
        oracle.combined([data[peer][rank] for peer in oracle.group_of(rank, groups)], op)
        for rank in range(ranks)
    ]
    assert_each_equal(got, wanted)


def test_reducing_channels_keep_their_operands_apart():
    def step(a, b):
        first, second = hbm(a.shape), hbm(b.shape)
        group = ncc.ReplicaGroup([[0, 1, 2]])
        ncc.collective_permute_implicit_reduce(
            [[a], [b]], [[b], [b]], [[first], [second]], group, nl.maximum, channel_ids=[0, 1]
        )
        return first, second

    a, b = inputs(3, (4, 3)), [2 * array[::-1].copy() for array in inputs(3, (4, 3))]
    got = outputs(step, list(zip(a, b, strict=True)))
    largest = [oracle.combined(pair, "maximum") for pair in zip(a, b, strict=True)]
    assert_each_equal([r[0] for r in got], oracle.ring_step(largest, [[0, 1, 2]]))
    assert_each_equal([r[1] for r in got], oracle.ring_step(b, [[0, 1, 2]]))


def test_a_collective_takes_a_slice_chosen_by_a_register():
    def kernel(a):
        total = hbm((4, 3))
        own = chunk(a, ncc.rank_id())
        ncc.all_reduce([own], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return total

    data = inputs(2, (2, 4, 3))
    wanted = oracle.all_reduce([data[0][0], data[1][1]], [[0, 1]], "add")
    assert_each_equal(outputs(kernel, [[a] for a in data]), wanted)


# -- all_to_all_v ----------------------------------------------------------------------------------

RAGGED = [
    pytest.param([[0, 1, 2]], id="one-group"),
    pytest.param([[0, 1], [2, 3]], id="pairs"),
    pytest.param([[3, 0], [1, 2]], id="unsorted"),
]


def ragged(groups):
    """Counts and starts by (sender, receiver), zero counts among them, and source arrays."""
    ranks = size(groups)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, (ranks, ranks))
    counts[0, :] = 0  # rank 0 sends nothing
    for r in range(ranks):
        for s in range(ranks):
            if s not in oracle.group_of(r, groups):
                counts[r, s] = 0
    # Every receiver's run starts one element behind the run before it.
    starts = np.cumsum(counts + 1, axis=1) - counts
    data = [np.arange(24, dtype=np.float32).reshape(4, 6) + 100 * r for r in range(ranks)]
    return counts, starts, data


def exchange(a, old, metadata, groups, known, placed):
    received = stored(old)
    ncc.all_to_all_v(
        [a],
        [received],
        ncc.ReplicaGroup(groups),
        metadata,
        recv_counts_known=known,
        has_rdispls=placed,
    )
    return received


@each_case("groups", RAGGED)
@each_case(("known", "placed"), [(False, False), (True, False), (True, True)])
def test_ragged_runs_arrive_in_order_or_at_their_place(groups, known, placed):
    counts, starts, data = ragged(groups)
    ranks = size(groups)
    # Received runs lie backwards, with a gap of one element, when they may.
    places = 20 - np.cumsum(counts.T + 1, axis=1)
    rows = [[counts[r], starts[r]] for r in range(ranks)]
    for r in range(ranks):
        rows[r] += [counts[:, r]] if known else []
        rows[r] += [places[r]] if placed else []
    old = [np.full((4, 6), -1 - r, np.float32) for r in range(ranks)]
    by_rank = [
        (data[r], old[r], np.array(rows[r], np.uint32), tuple(map(tuple, groups)), known, placed)
        for r in range(ranks)
    ]
    wanted = oracle.all_to_all_v(data, old, groups, counts, starts, places if placed else None)
    assert_each_equal(outputs(exchange, by_rank, target="gen3"), wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "int32"])
def test_ragged_runs_count_elements_not_bytes(dtype):
    def swap(a, metadata):
        received = hbm((3, 2), a.dtype)
        ncc.all_to_all_v([a], [received], ncc.ReplicaGroup([[0, 1]]), metadata)
        return received

    data = inputs(2, (3, 2), dtype)
    metadata = np.array([[2, 4], [0, 2]], np.uint32), np.array([[4, 2], [0, 4]], np.uint32)
    got = outputs(swap, list(zip(data, metadata, strict=True)))
    flat = [array.reshape(-1) for array in data]
    wanted = [
        np.concatenate([flat[0][0:2], flat[1][0:4]]).reshape(3, 2),
        np.concatenate([flat[0][2:6], flat[1][4:6]]).reshape(3, 2),
    ]
    assert_each_equal(got, wanted)


def test_what_no_rank_sends_stays_unwritten():
    def swap(a, metadata):
        received = hbm((6,))
        ncc.all_to_all_v([a], [received], ncc.ReplicaGroup([[0, 1]]), metadata)
        return received

    metadata = np.array([[2, 2], [0, 2]], np.uint32)
    report = launch(swap, [(np.arange(6, dtype=np.float32), metadata)] * 2)
    assert report.codes == {"M006"}
    assert [finding.seen for finding in report] == ["unwritten: inside [4:6]"]


def test_places_without_counts_need_all_four_rows():
    metadata = np.array([[4, 4], [0, 4], [0, 4]], np.uint32)
    rank = (np.zeros(8, np.float32), np.zeros(8, np.float32), metadata, ((0, 1),), False, True)
    assert launch(exchange, [rank] * 2, target="gen3").codes == {"C029"}


def test_places_without_counts_lie_in_the_fourth_row():
    # Row 2 is of no use without recv_counts_known; its contents must not matter.
    metadata = np.array([[3, 5], [0, 3], [9, 9], [1, 4]], np.uint32)
    other = np.array([[4, 2], [0, 4], [9, 9], [0, 5]], np.uint32)
    data = [np.arange(8, dtype=np.float32), 10 + np.arange(8, dtype=np.float32)]
    old = [np.full(8, -1, np.float32)] * 2
    by_rank = [
        (data[r], old[r], m, ((0, 1),), False, True) for r, m in enumerate((metadata, other))
    ]
    wanted = [
        np.array([-1, 0, 1, 2, 10, 11, 12, 13], np.float32),
        np.array([3, 4, 5, 6, 7, 14, 15, -1], np.float32),
    ]
    assert_each_equal(outputs(exchange, by_rank, target="gen3"), wanted)


# -- ranks of two cores ----------------------------------------------------------------------------


def sharded_sum(a):
    """Square ``a``, half on each core; add over the ranks; double, half on each core."""
    core = nl.program_id(0)
    half = slice(4 * core, 4 * core + 4)
    squares, total, out = hbm(a.shape), hbm(a.shape), hbm(a.shape)
    nl.store(squares[half], nl.square(nl.load(a[half])))
    nisa.core_barrier(data=squares, cores=(0, 1))
    ncc.all_reduce([squares], [total], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)
    nisa.core_barrier(data=total, cores=(0, 1))
    # The other core's half: what core 0 wrote in the collective must be there on both cores.
    other = slice(4 - 4 * core, 8 - 4 * core)
    nl.store(out[other], nl.multiply(nl.load(total[other]), 2.0))
    return out


@each_case("seed", [None, *range(20)])
def test_ranks_may_have_two_cores(seed):
    # Squares of halves below 8 are quarters below 64; sums of three need 10 bits.
    data = inputs(3, (8, 5))
    got = outputs(sharded_sum, [[a] for a in data], cores=2, schedule_seed=seed)
    assert_each_equal(got, [sum(np.square(a) for a in data) * np.float32(2)] * 3)


def test_a_collective_result_read_by_the_other_core_needs_a_barrier():
    def unordered(a):
        total, out = hbm(a.shape), hbm((2, *a.shape))
        ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
        nisa.dma_copy(dst=out[nl.program_id(0)], src=total)
        return out

    assert launch(unordered, [[a] for a in inputs(2, (8, 5))], cores=2).codes == {"C007"}


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_exchanges_of_cores_and_of_ranks_mix(seed):
    def mixed(a):
        core = nl.program_id(0)
        mine, got = nl.load(a), sbuf(a.shape)
        out, there = hbm((2, *a.shape)), hbm((2, *a.shape))
        for number in range(3):
            nisa.tensor_scalar(dst=mine, data=mine, op0=nl.add, operand0=float(core + number))
            nisa.sendrecv(mine, got, 1 - core, 1 - core, pipe_id=number % 2)
            nl.store(out[core], got)
            nisa.core_barrier(data=out, cores=(0, 1))
            ncc.collective_permute([out], [there], [(0, 1), (1, 0)])
            nisa.core_barrier(data=there, cores=(0, 1))
            nisa.dma_copy(dst=mine, src=there[core])
            nisa.core_barrier(data=there, cores=(0, 1))
        return stored_once(mine)

    def stored_once(tile):
        out = hbm((2, *tile.shape))
        nl.store(out[nl.program_id(0)], tile)
        return out

    data = inputs(2, (8, 5))
    held = {(rank, core): data[rank] for rank in range(2) for core in range(2)}
    for number in range(3):
        sent = {(r, c): tile + np.float32(c + number) for (r, c), tile in held.items()}
        held = {(r, c): sent[1 - r, 1 - c] for r, c in held}
    wanted = [np.stack([held[rank, 0], held[rank, 1]]) for rank in range(2)]
    got = outputs(mixed, [[a] for a in data], cores=2, schedule_seed=seed)
    assert_each_equal(got, wanted)
