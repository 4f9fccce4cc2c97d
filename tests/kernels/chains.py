"""Twins about the accumulator registers of the Scalar and Vector engines."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN4, f32, twin
from tiles import stored

RESET, ON = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce


def halves(tile):
    return tile[:, 0:32], tile[:, 32:64]


def tiles(rows=64):
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    return nl.ndarray((rows, 32), dtype=nl.float32, buffer=nl.sbuf), total


@twin(f32(64, 64))
def R006(a):
    left, right = halves(nl.load(a))
    out, total = tiles()
    nisa.activation(dst=out, op=nl.square, data=left, reduce_op=nl.add, reduce_cmd=ON)  # bad here
    nisa.activation(  # bad here
        dst=out,
        op=nl.square,
        data=right,
        reduce_op=nl.add,
        reduce_cmd=ON,
        reduce_res=total,
    )
    nisa.activation(dst=out, op=nl.square, data=left, reduce_op=nl.add, reduce_cmd=RESET)  # good
    nisa.activation(  # good
        dst=out, op=nl.square, data=right, reduce_op=nl.add, reduce_cmd=ON, reduce_res=total
    )
    return stored(total)


@twin(f32(64, 64), targets=GEN4)
def R007(a):
    left, right = halves(nl.load(a))
    out, total = tiles()
    nisa.tensor_scalar_cumulative(dst=out, src=left, op0=nl.add, op1=nl.add, imm0=0.0)  # good
    nisa.exponential(dst=out, src=left, max_value=4.0, reduce_cmd=RESET)
    nisa.tensor_scalar_cumulative(dst=out, src=left, op0=nl.add, op1=nl.add, imm0=0.0)  # bad
    nisa.exponential(dst=out, src=right, max_value=4.0, reduce_cmd=ON, reduce_res=total)  # here
    return stored(total)


@twin(f32(64, 64), targets=GEN4)
def R008(a):
    left, right = halves(nl.load(a))
    out, total = tiles()
    nisa.exponential(dst=out, src=left, max_value=1.0)  # good
    nisa.exponential(dst=out, src=left, max_value=4.0, reduce_cmd=RESET)
    nisa.exponential(dst=out, src=left, max_value=1.0)  # bad
    nisa.exponential(dst=out, src=right, max_value=4.0, reduce_cmd=ON, reduce_res=total)  # here
    return stored(total)


@twin(f32(64, 64))
def R009(a):
    left, right = halves(nl.load(a))
    out, total = tiles(32)
    nisa.activation(dst=out, op=nl.square, data=left[0:32], reduce_op=nl.add, reduce_cmd=RESET)
    low, _ = tiles()  # bad
    nisa.activation(  # bad here
        dst=low[32:64],
        op=nl.square,
        data=right[32:64],
        reduce_op=nl.add,
        reduce_cmd=ON,
        reduce_res=total,
    )
    nisa.activation(  # good
        dst=out, op=nl.square, data=right[0:32], reduce_op=nl.add, reduce_cmd=ON, reduce_res=total
    )
    return stored(total)
