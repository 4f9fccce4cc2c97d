"""The cost of Vector instructions against figures from the hardware documents."""

import nkisim.isa as nisa
import nkisim.language as nl

from ...each_case import each_case
from .cost_cases import (
    ALL,
    GHZ,
    ISSUE,
    LATER,
    VECTOR_TAIL,
    Case,
    check_cost,
    filled_psum,
    moved_by_register,
    one_tile,
    psum,
    sbuf,
    spread,
)

CASES = []


def case(name, targets, engine, cycles, call, tail=None, nki="", **fields):
    CASES.append(Case(name, targets, engine, cycles, call, tail, nki, fields))


# -- Vector ----------------------------------------------------------------------------------------


def vector(name, targets, cycles, call, **fields):
    """A case of Vector, whose tail counts from before the issue of the next instruction."""
    case(
        name,
        targets,
        "vector",
        lambda t: cycles(t) + ISSUE[t] if callable(cycles) else cycles + ISSUE[t],
        call,
        tail=lambda t: VECTOR_TAIL[t] - ISSUE[t] / GHZ["vector"][t],
        **fields,
    )


ON_VECTOR = {"engine": nisa.engine.vector}


def copied(dtype=nl.float32, to=None, of=sbuf, into=sbuf, step=1, count=512):
    def call():
        src = spread(of(128, step * count, dtype=dtype), step, count)
        nisa.tensor_copy(dst=into(128, count, dtype=to or dtype), src=src, **ON_VECTOR)

    return call


def narrow_sum(op=nl.add, step=1):
    def call():
        first, second = (
            spread(sbuf(128, step * 512, dtype=nl.bfloat16), step, 512) for _ in range(2)
        )
        dst = sbuf(128, 512, dtype=nl.bfloat16)
        nisa.tensor_tensor(dst=dst, data1=first, data2=second, op=op, **ON_VECTOR)

    return call


vector("every second bfloat16", ["trn2"], 256, copied(nl.bfloat16, step=2), fast_vector=True)
vector("a sum of bfloat16 on gen2", ["trn1"], 512, narrow_sum())
vector("a product of bfloat16 on gen2", ["trn1"], 512, narrow_sum(nl.multiply))
vector("a maximum of bfloat16 on gen2", ["trn1"], 1024, narrow_sum(nl.maximum))
vector("a sum of every second bfloat16 on gen2", ["trn1"], 1024, narrow_sum(step=2))


def copied_in_blocks():
    """Copy blocks of 128 contiguous columns, each 1024 bytes after the one before."""
    blocks = sbuf(128, 4, 256)[:, :, 0:128]
    nisa.tensor_copy(dst=sbuf(128, 4, 128), src=blocks, **ON_VECTOR)


def scaled(dtype=nl.float32, of=sbuf, into=sbuf, operand=2.0, count=512):
    def call():
        tile = of(128, count, dtype=dtype)
        column = sbuf(128, 1) if operand is None else operand
        nisa.tensor_scalar(
            dst=into(128, count, dtype=dtype), data=tile, op0=nl.multiply, operand0=column
        )

    return call


def added(dtype=nl.float32, second=sbuf, into=sbuf, count=512):
    def call():
        one, other = sbuf(128, count, dtype=dtype), second(128, count, dtype=dtype)
        dst = into(128, count, dtype=dtype)
        nisa.tensor_tensor(dst=dst, data1=one, data2=other, op=nl.add, **ON_VECTOR)

    return call


def fused(dtype=nl.float32, second=sbuf, count=512):
    def call():
        one, other = sbuf(128, count, dtype=dtype), second(128, count, dtype=dtype)
        nisa.scalar_tensor_tensor(
            dst=sbuf(128, count, dtype=dtype),
            data=one,
            op0=nl.multiply,
            operand0=2.0,
            op1=nl.add,
            operand1=other,
        )

    return call


