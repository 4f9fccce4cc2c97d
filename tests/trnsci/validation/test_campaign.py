"""What has a record of today's sources is not run again; what was stopped goes on."""

import dataclasses
import signal
import subprocess
import sys

import pytest

from trnsci.validation import read_records, tasks, validate, write_record

QUICK = {"values_on": ("gen3",)}
SOME = {"libraries": ("trnblas",), "kernels": ("symm", "trmm", "gemmt"), **QUICK}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    return folder, list(validate(tasks(folder, **SOME), folder, **QUICK))


@pytest.fixture
def folder(made, tmp_path):
    for record in made[1]:
        write_record(record, tmp_path)
    return tmp_path


def missing(folder, **options):
    return [task.kernel for task in tasks(folder, **{**SOME, **options}) if task.known is None]


def test_all_pass_and_are_written(made):
    folder, records = made
    assert [record.status for record in records] == ["passed"] * 3
    assert read_records(folder)[0] == {(r.library, r.kernel): r for r in records}


def test_records_of_today_hold(folder):
    assert missing(folder) == []
    assert sorted(missing(folder, anew=True)) == ["gemmt", "symm", "trmm"]
    assert len(list(validate(tasks(folder, **SOME), folder, **QUICK))) == 3


def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    run = validate(tasks(tmp_path, **SOME), tmp_path, **QUICK)
    first = next(run)
    run.close()
    assert missing(tmp_path) == [t.kernel for t in tasks(tmp_path, **SOME)][1:]
    assert first.kernel not in missing(tmp_path)


@pytest.mark.parametrize(
    "changes", [{"fingerprint": "other"}, {"status": "failed"}, {"values_on": ("gen2",)}]
)
def test_what_holds_no_longer_is_run_again(folder, changes):
    record = read_records(folder)[0]["trnblas", "symm"]
    write_record(dataclasses.replace(record, **changes), folder)
    assert missing(folder) == ["symm"]


def test_more_generations_ask_for_a_new_run(folder):
    assert len(missing(folder, values_on=("gen2", "gen3"))) == 3


def test_a_corrupt_record_is_made_anew(folder):
    (folder / "trnblas.trmm.json").write_text('{"format": 1, "libr')
    assert missing(folder) == ["trmm"]
    records = list(validate(tasks(folder, **SOME), folder, **QUICK))
    assert [record.status for record in records] == ["passed"] * 3
    assert read_records(folder)[1] == []


@pytest.mark.slow
def test_several_processes_make_the_same_records(tmp_path, made):
    records = list(validate(tasks(tmp_path, **SOME), tmp_path, jobs=2, **QUICK))
    plain = {r.kernel: dataclasses.replace(r, stamp={}) for r in made[1]}
    assert {r.kernel: dataclasses.replace(r, stamp={}) for r in records} == plain


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tmp_path):
    """Killed, it cannot tell them; they hold its output open until they are gone."""
    code = """
import os, sys
from pathlib import Path
from trnsci.validation import tasks, validate

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    kernels = ("symm", "trmm", "gemmt")
    todo = tasks(folder, libraries=("trnblas",), kernels=kernels, values_on=("gen3",))
    for record in validate(todo, folder, values_on=("gen3",), jobs=2):
        os.kill(os.getpid(), 9)
"""
    script = tmp_path / "killed.py"
    script.write_text(code)
    killed = subprocess.run(
        [sys.executable, script, tmp_path / "records"], capture_output=True, timeout=240
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "records").glob("*.json"))) == 1
