"""The command ``trnsci``: validate, status, kernels, doctor, bench, remote.

Each command imports what it needs when it runs, so that ``trnsci --help`` needs no torch.
"""

from __future__ import annotations

import click

from trnsci.cli.bench import bench
from trnsci.cli.doctor import doctor
from trnsci.cli.kernels import kernels
from trnsci.cli.remote import remote
from trnsci.cli.status import status
from trnsci.cli.validate import validate

__all__ = ["main"]


@click.group(name="trnsci", no_args_is_help=True)
@click.version_option(package_name="trnsci", prog_name="trnsci")
def main() -> None:
    """Scientific computing on AWS Trainium: evidence about the kernels, and help with a machine."""


for command in (bench, doctor, kernels, remote, status, validate):
    main.add_command(command)
