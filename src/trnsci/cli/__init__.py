"""The command ``trnsci``: validate, status, coverage, kernels, doctor, bench.

Commands import their dependencies when they run, so that ``trnsci --help`` does not import torch.
"""

from __future__ import annotations

import click

import nkisim
from trnsci.cli.bench import bench
from trnsci.cli.doctor import doctor
from trnsci.cli.extras import Commands
from trnsci.cli.tables import coverage, kernels, status
from trnsci.cli.validate import validate

__all__ = ["main"]


@click.group(cls=Commands, name="trnsci", no_args_is_help=True)
@click.version_option(
    nkisim.__version__,
    prog_name="trnsci",
    message="%(prog)s, version %(version)s of the distribution nkisim",
)
def main() -> None:
    """Scientific computing on AWS Trainium: kernel validation and machine diagnosis."""


for command in (bench, coverage, doctor, kernels, status, validate):
    main.add_command(command)
