"""``trnsci doctor``: the capabilities of this machine, with reasons."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import (
    PackageNotFoundError,
    entry_points,
    packages_distributions,
    version,
)
from importlib.util import find_spec
from typing import Literal

import click

from trnsci.cli.extras import install_hint
from trnsci.libraries import LIBRARIES

_OPTIONAL = {
    "numba": "compiled loops in nkisim and trnrand",
    "matplotlib": "pictures of plans, patterns and convergence",
    "cotengra": "optimizers for plan_contraction(path=...)",
    "pyamg": "algebraic multigrid as a preconditioner",
    "pyscf": "molecules for the DF-MP2 examples",
}
_PACKAGES = {"nkisim", "nkitorch", "trnsci", *LIBRARIES}
"""Import names of the distribution ``nkisim``."""
_MARKS = {"yes": "[ok]", "no": "[--]", "wrong": "[!!]"}


@dataclass(frozen=True)
class Diagnosis:
    """One capability of a machine.

    Attributes:
        what: The capability.
        state: ``"yes"``, ``"no"``, or ``"wrong"`` for something installed that does not work.
        why: The evidence.
        remedy: How to get it; empty if there is nothing to do.
    """

    what: str
    state: Literal["yes", "no", "wrong"]
    why: str
    remedy: str = ""


@click.command()
def doctor() -> None:
    """Report the capabilities of this machine, and how to get the missing ones.

    Exit status: 1 if something is installed that does not work, else 0.
    """
    found = list(diagnoses())
    for entry in found:
        click.echo(f"{_MARKS[entry.state]} {entry.what}: {entry.why}")
        if entry.remedy:
            click.echo(f"     {entry.remedy}")
    if any(entry.state == "wrong" for entry in found):
        raise SystemExit(1)


def diagnoses() -> Iterator[Diagnosis]:
    """Probe the machine; nothing is cached."""
    yield _python()
    yield from _import_names()
    yield Diagnosis("run kernels on the simulator", "yes", "nkisim needs NumPy alone")
    yield from _torch()
    yield from _neuron()
    for name, what in _OPTIONAL.items():
        found = _version(name)
        remedy = "" if found else install_hint(name)
        state: Literal["yes", "no"] = "yes" if found else "no"
        yield Diagnosis(what, state, f"{name} {found or 'is not installed'}", remedy)
    yield from _environment()


def _python() -> Diagnosis:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    why = f"Python {platform.python_version()}, {platform.machine()}, {cores} cores"
    return Diagnosis("run nkisim", "yes", f"{why}, nkisim {_version('nkisim') or 'not installed'}")


def _import_names() -> Iterator[Diagnosis]:
    others = other_owners()
    if not others:
        yield Diagnosis("import names", "yes", "no other distribution has one of nkisim's")
    for name, packages in others.items():
        # Another project has a distribution called trnsci; it does not contain nkisim.
        origin = "an earlier installation of nkisim" if "nkisim" in packages else "another project"
        shared = ", ".join(packages)
        why = f"the distribution {name} {_version(name)}, {origin}, also has {shared}"
        remedy = f"pip uninstall {name} nkisim, then install nkisim again: they share files"
        yield Diagnosis("import names", "wrong", why, remedy)


def other_owners() -> dict[str, list[str]]:
    """Return the import names of nkisim that other distributions have too, by distribution.

    An editable installation lists no modules; its commands name them.
    """
    found: dict[str, set[str]] = {}
    for package, names in packages_distributions().items():
        for name in names:
            found.setdefault(name, set()).add(package)
    for entry in entry_points(group="console_scripts"):
        if entry.name in ("nkisim", "trnsci") and entry.dist is not None:
            found.setdefault(entry.dist.name, set()).add(re.split("[.:]", entry.value)[0])
    return {
        name: sorted(packages & _PACKAGES)
        for name, packages in sorted(found.items())
        if packages & _PACKAGES and name != "nkisim"
    }


def _torch() -> Iterator[Diagnosis]:
    if find_spec("torch") is None:
        remedy = install_hint("torch")
        yield Diagnosis("use the libraries", "no", "torch is not installed", remedy)
        return
    try:
        import torch
    except Exception as error:
        yield Diagnosis("use the libraries", "wrong", f"torch does not import: {error}")
        return
    yield Diagnosis("use the libraries", "yes", f"torch {torch.__version__}")
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        yield Diagnosis("use the libraries on a GPU", "yes", name)
    else:
        built = torch.version.cuda is not None
        why = "no CUDA device answers" if built else "this torch was built without CUDA"
        yield Diagnosis("use the libraries on a GPU", "no", why)


def _neuron() -> Iterator[Diagnosis]:
    what = "run kernels on a NeuronCore"
    if find_spec("torch") is None:
        yield Diagnosis(what, "no", "the libraries need torch")
        return
    from trnsci.core.backend.device import neuron_device
    from trnsci.core.nki import has_aws_nki

    device, toolchain = neuron_device(), has_aws_nki()
    tools = shutil.which("neuron-ls") is not None
    if device is not None and toolchain:
        yield Diagnosis(what, "yes", f"nki {_version('nki')} and a {device.kind} device")
    elif device is not None:
        remedy = "install nki>=0.3.0 of the Neuron SDK 2.29 or later"
        yield Diagnosis(what, "wrong", "there is a NeuronCore, but AWS's NKI is missing", remedy)
    else:
        node = "the driver's tools are there, " if tools else ""
        why = (
            f"{node}no NeuronCore answers; AWS's NKI is {'there' if toolchain else 'not installed'}"
        )
        remedy = "until then: backend('simulator'), or TRNSCI_USE_SIMULATOR=1"
        yield Diagnosis(what, "no", why, remedy)


def _environment() -> Iterator[Diagnosis]:
    prefixes = ("TRN", "NKI", "NKISIM", "NEURON_PLATFORM")
    for name in sorted(os.environ):
        if name.startswith(prefixes):
            yield Diagnosis("steered by", "yes", f"{name}={os.environ[name]}")


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
