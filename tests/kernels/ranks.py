"""Twins about collectives and replica groups."""

import numpy as np

import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2_3, GEN3_UP, GEN4, ByRank, f32, twin
from nkisim.collectives import (
    collective_permute_implicit_current_processing_rank_id as processing_rank,
)
from tiles import stored

PAIR = ncc.ReplicaGroup([[0, 1]])
RANK = ByRank((0, 1))
LNC1 = {"lnc": 1}
NEWEST = {"nki": "0.7.0"}


def hbm(shape, dtype=nl.float32, name="received"):
    """Return a new tensor in shared HBM, with the name that a tensor of collectives needs."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm, name=name)


def own(tensor, name="sent"):
    """Return a copy of an argument of the kernel, which collectives do not take."""
    copy = hbm(tensor.shape, tensor.dtype, name)
    nisa.dma_copy(dst=copy, src=tensor)
    return copy


def sbuf(shape, dtype=nl.float32):
    """Return a new tile in SBUF."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


@twin(f32(64, 32), ranks=2)
def A011(a):
    a = own(a)
    received = hbm(a.shape)
    ncc.collective_permute_implicit([[a]], [[received]], PAIR)  # bad
    rank = processing_rank(1, PAIR, num_channels=1)  # bad here
    ncc.collective_permute_implicit([[a]], [[received]], PAIR, channel_ids=[0])  # good
    rank = processing_rank(1, PAIR)  # good
    out = hbm((2, 64, 32), name="out")
    nl.store(out[0], nl.load(a))
    nl.store(out[1], nl.load(received))
    nisa.register_move(nisa.register_alloc(), rank)
    return out


@twin(f32(64, 32), ranks=2, options=LNC1)
def C016(a):
    a = own(a)  # bad
    total = sbuf(a.shape)  # bad
    ncc.all_reduce([a], [total], PAIR, nl.add)  # bad here
    mine, total = nl.load(a), sbuf(a.shape)  # good
    ncc.all_reduce([mine], [total], PAIR, nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=2, options=LNC1)
def C016_psum(a):
    product, total = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum), sbuf((32, 32))
    nisa.nc_matmul(dst=product, stationary=nl.load(a), moving=nl.load(a))
    ncc.all_reduce([product], [total], PAIR, nl.add)  # bad here
    evicted = sbuf((32, 32))  # good
    nisa.tensor_copy(dst=evicted, src=product)  # good
    ncc.all_reduce([evicted], [total], PAIR, nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=2, options=LNC1)
def C017(a):
    mine, sums = [nl.load(a), nl.exp(nl.load(a))], [sbuf(a.shape), sbuf(a.shape)]
    ncc.all_reduce(mine, sums, PAIR, nl.add)  # bad here
    for i in range(2):  # good
        ncc.all_reduce([mine[i]], [sums[i]], PAIR, nl.add)
    return stored(sums[0]), stored(sums[1])


@twin(f32(64, 32), f32(64, 8), ranks=2)
def C017_lists(a, b):
    a, b = own(a), own(b, "other")
    total = hbm(a.shape)  # bad
    ncc.all_reduce([a, b], [total], PAIR, nl.add)  # bad here
    return stored(total)  # bad
    total, other = hbm(a.shape), hbm(b.shape, name="sums")  # good
    ncc.all_reduce([a, b], [total, other], PAIR, nl.add)  # good
    return stored(total), stored(other)  # good


@twin(f32(64, 32), ranks=2)
def C018(a):
    a = own(a)
    out = hbm((64, 64))  # bad
    ncc.all_gather([a], [out], PAIR, collective_dim=1)  # bad here
    out = hbm((128, 32))  # good
    ncc.all_gather([a], [out], PAIR, collective_dim=0)  # good
    return stored(out)


@twin(f32(64, 32), ranks=2, options=LNC1)
def C018_scatter(a):
    mine, part = nl.load(a), sbuf((64, 16))  # bad
    ncc.reduce_scatter([mine], [part], PAIR, collective_dim=1, op=nl.add)  # bad here
    mine, part = nl.load(a), sbuf((32, 32))  # good
    ncc.reduce_scatter([mine], [part], PAIR, collective_dim=0, op=nl.add)  # good
    return stored(part)


