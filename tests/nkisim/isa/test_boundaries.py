"""The last call that an instruction takes, and what is said of the first that it does not.

The limits are those of the instruction reference; what is found is compared word by word.
"""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case

from .boundaries import BF16, F8, F16, F32, GEN3, GEN4, tile, told

ORDER = list(range(32))
WORDS = "D039 rand_set_state src_seeds must be uint32"


def shuffle(mask, rows=32, to=None, starts=(0, 0)):
    def call():
        nisa.nc_stream_shuffle(
            dst=tile((to or rows, 8), start=starts[1]),
            src=tile((rows, 8), start=starts[0]),
            shuffle_mask=mask,
        )

    return call


def found(ids, dst, **options):
    def call():
        nisa.sequence_bounds(dst=tile(dst, nl.int32), segment_ids=tile(ids, nl.int32))

    return call


def counted(src, dst):
    def call():
        nisa.nonzero_with_count(dst=tile(dst, nl.int32), src=tile(src, nl.int32))

    return call


def searched(elements, values=8, indices=8):
    def call():
        data = tile((4, elements))
        nisa.max8(dst=tile((4, values)), src=data)
        nisa.nc_find_index8(dst=tile((4, indices), nl.uint32), data=data, vals=tile((4, 8)))

    return call


def statistics(elements, dst=6):
    def call():
        nisa.bn_stats(dst=tile((4, dst)), data=tile((4, elements)))

    return call


def joined(elements, dst=2):
    def call():
        nisa.bn_aggr(dst=tile((4, dst)), data=tile((4, elements)))

    return call


def reduced(shape, axis, dst, **settings):
    def call():
        nisa.tensor_reduce(dst=tile(dst), op=nl.add, data=tile(shape), axis=axis, **settings)

    return call


def over_partitions(dst):
    def call():
        nisa.tensor_partition_reduce(dst=tile(dst), op=nl.add, data=tile((8, 6)))

    return call


def range_selected(start, columns=64, dst=F32, peak=F32, fill=-3.4028235e38):
    def call():
        nisa.range_select(
            dst=tile((4, columns), dst),
            on_true_tile=tile((4, columns)),
            comp_op0=nl.greater_equal,
            comp_op1=nl.less,
            bound0=tile((4, 1)),
            bound1=tile((4, 1)),
            reduce_res=tile((4, 1), peak),
            range_start=start,
            on_false_value=fill,
        )

    return call


def numbered(dtype, pattern, offset=0, step=0, rows=4):
    def call():
        columns = int(np.prod([count for _, count in pattern]))
        nisa.iota(
            dst=tile((rows, columns), dtype),
            pattern=pattern,
            offset=offset,
            channel_multiplier=step,
        )

    return call


def filled(dtype, value):
    def call():
        nisa.memset(dst=tile((4, 8), dtype), value=value)

    return call


def sent(rows, columns, dtype, **settings):
    def call():
        other = 1 - nl.program_id(0)
        nisa.sendrecv(
            src=tile((rows, columns), dtype),
            dst=tile((rows, columns), dtype),
            send_to_rank=other,
            recv_from_rank=other,
            pipe_id=0,
            dma_engine=nisa.dma_engine.gpsimd_dma,
            **settings,
        )

    return call


def state(words, rows=4, dtype=nl.uint32, shape=None, **settings):
    def call():
        nisa.rand_set_state(src_seeds=tile(shape or (rows, words), dtype), **settings)

    return call


