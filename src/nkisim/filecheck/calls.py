"""Runs of a file's kernels, with arguments from ``nkisim_examples``, ``--shapes``, annotations."""

from __future__ import annotations

import dataclasses
import linecache
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nkisim.api import Kernel, as_kernel
from nkisim.checks import KernelSource, kernel_findings
from nkisim.diagnostics import Finding, Place, Report, is_own_file
from nkisim.diagnostics.ledger import KernelRecord, Ledger
from nkisim.filecheck.arguments import (
    Shapes,
    argument,
    arguments_of,
    shapes_hint,
    without_value,
)
from nkisim.filecheck.modules import (
    CannotImport,
    GaveUp,
    imported,
    instruction_limit,
    raising_line,
    time_limit,
)
from nkisim.filecheck.settings import BROKEN_FILE, WRONG_RESULT, CheckSettings
from nkisim.objects import rebuilt
from nkisim.options import SimOptions
from nkisim.runs import Run
from nkisim.runs.host import argument_names, array_of, definition_place, digest

if TYPE_CHECKING:
    from nkisim.trials import Arguments

EXAMPLES = "nkisim_examples"
"""Name of the function in a file that yields kernels with arguments."""

_FORM = (
    f"{EXAMPLES}() must return pairs of a kernel and a tuple or a dict of its arguments, such as "
    "[(kernel, (x, y))] or {'kernel': (x, y)}; a third part of a pair is what the kernel must "
    "return, or a function that computes it"
)


class KernelCall(NamedTuple):
    """A kernel with arguments, its name in the report, and what it must return, if known."""

    name: str
    kernel: Kernel
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: Any = None

    def on(self, grid: int | None) -> KernelCall:
        """Return the call on a number of cores; None leaves the kernel's."""
        return self if grid is None else self._replace(kernel=self.kernel[grid])


class SourceFile(NamedTuple):
    """A file that was read.

    Attributes:
        file: The file.
        kernels: Its kernels, or the selected one.
        findings: Findings in their source.
        selected: Name of the selected kernel; empty where all are checked.
        grid: Number of cores, where the command has one.
    """

    file: Path
    kernels: list[KernelSource]
    findings: list[Finding]
    selected: str
    grid: int | None