# gen2 reads one element per cycle and lane; later ones two of four bytes, four of two bytes.
vector("a float32 copy", ("trn1",), 512, copied(), fast_vector=False)
vector("a float32 copy", LATER, 512 / 2, copied(), fast_vector=True)
vector("a bfloat16 copy", ("trn1",), 512, copied(nl.bfloat16), fast_vector=False)
vector("a bfloat16 copy", LATER, 512 / 4, copied(nl.bfloat16), fast_vector=True)
vector("a copy to bfloat16", LATER, 512 / 2, copied(to=nl.bfloat16))
vector("a copy of int32", LATER, 512 / 2, copied(nl.int32))
vector("a copy of int16", LATER, 512 / 2, copied(nl.int16))
vector("a copy of float8", ("trn2",), 512 / 2, copied(nl.float8_e4m3))
vector("a copy of float8", ("trn3",), 512 / 4, copied(nl.float8_e4m3))
vector("a float32 copy from PSUM", ALL, 512, copied(of=filled_psum), fast_vector=False)
vector("a bfloat16 copy from PSUM", LATER, 512 / 2, copied(nl.bfloat16, of=filled_psum))
vector("a bfloat16 copy to PSUM", LATER, 512 / 2, copied(nl.bfloat16, into=psum))
vector("a copy from PSUM to bfloat16", LATER, 512, copied(of=filled_psum, to=nl.bfloat16))
# Elements more than 16 bytes apart halve the rate of a port: 4 elements of float32 do not, 5 do.
vector("a float32 copy with step 4", ("trn1",), 512, copied(step=4))
vector("a float32 copy with step 5", ("trn1",), 512 * 2, copied(step=5))
vector("a float32 copy with step 4", LATER, 512 / 2, copied(step=4))
vector("a float32 copy with step 5", LATER, 512 / 2 * 2, copied(step=5))
vector("a bfloat16 copy with step 9", LATER, 512 / 2 * 2, copied(nl.bfloat16, step=9))
vector("a copy of blocks", LATER, 512 / 2, copied_in_blocks)
vector("a short copy", ALL, 64, copied(count=16))
vector("a short copy with a wide step", ALL, 64, copied(count=16, step=5))
vector("a float32 scaling", ("trn1",), 512, scaled())
vector("a float32 scaling", LATER, 512 / 2, scaled())
vector("a bfloat16 scaling", LATER, 512 / 4, scaled(nl.bfloat16))
vector("a float32 scaling by a column", LATER, 512 / 2, scaled(operand=None))
vector("a scaling from PSUM", ALL, 512, scaled(of=filled_psum))
# Two inputs in SBUF share its port.
vector("a float32 sum", ("trn1",), 2 * 512, added(), fast_vector=False)
vector("a float32 sum", LATER, 2 * 512 / 2, added(), fast_vector=True)
vector("a bfloat16 sum", LATER, 2 * 512 / 4, added(nl.bfloat16), fast_vector=True)
vector("a sum with PSUM", ALL, 512, added(second=filled_psum), fast_vector=False)
vector("a sum to PSUM", LATER, 2 * 512, added(into=psum), fast_vector=False)
vector("a scaled sum", ("trn1",), 2 * 512, fused())
vector("a scaled sum", LATER, 2 * 512 / 2, fused())
vector("a scaled bfloat16 sum", LATER, 2 * 512 / 4, fused(nl.bfloat16))
vector("a scaled sum with PSUM", ALL, 512, fused(second=filled_psum))


def reduced(dtype, to=None):
    return one_tile("tensor_reduce", dtype, out=(1, to or dtype), op=nl.add, axis=1)


