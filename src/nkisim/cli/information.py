"""``nkisim info``."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import click

import nkisim
from nkisim.arch import resolve_target
from nkisim.cli.group import commands, nki_option
from nkisim.compiled import arithmetic, numba_problem
from nkisim.versions import FRONTEND_VARIABLE, NKI_VARIABLE, VERSIONS, chosen

_VARIABLES = (
    "NKI_SIMULATOR",
    "NKI_PRECISE_FP",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    "NKISIM_SOURCE_RULES",
    "NKISIM_STRICT",
    "NKISIM_TARGET",
    "NKISIM_REPORT",
    "NKISIM_IGNORE",
    "NKISIM_FAST",
    NKI_VARIABLE,
    FRONTEND_VARIABLE,
    "NKI_LNC1_SHARED_HBM",
    "NKISIM_TRACEBACK",
)


_MISSING = "not installed"


@commands.command()
@click.option("--target", help="Generation to describe, by default the one that kernels run on.")
@nki_option
def info(target: str | None) -> None:
    """Print versions, the target and its limits, and the environment variables of a simulation."""
    try:
        generation = resolve_target(target)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    versions = [
        ("nkisim", nkisim.__version__),
        ("NKI version of kernels", chosen()),
        ("numpy", _version_of("numpy")),
        ("ml_dtypes", _version_of("ml_dtypes")),
        ("numba", _numba()),
        ("arithmetic of large tiles", arithmetic()),
        ("python", platform.python_version()),
    ]
    limits = [
        ("generation", f"{generation.name} ({', '.join(generation.aliases)})"),
        ("partitions", f"{generation.partitions}"),
        ("SBUF per partition", f"{generation.sbuf_bytes} bytes"),
        ("SBUF usable by kernels", f"{generation.sbuf_usable_bytes} bytes"),
        ("PSUM per partition", f"{generation.psum_bytes} bytes"),
        ("PSUM banks", f"{generation.psum_banks} of {generation.psum_bank_bytes} bytes"),
        ("matmul stationary free size", f"at most {generation.stationary_free_max}"),
        ("matmul moving free size", f"at most {generation.moving_free_max}"),
        ("bn_stats free size", f"at most {generation.bn_stats_free_max}"),
    ]
    variables = [(name, os.environ.get(name, "not set")) for name in _VARIABLES]
    releases = [(f"NKI {version}", _release(version)) for version in VERSIONS]
    sections = [("Versions", versions), ("NKI", releases)]
    for title, rows in (*sections, ("Target", limits), ("Environment", variables)):
        click.secho(title, bold=True)
        for name, value in rows:
            click.echo(f"  {name:<35}{value}")


def _release(version: str) -> str:
    """Return what a version adds, changes and removes, and how much of it is stated."""
    from nkisim.versions.facts import differences, evidence

    found = ", ".join(f"{kind} {len(names)}" for kind, names in differences(version).items())
    counts = evidence(version)
    if not counts["assumed"]:
        return f"{found} names; all stated by its documentation"
    basis = ", ".join(f"{counts[kind]} {kind}" for kind in ("stated", "deduced", "assumed"))
    return f"{found} names; facts: {basis}"


def _numba() -> str:
    """Return the version of numba, with the reason if it cannot be used."""
    problem, version = numba_problem(), _version_of("numba")
    return f"{version} ({problem})" if problem and version != _MISSING else version


def _version_of(distribution: str) -> str:
    """Return the installed version of ``distribution``."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return _MISSING