@twin(f32(64, 32), ranks=2)
def C019(a):
    a = own(a)
    out = hbm(a.shape)  # bad
    out = hbm((128, 32))  # good
    ncc.all_gather([a], [out], PAIR, collective_dim=0)  # here
    return stored(out)


@twin(f32(63, 32), ranks=2)
def C019_remainder(a):
    a = own(a)  # bad
    part = hbm((31, 32))  # bad
    ncc.reduce_scatter([a], [part], PAIR, collective_dim=0, op=nl.add)  # bad here
    padded, part = hbm((64, 32), name="padded"), hbm((32, 32))  # good
    nl.store(padded[0:63], nl.load(a))  # good
    nl.store(padded[63:64], nl.zeros((1, 32), dtype=nl.float32, buffer=nl.sbuf))  # good
    ncc.reduce_scatter([padded], [part], PAIR, collective_dim=0, op=nl.add)  # good
    return stored(part)


@twin(f32(64, 32), ranks=2)
def C020(a):
    a = own(a)
    total = hbm(a.shape, nl.bfloat16)  # bad
    total = hbm(a.shape, nl.float32)  # good
    ncc.all_reduce([a], [total], PAIR, nl.add)  # here
    return stored(total)


@twin(f32(64, 32), ranks=2)
def C020_shape(a):
    a = own(a)
    received = hbm((32, 64))  # bad
    received = hbm((64, 32))  # good
    ncc.collective_permute([a], [received], [(0, 1), (1, 0)])  # here
    return stored(received)


@twin(f32(64, 32), ranks=2)
def C021(a):
    a = own(a)
    total = hbm(a.shape)
    ncc.all_reduce([a], [total], PAIR, nl.multiply)  # bad here
    ncc.all_reduce([a], [total], PAIR, nl.maximum)  # good
    return stored(total)


@twin(f32(64, 32), ranks=4)
def C022(a):
    a = own(a)
    total = hbm(a.shape)
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1], [1, 2]]), nl.add)  # bad here
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1], [2, 3]]), nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=3)
def C022_sizes(a):
    a = own(a)
    total = hbm(a.shape)
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1], [2]]), nl.add)  # bad here
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=2)
def C022_world(a):
    a = own(a)
    total = hbm(a.shape)
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[1, 2]]), nl.add)  # bad here
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=2)
def C022_missing(a):
    a = own(a)
    total = hbm(a.shape)
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0]]), nl.add)  # bad here
    ncc.all_reduce([a], [total], ncc.ReplicaGroup([[0], [1]]), nl.add)  # good
    return stored(total)


@twin(f32(64, 32), RANK, ranks=2)
def C023(a, rank):
    a = own(a)
    total, everyone = hbm(a.shape), hbm((128, 32), name="everyone")
    if rank == 0:  # bad
        ncc.all_reduce([a], [total], PAIR, nl.add)  # here
        ncc.all_gather([a], [everyone], PAIR, collective_dim=0)
    else:
        ncc.all_gather([a], [everyone], PAIR, collective_dim=0)  # here
        ncc.all_reduce([a], [total], PAIR, nl.add)
    ncc.all_reduce([a], [total], PAIR, nl.add)  # good
    ncc.all_gather([a], [everyone], PAIR, collective_dim=0)  # good
    return stored(total), stored(everyone)


@twin(f32(64, 32), ByRank((64, 60)), ranks=2)
def C023_counts(a, rows):
    a = own(a)
    total = hbm((rows, 32))  # bad
    ncc.all_reduce([a[0:rows]], [total], PAIR, nl.add)  # bad here
    total = hbm((60, 32))  # good
    ncc.all_reduce([a[0:60]], [total], PAIR, nl.add)  # good
    return stored(total)


@twin(f32(64, 32), RANK, ranks=2)
def C024(a, rank):
    a = own(a)
    total = hbm(a.shape)
    if rank == 0:  # bad
        ncc.all_reduce([a], [total], PAIR, nl.add)  # here
    else:
        nl.store(total, nl.load(a))
    ncc.all_reduce([a], [total], PAIR, nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=3)
def C025(a):
    received, a = own(a, "received"), own(a)
    ncc.collective_permute([a], [received], [(0, 1), (0, 2)])  # bad here
    ncc.collective_permute([a], [received], [(0, 1), (1, 2)])  # good
    return stored(received)


