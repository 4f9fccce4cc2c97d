"""One file: its kernels, arguments for them, and a run of each on every generation."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nkisim.api import Kernel, as_kernel, check_into
from nkisim.checker.arguments import Shapes, arguments_of
from nkisim.checker.limits import GaveUp, instruction_limit, time_limit
from nkisim.checker.modules import CannotImport, imported
from nkisim.checker.selection import Selection
from nkisim.checks import file_findings, kernel_findings, source_rules
from nkisim.diagnostics import RULES, Finding, Place, Recorder, Report, Rule, is_own_file
from nkisim.diagnostics.ignores import comments_of
from nkisim.diagnostics.ledger import Ledger
from nkisim.host import definition_place
from nkisim.options import SimOptions
from nkisim.suggestions import complete

__all__ = ["EXAMPLES", "UNUSED_IGNORE", "CheckSettings", "check_file"]

EXAMPLES = "nkisim_examples"
"""Name of the function in a file that yields kernels with arguments."""

UNUSED_IGNORE = Rule(
    "X001",
    "unused-ignore",
    "warning",
    "A comment silences a rule that is not broken there.",
    "it would hide the mistake when somebody makes it",
)

_HOW = f'give --shapes "x=bf16[128,512]", annotate with nt.tensor, or define {EXAMPLES}()'


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Settings of a check.

    Attributes:
        shapes: Arguments by parameter name.
        targets: Generations to run on.
        selection: Selected rules.
        max_instructions: Number of instructions after which a run is aborted.
        max_seconds: Seconds after which a run is aborted.
    """

    shapes: Shapes = field(default_factory=dict)
    targets: tuple[str, ...] = ("gen2", "gen3", "gen4")
    selection: Selection = field(default_factory=Selection)
    max_instructions: int = 2_000_000
    max_seconds: float = 600.0


class _Call(NamedTuple):
    """A kernel with arguments."""

    kernel: Kernel
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def check_file(file: Path, kernel: str | None, settings: CheckSettings, ledger: Ledger) -> None:
    """Check the kernels of a file, or one of them, and add the findings to a ledger.

    Raises:
        SyntaxError: The file is not valid Python.
        ValueError: It has no function ``kernel``, or ``nkisim_examples`` returns something else.
    """
    file = file.resolve()
    name, grid = _named(kernel)
    names, source = file_findings(str(file), name or None)
    if not names:
        return
    lines = _definition_lines(file)
    _check_shape_names(file, names, settings.shapes)
    records = {n: ledger.kernel(n, Place(str(file), lines.get(n, 0))) for n in names}
    found = Ledger()
    if settings.shapes or _says_arguments(file):
        _run_all(file, names, grid, settings, found, records)
    else:
        for record in records.values():
            record.note = f"only the source was checked, shapes are missing: {_HOW}"
    recorder = Recorder("check")
    known = {(f.rule.id, f.file, f.line) for f in found.findings}
    for finding in source:
        if recorder.silences(finding):
            continue
        if (finding.rule.id, finding.file, finding.line) not in known:
            complete(finding)
            found.add([finding])
    found.silenced |= recorder.silenced
    ran = [found.kernels.get((str(file), name)) for name in names]
    all_ran = all(record is not None and not record.stopped for record in ran)
    if kernel is None:
        found.add(_unused_ignores(file, found, settings, all_ran))
    found.keep(settings.selection.wants)
    ledger.merge(found)
    chosen = RULES if any(k.runs for k in ledger.kernels.values()) else source_rules()
    ledger.rules = sum(settings.selection.includes(rule) for rule in chosen)


def _named(kernel: str | None) -> tuple[str, int | None]:
    """Return the name of a kernel and its grid, from ``name`` or ``name[2]``."""
    name, bracket, grid = (kernel or "").partition("[")
    if bracket and grid not in ("1]", "2]"):
        raise ValueError(f"{kernel}: the grid must be [1] or [2]")
    return name, int(grid[0]) if bracket else None


