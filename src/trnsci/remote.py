"""Remote validation on a Trainium instance: start it, run, fetch the records, stop it.

The instance is controlled through AWS Systems Manager (SSM), so it needs no open port; it must
allow SSM and have a checkout and the Neuron SDK. It is always stopped at the end, also after an
error and if it was already running: it must not be used for anything else.
"""

from __future__ import annotations

import base64
import binascii
import io
import shlex
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from trnsci.core.errors import BackendError
from trnsci.validation.record import Record, write_record

__all__ = ["BEGIN", "END", "Outcome", "Remote", "aws_errors", "clients", "unpacked"]

BEGIN = "=====BEGIN TRNSCI RECORDS====="
END = "=====END TRNSCI RECORDS====="

POLL_S = 5.0
LOG_BYTES = 20_000
"""Bytes of the end of a run's output that are shown: SSM returns only 24,000 characters."""
SCRATCH = "/tmp"
"""Folder on the instance for a run's output until its records are fetched."""
_STOP_ATTEMPTS = 3
_RUNNING = ("Pending", "InProgress", "Delayed", "Cancelling")
_FINISHED = ("Success", "Failed")

_RUN = """\
cd {directory} || exit 1
: > {marker}
status=0
PYTHON={python} scripts/run_neuron_tests.sh > {marker}.log 2>&1 || status=$?
tail -c {log_bytes} {marker}.log
exit "$status"
"""
# Records older than the run are not fetched.
_FETCH = """\
cd {directory}/src/trnsci/validation/hardware || exit 1
echo '{begin}'
find . -name '*.json' -newer {marker} | tar -cf - -T - | gzip -9 | base64
echo '{end}'
rm -f {marker} {marker}.log
"""


