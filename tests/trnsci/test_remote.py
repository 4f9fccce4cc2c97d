"""Runs on an instance, against two clients that stand for AWS; the shell scripts really run."""

import base64
import dataclasses
import json
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

import trnsci.remote as road
from trnsci.cli import main
from trnsci.core.errors import BackendError
from trnsci.remote import BEGIN, END, Remote, unpacked
from trnsci.validation import Record, read_records

GEMM = Record("trnblas", "gemm", "GEMM", "passed", stamp={"instance": "trn1.2xlarge"})
SYMM = dataclasses.replace(GEMM, kernel="symm", title="SYMM")
CALLS = ["describe_instances", "start_instances", "describe_instance_information"]
RUN = ["send_command", "get_command_invocation"]


class UnknownYet(Exception):
    """What botocore raises for a command that SSM does not know yet."""

    response = {"Error": {"Code": "InvocationDoesNotExist"}}  # noqa: RUF012


class Aws:
    """EC2 and SSM at once: one instance, on which commands run in this machine's shell.

    Attributes:
        calls: Names of the calls, in order.
        failures: By name of a call, what the next calls raise; ``None`` lets one pass.
        instances: Identifier, type and state of each.
        statuses: What the invocation's first looks find before the command has ended.
        keeps: How many characters of an output SSM keeps.
    """

    def __init__(self):
        self.calls = []
        self.failures = {}
        self.instances = [("i-1", "trn1.2xlarge", "stopped")]
        self.pings = ["ConnectionLost", "Online"]
        self.statuses = []
        self.keeps = 24_000
        self.edit = str
        self.sent = []
        self.waited = []

    def _called(self, name):
        self.calls.append(name)
        error = self.failures[name].pop(0) if self.failures.get(name) else None
        if error is not None:
            raise error

    def describe_instances(self, Filters, NextToken="0"):
        self._called("describe_instances")
        assert {"Name": "tag:trnsci", "Values": ["neuron"]} in Filters
        index = int(NextToken)  # one instance a page
        page = {"Reservations": []}
        for name, kind, state in self.instances[index : index + 1]:
            entry = {"InstanceId": name, "InstanceType": kind, "State": {"Name": state}}
            page["Reservations"].append({"Instances": [entry]})
        if index + 1 < len(self.instances):
            page["NextToken"] = str(index + 1)
        return page

    def get_waiter(self, name):
        self.waited.append(name)
        return self

    def wait(self, InstanceIds):
        self._called("wait")

    def start_instances(self, InstanceIds):
        assert InstanceIds == ["i-1"]
        self._called("start_instances")

    def stop_instances(self, InstanceIds):
        assert InstanceIds == ["i-1"]
        self._called("stop_instances")

    def describe_instance_information(self, Filters):
        self._called("describe_instance_information")
        ping = self.pings.pop(0) if len(self.pings) > 1 else self.pings[0]
        return {"InstanceInformationList": [{"PingStatus": ping}]}

    def send_command(self, InstanceIds, DocumentName, Parameters):
        self._called("send_command")
        assert DocumentName == "AWS-RunShellScript"
        assert Parameters["executionTimeout"] == ["600"]
        self.sent.append("\n".join(Parameters["commands"]))
        return {"Command": {"CommandId": f"c-{len(self.sent)}"}}

    def get_command_invocation(self, CommandId, InstanceId):
        self._called("get_command_invocation")
        assert CommandId == f"c-{len(self.sent)}"
        if self.statuses:
            return {"Status": self.statuses.pop(0)}
        done = subprocess.run(["sh", "-c", self.sent[-1]], capture_output=True, text=True)
        return {
            "Status": "Failed" if done.returncode else "Success",
            "StandardOutputContent": self.edit(done.stdout)[: self.keeps],
            "StandardErrorContent": done.stderr,
        }


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A function that makes the instance's checkout, whose script writes what is given."""
    monkeypatch.setattr(road, "SCRATCH", str(tmp_path))
    root = tmp_path / "a checkout"
    hardware = root / "src" / "trnsci" / "validation" / "hardware"
    hardware.mkdir(parents=True)
    (hardware / "README.md").write_text("not a record\n")
    (hardware / "trnblas.old.json").write_text(GEMM.to_json())

    def make(*records, status=0, says="ran"):
        (tmp_path / "new").mkdir(exist_ok=True)
        for record in records:
            name = f"{record.library}.{record.kernel}.json"
            (tmp_path / "new" / name).write_text(record.to_json())
        script = root / "scripts" / "run_neuron_tests.sh"
        script.parent.mkdir(exist_ok=True)
        copy = f"for f in '{tmp_path}'/new/*.json; do [ -e \"$f\" ] && cp \"$f\" '{hardware}'; done"
        script.write_text(f'#!/bin/sh\necho "{says} with $PYTHON"\n{copy}\nexit {status}\n')
        script.chmod(0o755)
        return root

    return make


@pytest.fixture
def aws():
    return Aws()


@pytest.fixture
def said():
    return []


