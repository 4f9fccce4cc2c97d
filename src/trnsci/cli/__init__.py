"""The command ``trnsci``: validate, status, kernels, doctor, bench, remote.

Commands import their dependencies when they run, so that ``trnsci --help`` does not import torch.
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
    """Scientific computing on AWS Trainium: kernel validation and machine diagnosis."""


for command in (bench, doctor, kernels, remote, status, validate):
    main.add_command(command)