@dataclass(frozen=True)
class Outcome:
    """The result of a run on an instance.

    Attributes:
        passed: Whether its tests and all of its records passed.
        records: The record of each kernel.
        paths: The files of the records.
    """

    passed: bool
    records: tuple[Record, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Remote:
    """One Trainium instance, through two clients of boto3.

    Attributes:
        ec2: Client that starts and stops instances.
        ssm: Client that runs commands on them.
        tag: Key and value of the tag of exactly one Trainium instance.
        directory: The checkout on the instance.
        python: Interpreter on the instance that has the Neuron SDK.
        timeout_s: Time limit for starting, and again for each command.
        say: Called with each line of progress output.
        sleep, clock: Functions of ``time``, replaced in tests.
    """

    ec2: Any
    ssm: Any
    tag: tuple[str, str]
    directory: str
    python: str = "python"
    timeout_s: float = 7200.0
    say: Callable[[str], None] = print
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def run(self, folder: Path) -> Outcome:
        """Run every kernel on the instance and write the records into ``folder``.

        Raises:
            BackendError: There is not exactly one such instance, it does not respond in time, or
                it returns no valid records. Then nothing was written, and it has been stopped.
        """
        instance, state = self._instance()
        try:
            self._start(instance, state)
            marker = f"{SCRATCH}/trnsci-{uuid4().hex}"
            places = {"directory": shlex.quote(self.directory), "marker": shlex.quote(marker)}
            script = _RUN.format(**places, python=shlex.quote(self.python), log_bytes=LOG_BYTES)
            self.say(f"running scripts/run_neuron_tests.sh in {self.directory}")
            passed, printed = self._command(instance, script)
            self.say(printed)
            script = _FETCH.format(**places, begin=BEGIN, end=END)
            _, printed = self._command(instance, script)
            records = unpacked(printed)
            if not records:
                raise BackendError("the run wrote no record; the reason is in its output above")
            paths = tuple(write_record(record, folder) for record in records)
        finally:
            self._stop(instance)
        return Outcome(passed and all(r.status == "passed" for r in records), records, paths)

    def _instance(self) -> tuple[str, str]:
        """Return the identifier and the state of the one instance."""
        key, value = self.tag
        alive = ["pending", "running", "stopping", "stopped"]
        request: dict[str, Any] = {
            "Filters": [
                {"Name": f"tag:{key}", "Values": [value]},
                {"Name": "instance-state-name", "Values": alive},
            ]
        }
        found = []
        while True:
            page = self.ec2.describe_instances(**request)
            for reservation in page["Reservations"]:
                found += [
                    (entry["InstanceId"], entry["State"]["Name"])
                    for entry in reservation["Instances"]
                    if entry["InstanceType"].startswith("trn")
                ]
            if not page.get("NextToken"):
                break
            request["NextToken"] = page["NextToken"]
        if len(found) != 1:
            names = ", ".join(name for name, _ in found)
            got = f"{len(found)} ({names})" if found else "none"
            raise BackendError(
                f"one Trainium instance with the tag {key}={value} needed, got {got}"
            )
        return found[0]

    def _start(self, instance: str, state: str) -> None:
        """Start the instance and wait until it accepts commands."""
        if state == "stopping":
            self.say(f"waiting until {instance} has stopped")
            self.ec2.get_waiter("instance_stopped").wait(InstanceIds=[instance])
        self.say(f"starting {instance}")
        self.ec2.start_instances(InstanceIds=[instance])
        wanted = [{"Key": "InstanceIds", "Values": [instance]}]
        for _ in self._polls():
            known = self.ssm.describe_instance_information(Filters=wanted)
            if any(e["PingStatus"] == "Online" for e in known["InstanceInformationList"]):
                return
        raise self._late(f"{instance} accepts no commands through SSM")

    def _command(self, instance: str, script: str) -> tuple[bool, str]:
        """Run a shell script on the instance; return whether it succeeded, and its output."""
        sent = self.ssm.send_command(
            InstanceIds=[instance],
            DocumentName="AWS-RunShellScript",
            Parameters={
                "commands": script.splitlines(),
                "executionTimeout": [str(int(self.timeout_s))],
            },
        )
        name = sent["Command"]["CommandId"]
        for _ in self._polls():
            try:
                seen = self.ssm.get_command_invocation(CommandId=name, InstanceId=instance)
            except Exception as error:
                if _code(error) != "InvocationDoesNotExist":
                    raise
                continue  # SSM has not registered the command yet
            if seen["Status"] in _RUNNING:
                continue
            if seen["Status"] not in _FINISHED:
                raise BackendError(f"the command {name} ended as {seen['Status']}")
            printed = seen["StandardOutputContent"] + seen["StandardErrorContent"]
            return seen["Status"] == "Success", printed.rstrip("\n")
        raise self._late(f"the command {name} did not end")

    def _polls(self) -> Iterator[None]:
        """Yield every few seconds until the time limit."""
        end = self.clock() + self.timeout_s
        while self.clock() < end:
            yield
            self.sleep(POLL_S)

    def _late(self, what: str) -> BackendError:
        return BackendError(f"{what} within {self.timeout_s:g} s")

    def _stop(self, instance: str) -> None:
        """Stop the instance, even after errors and a second Ctrl-C."""
        interrupted: KeyboardInterrupt | None = None
        why: Exception | None = None
        for _ in range(_STOP_ATTEMPTS):
            try:
                if why is not None:
                    self.sleep(POLL_S)
                self.ec2.stop_instances(InstanceIds=[instance])
            except KeyboardInterrupt as error:
                interrupted = error
            except Exception as error:
                why = error
            else:
                self.say(f"stopped {instance}")
                if interrupted is not None:
                    raise interrupted
                return
        raise BackendError(
            f"{instance} is still on and costs money: {why or 'interrupted'}. "
            f"Stop it: aws ec2 stop-instances --instance-ids {instance}"
        )


def unpacked(printed: str) -> tuple[Record, ...]:
    """Return the records of an archive between its marker lines.

    Raises:
        BackendError: There is no archive, it is truncated, or a file in it is not a record.
    """
    _, begun, rest = printed.partition(BEGIN)
    if not begun:
        raise BackendError(f"the instance sent no archive of records, but: {printed[-500:]!r}")
    text, ended, _ = rest.partition(END)
    if not ended:
        raise BackendError(
            f"the archive of records is cut off after {len(text)} characters: SSM returns 24,000"
        )
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            files = {m.name.removeprefix("./"): archive.extractfile(m) for m in archive}
            texts = {name: file.read().decode() for name, file in files.items() if file}
    except (binascii.Error, tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise BackendError(f"the archive of records is damaged: {error}") from error
    return tuple(_record(name, texts[name]) for name in sorted(texts))


def clients() -> tuple[Any, Any]:
    """Return the EC2 and SSM clients for the profile and region of the environment.

    Raises:
        BackendError: boto3 is missing, or the environment names no region or no such profile.
    """
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise BackendError("boto3 is not installed: pip install 'nkisim[remote]'") from error
    try:
        session = boto3.session.Session()
        return session.client("ec2"), session.client("ssm")
    except BotoCoreError as error:
        raise BackendError(f"{error} (see AWS_PROFILE and AWS_DEFAULT_REGION)") from error


def aws_errors() -> tuple[type[Exception], ...]:
    """Return the exception types of boto3's clients; empty if it is not installed."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return ()
    return (BotoCoreError, ClientError)


def _record(name: str, text: str) -> Record:
    try:
        record = Record.from_json(text)
    except (ValueError, TypeError) as error:
        raise BackendError(f"the instance sent {name}, which is no record: {error}") from error
    # The file name is built from the record's fields: it must not escape the folder.
    if "/" in name or name != f"{record.library}.{record.kernel}.json":
        raise BackendError(f"{name} is the record of {record.library}.{record.kernel}")
    return record


def _code(error: Exception) -> str:
    """Return AWS's code of an error, without importing botocore."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