@pytest.fixture
def remote(aws, said, checkout, tmp_path):
    """A function that runs in a checkout, on a clock that only sleeping moves."""

    def run(root):
        now = [0.0]
        instance = Remote(
            ec2=aws,
            ssm=aws,
            tag=("trnsci", "neuron"),
            directory=str(root),
            python="/opt/neuron env/bin/python",
            timeout_s=600,
            say=said.append,
            sleep=lambda seconds: now.__setitem__(0, now[0] + seconds),
            clock=lambda: now[0],
        )
        return instance.run(tmp_path / "records")

    return run


def test_starts_runs_fetches_and_stops(aws, said, remote, checkout, tmp_path):
    outcome = remote(checkout(GEMM, SYMM))
    assert outcome.passed
    assert outcome.records == (GEMM, SYMM)
    ready = "describe_instance_information"
    assert aws.calls == [*CALLS, ready, *RUN, *RUN, "stop_instances"]
    assert "ran with /opt/neuron env/bin/python" in said
    assert said[-1] == "stopped i-1"
    # What lay there before the run is not evidence of it.
    found, bad = read_records(tmp_path / "records")
    assert (list(found.values()), bad) == ([GEMM, SYMM], [])
    assert not list(tmp_path.glob("trnsci-*"))


def test_failed_tests_and_failed_records_are_fetched_too(aws, remote, checkout, tmp_path):
    broken = dataclasses.replace(SYMM, status="failed", message="off by 2")
    outcome = remote(checkout(GEMM, broken))
    assert not outcome.passed
    assert broken in outcome.records
    assert aws.calls[-1] == "stop_instances"
    assert not remote(checkout(GEMM, SYMM, status=1)).passed


def test_commands_that_take_their_time_are_waited_for(aws, remote, checkout):
    aws.failures["get_command_invocation"] = [UnknownYet()]
    aws.statuses = ["Pending", "InProgress", "Delayed"]
    assert remote(checkout(GEMM)).passed


def test_an_instance_that_is_stopping_is_waited_for(aws, remote, checkout):
    aws.instances = [("i-1", "trn2.48xlarge", "stopping")]
    assert remote(checkout(GEMM)).passed
    assert aws.waited == ["instance_stopped"]
    assert aws.calls[:3] == ["describe_instances", "wait", "start_instances"]


@pytest.mark.parametrize("error", [RuntimeError("refused"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("call", "nth"), [*((c, 0) for c in CALLS[1:]), *((c, n) for c in RUN for n in (0, 1))]
)
def test_stops_after_every_failure(aws, remote, checkout, tmp_path, call, nth, error):
    aws.failures[call] = [None] * nth + [error]
    with pytest.raises(type(error)) as caught:
        remote(checkout(GEMM))
    assert caught.value is error
    assert aws.calls[-1] == "stop_instances"
    assert not (tmp_path / "records").exists()


def test_an_interrupted_or_failed_stop_is_tried_again(aws, remote, checkout):
    aws.failures["stop_instances"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        remote(checkout(GEMM))
    assert aws.calls[-2:] == ["stop_instances"] * 2
    aws.failures["stop_instances"] = [RuntimeError("throttled")]
    assert remote(checkout(GEMM)).passed
    aws.failures["stop_instances"] = [RuntimeError("denied")] * 3
    with pytest.raises(BackendError, match="i-1 is still on and costs money: denied"):
        remote(checkout(GEMM))


@pytest.mark.parametrize(
    ("instances", "got"),
    [
        ([], "got none"),
        ([("i-1", "m5.large", "stopped")], "got none"),
        (
            [("i-1", "trn1.2xlarge", "stopped"), ("i-2", "trn2.48xlarge", "running")],
            "got 2 (i-1, i-2)",
        ),
    ],
)
def test_not_one_instance_is_touched(aws, remote, checkout, instances, got):
    aws.instances = instances
    with pytest.raises(BackendError, match="tag trnsci=neuron needed") as caught:
        remote(checkout(GEMM))
    assert got in str(caught.value)
    assert set(aws.calls) == {"describe_instances"}


def test_others_with_the_tag_are_no_trainium(aws, remote, checkout):
    aws.instances.insert(0, ("i-0", "m5.large", "running"))
    assert remote(checkout(GEMM)).passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pings": ["ConnectionLost"]}, "i-1 accepts no commands through SSM within 600 s"),
        ({"statuses": ["InProgress"] * 1000}, "the command c-1 did not end within 600 s"),
        ({"statuses": ["TimedOut"]}, "the command c-1 ended as TimedOut"),
        ({"keeps": 60}, "the archive of records is cut off after"),
        ({"edit": lambda text: text.replace(BEGIN, "")}, "sent no archive of records"),
        ({"edit": lambda text: text.replace("A", "!")}, "the archive of records is damaged"),
    ],
)
def test_what_goes_wrong_is_named_and_the_instance_stopped(
    aws, remote, checkout, tmp_path, change, message
):
    for name, value in change.items():
        setattr(aws, name, value)
    with pytest.raises(BackendError, match=message):
        remote(checkout(GEMM))
    assert aws.calls[-1] == "stop_instances"
    assert not (tmp_path / "records").exists()


def test_a_run_without_records_is_an_error(aws, remote, checkout, said, tmp_path):
    with pytest.raises(BackendError, match="the run wrote no record"):
        remote(checkout(status=2, says="no NeuronCore"))
    assert any("no NeuronCore" in line for line in said)
    with pytest.raises(BackendError, match="no archive of records"):
        remote(tmp_path / "elsewhere")
    assert aws.calls[-1] == "stop_instances"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"format": 1}', json.dumps({"format": 1, "library": "trnblas"})]
)
def test_a_corrupt_record_is_an_error_and_none_is_written(aws, remote, checkout, tmp_path, text):
    root = checkout(GEMM)
    (tmp_path / "new" / "trnblas.symm.json").write_text(text)
    with pytest.raises(BackendError, match=r"trnblas\.symm\.json, which is no record"):
        remote(root)
    assert aws.calls[-1] == "stop_instances"
    assert not (tmp_path / "records").exists()