def _definition_lines(file: Path) -> dict[str, int]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {n.name: n.lineno for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def _check_shape_names(file: Path, names: list[str], shapes: Shapes) -> None:
    """Raise on a shape for a parameter that none of the kernels has."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kernels = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names]
    known = {
        a.arg for k in kernels for a in (*k.args.posonlyargs, *k.args.args, *k.args.kwonlyargs)
    }
    for name in shapes:
        if name not in known:
            raise ValueError(
                f"shapes: no kernel of {file.name} has a parameter {name!r}; they have: "
                f"{', '.join(sorted(known)) or 'none'}"
            )


def _says_arguments(file: Path) -> bool:
    """Return whether a file may define arguments of its kernels, and so has to be imported."""
    text = file.read_text(encoding="utf-8")
    return EXAMPLES in text or ".tensor[" in text or "tensor[" in text


# -- calls -----------------------------------------------------------------------------------------


def _run_all(
    file: Path,
    names: list[str],
    grid: int | None,
    settings: CheckSettings,
    found: Ledger,
    records: dict[str, Any],
) -> None:
    """Run every kernel with known arguments."""
    try:
        with imported(file) as module:
            called = set()
            for call in _examples(module, names, file):
                if call.kernel.__name__ in records:
                    called.add(call.kernel.__name__)
                _run(call, file, settings, found)
            for name in names:
                if name not in called:
                    reason = _run_named(module, name, grid, file, settings, found)
                    records[name].note = reason
    except CannotImport as error:
        for record in records.values():
            record.note = f"only the source was checked: {error}"


def _examples(module: Any, names: list[str], file: Path) -> Iterator[_Call]:
    function = getattr(module, EXAMPLES, None)
    if function is None:
        return
    try:
        made = function()
        entries = list(made.items() if isinstance(made, dict) else made)
    except Exception as error:
        message = f"{EXAMPLES}() raised {type(error).__name__}: {error}{_where(error)}"
        raise CannotImport(message) from error
    for entry in entries:
        if isinstance(entry, tuple) and entry and isinstance(entry[0], str):
            entry = (getattr(module, entry[0], None), *entry[1:])
        well_formed = isinstance(entry, tuple) and len(entry) == 2 and callable(entry[0])
        if not well_formed or not isinstance(entry[1], (tuple, dict)):
            raise ValueError(
                f"{file}: {EXAMPLES}() must return pairs of a kernel and a tuple or a dict of its "
                "arguments, such as [(kernel, (x, y))] or {'kernel': (x, y)}, got "
                f"{_short(entry)}"
            )
        kernel = as_kernel(entry[0])
        if kernel.__name__ not in names and definition_place(kernel.function).file == str(file):
            continue  # another kernel was selected
        args, kwargs = ((), entry[1]) if isinstance(entry[1], dict) else (entry[1], {})
        yield _Call(kernel, args, kwargs)


def _short(entry: Any) -> str:
    """Describe an entry that is not a pair."""
    if isinstance(entry, tuple) and len(entry) == 2:
        return f"{type(entry[0]).__name__} and {type(entry[1]).__name__}"
    return type(entry).__name__


def _run_named(
    module: Any, name: str, grid: int | None, file: Path, settings: CheckSettings, found: Ledger
) -> str:
    """Run a kernel with generated arguments; return the reason if that is not possible."""
    thing = getattr(module, name, None)
    if thing is None or not callable(thing):
        return f"only the source was checked, {name} is not a name of the module; use {EXAMPLES}()"
    kernel = as_kernel(thing)
    given, missing = arguments_of(kernel.function, settings.shapes)
    if missing:
        return f"only the source was checked, arguments are missing ({', '.join(missing)}): {_HOW}"
    _run(_Call(kernel if grid is None else kernel[grid], (), given), file, settings, found)
    return ""


def _run(call: _Call, file: Path, settings: CheckSettings, found: Ledger) -> None:
    place = definition_place(call.kernel.function)
    for target in settings.targets:
        report = Report()
        options = SimOptions(
            strictness="check",
            target=target,
            source=False,
            ignore=(),
            watchers=(instruction_limit(settings.max_instructions),),
        )
        try:
            with time_limit(settings.max_seconds):
                check_into(report, call.kernel, options, call.args, call.kwargs)
        except GaveUp as error:
            report.stopped = str(error)
        except Exception as error:
            report.stopped = f"{type(error).__name__}: {error}{_where(error)}"
        found.enter(call.kernel.__name__, place, report)
    if place.file != str(file):
        found.add(kernel_findings(call.kernel.function))


def _where(error: BaseException) -> str:
    """Return the line of the user's code that raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_own_file(f.filename)]
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


# -- comments --------------------------------------------------------------------------------------


def _unused_ignores(
    file: Path, found: Ledger, settings: CheckSettings, all_ran: bool
) -> list[Finding]:
    """Return the comments of a file that suppress nothing, as far as that is decidable."""
    of_source = source_rules()
    used = {(line, rule) for name, line, rule in found.silenced if name == str(file)}
    unused = []
    for line, ids in comments_of(file.read_text(encoding="utf-8")):
        place = Place(str(file), line)
        if not ids:
            message = "the comment names no rule, and silences nothing"
            fix = "name the rule: # nkisim: ignore[M004]"
            unused.append(Finding(UNUSED_IGNORE, message, place, fix=fix))
        for name in ids:
            if any(at == line and rule.startswith(name) for at, rule in used):
                continue
            known = [rule for rule in RULES if rule.startswith(name)]
            sure = not known or all_ran or all(rule in of_source for rule in known)
            everywhere = len(settings.targets) > 1 or not known
            if sure and everywhere and all(settings.selection.includes(r) for r in known):
                message = f"nothing on this line breaks {name}"
                message += "" if known else ", which is no rule"
                fix = f"remove {name} from the comment"
                unused.append(Finding(UNUSED_IGNORE, message, place, operand=name, fix=fix))
    return unused
