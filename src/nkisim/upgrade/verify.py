"""Verification of upgrades: check of the new text, comparison of its results with the old one's."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from nkisim.checks import file_findings
from nkisim.diagnostics import Finding
from nkisim.diagnostics.ledger import Ledger
from nkisim.filecheck import CheckSettings, check_files
from nkisim.filecheck.arguments import shapes_hint, without_value
from nkisim.filecheck.calls import BadExamples, KernelCall, example_calls, generated_call
from nkisim.filecheck.modules import CannotImport, GaveUp, imported, instruction_limit, time_limit
from nkisim.options import SimOptions, variable_set
from nkisim.rewriting import SourceText, drafts
from nkisim.runs import Run
from nkisim.trials.running import arrays_of, differences
from nkisim.upgrade.releases import version_of
from nkisim.upgrade.rules import Era
from nkisim.versions import NKI_VARIABLE

Status = Literal["same", "differs", "run", "stopped", "read"]


@dataclass(frozen=True)
class Upgraded:
    """The two texts of a file, and the release of the old one."""

    before: SourceText
    after: SourceText
    since: Era


@dataclass(frozen=True)
class KernelResult:
    """The verification of one kernel.

    Attributes:
        name: Its name.
        status: ``same``: both texts gave the same bits. ``differs``: they did not. ``run``: only
            the new text was run. ``stopped``: the new text was not run to its end. ``read``: only
            the source was checked.
        detail: The versions, the largest difference, or the reason.
        reason: Why the kernel did not run and what to do, in words that kernels share.
    """

    name: str
    status: Status
    detail: str
    reason: str = ""

    @property
    def failed(self) -> bool:
        """Whether the new text was not run to its end, or gave another result."""
        return self.status in ("differs", "stopped")


@dataclass
class Verification:
    """The verification of one file.

    Attributes:
        kernels: Its kernels.
        findings: Errors and warnings of the check of the new text.
    """

    kernels: list[KernelResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no result differs, nothing stopped and the check has no error."""
        failed = any(kernel.failed for kernel in self.kernels)
        return not failed and all(finding.severity != "error" for finding in self.findings)


def verify(
    files: Mapping[Path, Upgraded],
    target: str,
    settings: CheckSettings | None = None,
    *,
    written: bool = False,
) -> dict[Path, Verification]:
    """Verify upgraded files; the kernels whose arguments are known run.

    Args:
        files: The files. All of them are in place when one is imported.
        target: The version that the new texts are for.
        settings: Arguments, generations and limits of the check; the results are compared on the
            last of the generations.
        written: Whether the files on disk have the new texts. What is on disk is used, not what
            was meant to be written.
    """
    settings = settings or CheckSettings()
    linecache.checkcache()
    before = {path: file.before for path, file in files.items()}
    after = {path: file.after for path, file in files.items()}
    with drafts({} if written else after):
        checked = {
            path: _checked(path.resolve(), target, settings, len(files) > 1) for path in files
        }
    with drafts(before if written else {}):
        earlier = {
            path: _earlier(path.resolve(), file.since, settings)
            for path, file in files.items()
            if checked[path][0].kernels
        }
    return {
        path: _verified(file.since, *checked[path], earlier.get(path, ""), target)
        for path, file in files.items()
    }


def _checked(
    file: Path, target: str, settings: CheckSettings, more: bool
) -> tuple[Ledger, _Results | str, dict[str, str]]:
    """Return the check of the new text, its results, and how to run what it cannot run."""
    with variable_set(NKI_VARIABLE, target):
        ledger = check_files([(file, None)], settings, more=more)
    ledger.relative_to(str(file.parent))
    if not ledger.kernels:
        return ledger, "", {}
    unknown = {k.name: _how(file, k.name, settings) for k in ledger.kernels.values() if k.note}
    return ledger, _results(file, target, settings), unknown


def _earlier(file: Path, since: Era, settings: CheckSettings) -> _Results | str:
    """Return the results of the old text, or why there are none."""
    version = version_of(since)
    if version is None:
        return f"Beta {since[-1]} is not simulated"
    return _results(file, version, settings)


