"""``trnsci remote``: run every kernel on a Trainium instance, which is then stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

__all__ = ["remote"]


@click.command()
@click.option(
    "--tag",
    default="trnsci=neuron",
    show_default=True,
    metavar="KEY=VALUE",
    help="Tag of exactly one Trainium instance.",
)
@click.option(
    "--directory",
    default="/home/ubuntu/trnsci",
    show_default=True,
    help="The checkout on the instance.",
)
@click.option(
    "--python", default="python", show_default=True, help="Its interpreter with the Neuron SDK."
)
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=120,
    show_default=True,
    help="Minutes that the run may take.",
)
@click.option(
    "--records", "folder", type=click.Path(file_okay=False), help="Folder for the records."
)
def remote(tag: str, directory: str, python: str, timeout: int, folder: str | None) -> None:
    """Run every kernel on a Trainium instance and fetch the records.

    Starts the instance, runs scripts/run_neuron_tests.sh there through SSM, and always stops it:
    also after an error, Ctrl-C or a closed terminal. Needs boto3 (the extra `remote`) and AWS
    credentials (AWS_PROFILE etc.). Exit status: 0 all passed, 1 not, 2 wrong usage.
    """
    key, equals, value = tag.partition("=")
    if not (key and equals and value):
        raise click.UsageError(f"--tag: got {tag!r}, accepted: KEY=VALUE")

    import trnsci.remote as road
    from trnsci.core.errors import BackendError
    from trnsci.validation import HARDWARE

    home = Path(folder) if folder else HARDWARE
    failures: tuple[type[Exception], ...] = (BackendError, *road.aws_errors())
    try:
        ec2, ssm = road.clients()
        instance = road.Remote(
            ec2=ec2,
            ssm=ssm,
            tag=(key, value),
            directory=directory,
            python=python,
            timeout_s=60.0 * timeout,
            say=click.echo,
        )
        with _ended_like_ctrl_c():
            outcome = instance.run(home)
    except failures as error:
        raise click.ClickException(str(error)) from error
    good = sum(record.status == "passed" for record in outcome.records)
    click.echo(f"{good} of {len(outcome.records)} kernels passed; records in {home}")
    if not outcome.passed:
        raise SystemExit(1)


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Make SIGHUP and SIGTERM end the run like Ctrl-C."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.getsignal(getattr(signal, name)) for name in names}
    try:
        for name in names:
            signal.signal(getattr(signal, name), signal.default_int_handler)
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
