"""``scripts/run_on_trainium.sh`` with a stand-in for the aws command; its commands really run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "run_on_trainium.sh"

# What a test changes: the files next to it. A command of which a file fail-NAME exists takes the
# first line of it away and fails.
AWS = r"""#!/usr/bin/env bash
cd "$(dirname "$0")"
echo "$2" >>calls
if [ -s "fail-$2" ]; then
    sed -i 1d "fail-$2"
    exit 254
fi
case "$2" in
describe-instances) cat instances ;;
describe-instance-information) cat ping ;;
send-command)
    echo command-1
    sed 's/.*"commands":\["\([^"]*\)".*/\1/' <<<"${@: -5:1}" >command
    if sh command >output 2>errors; then echo Success; else echo Failed; fi >>status
    ;;
get-command-invocation)
    case "$*" in
    *StandardOutput*) head -c "$(cat keeps)" output ;;
    *StandardError*) cat errors ;;
    *) head -1 status && sed -i 1d status ;;
    esac
    ;;
esac
"""
RAN = ["send-command", *["get-command-invocation"] * 3]
STARTED = ["describe-instances", "start-instances", "describe-instance-information"]


class Cloud:
    """An instance with a checkout, whose tests write the records that are given."""

    def __init__(self, folder):
        self.aws = folder / "aws"
        self.checkout = folder / "a checkout"
        self.records = folder / "records"
        self.hardware = self.checkout / "src" / "trnsci" / "validation" / "hardware"
        self.hardware.mkdir(parents=True)
        (self.hardware / "trnblas.old.json").write_text("{}")
        self.aws.mkdir()
        self.write(instances="i-1\tstopped", ping="Online", keeps="24000", status="")
        (self.aws / "aws").write_text(AWS)
        (self.aws / "aws").chmod(0o755)
        self.tests('echo "{}" >src/trnsci/validation/hardware/trnblas.gemm.json')

    def write(self, **files):
        for name, text in files.items():
            (self.aws / name.replace("_", "-")).write_text(f"{text}\n" if text else "")

    def tests(self, text):
        script = self.checkout / "scripts" / "run_neuron_tests.sh"
        script.parent.mkdir(exist_ok=True)
        # The file system may keep times of a hundredth of a second.
        script.write_text(f'#!/bin/sh\nsleep 0.02\necho "ran with $PYTHON"\n{text}\n')
        script.chmod(0o755)

    def start(self, **variables):
        given = {
            "PATH": f"{self.aws}:{os.environ['PATH']}",
            "DIRECTORY": str(self.checkout),
            "PYTHON": "/opt/neuron env/python",
            "RECORDS": str(self.records),
            "POLL_SECONDS": "0",
        }
        return subprocess.Popen(
            [SCRIPT],
            env=os.environ | given | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **variables):
        process = self.start(**variables)
        printed = process.communicate(timeout=60)[0]
        return process.returncode, printed

    @property
    def calls(self):
        return (self.aws / "calls").read_text().split()


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


def test_starts_runs_fetches_and_stops(cloud):
    status, printed = cloud.run()
    assert (status, cloud.calls) == (0, [*STARTED, *RAN, *RAN, "stop-instances"]), printed
    assert "ran with /opt/neuron env/python\n" in printed
    assert printed.endswith("stopped i-1\n")
    # What lay there before the run is not evidence of it.
    assert [path.name for path in cloud.records.iterdir()] == ["trnblas.gemm.json"]


def test_records_of_failed_tests_are_fetched_too(cloud):
    cloud.tests('echo "{}" >src/trnsci/validation/hardware/trnblas.gemm.json; exit 3')
    assert cloud.run()[0] == 1
    assert [path.name for path in cloud.records.iterdir()] == ["trnblas.gemm.json"]


def test_an_instance_that_is_stopping_and_commands_that_last_are_waited_for(cloud):
    cloud.write(instances="i-1\tstopping", status="Pending\nInProgress\nDelayed")
    cloud.write(fail_get_command_invocation="InvocationDoesNotExist")
    assert cloud.run()[0] == 0
    assert cloud.calls[:3] == ["describe-instances", "wait", "start-instances"]


@pytest.mark.parametrize("failing", ["start-instances", "send-command"])
def test_stops_after_a_failure(cloud, failing):
    cloud.write(**{f"fail_{failing}": "refused"})
    assert cloud.run()[0] != 0
    assert cloud.calls[-1] == "stop-instances"


def test_a_failed_stop_is_tried_again(cloud):
    cloud.write(**{"fail_stop-instances": "throttled"})
    assert cloud.run()[0] == 0
    cloud.write(**{"fail_stop-instances": "denied\ndenied\ndenied"})
    status, printed = cloud.run()
    assert status == 1
    assert "i-1 is still on and costs money" in printed


def test_a_polite_kill_stops_the_instance(cloud, tmp_path):
    cloud.tests(f"touch '{tmp_path}/running'; sleep 0.2")
    process = cloud.start()
    while not (tmp_path / "running").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0].endswith("stopped i-1\n")
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("instances", "got"),
    [("", "got: none"), ("i-1\tstopped\ni-2\trunning", "got: i-1")],
)
def test_without_exactly_one_instance_nothing_is_started(cloud, instances, got):
    cloud.write(instances=instances)
    status, printed = cloud.run()
    assert status == 1
    assert got in printed
    assert set(cloud.calls) == {"describe-instances"}


@pytest.mark.parametrize(
    ("files", "variables", "message"),
    [
        ({"ping": "None"}, {"MINUTES": "0"}, "i-1 accepts no commands through SSM within 0 s"),
        ({}, {"MINUTES": "0"}, "the command command-1 did not end within 0 s"),
        ({"status": "TimedOut"}, {}, "the command command-1 ended as TimedOut"),
        ({"keeps": "60"}, {}, "the archive of records is damaged"),
        ({}, {"DIRECTORY": "/nowhere"}, "no records: "),
    ],
)
def test_what_goes_wrong_is_named_and_the_instance_stopped(cloud, files, variables, message):
    cloud.write(**files)
    status, printed = cloud.run(**variables)
    assert (status, message in printed) == (1, True), printed
    assert cloud.calls[-1] == "stop-instances"
    assert not cloud.records.exists()


def test_a_run_without_records_is_an_error(cloud):
    cloud.tests("echo no NeuronCore; exit 2")
    status, printed = cloud.run()
    assert status == 1
    assert "no NeuronCore" in printed
    assert "the run wrote no record" in printed
