"""Files whose kernels have findings with code, and what becomes of each piece of that code.

The files are the bad and good twins of all rules, the kernels of ``written_kernels`` and those of
``beginner_kernels``. A piece is judged apart from the code that tried it: it is pasted into the
file, which is written and checked as any other.
"""

import ast
import linecache
import pkgutil
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import kernels
from kernels import ALL, TWINS
from kernels.forms import form_lines
from nkisim.filecheck import CheckSettings, check_files
from nkisim.filecheck.fixes import tried_files
from scripts import loaded

for module in pkgutil.iter_modules(kernels.__path__):
    import_module(f"kernels.{module.name}")  # declares its twins

TWIN = """

def nkisim_examples():
    import nkisim
    from kernels import TWINS

    (twin,) = [twin for twin in TWINS if twin.name == {name!r}]
    yield twin.launched(nkisim.jit({form}_{name})), tuple(twin.{inputs})
"""
WRITTEN = """

def nkisim_examples():
    import numpy as np

    shapes, random = {shapes}, np.random.default_rng(0)
    yield {name}, tuple(random.uniform(0.5, 1.5, s).astype(np.float32) for s in shapes)
"""


@cache
def parsed(file, form):
    """The lines and the tree of a form of a file."""
    lines = form_lines(Path(file).read_text(), form)
    text = "".join(f"{line}\n" for line in lines if line is not None)
    return text.splitlines(keepends=True), ast.parse(text)


def source_of(twin, form="bad"):
    """The file of a twin without its declaration, other twins and guards."""
    lines, tree = parsed(twin.module, form)
    lines = list(lines)
    other = "good_" if form == "bad" else "bad_"
    for node in reversed(tree.body):
        declared = [d.lineno for d in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.FunctionDef) and node.name == f"{form}_{twin.name}":
            del lines[min([node.lineno, *declared]) - 1 : node.lineno - 1]
        elif declared or getattr(node, "name", "").startswith(other):
            del lines[min([node.lineno, *declared]) - 1 : node.end_lineno]
    inputs = "inputs" if form == "bad" else "fixed"
    return "".join(lines) + TWIN.format(name=twin.name, form=form, inputs=inputs)


def with_arguments(text, name, inputs):
    """The text of a file with arguments for its kernel, of these shapes."""
    return text + WRITTEN.format(name=name, shapes=[array.shape for array in inputs])


class Case(NamedTuple):
    """A kernel in a file: the text of the file, the name of the kernel, and its generations."""

    text: str
    kernel: str
    targets: tuple[str, ...]


def checked_twins():
    """The twins that a file can hold: it has no options and no ranks."""
    here = [t for t in TWINS if not t.on_host and not t.advised]
    return [t for t in here if t.ranks == 1 and not t.options]


def cases():
    """All cases by name."""
    found = {}
    for twin in checked_twins():
        for form in ("bad", "good"):
            name = f"{form}_{twin.name}"
            found[name] = Case(source_of(twin, form), name, twin.targets)
    here = Path(__file__).parent / "nkisim"
    for name, kernel in loaded(here / "written_kernels.py").KERNELS.items():
        found[name] = Case(with_arguments(kernel.text, name, kernel.inputs), name, ALL)
    beginner = loaded(here / "beginner_kernels.py")
    for name in beginner.ERRORS:
        text = with_arguments(beginner.text_of(name), "kernel", beginner.inputs_of(name))
        found[f"beginner_{name}"] = Case(text, "kernel", ALL)
    return found


class Pieces(NamedTuple):
    """The rules of the pieces of code of a file.

    Attributes:
        known: Rules of findings for which there is code before the trials.
        shown: Those whose code is shown.
        tried: Those whose code was tried.
        failed: Those whose code leaves its finding, or an error that was not there.
    """

    known: list[str]
    shown: list[str]
    tried: list[str]
    failed: list[str]


def errors_of(ledger):
    """The rule, or exception, the generation, and the text of the line of each error."""
    found = [finding for finding in ledger.findings if finding.severity == "error"]
    errors = [(f.rule.id, on, f.place.text.strip()) for f in found for on in f.targets or ("",)]
    rules = {rule for rule, _, _ in errors}
    for record in ledger.kernels.values():
        stops = [(why.split()[0], target, "") for target, why in record.stopped.items()]
        errors += [stop for stop in stops if stop[0] not in rules]
    return errors


def times(ledger, rule):
    """How often a rule is found, a generation at a time."""
    return sum(len(f.targets) or 1 for f in ledger.findings if f.rule.id == rule)


def pieces_of(case, file, targets=None):
    """Check a case in a file, and paste each piece of code that is shown."""
    wanted, settings = [(file, case.kernel)], CheckSettings(targets=targets or case.targets)
    file.write_text(case.text)
    linecache.checkcache(str(file))
    ledger = tried_files(wanted, settings)
    before = errors_of(ledger)
    lines = {text for _, _, text in before}
    coded = [finding for finding in ledger.findings if finding.rewrite is not None]
    left_out = [f for f in ledger.findings if any(n.startswith("no code: ") for n in f.notes)]
    failed = []
    for finding in coded:
        file.write_text(finding.rewrite.applied(case.text))
        linecache.checkcache(str(file))
        after, rule = check_files(wanted, settings), finding.rule.id
        # Errors behind the one at which the kernel stopped, as the finding says.
        named = [re.match(r"behind it: \w+\[(\w+)\]", note) for note in finding.notes]
        behind = {match[1] for match in named if match}
        # A line whose error is known may have it on another generation, or by another rule.
        errors = [error for error in errors_of(after) if error not in before]
        new = {rule for rule, _, text in errors if text not in lines} - behind
        if new or not (rule in behind or times(after, rule) < times(ledger, rule)):
            failed.append(rule)
    linecache.checkcache(str(file))
    return Pieces(
        [finding.rule.id for finding in (*coded, *left_out)],
        [finding.rule.id for finding in coded],
        [finding.rule.id for finding in coded if finding.tried],
        failed,
    )