class BadExamples(Exception):
    """``nkisim_examples`` raised, or returned something else."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def program_call(file: Path, shapes: Shapes) -> tuple[KernelCall, str]:
    """Return the call of a saved program, with values for its arrays, and its target.

    Raises:
        ValueError: The file has no program, or ``shapes`` names arguments: a program has its own.
    """
    from nkisim.program import Program
    from nkisim.program.calls import arguments_without_values
    from nkisim.trials import Arguments
    from nkisim.trials.arguments import given

    if shapes:
        raise ValueError(f"--shapes: {file.name} is a program, which has its own arguments")
    program = Program.from_bytes(file.read_bytes())
    drawn = given(Arguments(arguments_without_values(program), {}))
    return KernelCall(program.kernel, Program.load(program), *drawn), program.target


def run_kernels(
    source: SourceFile, settings: CheckSettings, found: Ledger, records: Mapping[str, KernelRecord]
) -> bool:
    """Run every kernel with known arguments; note at the others why they were only read.

    The file is imported only if arguments of a kernel are known, and never if the settings say that
    files are only read.

    Returns:
        Whether the file is broken, which is a finding.
    """
    if settings.source_only:
        for record in records.values():
            record.note = "as --source-only asks"
        return False
    missing = {k.name: without_value(k, settings.shapes) for k in source.kernels}
    has_examples = EXAMPLES in "".join(linecache.getlines(str(source.file)))
    if not has_examples and all(missing.values()):
        for kernel in source.kernels:
            absent = missing[kernel.name]
            _note_missing(records[kernel.name], source.file, kernel, absent, settings.shapes)
        return False
    try:
        with imported(source.file, settings.max_seconds) as module:
            return _run_all(module, source, settings, found, records)
    except CannotImport as error:
        for record in records.values():
            record.note = str(error)
        if error.is_broken:
            _add_broken(found, source.file, str(error), error.line)
        return error.is_broken


def _run_all(
    module: Any,
    source: SourceFile,
    settings: CheckSettings,
    found: Ledger,
    records: Mapping[str, KernelRecord],
) -> bool:
    """Run the examples, then the other kernels; return whether the examples are broken."""
    calls: list[KernelCall] = []
    broken, file, kernels = False, source.file, source.kernels
    try:
        with time_limit(settings.max_seconds):
            calls = example_calls(
                module, file, kernels, source.selected, source.grid, settings.shapes
            )
    except BadExamples as error:
        broken = True
        _add_broken(found, file, str(error), error.line)
    for call in calls:
        if settings.runs(call.name):
            run_call(call, file, settings, found)
    called = {call.name for call in calls}
    for kernel in kernels:
        if kernel.name in called or not settings.runs(kernel.name):
            continue
        made, missing = generated_call(module, kernel, settings.shapes)
        record = records[kernel.name]
        if missing:
            _note_missing(record, file, kernel, missing, settings.shapes)
        elif made is None:
            record.note = f"{kernel.name} is not a name of the module"
            record.hint = f"define {EXAMPLES}() in {file}"
        else:
            run_call(made.on(source.grid), file, settings, found)
    return broken


def _add_broken(found: Ledger, file: Path, message: str, line: int) -> None:
    fix = "correct it; what the source shows is checked all the same"
    found.add([Finding(BROKEN_FILE, message, Place(str(file), line), fix=fix)])


def example_calls(
    module: Any,
    file: Path,
    kernels: list[KernelSource],
    selected: str,
    grid: int | None = None,
    shapes: Shapes = MappingProxyType({}),
) -> list[KernelCall]:
    """Return the calls that a file's ``nkisim_examples`` yields.

    Args:
        module: The file, imported.
        file: Its path.
        kernels: Its kernels, or the selected one.
        selected: Name of the selected kernel; empty for all.
        grid: Number of cores that replaces the examples', if any.
        shapes: Arguments that replace the examples', by parameter name.
    """
    function = getattr(module, EXAMPLES, None)
    if function is None:
        return []
    try:
        made = function()
        entries = list(made.items() if isinstance(made, dict) else made)
    except (Exception, SystemExit, GaveUp) as error:
        message = f"{EXAMPLES}() raised {type(error).__name__}: {error}"
        raise BadExamples(message, raising_line(error, str(file))) from error
    names = {kernel.node.lineno: kernel.name for kernel in kernels}
    calls = []
    for entry in entries:
        if isinstance(entry, tuple) and entry and isinstance(entry[0], str):
            entry = (attribute_of(module, entry[0]), *entry[1:])
        well_formed = isinstance(entry, tuple) and len(entry) in (2, 3) and callable(entry[0])
        if not well_formed or not isinstance(entry[1], (tuple, dict)):
            line = definition_place(function).line
            raise BadExamples(f"{_FORM}, got {_short(entry)}", line)
        kernel = as_kernel(entry[0])
        place = definition_place(kernel.function)
        here = place.file == str(file)
        if selected and not (here and place.line in names):
            continue  # another kernel was selected
        name = names.get(place.line, kernel.__name__) if here else kernel.__name__
        args, kwargs = ((), entry[1]) if isinstance(entry[1], dict) else (entry[1], {})
        call = KernelCall(name, kernel, args, kwargs, *entry[2:]).on(grid)
        calls.append(with_shapes(call, shapes))
    return _distinct(calls, shapes)


def with_shapes(call: KernelCall, shapes: Shapes) -> KernelCall:
    """Return a call with the arguments that ``shapes`` has for parameters of its kernel."""
    parameters = call.kernel.parameters
    given = {p.name: argument(shapes[p.name]) for p in parameters if p.name in shapes}
    if not given:
        return call
    args, kwargs = call.kernel.arguments(call.args, call.kwargs)
    names = argument_names(parameters, len(args))
    args = tuple(given.pop(name, value) for name, value in zip(names, args, strict=True))
    kernel = dataclasses.replace(call.kernel, bound=((), {}))
    expected = call.expected if callable(call.expected) else None
    return KernelCall(call.name, kernel, args, {**kwargs, **given}, expected)


def _distinct(calls: list[KernelCall], shapes: Shapes) -> list[KernelCall]:
    """Return the calls without those that ``shapes`` made equal to an earlier one."""
    kept, seen = [], set()
    for call in calls:
        names = {*argument_names(call.kernel.parameters, len(call.args)), *call.kwargs}
        key = (call.kernel.function, call.kernel.cores)
        if names and names <= set(shapes):
            if key in seen:
                continue
            seen.add(key)
        kept.append(call)
    return kept


def _short(entry: Any) -> str:
    """Describe an entry that is not a pair."""
    if isinstance(entry, tuple) and len(entry) == 2:
        return f"{type(entry[0]).__name__} and {type(entry[1]).__name__}"
    return type(entry).__name__


def attribute_of(module: Any, name: str) -> Any:
    """Return the object of a dotted name in a module, or None."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def generated_call(
    module: Any, source: KernelSource, shapes: Shapes
) -> tuple[KernelCall | None, list[str]]:
    """Return a call of a kernel with generated arguments, and the parameters without a value.

    There is no call if a parameter has no value, or the kernel is not a name of the module.
    """
    thing = attribute_of(module, source.name)
    if thing is None or not callable(thing):
        return None, []
    kernel = as_kernel(thing)
    given, missing = arguments_of(kernel.function, shapes)
    return None if missing else KernelCall(source.name, kernel, (), given), missing


