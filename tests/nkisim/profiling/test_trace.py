"""Profiles as Chrome traces, and files that are written whole or not at all."""

import gzip
import json
import os
import stat

import pytest

from nkisim.files import write_text, write_whole
from nkisim.profiling.trace import write_trace

from .profile_cases import made, span, tile, two_cores


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


def test_equal_profiles_give_equal_bytes(product, tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        write_trace(product, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def fail(stream):
    """Write a part and fail, as a full disk does."""
    stream.write(b"half")
    raise OSError("No space left on device")


@pytest.mark.parametrize("before", [None, "old"])
def test_a_failed_write_leaves_what_was_there(tmp_path, before):
    file = tmp_path / "report.html"
    if before is not None:
        file.write_text(before)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, fail)
    assert os.listdir(tmp_path) == ([] if before is None else ["report.html"])
    assert before is None or file.read_text() == before


@pytest.mark.parametrize(
    ("path", "message"), [("missing/t.json", "does not exist"), (".", "it is a folder")]
)
def test_a_path_that_cannot_be_written_is_refused(tmp_path, path, message):
    with pytest.raises(OSError, match=message):
        write_text(tmp_path / path, "text")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write everything")
def test_a_file_without_permission_is_unchanged(tmp_path):
    file = tmp_path / "t.json"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(PermissionError, match="no permission"):
        write_text(file, "new")
    assert file.read_text() == "old"


def test_an_existing_file_keeps_mode_and_link(tmp_path):
    file, link = tmp_path / "t.json", tmp_path / "link.json"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_text(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_device_is_written_in_place():
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
