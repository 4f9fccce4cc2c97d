"""Records: written whole or not at all, read back as they were, refused where they are none."""

import dataclasses
import json
import threading
from pathlib import Path

import pytest

from trnsci.validation import Record, read_records, records_folder, write_record, write_whole

RECORD = Record(
    "trnblas",
    "gemm",
    "GEMM",
    "passed",
    reference="torch in float64",
    error=2.5e-7,
    bound=1e-4,
    launches=1,
    generations={"gen2": [], "gen3": ["M001"]},
    instructions=33,
    hbm_bytes=1000,
    fingerprint="0" * 16,
    stamp={"date": "2026-01-02T03:04:05+00:00"},
    values_on=("gen3",),
)


def test_what_is_written_is_read(tmp_path):
    path = write_record(RECORD, tmp_path / "new" / "folder")
    assert path.name == "trnblas.gemm.json"
    assert read_records(path.parent) == ({("trnblas", "gemm"): RECORD}, [])


def test_a_record_of_the_first_version_is_read():
    content = json.loads(RECORD.to_json())
    del content["speed"], content["dtypes"]
    assert Record.from_json(json.dumps(content)) == RECORD


def test_a_second_record_replaces_the_first(tmp_path):
    write_record(RECORD, tmp_path)
    later = dataclasses.replace(RECORD, status="failed", message="off")
    write_record(later, tmp_path)
    assert read_records(tmp_path) == ({("trnblas", "gemm"): later}, [])
    assert [path.name for path in tmp_path.iterdir()] == ["trnblas.gemm.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"format": 1, "lib',
        "[]",
        "null",
        '{"format": 2}',
        '{"format": 1}',
        json.dumps({**json.loads(RECORD.to_json()), "status": "fine"}),
        json.dumps({**json.loads(RECORD.to_json()), "more": 1}),
    ],
)
def test_what_is_no_record_is_named(tmp_path, text):
    (tmp_path / "trnblas.gemm.json").write_text(text)
    found, bad = read_records(tmp_path)
    assert found == {}
    assert [entry.path.name for entry in bad] == ["trnblas.gemm.json"]
    assert bad[0].why


def test_a_write_that_fails_leaves_the_old_record_and_nothing_else(tmp_path, monkeypatch):
    write_record(RECORD, tmp_path)

    def full(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        write_record(dataclasses.replace(RECORD, status="failed"), tmp_path)
    monkeypatch.undo()
    assert read_records(tmp_path) == ({("trnblas", "gemm"): RECORD}, [])
    assert len(list(tmp_path.iterdir())) == 1


def test_many_writers_of_one_record_never_leave_half_of_one(tmp_path):
    records = [dataclasses.replace(RECORD, message="x" * 10_000 * n) for n in range(8)]
    write_record(records[0], tmp_path)
    threads = [
        threading.Thread(target=lambda r=r: [write_record(r, tmp_path) for _ in range(5)])
        for r in records
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found, bad = read_records(tmp_path)
        assert not bad
        assert found["trnblas", "gemm"] in records
    assert len(list(tmp_path.iterdir())) == 1


def test_where_records_are(tmp_path, monkeypatch):
    monkeypatch.delenv("TRNSCI_RECORDS", raising=False)
    root = Path(__file__).parents[3]
    assert records_folder() == root / "build" / "records", "what `make demo` wrote"
    monkeypatch.setattr("trnsci.validation.record.CHECKOUT", tmp_path)  # installed from a wheel
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert records_folder() == tmp_path / "cache" / "trnsci" / "records"
    monkeypatch.setenv("TRNSCI_RECORDS", str(tmp_path / "named"))
    assert records_folder() == tmp_path / "named"
    assert records_folder(tmp_path / "given") == tmp_path / "given"


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(tmp_path / "status.html", "page")
    assert list(tmp_path.iterdir()) == []
