"""Check of files: the source of their kernels, a run of each per generation, unused comments."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from nkisim.checks import file_findings, source_rules
from nkisim.diagnostics import CHECKED, Finding, Place, Recorder
from nkisim.diagnostics.ignores import comments_of
from nkisim.diagnostics.ledger import KernelRecord, Ledger
from nkisim.filecheck.arguments import Shapes, shapes_hint
from nkisim.filecheck.calls import (
    EXAMPLES,
    KernelCall,
    SourceFile,
    example_calls,
    generated_call,
    program_call,
    run_call,
    run_kernels,
)
from nkisim.filecheck.modules import imported, time_limit
from nkisim.filecheck.settings import BROKEN_FILE, NOT_RUN, UNUSED_IGNORE, CheckSettings
from nkisim.files import PROGRAM_SUFFIX
from nkisim.suggestions import complete, explained, settle
from nkisim.versions import in_force


def unused_ignores(
    file: str, found: Ledger, settings: CheckSettings, all_ran: bool
) -> list[Finding]:
    """Return the comments of a file that suppress nothing, as far as that is decidable."""
    of_source = source_rules(alone=True)
    used = {(line, rule) for name, line, rule in found.silenced if name == file}
    unused = []
    for line, ids in comments_of("".join(linecache.getlines(file))):
        place = Place(file, line)
        if not ids:
            message = "the comment names no rule, and silences nothing"
            fix = "name the rule: # nkisim: ignore[M004]"
            unused.append(Finding(UNUSED_IGNORE, message, place, fix=fix))
        for name in ids:
            if any(at == line and rule.startswith(name) for at, rule in used):
                continue
            known = [rule for rule in CHECKED if rule.startswith(name)]
            sure = not known or all_ran or all(rule in of_source for rule in known)
            everywhere = len(settings.targets) > 1 or not known
            if sure and everywhere and settings.selection.rules.issuperset(known):
                message = f"nothing on this line breaks {name}"
                message += "" if known else ", which is no rule"
                fix = f"remove {name} from the comment"
                unused.append(Finding(UNUSED_IGNORE, message, place, operand=name, fix=fix))
    return unused


class UnknownShapeError(ValueError):
    """A shape is for a parameter that no kernel has."""


def check_files(
    wanted: Iterable[tuple[Path, str | None]], settings: CheckSettings, *, more: bool = False
) -> Ledger:
    """Check the kernels of files, or one of a file, and return the findings.

    A file that cannot be read or imported is a finding, and the others are checked.

    Args:
        wanted: Files, each with the name of a kernel, such as ``name``, ``Class.name`` or
            ``name[2]``, or None.
        settings: The settings.
        more: Whether shapes may be for parameters of kernels in other files.

    Raises:
        ValueError: A file has no such kernel, or no kernel has a parameter that has a shape.
    """
    ledger = Ledger(0)
    ledger.nki.add(in_force())
    sources = []
    for file, kernel in wanted:
        name, grid = named_kernel(kernel)
        file = file.resolve()
        if file.suffix == PROGRAM_SUFFIX:
            call, target = program_call(file, settings.shapes)
            run_call(call, file, replace(settings, targets=(target,)), ledger)
            continue
        try:
            sources.append(SourceFile(file, *file_findings(str(file), name or None), name, grid))
        except (SyntaxError, OSError) as error:
            line = (error.lineno if isinstance(error, SyntaxError) else None) or 1
            why = f"not valid Python: {error.msg}" if isinstance(error, SyntaxError) else str(error)
            place = Place(str(file), line)
            ledger.add([Finding(BROKEN_FILE, why, place, fix="correct the file")])
    if not more:
        check_shape_names(sources, settings.shapes)
    sources = [source for source in sources if source.kernels]
    for source in sources:
        _check(source, settings, ledger)
    if sources:
        ran = any(kernel.runs for kernel in ledger.kernels.values())
        ledger.rules = len(
            settings.selection.rules.intersection(CHECKED if ran else source_rules())
        )
    return ledger


def _check(source: SourceFile, settings: CheckSettings, ledger: Ledger) -> None:
    file = str(source.file)
    records = {
        kernel.name: ledger.kernel(kernel.name, Place(file, kernel.node.lineno))
        for kernel in source.kernels
    }
    found = Ledger()
    broken = run_kernels(source, settings, found, records)
    recorder = Recorder("check")
    of_runs = found.findings
    for finding in source.findings:
        if recorder.silences(finding):
            continue
        if not explained(finding, of_runs):
            complete([finding])
            found.add([finding])
    settle(found.findings)
    found.silenced |= recorder.silenced
    ran = [found.kernels.get((file, name)) for name in records]
    all_ran = all(record is not None and not record.stopped for record in ran)
    if not source.selected:
        found.add(unused_ignores(file, found, settings, all_ran))
    if settings.require_run and not broken:
        wanted = [record for record in records.values() if settings.runs(record.name)]
        found.add(_not_run(wanted, found))
    found.keep(settings.selection.wants)
    ledger.merge(found)


def _not_run(records: Iterable[KernelRecord], found: Ledger) -> Iterable[Finding]:
    """Yield a finding for each kernel that did not run."""
    for record in records:
        if (record.place.file, record.name) not in found.kernels:
            message = f"{record.name} was not run: {record.note}"
            yield Finding(NOT_RUN, message, record.place, operand=record.name, fix=record.hint)


def named_kernel(kernel: str | None) -> tuple[str, int | None]:
    """Return the name of a kernel and its grid, from ``name`` or ``name[2]``."""
    name, bracket, grid = (kernel or "").partition("[")
    if bracket and grid not in ("1]", "2]"):
        raise ValueError(f"{kernel}: the grid must be [1] or [2]")
    return name, int(grid[0]) if bracket else None


def check_shape_names(sources: list[SourceFile], shapes: Shapes) -> None:
    """Raise on a shape for a parameter that none of the kernels has."""
    known: set[str] = set()
    for source in sources:
        for kernel in source.kernels:
            given = getattr(kernel.node, "args", ast.arguments([], [], None, [], [], None, []))
            known |= {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    for name in shapes if known else ():
        if name not in known:
            files = ", ".join(source.file.name for source in sources if source.kernels)
            raise UnknownShapeError(
                f"no kernel of {files} has a parameter {name!r}; they have: "
                f"{', '.join(sorted(known))}"
            )


def kernel_calls(
    file: Path, kernel: str | None, shapes: Shapes, max_seconds: float, notes: list[str]
) -> Iterator[KernelCall]:
    """Yield the kernels of a file with arguments, while it is imported.

    Args:
        file: The file.
        kernel: Name of one kernel, with a grid or without; None selects all.
        shapes: Arguments that win over those of the file.
        max_seconds: Limit of the import, and of the examples.
        notes: Gets a line for each kernel without arguments, with what is missing.
    """
    if file.suffix == PROGRAM_SUFFIX:
        yield program_call(file, shapes)[0]
        return
    selected, grid = named_kernel(kernel)
    source = SourceFile(file, *file_findings(str(file), selected or None), selected, grid)
    check_shape_names([source], shapes)
    if not source.kernels:
        return
    with imported(file, max_seconds) as module:
        with time_limit(max_seconds):
            examples = example_calls(module, file, source.kernels, selected, grid, shapes)
        yield from examples
        called = {call.name for call in examples}
        for kernel_source in source.kernels:
            name = kernel_source.name
            if name in called:
                continue
            call, missing = generated_call(module, kernel_source, shapes)
            if missing:
                hint = shapes_hint(kernel_source, missing, shapes)
                notes.append(
                    f"{name} was not run, no value for {', '.join(missing)}: give --shapes "
                    f'"{hint}", annotate with nt.tensor[128, 512], or define {EXAMPLES}()'
                )
            elif call is None:
                notes.append(
                    f"{name} was not run, it is not a name of the module: define {EXAMPLES}()"
                )
            else:
                yield call.on(grid)