CALLS = {
    # Rows within quadrants.
    "shuffled": (GEN3, shuffle([255, 31, *range(30)]), ""),
    "shuffled, 31": (
        GEN3,
        shuffle(ORDER[1:]),
        "S051 nc_stream_shuffle shuffle_mask has 31 entries",
    ),
    "shuffled, 33": (
        GEN3,
        shuffle([*ORDER, 0]),
        "S051 nc_stream_shuffle shuffle_mask has 33 entries",
    ),
    "shuffled, 32 in it": (
        GEN3,
        shuffle([32, *ORDER[1:]]),
        "S051 nc_stream_shuffle shuffle_mask holds 32",
    ),
    "shuffled, -1 in it": (
        GEN3,
        shuffle([-1, *ORDER[1:]]),
        "S051 nc_stream_shuffle shuffle_mask holds -1",
    ),
    "shuffled, 254 in it": (
        GEN3,
        shuffle([254, *ORDER[1:]]),
        "S051 nc_stream_shuffle shuffle_mask holds 254",
    ),
    "shuffled, 1.0 in it": (
        GEN3,
        shuffle([1.0, *ORDER[1:]]),
        "S051 nc_stream_shuffle shuffle_mask holds 1.0",
    ),
    "shuffled to 96": (GEN3, shuffle(ORDER, starts=(32, 96)), ""),
    "shuffled 64 to 64": (GEN3, shuffle(ORDER, rows=64, starts=(0, 64)), ""),
    "shuffled 64 to 32": (
        GEN3,
        shuffle(ORDER, rows=64, starts=(0, 32)),
        "S051 nc_stream_shuffle src and dst start at partitions [0, 32] with 64 active partitions",
    ),
    "shuffled 96": (
        GEN3,
        shuffle(ORDER, rows=33, starts=(32, 0)),
        "S051 nc_stream_shuffle src and dst start at partitions [32, 0] with 64 active partitions",
    ),
    # GpSimd.
    "bounds": (GEN3, found((1, 6), (1, 2, 6)), ""),
    "bounds, flat": (GEN3, found((1, 6), (1, 12)), ""),
    "bounds, rows": (
        GEN3,
        found((2, 6), (1, 2, 6)),
        "S056 sequence_bounds dst must be (1, 2, 6) for segment_ids (2, 6), got (1, 2, 6)",
    ),
    "bounds, dst": (
        GEN3,
        found((1, 6), (2, 2, 6)),
        "S056 sequence_bounds dst must be (1, 2, 6) for segment_ids (1, 6), got (2, 2, 6)",
    ),
    "bounds, turned": (
        GEN3,
        found((1, 6), (1, 6, 2)),
        "S056 sequence_bounds dst must be (1, 2, 6) for segment_ids (1, 6), got (1, 6, 2)",
    ),
    "bounds, short": (
        GEN3,
        found((1, 6), (1, 2, 5)),
        "S056 sequence_bounds dst must be (1, 2, 6) for segment_ids (1, 6), got (1, 2, 5)",
    ),
    "counted": (GEN3, counted((32, 6), (32, 7)), ""),
    "counted, no room": (
        GEN3,
        counted((32, 6), (32, 6)),
        "S057 nonzero_with_count dst must have 7 elements per partition, got 6",
    ),
    "counted, more room": (
        GEN3,
        counted((32, 6), (32, 8)),
        "S057 nonzero_with_count dst must have 7 elements per partition, got 8",
    ),
    "numbered": (GEN3, numbered(nl.uint8, [[1, 256]]), ""),
    "numbered, 256": (
        GEN3,
        numbered(nl.uint8, [[1, 257]]),
        "D019 iota writes 256, which does not fit uint8",
    ),
    "numbered, rows": (GEN3, numbered(nl.int8, [[-1, 2]], 124, 1), ""),
    "numbered, last row": (
        GEN3,
        numbered(nl.int8, [[-1, 2]], 125, 1),
        "D019 iota writes 128, which does not fit int8",
    ),
    "numbered, below": (
        GEN3,
        numbered(nl.int8, [[-1, 2], [-2, 3]], -124),
        "D019 iota writes -129, which does not fit int8",
    ),
    "numbered, lowest": (GEN3, numbered(nl.int8, [[-1, 2], [-2, 3]], -123), ""),
    # The Vector engine.
    "searched, 8": (GEN3, searched(8), ""),
    "searched, 16384": (GEN3, searched(16384), ""),
    "searched, 7": (GEN3, searched(7), "S048 max8 src has 7 elements per partition"),
    "searched, 16385": (GEN3, searched(16385), "S048 max8 src has 16385 elements per partition"),
    "searched for 7": (
        GEN3,
        searched(16, values=7),
        "S048 max8 dst must have 8 elements per partition, got 7",
    ),
    "searched, 9 found": (
        GEN3,
        searched(16, indices=9),
        "S048 nc_find_index8 dst must have 8 elements per partition, got 9",
    ),
    "statistics": (GEN3, statistics(512), ""),
    "statistics, 513": (
        GEN3,
        statistics(513),
        "S047 bn_stats data has 513 elements per partition, more than bn_stats_fmax=512",
    ),
    "statistics, 5": (
        GEN3,
        statistics(8, dst=5),
        "S047 bn_stats dst must have 6 elements per partition, got 5",
    ),
    "joined": (GEN3, joined(6), ""),
    "joined, 7": (
        GEN3,
        joined(7),
        "S047 bn_aggr data has 7 elements per partition, not a multiple of 3",
    ),
    "joined, 3": (
        GEN3,
        joined(6, dst=3),
        "S047 bn_aggr dst must have 2 elements per partition, got 3",
    ),
    "reduced": (GEN3, reduced((4, 3, 5), 2, (4, 3)), ""),
    "reduced, -1": (GEN3, reduced((4, 3, 5), -1, (4, 3)), ""),
    "reduced, all": (GEN3, reduced((4, 3, 5), (1, 2), (4, 1)), ""),
    "reduced, all backwards": (GEN3, reduced((4, 3, 5), [-1, 1], (4, 1)), ""),
    "reduced, middle": (
        GEN3,
        reduced((4, 3, 5), 1, (4, 5)),
        "A006 tensor_reduce axis=1 is dimension 1 of (4, 3, 5), not the last one",
    ),
    "reduced, middle of four": (
        GEN3,
        reduced((4, 3, 5, 2), 2, (4, 6)),
        "S044 tensor_reduce axis 2 of a tensor of shape (4, 3, 5, 2) is not a group of trailing "
        "free dimensions",
    ),
    "reduced, rows": (
        GEN3,
        reduced((4, 3), (0, 1), (4, 1)),
        "S044 tensor_reduce axis (0, 1) of a tensor of shape (4, 3) is not a group of trailing "
        "free dimensions",
    ),
    "reduced, dst": (
        GEN3,
        reduced((4, 3, 5), 2, (4, 4)),
        "S045 tensor_reduce dst must hold 3 elements per partition, got shape (4, 4)",
    ),
    "over partitions": (GEN3, over_partitions((1, 6)), ""),
    "over partitions, rows": (
        GEN3,
        over_partitions((2, 6)),
        "S046 tensor_partition_reduce dst must have shape (1, 6), got (2, 6)",
    ),
    "over partitions, columns": (
        GEN3,
        over_partitions((1, 5)),
        "S046 tensor_partition_reduce dst must have shape (1, 6), got (1, 5)",
    ),
    "range": (GEN3, range_selected(2**24 - 64), ""),
    "range, 2^24": (
        GEN3,
        range_selected(2**24 - 63),
        "D030 range_select positions reach 16777216",
    ),
    "range, narrow peak": (GEN3, range_selected(0, peak=BF16), ""),
    "range, narrow result": (GEN3, range_selected(0, dst=BF16), ""),
    "range, all narrow": (
        GEN3,
        range_selected(0, dst=F16, peak=BF16),
        "D031 range_select reduce_res is bfloat16 while dst is float16: a fully masked row gives "
        "-inf in both",
    ),
    # Constants.
    "filled, 2^24": (GEN3, filled(F32, 2**24), ""),
    "filled, 2^24 + 1": (
        GEN3,
        filled(F32, 2**24 + 1),
        "D018 memset value 16777217 is not exact in float32",
    ),
    "filled, 127": (GEN3, filled(nl.int8, 127), ""),
    "filled, -128": (GEN3, filled(nl.int8, -128), ""),
    "filled, 128": (GEN3, filled(nl.int8, 128), "D019 memset writes 128, which does not fit int8"),
    "filled, 240": (GEN3, filled(F8, 240.0), ""),
    "filled, 65504": (GEN3, filled(F16, 65504.0), ""),
    # Other cores.
    "sent, 4 bytes": (GEN3, sent(16, 256, F32), ""),
    "sent, 2 bytes": (GEN3, sent(16, 256, BF16), ""),
    "sent, 1 byte": (GEN3, sent(16, 256, nl.uint8), ""),
    "sent, 1028": (
        GEN3,
        sent(16, 257, F32),
        "C015 sendrecv by gpsimd_dma moves 16 partitions of 1028 bytes",
    ),
    "sent, 514": (
        GEN3,
        sent(16, 257, BF16),
        "C015 sendrecv by gpsimd_dma moves 16 partitions of 514 bytes",
    ),
    "sent, 257": (
        GEN3,
        sent(16, 257, nl.uint8),
        "C015 sendrecv by gpsimd_dma moves 16 partitions of 257 bytes",
    ),
    "sent, 17": (
        GEN3,
        sent(17, 8, F32),
        "C015 sendrecv by gpsimd_dma moves 17 partitions of 32 bytes",
    ),
    # Generators.
    "state": (GEN3, state(6), ""),
    "state, 24": (GEN4, state(24), ""),
    "state, 24 of gen3": (GEN3, state(24), f"{WORDS} (P, 6) for gpsimd, got uint32 (4, 24)"),
    "state, 7": (
        GEN4,
        state(7),
        f"{WORDS} (P, 6) for gpsimd or (P, 24) for vector, got uint32 (4, 7)",
    ),
    "state, signed": (
        GEN3,
        state(6, dtype=nl.int32),
        f"{WORDS} (P, 6) for gpsimd, got int32 (4, 6)",
    ),
    "state, three dimensions": (
        GEN3,
        state(6, shape=(4, 2, 3)),
        f"{WORDS} (P, 6) for gpsimd, got uint32 (4, 2, 3)",
    ),
    "state, named": (
        GEN4,
        state(6, engine=nisa.engine.vector),
        f"{WORDS} (P, 24) for vector, got uint32 (4, 6)",
    ),
}


@each_case("name", CALLS)
def test_what_is_said_at_a_limit(name):
    target, call, message = CALLS[name]
    wanted = [message] if message else []
    assert told(call, target, cores=2 if name.startswith("sent") else 1) == wanted
