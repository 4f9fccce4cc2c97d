"""Transfers against figures from the hardware documents: engines, descriptors, bytes and times.

The rates and times are written out here, so that a wrong constant is found as well.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import resolve_target
from nkisim.profiling.model.program import Capture
from nkisim.profiling.model.schedule import schedule

from ...each_case import each_case

ALL = ("trn1", "trn2", "trn3")
LATER = ("trn2", "trn3")

RATE = {"trn1": 17, "trn2": 23, "trn3": 33}
REACHED = {"trn1": 17, "trn2": 0.89 * 23, "trn3": 0.89 * 33}
"""What copies reach of it; ``dma_compute`` and transpositions have shares of their own."""
"""Bytes per ns of one DMA engine; a core has 16, each for 8 partitions."""

DESCRIPTOR = {"trn1": 22, "trn2": 10, "trn3": 10}
"""Least ns of a contiguous run."""

OVERHEAD = {"trn1": 230, "trn2": 20, "trn3": 20}
SOFTWARE = 670
"""Issue of 128 rows by software."""

LOADED, STORED = 315, 355
"""From the last byte to the consumer."""

K = 1024


def zeros(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape)


def sbuf(*shape, dtype=nl.float32):
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0)
    return tile


def hbm(*shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)


def ran(target, call, *arguments, descriptors="software"):
    """Return the program of a call and the number of its transfer, the last operation."""
    capture = Capture(resolve_target(target), descriptors)
    nkisim.simulate(call, target=target, values=False, watchers=(capture,))(*arguments)
    return capture.program, len(capture.program.operations) - 1


def cost(*arguments, **options):
    program, number = ran(*arguments, **options)
    return program.operations[number].work


def load(x):
    nisa.dma_copy(dst=sbuf(*x.shape), src=x)


def load_with(**options):
    return lambda x: nisa.dma_copy(dst=sbuf(*x.shape), src=x, **options)


def load_of(part):
    """Load part of an array."""

    def call(x):
        view = part(x)
        nisa.dma_copy(dst=sbuf(*view.shape), src=view)

    return call


def load_into(first, count):
    """Load an array into some partitions of a tile."""

    def call(x):
        nisa.dma_copy(dst=sbuf(128, x.shape[1])[first : first + count], src=x)

    return call


def store(x):
    tile, out = sbuf(*x.shape), hbm(*x.shape)
    nisa.dma_copy(dst=out, src=tile)
    return out


def across(x):
    out = hbm(*x.shape)
    nisa.dma_copy(dst=out, src=x)
    return out


def within(x):
    nisa.dma_copy(dst=sbuf(128, 512), src=sbuf(128, 512))


def folded(x):
    nisa.dma_copy(dst=sbuf(8, 4, 64), src=sbuf(32, 64))


def summed(x):
    nisa.dma_compute(dst=sbuf(*x.shape), srcs=[x, x], reduce_op=nl.add, scales=[1.0, 1.0])


def flipped(x):
    nisa.dma_transpose(dst=sbuf(*x.shape[::-1]), src=x)


def indexed(x):
    nisa.dma_copy(
        dst=sbuf(128, 64),
        src=x.ap([[64, 128], [1, 64]], vector_offset=sbuf(128, 1, dtype=nl.int32), indirect_dim=0),
    )


TRANSFERS = []


def case(name, call, shape, nbytes, on_engine, runs, *, targets=ALL, share=None, each=8, **fields):
    """Add cases: bytes in all, then bytes and contiguous runs of one engine, and other fields.

    ``share`` is that of the full rate, None that of copies, ``each`` the rows of an engine.
    """
    for target in targets:
        fields = {"hbm_bytes": nbytes, "first_engine": 0, "engines": 16} | fields
        wanted = fields | {"nbytes": nbytes, "descriptors": runs * fields["engines"]}
        rate = RATE[target] * share if share else REACHED[target]
        busy = max(on_engine / rate, runs * DESCRIPTOR[target]) + OVERHEAD[target] * each / 8
        TRANSFERS.append(pytest.param(target, call, shape, wanted, busy, id=f"{name}, {target}"))


case("a load", load, (128, 512), 256 * K, 16 * K, 8)
case("a store", store, (128, 512), 256 * K, 16 * K, 8, stores=True)
case("short rows", load, (128, 4), 2 * K, 128, 8, run_bytes=16)
case("three engines", load, (24, 512), 48 * K, 16 * K, 8, engines=3)
case("one partition", load, (1, 512), 2 * K, 2 * K, 1, engines=1, each=1)
case("partitions 8 to 15", load_into(8, 8), (8, 512), 16 * K, 16 * K, 8, engines=1, first_engine=1)
case("partitions 4 to 11", load_into(4, 8), (8, 512), 16 * K, 8 * K, 4, engines=2, each=4)
case("the last ones", load_into(96, 32), (32, 512), 64 * K, 16 * K, 8, engines=4, first_engine=12)
every_second = load_of(lambda x: x[:, 0:512:2])
case("single elements", every_second, (128, 512), 128 * K, 8 * K, 8 * 256, run_bytes=4)
half_rows = load_of(lambda x: x[:, 0:256])
case("half rows", half_rows, (128, 512), 128 * K, 8 * K, 8, run_bytes=1024)
# A run in HBM ends with the partition that it goes to.
over_partitions = load_of(lambda x: x.reshape((128, 4)))
case("a row over partitions", over_partitions, (1, 512), 2 * K, 128, 8, run_bytes=16)
case("within SBUF", within, (1, 1), 256 * K, 16 * K, 8, hbm_bytes=0)
# The side with fewer partitions has fewer engines, whichever side it is.
case("into fewer partitions", folded, (1, 1), 8 * K, 8 * K, 32, hbm_bytes=0, engines=1)
case("a sum", summed, (128, 512), 512 * K, 32 * K, 16, share=0.5, computes=True)
by_blocks = {"transposes": True, "targets": LATER, "share": 0.38}
case("a transposing load", flipped, (128, 128), 64 * K, 4 * K, 8, run_bytes=512, **by_blocks)
by_sync = {"mode": "hardware", "trigger": nisa.engine.sync, "targets": LATER}
hwdge = load_with(dge_mode=nisa.dge_mode.hwdge)
case("the hardware of Sync", hwdge, (128, 512), 256 * K, 16 * K, 8, **by_sync)
by_scalar = {"mode": "hardware", "trigger": nisa.engine.scalar, "targets": LATER}
hwdge = load_with(dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
case("the hardware of Scalar", hwdge, (128, 512), 256 * K, 16 * K, 8, **by_scalar)
before = {"mode": "prebuilt", "trigger": nisa.engine.sync}
static = load_with(dge_mode=nisa.dge_mode.none)
case("made before the run", static, (128, 512), 256 * K, 16 * K, 8, **before)
by_software = {"mode": "software", "trigger": nisa.engine.gpsimd}
swdge = load_with(dge_mode=nisa.dge_mode.swdge)
case("made by software", swdge, (128, 512), 256 * K, 16 * K, 8, **by_software)
by_index = {"indirect": True, "targets": LATER}
case("rows by an index", indexed, (1024, 64), 32 * K, 2 * K, 8, **by_index, **by_software)
# Between HBM and HBM any engines share the bytes, each at least 512 of them.
anywhere = {"first_engine": -1, "stores": True}


def shared(name, shape, nbytes, engines):
    for target in ALL:
        wanted = anywhere | {"nbytes": nbytes, "hbm_bytes": 2 * nbytes, "engines": engines}
        wanted |= {"descriptors": 1, "run_bytes": nbytes}
        # Twice the bytes for the stack: 410 bytes per ns on Trainium 1.
        rate = min(RATE[target], 410 / 2 / 16) if target == "trn1" else REACHED[target]
        most = max(min(nbytes, 512), nbytes / 16)
        busy = OVERHEAD[target] + max(most / rate, DESCRIPTOR[target] * most / nbytes)
        TRANSFERS.append(pytest.param(target, across, shape, wanted, busy, id=f"{name}, {target}"))


shared("HBM to HBM", (64, 512), 128 * K, 16)
shared("few bytes between HBM", (1, 320), 1280, 3)
shared("fewest bytes between HBM", (1, 4), 16, 1)


@each_case("target, call, shape, wanted, busy", TRANSFERS)
def test_a_transfer_takes_the_time_of_its_bytes_or_of_its_runs(target, call, shape, wanted, busy):
    work = cost(target, call, zeros(*shape))
    flags = ("stores", "indirect", "transposes", "computes", "converts")
    expected = dict.fromkeys(flags, False) | wanted
    if "mode" not in wanted:  # what the compiler chooses
        first = target == "trn1"
        expected["mode"] = "prebuilt" if first else "software"
        expected["trigger"] = nisa.engine.sync if first else nisa.engine.gpsimd
    assert len(work.transfer.shares) == expected.pop("engines")
    assert {key: getattr(work.transfer, key) for key in expected} == expected
    assert work.engine is nisa.engine.dma
    assert work.busy == pytest.approx(busy)
    assert work.tail == (STORED if expected["stores"] else LOADED)


def test_a_transfer_that_changes_the_type_says_so_and_takes_the_time_of_the_wider_side():
    moved = cost("trn2", load, zeros(128, 512, dtype=ml_dtypes.bfloat16)).transfer
    assert moved.converts
    assert moved.nbytes == 128 * 512 * 4
    assert moved.hbm_bytes == 128 * 512 * 2


def test_descriptors_of_an_index_are_never_prebuilt():
    moved = cost("trn2", indexed, zeros(1024, 64), descriptors="prebuilt").transfer
    assert moved.mode == "software"
    moved = cost("trn2", load, zeros(128, 64), descriptors="prebuilt").transfer
    assert (moved.mode, moved.trigger) == ("prebuilt", nisa.engine.sync)


# From the trigger: the end of the issue, and when the first byte moves. The dispatch follows the
# issue, but includes it where hardware makes the descriptors.
MODES = {
    ("trn1", "unknown"): (10, 10 + 1000),
    ("trn1", "none"): (10, 10 + 1000),
    ("trn1", "swdge"): (SOFTWARE, SOFTWARE + 1000),
    **{(target, "unknown"): (SOFTWARE, SOFTWARE + 751) for target in LATER},
    **{(target, "none"): (10, 10 + 751) for target in LATER},
    **{(target, "swdge"): (SOFTWARE, SOFTWARE + 751) for target in LATER},
    **{(target, "hwdge"): (600, 751) for target in LATER},
}


@each_case("target, mode", list(MODES))
def test_a_load_takes_issue_dispatch_bytes_and_notification(target, mode):
    call = load_with(dge_mode=nisa.dge_mode[mode])
    program, number = ran(target, call, zeros(128, 512))
    times = schedule(program)
    issue, arrives = MODES[target, mode]
    moving = OVERHEAD[target] + 16 * K / REACHED[target]
    start = times.start[number]
    assert times.issued[number] - start == pytest.approx(issue)
    assert times.moved[number] - start == pytest.approx(arrives)
    assert times.end[number] - start == pytest.approx(arrives + moving)
    assert times.ready[number] - start == pytest.approx(arrives + moving + LOADED)
    assert times.dma_busy[0] == pytest.approx(moving)


@each_case(
    "target, issue, dispatch", [("trn1", 10, 900), ("trn2", SOFTWARE, 566), ("trn3", SOFTWARE, 566)]
)
def test_a_store_takes_issue_dispatch_bytes_and_notification(target, issue, dispatch):
    program, number = ran(target, store, zeros(128, 512))
    times = schedule(program)
    moving = OVERHEAD[target] + 16 * K / REACHED[target]
    took = times.ready[number] - times.start[number]
    assert took == pytest.approx(issue + dispatch + moving + STORED)


@each_case("target", LATER)
def test_rows_named_by_an_index_take_longer_to_describe(target):
    program, number = ran(target, indexed, zeros(1024, 64))
    times = schedule(program)
    assert times.issued[number] - times.start[number] == pytest.approx(1035)


@each_case("target", LATER)
def test_hardware_that_stores_is_ready_to_move_when_its_issue_ends(target):
    """The dispatch of a store, 566 ns, is shorter than the issue by hardware, 600 ns."""

    def call(x):
        tile, out = sbuf(*x.shape), hbm(*x.shape)
        nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.hwdge)
        return out

    program, number = ran(target, call, zeros(128, 512))
    times = schedule(program)
    assert times.moved[number] - times.start[number] == pytest.approx(600)


def test_a_transfer_between_hbm_takes_the_dma_engines_that_are_free_first():
    def call(x):
        tile = nl.ndarray((8, 8192), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[0:8])  # on the first engine, for 11 us
        return across(x[0:1, 0:320])  # on two engines

    program, number = ran("trn2", call, zeros(8, 8192), descriptors="prebuilt")
    times = schedule(program)
    assert times.start[number - 1] < times.start[number]
    assert times.moved[number] - times.start[number] == pytest.approx(10 + 566)
    assert number not in times.waited_for
    assert times.end[number] < times.end[number - 1]