FROM_SRC = ("dst", "src")
vector("a reciprocal", ("trn1",), 8 * 512, one_tile("reciprocal"))
vector("a reciprocal", LATER, 6 * 512, one_tile("reciprocal"))
vector("a reduction", ALL, 512, reduced(nl.float32))
vector("a bfloat16 reduction", ("trn1",), 512 / 2, reduced(nl.bfloat16))
vector("a bfloat16 reduction to float32", ("trn1",), 512, reduced(nl.bfloat16, nl.float32))
vector("a bfloat16 reduction", LATER, 512, reduced(nl.bfloat16))
vector("statistics", ALL, 512, one_tile("bn_stats", out=(6, nl.float32)))
vector("statistics joined", ALL, 13 * 60 / 3, one_tile("bn_aggr", count=60, out=(2, nl.float32)))
vector("the eight largest", ALL, 512, one_tile("max8", names=FROM_SRC, out=(8, nl.float32)))
vector("an exponential", ("trn3",), 512 / 4, one_tile("exponential", names=FROM_SRC))
vector(
    "a running sum",
    ALL,
    512,
    one_tile("tensor_scalar_cumulative", names=FROM_SRC, op0=nl.multiply, op1=nl.add, imm0=1.0),
)
vector(
    "a shuffle",
    ALL,
    512,
    one_tile("nc_stream_shuffle", names=FROM_SRC, shuffle_mask=list(range(32))),
)
vector("a fill", ALL, 512, lambda: nisa.memset(sbuf(128, 512), value=1.0, **ON_VECTOR))
vector("random numbers", ("trn3",), 512 / 4, lambda: nisa.rand2(sbuf(128, 512), min=0.0, max=1.0))
vector("random bits", ALL, 512, lambda: nisa.rng(dst=sbuf(128, 512, dtype=nl.uint32), **ON_VECTOR))


def scanned():
    tiles = {name: sbuf(128, 512) for name in ("dst", "data0", "data1")}
    nisa.tensor_tensor_scan(**tiles, initial=0.0, op0=nl.multiply, op1=nl.add)


def scaled_and_reduced():
    nisa.tensor_scalar_reduce(
        dst=sbuf(128, 512),
        data=sbuf(128, 512),
        op0=nl.multiply,
        operand0=2.0,
        reduce_op=nl.add,
        reduce_res=sbuf(128, 1),
    )


def selected(place=sbuf, **options):
    def call():
        tiles = {"dst": sbuf(128, 512), "on_true": place(128, 512)}
        columns = {name: make() for name, make in options.items()}
        nisa.select_reduce(
            **tiles, predicate=sbuf(128, 512, dtype=nl.uint8), on_false=0.0, **columns
        )

    return call


def copied_where(place=sbuf):
    def call():
        predicate = sbuf(128, 512, dtype=nl.uint8)
        nisa.tensor_copy_predicated(sbuf(128, 512), src=place(128, 512), predicate=predicate)

    return call


vector("a scan", ALL, 2 * 512, scanned)
vector("a scaling with a sum", ALL, 512 + 64, scaled_and_reduced)
vector("a selection", ("trn1",), 2 * 512, selected())
vector("a selection", LATER, 512, selected())
# Its largest elements are read from the accumulator registers.
maximum = selected(reduce_res=lambda: sbuf(128, 1), reduce_cmd=lambda: nisa.reduce_cmd.reset_reduce)
vector("a selection with a maximum", ("trn1",), 2 * 512 + 64, maximum)
vector("a selection with a maximum", LATER, 512 + 64, maximum)
# SBUF and PSUM have separate ports.
vector("a selection from PSUM", ALL, 512, selected(filled_psum))
vector("a predicated copy", ("trn1",), 2 * 512, copied_where())
vector("a predicated copy", LATER, 512, copied_where())
vector("a predicated copy from PSUM", ALL, 512, copied_where(filled_psum))


def seeded():
    nisa.set_rng_seed(sbuf(1, 1, dtype=nl.int32))


case("a seed", ALL, "vector", 64, seeded, tail=VECTOR_TAIL.get)


# An address from a register: at least 600 cycles.
vector("a dynamic copy", LATER, 600, moved_by_register("tensor_copy", **ON_VECTOR))
vector(
    "a long dynamic copy",
    LATER,
    2048 / 2,
    moved_by_register("tensor_copy", count=2048, **ON_VECTOR),
)


@each_case("case", CASES)
def test_a_vector_instruction_costs_its_cycles_and_its_tail(case):
    check_cost(case)