def _note_missing(
    record: KernelRecord, file: Path, kernel: KernelSource, missing: list[str], shapes: Shapes
) -> None:
    """Note the parameters without a value, and how to give them one."""
    *most, last = missing
    record.note = f"{', '.join(most)} and {last} have no value" if most else f"{last} has no value"
    record.hint = f"define {EXAMPLES}() in {file}"
    if missing[0] != "self":
        hint = shapes_hint(kernel, missing, shapes)
        record.hint = (
            f'nkisim check {file}::{kernel.name} --shapes "{hint}", '
            f"or annotate with nt.tensor[128, 512], or define {EXAMPLES}()"
        )


def run_call(call: KernelCall, file: Path, settings: CheckSettings, found: Ledger) -> None:
    """Check a call on all targets of the settings, and add what was found."""
    place = definition_place(call.kernel.function)
    for target in settings.targets:
        start = None if call.expected is None else _copied(call)
        whole = settings.checks_whole(call.name, target) or start is not None
        keeps = settings.results and whole
        given = digest((call.args, call.kwargs)) if keeps else ""
        report = _report(call, target, settings, whole=whole)
        if start is not None and not report.stopped:
            report.findings += _wrong_results(call, start, report.outputs, place)
        found.enter(call.name, place, report)
        if keeps:
            record = found.kernel(call.name, place)
            arrays = () if report.outputs is None else _arrays_after(call, report.outputs)
            record.results[record.runs] = (given, arrays)
    if place.file != str(file):
        found.add(kernel_findings(call.kernel.function))


def _report(call: KernelCall, target: str, settings: CheckSettings, *, whole: bool) -> Report:
    """Return the report of a run; without ``whole`` it has neither values nor detectors."""
    options = SimOptions(
        strictness="check",
        target=target,
        source=False,
        ignore=(),
        values=whole,
        detect=None if whole else (),
        watchers=(instruction_limit(settings.max_instructions),),
    )
    run = Run(call.kernel, options, call.args, call.kwargs)
    try:
        with time_limit(settings.max_seconds):
            run.check()
    except GaveUp as error:
        run.report.stopped = str(error)
    except (Exception, SystemExit) as error:
        if not whole:  # it may depend on values
            return _report(call, target, settings, whole=True)
        run.report.stopped = f"{type(error).__name__}: {error}{where_raised(error)}"
    return run.report


def _arrays_after(call: KernelCall, outputs: Any) -> tuple[np.ndarray, ...]:
    """Return copies of a run's results and of its arguments, which it may have written."""
    found: list[np.ndarray] = []

    def copied(name: str, value: Any) -> Any:
        if (array := array_of(name, value)) is not None:
            found.append(np.array(array[0]))
        return value

    rebuilt((outputs, *call.args, call.kwargs), copied)
    return tuple(found)


def _copied(call: KernelCall) -> Arguments:
    """Return copies of the arguments of a call, for the function of expected results."""
    from nkisim.trials import Arguments
    from nkisim.trials.arguments import given

    return given(Arguments(*call.kernel.arguments(call.args, call.kwargs)))


def _wrong_results(
    call: KernelCall, start: Arguments, outputs: Any, place: Place
) -> Iterator[Finding]:
    """Yield a finding if a kernel's results are not the expected ones."""
    from nkisim.trials.comparison import Expected
    from nkisim.trials.references import Reference, Refused
    from nkisim.trials.running import arrays_of

    known = call.expected
    try:
        expected = Expected(Reference(known) if callable(known) else arrays_of(known), start)
        results = expected.compared(arrays_of(outputs))
    except Refused as error:
        text = f"the function of expected results raised {error}"
        yield Finding(BROKEN_FILE, text, place, fix="correct the function")
        return
    if not results.passed:
        yield Finding(WRONG_RESULT, f"{call.name}: {results}", place, fix="correct the kernel")


def where_raised(error: BaseException) -> str:
    """Return the line of the user's code that raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_own_file(f.filename)]
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