def test_a_record_cannot_name_another_place(aws, remote, checkout, tmp_path):
    root = checkout()
    away = dataclasses.replace(GEMM, library="../away")
    (tmp_path / "new" / "trnblas.gemm.json").write_text(away.to_json())
    with pytest.raises(BackendError, match=r"is the record of \.\./away\.gemm"):
        remote(root)


def test_an_archive_that_is_none():
    noise = base64.b64encode(b"no archive").decode()
    with pytest.raises(BackendError, match="damaged"):
        unpacked(f"{BEGIN}\n{noise}\n{END}\n")


@pytest.fixture
def command(aws, monkeypatch, tmp_path):
    monkeypatch.setattr(road, "clients", lambda: (aws, aws))
    monkeypatch.setattr(road, "POLL_S", 0.0)

    def run(root, *arguments):
        given = ["remote", "--directory", str(root), "--timeout", "10", *arguments]
        return CliRunner().invoke(main, [*given, "--records", str(tmp_path / "records")])

    return run


def test_the_command(command, checkout, aws, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    found = command(checkout(GEMM, SYMM))
    assert found.exit_code == 0, found.output
    assert found.output.endswith(f"2 of 2 kernels passed; records in {tmp_path / 'records'}\n")
    assert command(checkout(GEMM, status=1)).exit_code == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_command_ends_with_a_sentence(command, checkout, aws):
    aws.instances = []
    found = command(checkout(GEMM))
    assert (found.exit_code, found.output.startswith("Error: one Trainium instance")) == (1, True)
    found = command(checkout(GEMM), "--tag", "neuron")
    assert found.exit_code == 2
    assert "--tag: got 'neuron', accepted: KEY=VALUE" in found.output


def test_a_polite_kill_stops_the_instance(command, checkout, aws):
    aws.edit = lambda text: signal.raise_signal(signal.SIGTERM)
    found = command(checkout(GEMM))
    assert found.exit_code == 1
    assert aws.calls[-1] == "stop_instances"


def test_without_boto3_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(BackendError, match=r"nkisim\[remote\]"):
        road.clients()


@pytest.mark.slow
def test_against_the_clients_of_boto3(monkeypatch, tmp_path):
    server = pytest.importorskip("moto.server", reason="needs `pip install moto[server]`")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    local = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    local.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*local.get_host_and_port()))
        ec2, ssm = road.clients()
        name = tagged_instance(ec2)
        states = []

        # The server knows no agents of SSM, and its commands print nothing.
        def online(Filters):
            assert Filters == [{"Key": "InstanceIds", "Values": [name]}]
            states.append(state(ec2, name))
            return {"InstanceInformationList": [{"PingStatus": "Online"}]}

        monkeypatch.setattr(ssm, "describe_instance_information", online)
        monkeypatch.setattr(road, "clients", lambda: (ec2, ssm))
        found = CliRunner().invoke(main, ["remote", "--records", str(tmp_path)])
        states.append(state(ec2, name))
        sent = ssm.list_commands()["Commands"]
        refused = CliRunner().invoke(main, ["remote", "--tag", "trnsci=other"])
    finally:
        local.stop()
    assert states == ["running", "stopped"]
    assert {command["DocumentName"] for command in sent} == {"AWS-RunShellScript"}
    assert len(sent) == 2
    assert "Error: the instance sent no archive of records" in found.output
    assert "tag trnsci=other needed, got none" in refused.output


def tagged_instance(ec2):
    """A stopped Trainium instance with the tag."""
    tags = [{"Key": "trnsci", "Value": "neuron"}]
    made = ec2.run_instances(
        ImageId=ec2.describe_images()["Images"][0]["ImageId"],
        InstanceType="trn1.2xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    (instance,) = made["Instances"]
    ec2.stop_instances(InstanceIds=[instance["InstanceId"]])
    return instance["InstanceId"]


def state(ec2, name):
    (reservation,) = ec2.describe_instances(InstanceIds=[name])["Reservations"]
    return reservation["Instances"][0]["State"]["Name"]
