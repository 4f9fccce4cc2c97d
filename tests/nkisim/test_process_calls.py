"""``nkisim run --profile``: the calls of a process, and the table of their predicted times."""

import sys
import threading

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from fresh_process import nkisim_command
from nkisim.cli.call_times import times_text
from nkisim.profiling.text import duration
from nkisim.runs.process_calls import count_calls, counted_calls, note_call


@nkisim.jit
def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out


@pytest.fixture(autouse=True)
def counting(monkeypatch):
    """Count calls; operators that other tests ran on the device of torch are left out."""
    monkeypatch.delitem(sys.modules, "nkitorch.fallback", raising=False)
    count_calls()
    yield
    counted_calls()


X, LARGE = np.ones((4, 8), np.float32), np.ones((128, 2048), np.float32)


def test_calls_are_counted_by_shapes_dtypes_and_constants():
    for x in (X, 2 * X, X.astype(np.float16), LARGE, X):
        scaled(x)
    scaled(X, factor=3.0)
    nkisim.simulate(scaled, target="trn1")(X)
    nkisim.check(scaled)(X)  # no call of the program
    calls = counted_calls()
    assert [call.count for call in calls] == [3, 1, 1, 1, 1]
    assert all(call.kernel.__name__ == "scaled" for call in calls)
    assert {arg.strides for call in calls for arg in call.args} == {(0, 0)}, "arrays are held"
    assert counted_calls() == []
    scaled(X)
    assert counted_calls() == [], "the count had ended"


def test_arguments_that_are_no_keys_count_by_their_arrays():
    class Config:
        factor = 2.0

    kernel = nkisim.jit(lambda x, config: scaled(x, config.factor))
    for x in (X, X, LARGE):
        kernel(x, Config())
    assert [call.count for call in counted_calls()] == [2, 1]


def test_a_call_that_raised_is_not_counted():
    with pytest.raises(nkisim.NkiValidationError):
        scaled(X.astype(np.float64))
    assert counted_calls() == []


def test_threads_share_the_count():
    options = nkisim.SimOptions()
    work = [threading.Thread(target=note_call, args=(scaled, options, (X,), {})) for _ in range(8)]
    [thread.start() for thread in work]
    [thread.join() for thread in work]
    assert [call.count for call in counted_calls()] == [8]


def test_the_table_has_the_profiles():
    for x in (X, X, LARGE):
        scaled(x)
    small, large = (nkisim.profile(scaled, advice=False)(x) for x in (X, LARGE))
    head, names, *rows = times_text().splitlines()
    assert head.endswith(duration(2 * small.latency_us + large.latency_us))
    assert names.split() == ["kernel", "calls", "each", "between", "total", "share", "arguments"]
    expected = [(large, 1), (small, 2)]
    expected.sort(key=lambda row: -row[0].latency_us * row[1])
    for row, (profile, calls) in zip(rows, expected, strict=True):
        assert row.split()[:2] == ["scaled", str(calls)]
        for us in (profile.latency_us, *profile.interval_us, profile.latency_us * calls):
            assert duration(us) in row
        assert row.endswith(f"x={profile.arguments['x']}")


def test_a_call_without_a_predicted_time_has_the_reason():
    @nkisim.jit
    def looped(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        count = nisa.register_alloc(0)
        nisa.register_load(dst=count, src=nl.load(n))
        for _ in nl.dynamic_range(count):
            nl.store(out, nl.load(x))
        return out

    looped(X, np.ones((1, 1), np.int32))
    (row,) = times_text().splitlines()[2:]
    assert row.split()[:5] == ["looped", "1", "no", "predicted", "time:"]
    assert "trip_count" in row


def test_without_a_call_the_table_says_so():
    assert times_text() == "nkisim: no kernel was called"


SCRIPT = """\
import nki, nki.language as nl, numpy as np

@nki.jit
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

for _ in range(2):
    result = scaled(np.ones((4, 8), np.float32))
print(result.sum())
"""


def test_a_script_ends_with_the_table(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = nkisim_command("run", "--profile", tmp_path / "script.py")
    assert (done.returncode, done.stdout) == (0, "64.0\n")
    profile = nkisim.profile(scaled, advice=False)(X)
    row = done.stderr.splitlines()[-1]
    assert row.split()[:4] == ["scaled", "2", *duration(profile.latency_us).split()]
    assert row.endswith("100%  x=float32[4,8]")
