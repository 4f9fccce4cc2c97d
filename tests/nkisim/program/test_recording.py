"""Recording: what a program holds, what it refuses, and that other runs pay nothing."""

import contextlib
import gc
import importlib
import inspect
import tracemalloc
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.isa.registers.scalar import NkiScalar
from nkisim.isa.registers.virtual import VirtualRegister
from nkisim.language.grids import NkiGrid
from nkisim.machine.handles import NkiInstruction
from nkisim.memory import NkiTensor
from nkisim.memory.tensor.refused import ByVersion, HiddenFromKernels
from nkisim.program import ProgramError
from nkisim.program.waist import METHODS, observed
from nkisim.spec.ops import Op
from nkisim.spec.signatures import PUBLISHED
from nkisim.versions import VERSIONS, judged_by, members

from .small import X, scaled

COUNT = np.array([[5]], np.int32)


def counted(x, count):
    """Scales ``count`` blocks of 16 rows; the number is known to the device only."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    register = nisa.register_alloc(0)
    nisa.register_load(dst=register, src=count)
    tile = nl.ndarray((16, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.dynamic_range(register):
        nisa.dma_copy(dst=tile, src=x[i * 16 : i * 16 + 16, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
        nisa.dma_copy(dst=out[i * 16 : (i + 1) * 16, :], src=tile)
    return out


def replayed(program):
    return nkisim.Program.load(program.to_bytes())


def test_the_same_kernel_has_the_same_program():
    first, again = (nkisim.record(scaled)(X) for _ in range(2))
    assert first.digest == again.digest
    assert nkisim.Program.from_bytes(first.to_bytes()).digest == first.digest
    assert nkisim.record(scaled)(X, 3.0).digest != first.digest
    assert first.arguments == "float32[128, 64]"


def test_a_program_computes_on_values_that_its_recorder_never_saw():
    program = nkisim.record(scaled)(np.broadcast_to(np.float32(0), X.shape))
    assert np.array_equal(nkisim.simulate(replayed(program))(X), 2 * X)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8])
def test_a_loop_that_three_iterations_describe_runs_as_often_as_memory_says(count):
    program = nkisim.record(counted)(X, COUNT)
    given = np.full((1, 1), count, np.int32)
    expected = np.where(np.arange(128)[:, None] < 16 * count, 3 * X, X)
    assert np.array_equal(nkisim.simulate(counted)(X, given), expected)
    assert np.array_equal(nkisim.simulate(replayed(program))(X, given), expected)


def test_a_saved_program_is_read_again(tmp_path):
    program = nkisim.record(scaled)(X)
    program.save(tmp_path / "scaled.json")
    assert np.array_equal(nkisim.simulate(nkisim.Program.load(tmp_path / "scaled.json"))(X), 2 * X)
    assert [file.name for file in tmp_path.iterdir()] == ["scaled.json"]


ROW = np.linspace(-1, 1, 64).astype(ml_dtypes.bfloat16).reshape(1, 64)


def stopping_early(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[i * 32 : (i + 1) * 32], nl.load(x[i * 32 : (i + 1) * 32]))
        if i == 1:
            break
    nl.store(out[64:128], nl.load(x[0:64]))
    return out


def with_a_constant(x):
    row = nl.load(nl.shared_constant(ROW))
    nisa.tensor_tensor(dst=row, data1=row, data2=nl.load(nl.shared_constant(ROW)), op=nl.add)
    out = nl.ndarray(row.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, row)
    return out


# -- what no program holds -------------------------------------------------------------------------


def with_loop(body):
    """A kernel whose ``body`` gets a register with a loaded value, a tile and its argument."""

    def kernel(x, count):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        register = nisa.register_alloc(0)
        nisa.register_load(dst=register, src=count)
        body(register, tile, x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


def left_by_break(register, tile, _):
    for i in nl.dynamic_range(register):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        if i == 1:
            break


def growing(register, tile, _):
    factors = [1.0]
    for _i in nl.dynamic_range(register):
        factors.append(factors[-1] * 1.5)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factors[-1])


def equal_at_last(register, tile, _):
    """The second iteration and the last one do the same, the first one does not."""
    for i in nl.dynamic_range(6):
        nisa.memset(dst=tile[:, 8 * min(i, 1) : 8], value=1.0)


def equal_at_first(register, tile, _):
    for i in nl.dynamic_range(6):
        nisa.memset(dst=tile[:, 8 * max(i - 1, 0) : 64], value=1.0)


def zeros_of_two_signs(register, tile, _):
    for i in nl.dynamic_range(6):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.0 * (i - 1))


def indices_of_two_lengths(register, tile, _):
    for i in nl.dynamic_range(6):
        nisa.memset(dst=tile[(slice(0, 32), slice(0, 64))[: i + 1]], value=1.0)


def branching(register, tile, _):
    if register:
        nisa.activation(dst=tile, op=nl.tanh, data=tile)


def python_range(register, tile, _):
    for _i in range(register):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)


def carried(register, tile, x):
    earlier = tile
    for _i in nl.dynamic_range(register):
        made = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=made, src=earlier)
        earlier = made


def caught(_, tile, x):
    with contextlib.suppress(nkisim.NkiValidationError):
        nisa.activation(dst=x, op=nl.tanh, data=tile)
    nisa.activation(dst=tile, op=nl.tanh, data=tile)


REFUSED = {
    left_by_break: "left by break",
    equal_at_last: "iterations differ",
    equal_at_first: "iterations differ",
    growing: "iterations differ",
    zeros_of_two_signs: "iterations differ",
    indices_of_two_lengths: "iterations differ",
    branching: "a branch on a register",
    python_range: "needs the value of a register",
    carried: "an earlier iteration made",
    caught: "goes on after an error",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_a_kernel_that_no_program_holds_is_refused_with_the_reason(body):
    with pytest.raises(ProgramError, match=REFUSED[body]):
        nkisim.record(with_loop(body))(X, COUNT)


def test_the_code_of_a_loop_runs_for_its_first_two_iterations_and_one_more():
    seen, calls = [], []

    def kernel(x, count):
        tile, register = nl.load(x), nisa.register_alloc(0)
        nisa.register_load(dst=register, src=count)
        for bounds in ((10,), (3, 30, 4), (2,), (0,), (register,), (2, register, 3)):
            seen.append([int(i) for i in nl.dynamic_range(*bounds)])

        def body(i):
            calls.append(nisa.memset(dst=tile, value=1.0))

        nl.fori_loop(0, 10, body)
        while register:
            body(0)

    nkisim.record(kernel, nki="0.6.0")(X, COUNT)
    assert seen == [[0, 1, 9], [3, 7, 27], [0, 1], [], [0, 1, 2], [2, 5, 8]]
    assert len(calls) == 3 + 3


def test_an_error_of_the_kernel_raises():
    def kernel(x):
        nl.load(x)
        assert x.shape[0] == 64, "other rows"

    with pytest.raises(AssertionError, match="other rows"):
        nkisim.record(kernel)(X)


def test_a_finding_that_ends_the_kernel_ends_the_replay():
    def kernel(x):
        tile = nl.load(x)
        tile + tile
        return x

    program = nkisim.record(kernel)(X)
    report = nkisim.check(replayed(program), source=False)(X)
    assert [finding.rule.id for finding in report.findings] == ["L027"]
    assert report.stopped == "L027 tensor-operator"


def without_end(tile):
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return without_end(tile)


def test_a_kernel_that_calls_itself_without_end_has_a_program():
    """Python's limit of recursion may stop the recorder at any place."""
    program = nkisim.record(lambda x: without_end(nl.load(x)))(X)
    assert program.tapes["0.0"]["claim"][0] == "L038"
    replayed(program)