@twin(f32(64, 32), ranks=2, options=LNC1)
def C025_memory(a):
    mine, received = nl.load(a), sbuf(a.shape)  # bad
    ncc.collective_permute([mine], [received], [(0, 1), (1, 0)])  # bad here
    a = own(a)  # good
    received = hbm(a.shape)  # good
    ncc.collective_permute([a], [received], [(0, 1), (1, 0)])  # good
    return stored(received)


@twin(f32(64, 32), ranks=2)
def C025_tensors(a):
    a = own(a)
    first, second = hbm(a.shape), hbm(a.shape, name="second")
    ncc.collective_permute([a, a], [first, second], [(0, 1), (1, 0)])  # bad here
    ncc.collective_permute([a], [first], [(0, 1), (1, 0)])  # good
    ncc.collective_permute([a], [second], [(0, 1), (1, 0)])  # good
    return stored(first), stored(second)


@twin(f32(64, 32), ranks=2)
def C026(a):
    a = own(a)
    received = hbm(a.shape)
    ncc.collective_permute_implicit([[a]], [[received]], PAIR, channel_ids=[1])  # bad here
    ncc.collective_permute_implicit([[a]], [[received]], PAIR, channel_ids=[0])  # good
    return stored(received)


@twin(f32(4, 64, 32), ranks=4)
def C026_number(a):
    a = own(a)
    out, pairs = hbm(a.shape), ncc.ReplicaGroup([[0, 1], [2, 3]])
    srcs, dsts = [], []
    for i in range(4):
        srcs.append([a[i]])
        dsts.append([out[i]])
    ncc.collective_permute_implicit(srcs, dsts, pairs, channel_ids=[0, 1, 2, 3])  # bad here
    for i in (0, 2):  # good
        part = slice(i, i + 2)
        ncc.collective_permute_implicit(srcs[part], dsts[part], pairs, channel_ids=[0, 1])
    return stored(out)


@twin(f32(64, 32), ranks=2)
def C026_lists(a):
    a = own(a)
    first, second = hbm(a.shape), hbm(a.shape, name="second")
    ncc.collective_permute_implicit([[a, a]], [[first, second]], PAIR)  # bad here
    ncc.collective_permute_implicit(  # good
        [[a], [a]], [[first], [second]], PAIR, channel_ids=[0, 1]
    )
    return stored(first), stored(second)


@twin(f32(64, 32), ranks=2)
def C027(a):
    out, step = hbm((2, 64, 32)), nisa.register_alloc()
    for i in range(1, 3):  # bad
        rank = processing_rank(i, PAIR)  # here
        nisa.register_move(step, rank)
        nl.store(out[i - 1], nl.load(a))
    for i in range(2):  # good
        rank = processing_rank(i, PAIR)
        nisa.register_move(step, rank)
        nl.store(out[i], nl.load(a))
    return out


@twin(f32(64, 32), ranks=2, options=LNC1)
def C028(a):
    mine, received = nl.load(a), sbuf(a.shape)  # bad
    ncc.all_to_all([mine], [received], PAIR, collective_dim=0)  # bad here
    a = own(a)  # good
    received = hbm(a.shape)  # good
    ncc.all_to_all([a], [received], PAIR, collective_dim=0)  # good
    return stored(received)


@twin(f32(64, 32), ranks=2)
def C028_dimension(a):
    a = own(a)
    received = hbm(a.shape)
    ncc.all_to_all([a], [received], PAIR, collective_dim=1)  # bad here
    ncc.all_to_all([a], [received], PAIR, collective_dim=0)  # good
    return stored(received)


def counts(*rows):
    """Return metadata of all_to_all_v."""
    return np.array(rows, np.uint32)


EVEN = counts([4, 4], [0, 4])


@twin(f32(8), EVEN.astype(np.int32), fixed=(f32(8), EVEN), ranks=2)
def C029(a, sends):
    a = own(a)
    received = hbm((8,))
    ncc.all_to_all_v([a], [received], PAIR, sends)  # here
    return stored(received)


@twin(f32(8), counts([4, 4], [0, 5]), fixed=(f32(8), EVEN), ranks=2)
def C029_source(a, sends):
    a = own(a)
    received = hbm((8,))
    ncc.all_to_all_v([a], [received], PAIR, sends)  # here
    return stored(received)