def _verified(
    since: Era,
    ledger: Ledger,
    results: _Results | str,
    hints: Mapping[str, str],
    earlier: _Results | str,
    target: str,
) -> Verification:
    found = Verification(findings=[f for f in ledger.findings if f.severity != "note"])
    for record in ledger.kernels.values():
        name = record.name
        if record.note:
            reason = _NO_VALUES if record.note.endswith("no value") else record.note
            detail = f"only read: {record.note}{hints[name]}"
            result = KernelResult(name, "read", detail, reason)
        else:
            outputs = _of(earlier, name), _of(results, name)
            result = _compared(name, *outputs, version_of(since), target)
        found.kernels.append(result)
    return found


_NO_VALUES = (
    "parameters have no value; give them with --shapes, nt.tensor annotations or nkisim_examples()"
)


def _how(file: Path, name: str, settings: CheckSettings) -> str:
    """Return how to give values to the parameters of a kernel that have none."""
    for kernel in file_findings(str(file), None)[0]:
        missing = without_value(kernel, settings.shapes)
        if kernel.name == name and missing and missing[0] != "self":
            return f'; for example --shapes "{shapes_hint(kernel, missing, settings.shapes)}"'
    return ""


def _of(results: _Results | str, name: str) -> list[np.ndarray] | str:
    """Return the results of one kernel, or why there are none."""
    return results if isinstance(results, str) else results.get(name, "it was not called")


_Results = dict[str, "list[np.ndarray] | str"]
"""The outputs of each kernel, of all its calls one after the other, or why there are none."""


def _results(file: Path, version: str, settings: CheckSettings) -> _Results | str:
    """Run the kernels of a file whose arguments are known; return why it has no results, if so."""
    found: _Results = {}
    with variable_set(NKI_VARIABLE, version):
        try:
            kernels, _ = file_findings(str(file), None)
            with imported(file, settings.max_seconds) as module:
                calls = example_calls(module, file, kernels, "", shapes=settings.shapes)
                named = {call.name for call in calls}
                for kernel in kernels:
                    if kernel.name not in named:
                        call, _ = generated_call(module, kernel, settings.shapes)
                        calls += [] if call is None else [call]
                for call in calls:
                    _add(found, call, _outputs(call, version, settings))
        except (CannotImport, BadExamples, SyntaxError) as error:
            return str(error)
    return found


def _add(found: _Results, call: KernelCall, outputs: list[np.ndarray] | str) -> None:
    known = found.setdefault(call.name, [])
    if isinstance(outputs, str) or isinstance(known, str):
        found[call.name] = outputs if isinstance(outputs, str) else known
    else:
        found[call.name] = known + outputs


def _outputs(call: KernelCall, version: str, settings: CheckSettings) -> list[np.ndarray] | str:
    """Return the outputs of one call, or why it has none."""
    options = SimOptions(
        strictness="check",
        target=settings.targets[-1],
        nki=version,
        source=False,
        ignore=(),
        detect=(),
        watchers=(instruction_limit(settings.max_instructions),),
    )
    run = Run(call.kernel, options, call.args, call.kwargs)
    try:
        with time_limit(settings.max_seconds):
            run.check()
    except (Exception, SystemExit, GaveUp) as error:
        return f"{type(error).__name__}: {error}"
    return run.report.stopped or arrays_of(run.report.outputs)


def _compared(
    name: str,
    old: list[np.ndarray] | str,
    new: list[np.ndarray] | str,
    before: str | None,
    target: str,
) -> KernelResult:
    if isinstance(new, str):
        return KernelResult(name, "stopped", f"stopped by {new}")
    if isinstance(old, str):
        return KernelResult(name, "run", f"run as NKI {target}, not compared: {old}")
    both = f"run before (NKI {before}) and after (NKI {target})"
    apart = differences(old, new)
    if apart:
        return KernelResult(name, "differs", f"{both}: {apart}")
    return KernelResult(name, "same", f"{both}: the same bits")