def rows_beyond(x):
    """Reads outside of its argument in the third of five iterations."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.dynamic_range(5):
        nisa.dma_copy(dst=tile, src=x[i * 64 : (i + 1) * 64, :])
        nisa.dma_copy(dst=out[0:64, :], src=tile)
    return out


def added_in_a_loop(x):
    """Applies an operator that tensors refuse in the first of five iterations."""
    tile = nl.load(x)
    for _i in nl.dynamic_range(5):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        tile + tile
    return x


@pytest.mark.parametrize("kernel", [rows_beyond, added_in_a_loop])
def test_a_kernel_that_ends_in_a_loop_ends_there_in_a_replay(kernel):
    def found(kernel):
        report = nkisim.check(kernel, source=False)(X)
        places = [(f.rule.id, f.place.line, f.place.loops) for f in report.findings]
        return places, report.stopped, report.instructions

    program = nkisim.record(kernel)(X)
    assert found(replayed(program)) == found(kernel)


def test_the_index_after_a_loop_is_the_last_one():
    def kernel(x):
        out = nl.ndarray((16, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((16, 64), dtype=x.dtype, buffer=nl.sbuf)
        for i in nl.dynamic_range(6):
            nisa.dma_copy(dst=tile, src=x[i * 16 : (i + 1) * 16, :])
        nisa.dma_copy(dst=tile, src=x[i * 16 : (i + 1) * 16, :])
        nisa.dma_copy(dst=out, src=tile)
        return out

    program = nkisim.record(kernel)(X)
    assert np.array_equal(nkisim.simulate(replayed(program))(X), X[80:96])


def test_a_schedule_is_part_of_a_program():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        used, given = nl.load(x), nl.load(x)
        for _ in range(8):
            nisa.activation(dst=used, op=nl.tanh, data=used, name="first")
        nisa.reciprocal(dst=given, data=given, name="second")
        nisa.dma_copy(dst=out, src=given)
        return out

    def latency(kernel):
        return nkisim.profile(kernel, advice=False)(X).latency_us

    ordered = nkisim.jit(kernel).with_schedule([("second", "first")])
    program = nkisim.record(ordered)(X)
    assert latency(replayed(program)) == latency(ordered) > latency(kernel)


def test_a_replay_for_another_call_is_refused():
    kernel = replayed(nkisim.record(scaled)(X))
    with pytest.raises(ProgramError, match=r"recorded for float32\[128, 64\]"):
        nkisim.simulate(kernel)(X[:64])
    with pytest.raises(ProgramError, match="recorded for NKI"):
        nkisim.simulate(kernel, target="gen2")(X)


STRANGE = object()


def with_parameters(x, /, scale, *more, factor=2.0, kind=nl.float32, other=STRANGE, **named):
    return scaled(x)


def test_the_kernel_of_a_program_has_the_parameters_of_its_own():
    found = inspect.signature(replayed(nkisim.record(with_parameters)(X, 1.0)).function)
    wanted = inspect.signature(with_parameters).parameters
    assert [(p.name, p.kind) for p in found.parameters.values()] == [
        (p.name, p.kind) for p in wanted.values()
    ]
    defaults = {name: p.default for name, p in found.parameters.items() if p.default is not p.empty}
    # An object of the kernel's own file is no value of a program.
    assert defaults == {"factor": 2.0, "kind": nl.float32, "other": None}


class Pair(NamedTuple):
    first: NkiTensor
    last: NkiTensor


def returning(form):
    def kernel(x):
        return form(scaled(x), scaled(x))

    return kernel


FORMS = [Pair, lambda a, b: [a, (b,)], lambda a, b: (a, [b, a])]


@pytest.mark.parametrize("kernel", [stopping_early, with_a_constant, *map(returning, FORMS)])
def test_a_replay_returns_what_the_kernel_does(kernel):
    kernels = (replayed(nkisim.record(kernel)(X)), kernel)
    found, wanted = (nkisim.check(one, source=False)(X).outputs for one in kernels)

    def flat(result):
        if isinstance(result, (tuple, list)):
            return [isinstance(result, list), *map(flat, result)]
        return result.tobytes()

    assert flat(found) == flat(wanted)


def test_the_text_of_a_program_says_how_a_loop_ends():
    assert "by break" in nkisim.record(stopping_early)(X).source()
    assert "by break" not in nkisim.record(scaled)(X).source()


# -- the waist -------------------------------------------------------------------------------------

VALUES = {"get_nc_version", "get_nc_sub_version"}
"""Functions that are no calls of NKI: what they return is known when a kernel is traced."""


def test_every_public_function_passes_the_waist():
    known = {id(f) for functions in PUBLISHED.values() for f in functions.values()}
    missing = set()
    for name in ("language", "isa", "collectives"):
        module = importlib.import_module(f"nkisim.{name}")
        for version in VERSIONS:
            with judged_by(version):
                for attribute in filter(lambda n: not n.startswith("_"), dir(module)):
                    found = getattr(module, attribute)
                    if inspect.isfunction(found) and id(found) not in known:
                        missing.add(attribute)
                    assert (
                        not callable(found)
                        or isinstance(found, (type, Op))
                        or (inspect.isfunction(found) or attribute == "tile_size")
                    ), attribute
    assert missing == VALUES


DESCRIPTIONS = {
    "data": "of a tensor: itself",
    "get_pattern": "numbers",
    "is_contiguous": "a truth value",
    "is_identity": "a truth value",
    "is_indirect": "a truth value",
    "sim_value": "refused while recording",
    "device_value": "None",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_documented_member_of_a_tensor_passes_the_waist(version):
    listed = {name for name in members(version, "nki.language", "NkiTensor") if name[0] != "_"}
    methods = {n for n in listed if inspect.isfunction(_member(n, version))}
    assert methods - set(METHODS["tensor"][1]) <= set(DESCRIPTIONS)


def _member(name, version):
    found = inspect.getattr_static(NkiTensor, name)
    return found.in_version.get(version) if isinstance(found, ByVersion) else found


def test_what_kernels_cannot_have_is_hidden():
    hidden = [n for n in dir(NkiTensor) if isinstance(_raw(n), HiddenFromKernels)]
    assert {"array", "storage"} <= set(hidden)


def _raw(name):
    return inspect.getattr_static(NkiTensor, name, None)


CLASSES = (NkiTensor, VirtualRegister, NkiScalar, NkiInstruction, NkiGrid)


def is_observed():
    """Whether calls of public functions pass a recorder: of all, or of none."""
    functions = [f for versions in PUBLISHED.values() for f in versions.values()]
    (found,) = {"_observed" in f.__globals__["_call"].__qualname__ for f in functions}
    return found


def test_a_run_that_is_not_recorded_pays_nothing():
    nkisim.record(scaled)(X)
    assert not is_observed()
    with pytest.raises(ProgramError):
        nkisim.record(with_loop(branching))(X, COUNT)
    assert not is_observed()
    with observed():
        with observed():  # of another thread
            assert is_observed()
        assert is_observed()
    assert not is_observed()


def test_classes_do_not_change_while_a_kernel_is_recorded():
    """Python 3.13 finds former members of a class that has changed about 500 times."""
    seen = []

    def kernel(x):
        seen.append([{**vars(owner)} for owner in CLASSES])
        return scaled(x)

    before = [{**vars(owner)} for owner in CLASSES]
    nkisim.record(kernel)(X)
    assert seen == [before]
    assert [{**vars(owner)} for owner in CLASSES] == before


def loaded_often(x, in_loop):
    """Copies its argument forty times, inside or outside of a loop of the device."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in nl.dynamic_range(2) if in_loop else range(1):
        for _ in range(40):
            nl.store(out, nl.load(x))
    return out


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_replay_frees_tiles_where_the_kernel_does(in_loop):
    x = np.ones((128, 4096), np.float32)

    def peak(kernel):
        gc.collect()
        tracemalloc.start()
        try:
            nkisim.simulate(kernel)(x, in_loop)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    program = nkisim.record(loaded_often)(x, in_loop)
    assert peak(replayed(program)) < peak(loaded_often) + 3 * x.nbytes
