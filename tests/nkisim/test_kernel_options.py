"""Kernels with other fields: schedules and options of the compiler, and modules that have them."""

import dataclasses
import importlib
import pickle

import numpy as np
import pytest
from click.testing import CliRunner

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.cli.group import commands
from nkisim.options import variable_set
from nkisim.versions import VERSIONS

X = np.ones((2, 128, 512), np.float32)


@nkisim.jit
def apart(a):
    """Two chains without a dependency: of the Scalar and of the Vector engine."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a[0])
    nisa.dma_copy(dst=y, src=a[1])
    for i in range(4):
        nisa.activation(dst=x, op=nl.tanh, data=x, name=f"tanh{i}")
    nisa.reciprocal(dst=y, data=y, name="reciprocal")
    nisa.dma_copy(dst=out[0], src=x)
    nisa.dma_copy(dst=out[1], src=y)
    return out


def spans(kernel, **options):
    found = nkisim.profile(kernel, "gen3", advice=False, **options)(X)
    ends = [span.end_us for span in found.timeline if span.name == "activation"]
    (start,) = [span.start_us for span in found.timeline if span.name == "reciprocal"]
    return start, max(ends), found.latency_us


@each_case("nki", [VERSIONS[0], VERSIONS[-1]])
def test_a_schedule_delays_an_instruction_and_changes_no_result(nki):
    scheduled = apart.with_schedule([("reciprocal", ["tanh0", "tanh3"])])
    start, end, before = spans(apart, nki=nki)
    assert start < end
    start, end, after = spans(scheduled, nki=nki)
    assert start >= end
    assert after > before
    one, two = nkisim.simulate(apart, nki=nki)(X), nkisim.simulate(scheduled, nki=nki)(X)
    np.testing.assert_array_equal(one, two)
    assert not nkisim.check(scheduled, nki=nki)(X).findings


def test_depends_on_delays_an_instruction_too():
    def kernel(a, waits):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        x, y = nl.zeros((128, 512), a.dtype, nl.sbuf), nl.zeros((128, 512), a.dtype, nl.sbuf)
        for _ in range(4):
            first = nisa.activation(dst=x, op=nl.tanh, data=x)
        second = nisa.reciprocal(dst=y, data=y)
        if waits:
            second.depends_on(first)
        nisa.dma_copy(dst=out, src=x)
        nisa.dma_copy(dst=out, src=y)
        return out

    profiled = nkisim.profile(kernel, "gen3", advice=False, nki="0.6", detect=())
    free, waiting = (profiled(X[0], waits).timeline for waits in (False, True))
    for timeline, waits in ((free, False), (waiting, True)):
        end = max(span.end_us for span in timeline if span.name == "activation")
        (start,) = [span.start_us for span in timeline if span.name == "reciprocal"]
        assert (start >= end) == waits


@each_case(
    "schedule, error",
    [
        ("reciprocal", TypeError),
        ([("a",)], TypeError),
        ([["a", "b"]], TypeError),
        ([("a", 1)], TypeError),
        ([("a", ["b", None])], TypeError),
        ([(1, "b")], TypeError),
        ([("a", "a")], ValueError),
        ([("a", "b"), ("b", ["c"]), ("c", "a")], ValueError),
    ],
    ids=str,
)
def test_a_schedule_is_pairs_of_names_without_a_circle(schedule, error):
    with pytest.raises(error, match="with_schedule"):
        apart.with_schedule(schedule)


def test_an_edge_that_closes_a_circle_is_found():
    def kernel(a):
        tile = nl.load(a[0])
        first = nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, name="first")
        second = nisa.memset(dst=nl.ndarray((1, 1), a.dtype, nl.sbuf), value=0, name="second")
        second.depends_on(first)
        out = nl.ndarray(a[0].shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    options = {"nki": "0.6", "detect": (), "source": False}
    circle = nkisim.jit(kernel).with_schedule([("first", "second")])
    assert nkisim.check(circle, **options)(X).codes == {"R011"}
    straight = nkisim.jit(kernel).with_schedule([("second", "first")])
    assert not nkisim.check(straight, **options)(X).codes
    unknown = nkisim.jit(kernel).with_schedule([("second", "third")])
    (finding,) = nkisim.check(unknown, **options)(X).findings
    assert (finding.rule.id, finding.severity, finding.operand) == ("R011", "warning", "third")


def test_a_field_is_replaced_and_kept():
    scheduled = apart.with_schedule([("reciprocal", "tanh3")])
    both = dataclasses.replace(scheduled, lnc=2)
    assert (both.cores, both.schedule) == (2, scheduled.schedule)
    assert scheduled[2].schedule == scheduled.schedule
    assert apart.schedule == ()
    assert dataclasses.replace(both, func=abs).function is abs
    copied = pickle.loads(pickle.dumps(both))
    assert (copied.function, copied.lnc, copied.schedule) == (both.func, 2, both.schedule)


SWITCHES = {
    "enable_address_rotation": ("address_rotation", True),
    "disable_address_rotation": ("address_rotation", False),
    "enable_core_barrier_checker": ("barrier_check", True),
    "disable_core_barrier_checker": ("barrier_check", False),
}


@each_case("name", SWITCHES)
def test_a_switch_returns_a_kernel_from_0_6_on(name):
    field, value = SWITCHES[name]
    with variable_set("NKISIM_NKI", "0.6.0"):
        changed = getattr(apart, name)()
    assert getattr(changed, field) is value
    assert getattr(apart, field) is None
    with (
        variable_set("NKISIM_NKI", "0.5.0"),
        pytest.raises(AttributeError, match=r"NKI 0\.5\.0.*0\.6\.0"),
    ):
        getattr(apart, name)()


FILE = """\
import nki
import nki.isa as nisa
import nki.language as nl
from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig

CONFIG = CompileConfig(address_rotation=AddressRotation.ENABLE, dead_code_elim=False)


@nki.jit(compile_config=CONFIG, specialization_config=SpecializationConfig())
def kernel(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_a_file_that_imports_the_compiler_is_checked(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    arguments = ["check", str(path), "--shapes", "x=f32[8,16]", "--nki", "0.7", "--require-run"]
    found = CliRunner().invoke(commands, arguments, standalone_mode=False)
    assert found.return_value == 0, found.output


@pytest.fixture
def nki():
    """What ``import nki`` gives."""
    nkisim.install(force=True)
    try:
        yield importlib.import_module("nki")
    finally:
        nkisim.uninstall()


def test_the_simulator_module_runs_a_kernel(nki, monkeypatch):
    with pytest.raises(ModuleNotFoundError, match=r"NKI 0\.3\.0"):
        importlib.import_module("nki.simulator")
    monkeypatch.setenv("NKISIM_NKI", "0.6")
    simulator = importlib.import_module("nki.simulator")
    for run in (simulator.simulate_kernel, simulator.simulate_py):
        np.testing.assert_array_equal(run(apart, args=(X,)), run(apart, kwargs={"a": X}, lnc=1))
