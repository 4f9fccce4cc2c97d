"""Every collective gives every rank what its definition says."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from oracles import collectives as oracle
from pairwise import pairwise
from tiles import hbm, sbuf, stored

from .harness import DTYPES, OPS, SHORT_KERNELS, assert_each_equal, inputs, launch, outputs

MEMORIES = ["hbm", "sbuf"]
GROUPS = [
    pytest.param([[0, 1], [2, 3]], id="neighbours"),
    pytest.param([[0, 2], [1, 3]], id="strided"),
    pytest.param([[3, 1], [2, 0]], id="unsorted"),
    pytest.param([[1, 3, 0, 2]], id="one-unsorted"),
    pytest.param([[0], [1], [2], [3]], id="alone"),
]

each_dtype = each_case("dtype", DTYPES)
each_memory = pytest.mark.parametrize("memory", MEMORIES)
SIZES = range(1, 9)
each_size = each_case("ranks", SIZES)
each_grouping = pytest.mark.parametrize("groups", GROUPS)


def world(ranks):
    return [list(range(ranks))]


def in_memory(a, memory):
    """The argument itself, or a tile with its contents."""
    return a if memory == "hbm" else nl.load(a)


def made_in(shape, dtype, memory):
    return hbm(shape, dtype) if memory == "hbm" else sbuf(shape, dtype)


def all_reduce(a, groups, op, memory):
    total = made_in(a.shape, a.dtype, memory)
    ncc.all_reduce([in_memory(a, memory)], [total], ncc.ReplicaGroup(groups), OPS[op])
    return total if memory == "hbm" else stored(total)


def all_gather(a, groups, dim, memory):
    shape = list(a.shape)
    shape[dim] *= len(groups[0])
    whole = made_in(shape, a.dtype, memory)
    ncc.all_gather([in_memory(a, memory)], [whole], ncc.ReplicaGroup(groups), dim)
    return whole if memory == "hbm" else stored(whole)


def reduce_scatter(a, groups, op, memory):
    part = made_in((a.shape[0] // len(groups[0]), *a.shape[1:]), a.dtype, memory)
    ncc.reduce_scatter([in_memory(a, memory)], [part], ncc.ReplicaGroup(groups), 0, OPS[op])
    return part if memory == "hbm" else stored(part)


def all_to_all(a, groups):
    received = hbm(a.shape, a.dtype)
    ncc.all_to_all([a], [received], ncc.ReplicaGroup(groups), 0)
    return received


def by_rank(arrays, *rest):
    """Arguments of every rank; the lists among them travel as tuples."""
    fixed = [tuple(map(tuple, r)) if isinstance(r, list) else r for r in rest]
    return [(array, *fixed) for array in arrays]


# -- reductions ------------------------------------------------------------------------------------


@each_size
@each_dtype
@each_memory
def test_all_reduce_adds_over_any_number_of_ranks(ranks, dtype, memory):
    data = inputs(ranks, (16, 5), dtype)
    got = outputs(all_reduce, by_rank(data, world(ranks), "add", memory))
    assert_each_equal(got, oracle.all_reduce(data, world(ranks), "add"))


@each_case("op", OPS)
@each_grouping
@each_dtype
def test_all_reduce_stays_inside_its_group(op, groups, dtype):
    data = inputs(4, (3, 2, 5), dtype)
    got = outputs(all_reduce, by_rank(data, groups, op, "hbm"))
    assert_each_equal(got, oracle.all_reduce(data, groups, op))


def test_float32_sums_are_within_their_rounding():
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((64, 33), dtype=np.float32) for _ in range(8)]
    got = outputs(all_reduce, by_rank(data, world(8), "add", "hbm"))
    exact = np.sum(np.array(data, np.float64), axis=0)
    # Seven additions, each within half an ulp (2^-24) of a partial sum below the sum of magnitudes;
    # the factor 1.01 covers the second-order terms.
    bound = 1.01 * 7 * 2.0**-24 * np.sum(np.abs(np.array(data, np.float64)), axis=0)
    for result in got:
        assert (np.abs(result - exact) <= bound).all()
        np.testing.assert_array_equal(result, got[0])


def test_bfloat16_sums_are_rounded_once():
    # bfloat16 has a step of 2 from 256 on: rounding after each addition would lose both ones.
    data = [np.full((4, 4), value, ml_dtypes.bfloat16) for value in (256, 1, 1)]
    got = outputs(all_reduce, by_rank(data, world(3), "add", "hbm"))
    for result in got:
        np.testing.assert_array_equal(result.astype(np.float32), 258)


def test_integers_beyond_float32_are_reported():
    data = [np.full((4, 4), 2**24 + 1, np.int32), np.zeros((4, 4), np.int32)]
    assert launch(all_reduce, by_rank(data, world(2), "add", "hbm")).codes == {"D016"}


@each_case(("op", "ranks", "dtype"), pairwise(list(OPS), SIZES, list(DTYPES)))
@each_memory
def test_reduce_scatter_leaves_each_rank_its_slice(op, ranks, dtype, memory):
    data = inputs(ranks, (3 * ranks, 7), dtype)
    got = outputs(reduce_scatter, by_rank(data, world(ranks), op, memory))
    assert_each_equal(got, oracle.reduce_scatter(data, world(ranks), op))


@each_grouping
def test_reduce_scatter_slices_by_position_in_the_group(groups):
    data = inputs(4, (8, 3, 2))
    got = outputs(reduce_scatter, by_rank(data, groups, "add", "hbm"))
    assert_each_equal(got, oracle.reduce_scatter(data, groups, "add"))


# -- gathers and exchanges -------------------------------------------------------------------------


@each_size
@each_dtype
@each_case(("memory", "dim"), [("hbm", 0), ("sbuf", 0), ("sbuf", 1)])
def test_all_gather_joins_along_a_dimension(ranks, dtype, memory, dim):
    data = inputs(ranks, (16, 5), dtype)
    got = outputs(all_gather, by_rank(data, world(ranks), dim, memory))
    assert_each_equal(got, oracle.all_gather(data, world(ranks), dim))


@each_grouping
def test_all_gather_follows_the_order_of_the_group(groups):
    data = inputs(4, (2, 3, 5))
    got = outputs(all_gather, by_rank(data, groups, 0, "hbm"))
    assert_each_equal(got, oracle.all_gather(data, groups, 0))


def test_all_gather_keeps_every_bit():
    rng = np.random.default_rng(0)
    bits = [rng.integers(0, 2**32, (4, 64), np.uint64).astype(np.uint32) for _ in range(3)]
    data = [array.view(np.float32) for array in bits]
    got = outputs(all_gather, by_rank(data, world(3), 0, "hbm"))
    for result in got:
        np.testing.assert_array_equal(result.view(np.uint32), np.concatenate(bits))


@each_size
@each_dtype
def test_all_to_all_transposes_slices(ranks, dtype):
    data = inputs(ranks, (2 * ranks, 3), dtype)
    got = outputs(all_to_all, by_rank(data, world(ranks)))
    assert_each_equal(got, oracle.all_to_all(data, world(ranks)))


@each_grouping
def test_all_to_all_stays_inside_its_group(groups):
    data = inputs(4, (4, 3))
    got = outputs(all_to_all, by_rank(data, groups))
    assert_each_equal(got, oracle.all_to_all(data, groups))


def test_all_to_all_twice_is_nothing():
    def twice(a):
        there, back = hbm(a.shape), hbm(a.shape)
        ncc.all_to_all([a], [there], ncc.ReplicaGroup([[0, 1, 2, 3]]), 0)
        ncc.all_to_all([there], [back], ncc.ReplicaGroup([[0, 1, 2, 3]]), 0)
        return back

    data = inputs(4, (8, 3))
    assert_each_equal(outputs(twice, by_rank(data)), data)


# -- several tensors, in place ---------------------------------------------------------------------


def coalesced(a, b, c):
    group = ncc.ReplicaGroup([[0, 1, 2]])
    tensors = [a, b, c]
    sums = [hbm(t.shape, t.dtype) for t in tensors]
    ncc.all_reduce(tensors, sums, group, nl.add)
    wholes = [hbm((3 * t.shape[0], *t.shape[1:]), t.dtype) for t in tensors]
    ncc.all_gather(tensors, wholes, group, 0)
    parts = [hbm((t.shape[0] // 3, *t.shape[1:]), t.dtype) for t in tensors]
    ncc.reduce_scatter(tensors, parts, group, 0, nl.maximum)
    swapped = [hbm(t.shape, t.dtype) for t in tensors]
    ncc.all_to_all(tensors, swapped, group, 0)
    return (*sums, *wholes, *parts, *swapped)


def test_several_tensors_travel_in_one_collective():
    kinds = [((3, 4), "float32"), ((6, 2, 5), "bfloat16"), ((9, 1), "int32")]
    data = [inputs(3, shape, dtype) for shape, dtype in kinds]
    got = outputs(coalesced, list(zip(*data, strict=True)))
    groups = world(3)
    wanted = [
        *(oracle.all_reduce(d, groups, "add") for d in data),
        *(oracle.all_gather(d, groups, 0) for d in data),
        *(oracle.reduce_scatter(d, groups, "maximum") for d in data),
        *(oracle.all_to_all(d, groups) for d in data),
    ]
    for i, expected in enumerate(wanted):
        assert_each_equal([results[i] for results in got], expected)


@each_memory
def test_a_collective_may_work_in_place(memory):
    def in_place(a):
        work = nl.load(a) if memory == "sbuf" else stored(a)
        ncc.all_reduce([work], [work], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)
        return stored(work)

    data = inputs(3, (8, 4))
    assert_each_equal(outputs(in_place, by_rank(data)), oracle.all_reduce(data, world(3), "add"))


def test_an_exchange_may_work_in_place():
    def in_place(a):
        work = stored(a)
        ncc.all_to_all([work], [work], ncc.ReplicaGroup([[0, 1, 2]]), 0)
        ncc.collective_permute([work], [work], [(0, 1), (1, 2), (2, 0)])
        return work

    data = inputs(3, (6, 4))
    moved = oracle.all_to_all(data, world(3))
    wanted = oracle.permute(moved, moved, [(0, 1), (1, 2), (2, 0)])
    assert_each_equal(outputs(in_place, by_rank(data)), wanted)


def test_an_argument_reduced_in_place_comes_back_to_the_caller():
    def in_place(a):
        ncc.all_reduce([a], [a], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return a

    data = inputs(2, (4, 4))
    wanted = oracle.all_reduce(data, world(2), "add")
    mine = [array.copy() for array in data]
    simulated = nkisim.simulate(in_place, ranks=2, ignore=SHORT_KERNELS)
    assert_each_equal(simulated([[a] for a in mine]), wanted)
    assert_each_equal(mine, wanted)


def test_views_are_read_and_written_as_they_are():
    def of_views(a):
        whole = hbm((4, 6))
        nisa.dma_copy(dst=whole, src=a)
        ncc.all_reduce([a[1:3, 0:6:2]], [whole[2:4, 1:4]], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return whole

    data = inputs(2, (4, 6))
    total = oracle.all_reduce([d[1:3, 0:6:2] for d in data], world(2), "add")
    wanted = [d.copy() for d in data]
    for array, sums in zip(wanted, total, strict=True):
        array[2:4, 1:4] = sums
    assert_each_equal(outputs(of_views, by_rank(data)), wanted)


def test_what_a_rank_brought_may_change_once_the_collective_is_over():
    def overwrites(a):
        work, total = nl.load(a), sbuf(a.shape)
        ncc.all_reduce([work], [total], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)
        nisa.memset(dst=work, value=99.0)
        again = sbuf(a.shape)
        ncc.all_reduce([total], [again], ncc.ReplicaGroup([[0, 1, 2]]), nl.maximum)
        return stored(again)

    data = inputs(3, (8, 4))
    wanted = oracle.all_reduce(data, world(3), "add")
    assert_each_equal(outputs(overwrites, by_rank(data)), wanted)


@each_case("seed", range(20))
def test_results_do_not_depend_on_the_schedule(seed):
    data = list(zip(inputs(3, (3, 4)), inputs(3, (6, 2)), inputs(3, (9, 1)), strict=True))
    wanted = outputs(coalesced, data)
    got = outputs(coalesced, data, schedule_seed=seed)
    for mine, expected in zip(got, wanted, strict=True):
        assert_each_equal(mine, expected)


def test_groups_of_different_shape_follow_each_other():
    rows, columns = [[0, 1], [2, 3]], [[0, 2], [1, 3]]

    def two_axes(a):
        first, second = hbm(a.shape), hbm((2 * a.shape[0], a.shape[1]))
        ncc.all_reduce([a], [first], ncc.ReplicaGroup(rows), nl.add)
        ncc.all_gather([first], [second], ncc.ReplicaGroup(columns), 0)
        return second

    data = inputs(4, (2, 3))
    wanted = oracle.all_gather(oracle.all_reduce(data, rows, "add"), columns, 0)
    assert_each_equal(outputs(two_axes, by_rank(data)), wanted)


def test_groups_may_meet_a_different_number_of_times():
    pairs, everyone = [[0, 1], [2, 3]], [[0, 1, 2, 3]]

    def kernel(a, rank):
        held = a
        for _ in range(3 if rank < 2 else 1):
            total = hbm(a.shape)
            ncc.all_reduce([held], [total], ncc.ReplicaGroup(pairs), nl.add)
            held = total
        whole = hbm(a.shape)
        ncc.all_reduce([held], [whole], ncc.ReplicaGroup(everyone), nl.add)
        return whole

    data = inputs(4, (2, 3))
    # Each of the three sums of the first pair doubles what both hold after the one before.
    wanted = 2 * 4 * (data[0] + data[1]) + 2 * (data[2] + data[3])
    got = outputs(kernel, [(array, rank) for rank, array in enumerate(data)])
    assert_each_equal(got, [wanted] * 4)


# -- permutations and ranks ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(0, 1), (1, 0), (2, 3), (3, 2)], id="swaps"),
        pytest.param([(0, 1), (1, 2), (2, 3)], id="shift"),
        pytest.param([(3, 0)], id="one"),
        pytest.param([(0, 0), (1, 3), (3, 1)], id="itself"),
        pytest.param([], id="none"),
    ],
)
def test_collective_permute_moves_along_its_pairs(pairs):
    def permute(a, b):
        received = stored(b)
        ncc.collective_permute([a], [received], pairs)
        return received

    data, old = inputs(4, (3, 5)), [np.full((3, 5), 100 + r, np.float32) for r in range(4)]
    got = outputs(permute, list(zip(data, old, strict=True)))
    assert_each_equal(got, oracle.permute(data, old, pairs))


def test_rank_id_is_the_rank():
    def whoami(a):
        out, own = hbm((1, 1), nl.int32), sbuf((1, 1), nl.int32)
        nisa.register_store(own, ncc.rank_id())
        nisa.dma_copy(dst=out, src=own)
        return out

    got = outputs(whoami, by_rank(inputs(5, (2, 2))))
    assert [int(result[0, 0]) for result in got] == [0, 1, 2, 3, 4]