@twin(f32(8), counts([4, 4], [0, 4], [4, 3]), fixed=(f32(8), counts(*EVEN, [4, 4])), ranks=2)
def C029_received(a, sends):
    a = own(a)
    received = hbm((8,))
    ncc.all_to_all_v([a], [received], PAIR, sends, recv_counts_known=True)  # here
    return stored(received)


@twin(f32(8), f32(8), EVEN, ranks=2)
def C029_tensors(a, b, sends):
    a, b = own(a), own(b, "other")
    first, second = hbm((8,)), hbm((8,), name="second")
    ncc.all_to_all_v([a, b], [first, second], PAIR, sends)  # bad here
    ncc.all_to_all_v([a], [first], PAIR, sends)  # good
    ncc.all_to_all_v([b], [second], PAIR, sends)  # good
    return stored(first), stored(second)


@twin(f32(8), counts([4, 4], [0, 4], [4, 4], [4, 0]), ranks=2, targets=GEN4)
def C030(a, sends):
    a = own(a)
    received = hbm((8,))  # bad
    ncc.all_to_all_v([a], [received], PAIR, sends, True, has_rdispls=True)  # bad here
    return stored(received)  # bad
    received, turned = hbm((8,)), hbm((8,), name="turned")  # good
    counts = hbm(sends.shape, nl.uint32, "counts")  # good
    nl.store(counts, nl.load(sends))  # good
    ncc.all_to_all_v([a], [received], PAIR, counts[0:3], recv_counts_known=True)  # good
    nisa.dma_copy(dst=turned[0:4], src=received[4:8])  # good
    nisa.dma_copy(dst=turned[4:8], src=received[0:4])  # good
    return turned  # good


@twin(f32(64, 32), ranks=2)
def C032(a):
    window = own(a, "window")  # bad
    ncc.all_reduce([window[0:48]], [window[16:64]], PAIR, nl.add)  # bad here
    window, total = own(a, "window"), hbm((48, 32))  # good
    ncc.all_reduce([window[0:48]], [total], PAIR, nl.add)  # good
    nl.store(window[16:64], nl.load(total))  # good
    return stored(window)


@twin(f32(64, 32), ranks=2, targets=GEN3_UP)
def C039_sbuf(a):
    mine, total = nl.load(a), sbuf(a.shape)  # bad
    mine, total = own(a), hbm(a.shape)  # good
    ncc.all_reduce([mine], [total], PAIR, nl.add)  # here
    return stored(total)


@twin(f32(64, 32), ranks=2)
def C043(a):
    total = hbm(a.shape)
    ncc.all_reduce([a], [total], PAIR, nl.add)  # bad here
    ncc.all_reduce([own(a)], [total], PAIR, nl.add)  # good
    return stored(total)


@twin(f32(64, 32), ranks=2)
def C043_output(a):
    total = hbm(a.shape)
    ncc.all_reduce([own(a)], [total], PAIR, nl.add)  # here
    return total  # bad
    return stored(total)  # good


@twin(f32(64, 32), ranks=2)
def C044(a):
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # bad
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="total")  # good
    ncc.all_reduce([own(a)], [total], PAIR, nl.add)  # here
    return stored(total)


SLOTS = counts([8, 8], [0, 0], [0, 0])


@twin(
    *(f32(8), counts(*EVEN, [0, 0]), 8),
    fixed=(f32(8), SLOTS, 16),
    ranks=2,
    targets=GEN2_3,
    options=NEWEST,
)
def C045(a, sends, size):
    received = hbm((size,))
    ncc.all_to_all_v([own(a)], [received], PAIR, own(sends, "sends"))  # here
    return stored(received)


@twin(
    *(f32(8), counts([8, 8], [0, 0], [0, 0], [0, 8])),
    ranks=2,
    targets=("gen3",),
    options=NEWEST,
)
def C046(a, sends):
    received = hbm((16,))
    ncc.all_to_all_v([own(a)], [received], PAIR, own(sends, "sends"), has_rdispls=True)  # bad here
    ncc.all_to_all_v([own(a)], [received], PAIR, own(sends, "sends"))  # good
    return stored(received)
