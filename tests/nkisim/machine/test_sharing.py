"""Which accesses of two cores clash, byte by byte, whatever views they go through."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.arch import resolve_target
from nkisim.diagnostics import RECORDER, Recorder
from nkisim.machine.sharing import SharedAccess
from nkisim.memory import CoreMemory, SharedHbm

ROWS, COLUMNS = 4, 6
TYPES = {"float32": nl.float32, "bfloat16": nl.bfloat16, "uint8": nl.uint8}


class Bytes:
    """The oracle: for every byte the last write, and the last read of each core.

    Values are unknown: bytes that both cores wrote may be equal, so that both may read them.
    """

    def __init__(self, count):
        self.writes = [None] * count
        self.reads = [[None] * count, [None] * count]

    def read(self, where, core, epoch):
        writes = [self.writes[i] for i in where]
        clash = any(self._meets(w, core, epoch) and not w[2] for w in writes)
        for i in where:
            self.reads[core][i] = (core, epoch)
        return clash

    def write(self, where, core, epoch):
        clash = False
        for i in where:
            last = self.writes[i]
            twice = self._meets(last, core, epoch) or (
                last is not None and last[1:] == (epoch, True)
            )
            clash |= twice or self._meets(self.reads[1 - core][i], core, epoch)
            self.writes[i] = (core, epoch, twice)
        return clash

    @staticmethod
    def _meets(other, core, epoch):
        return other is not None and other[0] != core and other[1] >= epoch


spans = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)
steps = st.tuples(
    st.sampled_from(["read", "write", "some", "meet"]),
    st.integers(0, 1),
    st.sampled_from(sorted(TYPES)),
    spans,
    spans,
    st.sampled_from([1, 2]),
)


def guards_of_all_memory(numbers):
    return [None] * len(numbers)


def cut(span, extent):
    first = int(span[0] * (extent - 1))
    return slice(first, max(first + 1, round(span[1] * extent)))


@given(st.lists(steps, max_size=12))
def test_accesses_clash_as_their_bytes_do(drawn):
    recorder = Recorder("check")
    token = RECORDER.set(recorder)
    try:
        memory = CoreMemory(
            resolve_target("gen3"), precise=True, values=False, shared=SharedHbm(SharedAccess)
        )
        whole = memory.allocate((ROWS, COLUMNS), nl.float32, nl.shared_hbm)
        shared, oracle, epoch = whole.storage.shared, Bytes(whole.storage.data.size), 0
        places = np.arange(whole.storage.data.size)
        for what, core, dtype, rows, columns, step in drawn:
            if what == "meet":
                epoch += 1
                continue
            view = whole.view(TYPES[dtype])
            view = view[cut(rows, ROWS), cut(columns, view.shape[1])][:, ::step]
            mine = np.lib.stride_tricks.as_strided(
                places[view.start :],
                (*view.shape, view.itemsize),
                (*(stride * places.itemsize for stride in view.form.strides), places.itemsize),
            )
            before = sum(finding.count for finding in recorder.findings)
            if what == "read":
                shared.read(view, core, epoch, "a test", guards_of_all_memory)
                expected = oracle.read(mine.reshape(-1), core, epoch)
            else:
                mask = None
                if what == "some":
                    mask = np.arange(view.size).reshape(view.shape) % 3 != 1
                    mine = mine[mask]
                shared.write(view, core, epoch, mask)
                expected = oracle.write(mine.reshape(-1), core, epoch)
            assert (sum(finding.count for finding in recorder.findings) > before) == expected
    finally:
        RECORDER.reset(token)


def rewritten(x, other, same):
    """One core writes a part, and after a barrier all, while the other reads that part."""
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.program_id(0) == 0
    if first:
        nisa.dma_copy(dst=shared[0:1], src=x[0:1])
    nisa.core_barrier(data=shared, cores=(0, 1))
    if first:
        nisa.dma_copy(dst=shared, src=x if same else other)
    else:
        tile = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=shared[0:1])
    return shared


@each_case("seed", [None, 0, 1, 2])
@each_case("same", [True, False])
def test_a_write_of_what_was_there_disturbs_no_reader(same, seed):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    report = nkisim.check(nkisim.jit(rewritten)[2], target="gen3", schedule_seed=seed)(
        x, x + 1, same
    )
    assert bool(report.codes & {"C007", "C012"}) is not same, str(report)
