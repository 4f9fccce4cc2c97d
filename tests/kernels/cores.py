"""Twins about launch grids, the two cores of a logical core, and what they share."""

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, bf16, f32, host_twin, twin
from tiles import stored


@nkisim.jit
def halves(a):
    """Copy ``a``, each core its part of the rows."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows = a.shape[0] // nl.num_programs()
    first = nl.program_id(0) * rows
    nl.store(out[first : first + rows], nl.load(a[first : first + rows]))
    return out


@host_twin
def C001():
    return nkisim.simulate(halves[4])(f32(64, 32))  # bad here
    return nkisim.simulate(halves[2])(f32(64, 32))  # good


@host_twin
def C001_tuple():
    return nkisim.simulate(halves[(2, 1)])(f32(64, 32))  # bad here
    return nkisim.simulate(halves[2])(f32(64, 32))  # good


@host_twin
def C001_generation():
    @nkisim.jit
    def doubled(a):  # here
        return stored(nl.add(nl.load(a), nl.load(a)))

    return nkisim.simulate(doubled[2], target="gen2")(f32(64, 32))  # bad

    return nkisim.simulate(doubled[1], target="gen2")(f32(64, 32))  # good


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C002(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    first = nl.program_id(1) * 32  # bad here
    first = nl.program_id(0) * 32  # good
    nl.store(out[first : first + 32], nl.load(a[first : first + 32]))
    return out


@twin(f32(65, 32), cores=2, targets=GEN3_UP)
def C002_number_of_programs(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    cores = nl.num_programs(axes=1)  # bad here
    cores = nl.num_programs(axes=0)  # good
    for row in range(nl.program_id(), 65, cores):
        nl.store(out[row : row + 1], nl.load(a[row : row + 1]))
    return out


@twin(f32(65, 32), cores=2, targets=GEN3_UP)
def C004(a):
    first, last = (0, 33) if nl.program_id(0) == 0 else (33, 65)
    out = nl.ndarray((last - first, 32), dtype=a.dtype, buffer=nl.shared_hbm)  # bad here
    nl.store(out, nl.load(a[first:last]))  # bad
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # good
    nl.store(out[first:last], nl.load(a[first:last]))  # good
    return out


@twin(f32(32, 32), cores=2, targets=GEN3_UP)
def C005(a):
    out = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    spilled = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.shared_hbm)  # good
    if nl.program_id(0) == 1:
        spilled = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.shared_hbm)  # bad here
        nl.store(spilled, tile)
        tile = nl.load(spilled)
    nl.store(out[nl.program_id(0)], tile)
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C007(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    squared = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    rows = slice(32 * nl.program_id(0), 32 * nl.program_id(0) + 32)
    nl.store(squared[rows], nl.square(nl.load(a[rows])))
    nisa.core_barrier(data=squared, cores=(0, 1))  # good
    tile = nl.load(squared)  # here
    nl.store(out[nl.program_id(0)], tile)
    return out


@twin(f32(64, 32))
def C003(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # here
    first = nl.program_id(0) * 32  # bad
    nl.store(out[first : first + 32], nl.load(a[first : first + 32]))  # bad
    rows = 64 // nl.num_programs()  # good
    first = nl.program_id(0) * rows  # good
    nl.store(out[first : first + rows], nl.load(a[first : first + rows]))  # good
    return out


@twin(f32(2, 32, 32), cores=2, targets=GEN3_UP)
def C006(a):
    out = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    nl.store(half[core], nl.load(a[core]))
    if core == 0:  # bad
        nisa.core_barrier(data=half, cores=(0, 1))  # here
    else:
        nisa.core_barrier(data=half, cores=(0, 1))  # here
    nisa.core_barrier(data=half, cores=(0, 1))  # good
    nl.store(out[core], nl.load(half[1 - core]))
    return out


@twin(f32(2, 32, 32), cores=2, targets=GEN3_UP)
def C010(a):
    out = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.private_hbm)  # bad
    half = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.shared_hbm)  # good
    core = nl.program_id(0)
    nl.store(half[core], nl.load(a[core]))
    nisa.core_barrier(data=out, cores=(0, 1))  # bad
    nisa.core_barrier(data=half, cores=(0, 1))  # good
    nl.store(out[core], nl.load(half[1 - core]))  # here
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C012(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    box = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    for first in range(0, 64, 32):
        if nl.program_id(0) == 0:
            nl.store(box, nl.load(a[first : first + 32]))  # here
        nisa.core_barrier(data=box, cores=(0, 1))
        if nl.program_id(0) == 1:
            nl.store(out[first : first + 32], nl.load(box))
        nisa.core_barrier(data=box, cores=(0, 1))  # good
    return out


@twin(f32(64, 32), f32(64, 32), cores=2, targets=GEN3_UP)
def C008(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    first, mine = 31 * nl.program_id(0), a if nl.program_id(0) == 0 else b  # bad
    nl.store(out[first : first + 33], nl.square(nl.load(mine[0:33])))  # bad here
    first, mine = 32 * nl.program_id(0), a if nl.program_id(0) == 0 else b  # good
    nl.store(out[first : first + 32], nl.square(nl.load(mine[0:32])))  # good
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C034(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.square(nl.load(a)))  # bad here
    rows = slice(32 * nl.program_id(0), 32 * nl.program_id(0) + 32)  # good
    nl.store(out[rows], nl.square(nl.load(a[rows])))  # good
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C009(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out[nl.program_id(0)], nl.load(a))
    if nl.program_id(0) == 0:  # bad
        nisa.core_barrier(data=out, cores=(0, 1))  # here
    nisa.core_barrier(data=out, cores=(0, 1))  # good
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C009_cores(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out[nl.program_id(0)], nl.load(a))
    nisa.core_barrier(data=out, cores=(0, 1, 2, 3))  # bad here
    nisa.core_barrier(data=out, cores=(0, 1))  # good
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C035(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out[nl.program_id(0)], tile)
    nisa.core_barrier(data=tile, cores=(0, 1))  # bad here
    nisa.core_barrier(data=out, cores=(0, 1))  # good
    return out


@twin(f32(64, 32), targets=GEN3_UP)
def C035_alone(a):
    out = stored(nl.load(a))
    nisa.core_barrier(data=out, cores=(0, 1))  # bad here
    if nl.num_programs() == 2:  # good
        nisa.core_barrier(data=out, cores=(0, 1))
    return out


def exchange_out(tile):
    """Return a new output that holds one tile of each core."""
    out = nl.ndarray((2, tile.shape[0], tile.shape[1]), dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[nl.program_id(0)], src=tile)
    return out


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C013(a):
    mine, got = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    core = nl.program_id(0)
    nisa.sendrecv(  # bad here
        src=mine, dst=got, send_to_rank=core, recv_from_rank=1 - core, pipe_id=0
    )
    nisa.sendrecv(  # good
        src=mine, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0
    )
    return exchange_out(got)


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C013_rank(a):
    mine, got = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    after, before = nl.program_id(0) + 1, nl.program_id(0) - 1  # bad
    after, before = (nl.program_id(0) + 1) % 2, (nl.program_id(0) - 1) % 2  # good
    nisa.sendrecv(src=mine, dst=got, send_to_rank=after, recv_from_rank=before, pipe_id=0)  # here
    return exchange_out(got)


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C013_pipe(a):
    mine, got = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    core = nl.program_id(0)
    nisa.sendrecv(  # bad here
        mine, got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=core
    )
    nisa.sendrecv(mine, got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)  # good
    return exchange_out(got)


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C013_unmatched(a):
    mine, got = nl.load(a), nl.load(a)
    if nl.program_id(0) == 1:  # bad
        nisa.sendrecv(mine, got, send_to_rank=0, recv_from_rank=0, pipe_id=0)  # here
    other = 1 - nl.program_id(0)  # good
    nisa.sendrecv(mine, got, send_to_rank=other, recv_from_rank=other, pipe_id=0)  # good
    return exchange_out(got)


@twin(f32(64, 33), cores=2, targets=GEN3_UP)
def C014(a):
    core = nl.program_id(0)
    out = nl.ndarray((2, 64, 17), dtype=a.dtype, buffer=nl.shared_hbm)
    mine = nl.load(a[:, 0:17] if core == 0 else a[:, 17:33])  # bad
    mine = nl.load(a[:, 0:17] if core == 0 else a[:, 16:33])  # good
    got = nl.ndarray(mine.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.sendrecv(mine, got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)  # here
    nl.store(out[core, :, 0 : got.shape[1]], got)
    return out


@twin(f32(64, 257), cores=2, targets=GEN3_UP)
def C015(a):
    mine, got = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    by, other = nisa.dma_engine.gpsimd_dma, 1 - nl.program_id(0)  # bad
    by, other = nisa.dma_engine.dma, 1 - nl.program_id(0)  # good
    nisa.sendrecv(mine, got, other, other, pipe_id=0, dma_engine=by)  # here
    return exchange_out(got)


@twin(bf16(120, 256), cores=2, targets=GEN3_UP)
def C015_partitions(a):
    mine = nl.load(a)  # bad
    got = nl.ndarray((120, 256), dtype=a.dtype, buffer=nl.sbuf)  # bad
    mine = nl.load(a[0:112])  # good
    got = nl.ndarray((112, 256), dtype=a.dtype, buffer=nl.sbuf)  # good
    by, other = nisa.dma_engine.gpsimd_dma, 1 - nl.program_id(0)
    nisa.sendrecv(mine, got, other, other, pipe_id=0, dma_engine=by)  # here
    return exchange_out(got)


@twin(bf16(64, 32), cores=2, targets=GEN3_UP)
def A008(a):
    mine, got = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    other = 1 - nl.program_id(0)  # bad
    nisa.sendrecv(mine, got, other, other, pipe_id=0, use_gpsimd_dma=True)  # bad here
    by, other = nisa.dma_engine.gpsimd_dma, 1 - nl.program_id(0)  # good
    nisa.sendrecv(mine, got, other, other, pipe_id=0, dma_engine=by)  # good
    return exchange_out(got)


@twin(f32(64, 32), cores=2, targets=GEN3_UP)
def C036(a):
    box = nl.ndarray((2, 32, 32), dtype=a.dtype, buffer=nl.shared_hbm, name="box")
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    me = nl.program_id(0)
    nl.store(box[me], nl.load(a[32 * me : 32 * me + 32]))
    nisa.core_barrier(data=out, cores=(0, 1))  # bad
    nisa.core_barrier(data=box, cores=(0, 1))  # good
    nl.store(out[32 * me : 32 * me + 32], nl.load(box[1 - me]))  # here
    return out


LOOPS = {"nki": "0.7.0"}
ROW = [[64, 1], [1, 64]]


def rows_of(a, out, first):
    """Return the body of a compiled loop that copies the rows from ``first`` on."""

    def body(i):
        tile = nl.ndarray((1, 64), dtype=a.dtype, buffer=nl.sbuf)
        place = {"offset": first * 64, "scalar_offset": i, "indirect_dim": 0}
        nisa.dma_copy(dst=tile, src=a.ap(ROW, **place))
        nisa.dma_copy(dst=out.ap(ROW, **place), src=tile)

    return body


@twin(f32(8, 64), cores=2, targets=GEN3_UP, options=LOOPS)
def C040(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:  # bad
        nl.fori_loop(0, 8, rows_of(a, out, 0))  # here
    nl.fori_loop(0, 4, rows_of(a, out, nl.program_id(0) * 4))  # good
    return out


@twin(f32(8, 64), targets=GEN3_UP, options=LOOPS)
def C041(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.fori_loop(0, 8, rows_of(a, out, 0))  # bad here
    for i in range(8):  # good
        nisa.dma_copy(dst=out[i], src=a[i])
    return out


@twin(f32(8, 64), cores=2, targets=GEN3_UP, options=LOOPS)
def C042(a):
    out, core = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm), nl.program_id(0)
    nl.fori_loop(0, 6 if core == 0 else 2, rows_of(a, out, core * 6))  # bad here
    nl.fori_loop(0, 4, rows_of(a, out, core * 4))  # good
    return out
