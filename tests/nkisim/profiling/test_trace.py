"""Profiles as Chrome traces."""

import gzip
import json
import os

import pytest

from nkisim.profiling.trace import write_trace

from .profile_cases import ENGINES, made, span, tile, two_cores


def read(path):
    """The events of a trace by phase."""
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]
    return {phase: [e for e in events if e["ph"] == phase] for phase in "MXC"}


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_events_are_the_timeline(product, tmp_path, name):
    write_trace(product, tmp_path / name)
    events = read(tmp_path / name)
    threads = {e["tid"]: e["args"]["name"] for e in events["M"] if e["name"] == "thread_name"}
    found = [
        (e["ts"], e["dur"], e["name"], threads[e["tid"]], e["args"]["line"], e["args"].get("bytes"))
        for e in events["X"]
    ]
    assert found == [
        (
            s.start_us,
            s.end_us - s.start_us,
            s.name,
            f"dma {s.queue}" if s.queue else s.engine,
            f"product_kernel.py:{s.line}",
            s.nbytes if s.queue else None,
        )
        for s in product.timeline
    ]
    assert os.listdir(tmp_path) == [name]


def test_instructions_of_a_thread_do_not_overlap(product, tmp_path):
    write_trace(product, tmp_path / "t.json")
    ends = {}
    for event in read(tmp_path / "t.json")["X"]:
        row = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(row, 0) - 1e-9
        ends[row] = event["ts"] + event["dur"]


def test_counters_are_the_bytes_in_use(tmp_path):
    profile = made([span("dma", 0, 9, queue="q")], [tile("a", 100, 0, 4), tile("b", 50, 4, 9)])
    write_trace(profile, tmp_path / "t.json")
    counters = [(e["ts"], e["args"]["bytes"]) for e in read(tmp_path / "t.json")["C"]]
    assert counters == [(0, 100), (4, 50), (9, 0)]


def test_cores_and_profiles_are_processes(product, tmp_path):
    write_trace([two_cores(), product], tmp_path / "t.json")
    events = read(tmp_path / "t.json")
    names = {e["pid"]: e["args"]["name"] for e in events["M"] if e["name"] == "process_name"}
    assert names == {
        1: "both_cores on gen3, core 0",
        2: "both_cores on gen3, core 1",
        3: "product on gen3, core 0",
    }
    assert {e["pid"] for e in events["X"]} == {1, 2, 3}


def test_each_row_has_its_name_and_its_place(product, tmp_path):
    """Engines in order, then queues; the rows of a process have numbers from 1 on."""
    write_trace([two_cores(), product], tmp_path / "t.json")
    events = read(tmp_path / "t.json")
    rows = {}
    for event in events["X"]:
        rows.setdefault(event["pid"], {}).setdefault(event["tid"], set()).add(event["cat"])
    for kind, key in (("thread_name", "name"), ("thread_sort_index", "sort_index")):
        named = [(e["pid"], e["tid"], e["args"][key]) for e in events["M"] if e["name"] == kind]
        assert [row[:2] for row in named] == [(p, n) for p in rows for n in sorted(rows[p])]
        for process, thread, shown in named:
            (engine,) = rows[process][thread]
            assert shown in (thread, engine) or (engine, shown[:4]) == ("dma", "dma ")
    for threads in rows.values():
        assert sorted(threads) == [*range(1, len(threads) + 1)]
        engines = [next(iter(threads[number])) for number in sorted(threads)]
        assert engines == sorted(engines, key=ENGINES.index)
    assert {(e["tid"], e["name"][:4]) for e in events["C"]} == {(0, "SBUF"), (0, "PSUM")}


def test_equal_profiles_give_equal_bytes(product, tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        write_trace(product, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
