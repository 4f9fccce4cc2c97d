#!/usr/bin/env python
"""Write the reference pages: one per rule and one per instruction.

The sources are the declarations in nkisim, the twin kernels in tests/kernels and the calls in
instruction_examples.py. Findings about bad kernels and the output of examples are computed while
the page is generated.

The pages of rules are part of the repository and of the wheel: findings link to them, and
``nkisim rule`` prints them. A test compares them with the output of this script. The pages of
instructions, which take 3 s, are made with the site.

    python tools/gen_catalogue.py [FOLDER]     FOLDER/rules and FOLDER/instructions; default: docs
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "tests", ROOT / "tools"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from instruction_pages import instruction_pages, rules_of  # noqa: E402
from markdown_text import block, join, table  # noqa: E402
from rule_examples import Example, example_of  # noqa: E402

import kernels  # noqa: E402
import nkisim  # noqa: E402
from nkisim import NkiValidationError, check, profile, simulate  # noqa: E402
from nkisim.diagnostics import CHECKED, RULES, Rule  # noqa: E402
from nkisim.diagnostics.rules import REPORTED_AS, UNDECIDABLE  # noqa: E402
from nkisim.filecheck.modules import imported  # noqa: E402
from nkisim.spec import INSTRUCTIONS  # noqa: E402
from nkisim.versions.rules import rows as by_version  # noqa: E402

FAMILIES = {
    "L": "Language",
    "S": "Shape, layout and access patterns",
    "M": "Memory and initialisation",
    "D": "Number formats",
    "A": "Interface, engines and generations",
    "C": "Collectives and cores",
    "R": "Races and ordering",
    "W": "Lost work",
    "P": "Advice on speed",
}

PROFILED = "gen3"
"""Generation of the advice on pages, the default of ``nkisim profile``."""

# Modules of the command line and pytest: no declarations, and optional dependencies.
ENTRY_POINTS = ("nkisim.__main__", "nkisim.cli", "nkisim.pytest_plugin", "nkisim.serve")


def main(folder: Path = ROOT / "docs") -> None:
    """Write all pages below ``folder``, replacing those of an earlier run."""
    import_everything()
    pages = {"rules": rule_pages(all_twins()), "instructions": instruction_pages()}
    for name, texts in pages.items():
        write(folder / name, texts)
        print(f"{folder / name}: {len(texts)} pages")


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write pages, given by file stem, and remove those of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.md"):
        stale.unlink()
    for stem, text in texts.items():
        (folder / f"{stem}.md").write_text(text, encoding="utf-8")


def import_everything() -> None:
    """Import every module of nkisim, so that all rules and instructions are declared."""
    for module in pkgutil.walk_packages(nkisim.__path__, "nkisim."):
        if not module.name.startswith(ENTRY_POINTS):
            importlib.import_module(module.name)


# -- rules -----------------------------------------------------------------------------------------


def all_twins() -> dict[str, list[kernels.Twin]]:
    """Return the twins of every rule."""
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"kernels.{module.name}")
    found: dict[str, list[kernels.Twin]] = {}
    for twin in kernels.TWINS:
        found.setdefault(twin.rule, []).append(twin)
    return found


def rule_pages(twins: dict[str, list[kernels.Twin]]) -> dict[str, str]:
    """Return the text of every rule's page and of the index, by file stem."""
    pages = {id: rule_page(rule, twins.get(id, [])) for id, rule in RULES.items()}
    return pages | {"index": rule_index()}


def rule_page(rule: Rule, twins: Sequence[kernels.Twin]) -> str:
    """Return the page of one rule."""
    rows = [
        ("what is found", rule.checks),
        ("why it matters", rule.matters),
        ("severity", rule.severity),
        *consequences(rule, twins),
        ("since", f"nkisim {rule.since}"),
        *by_version(rule.id),
    ]
    users = [name for name, rules in rules_of_instructions().items() if rule in rules]
    if users:
        rows.append(("checked by", ", ".join(f"`nisa.{n}`" for n in sorted(users))))
    parts = [f"# {rule.id} {rule.slug}", table(("", ""), rows)]
    if not twins:
        parts.append("No kernel can show this rule yet: what it needs is not simulated.")
    for twin in twins:
        parts += twin_sections(twin)
    return join(parts)


@cache
def rules_of_instructions() -> dict[str, set[Rule]]:
    """Return the rules that the declaration of each instruction names."""
    return {instruction.name: rules_of(instruction) for instruction in INSTRUCTIONS.values()}


def consequences(rule: Rule, twins: Sequence[kernels.Twin]) -> list[tuple[str, str]]:
    """Return the effect of the rule at each strictness level."""
    if rule.id not in CHECKED:
        found = "has advice, with the time that a change saves"
        return [("`profile`", found), ("`simulate`, `strict`, `check`", "do not look for it")]
    if twins and all(twin.on_host for twin in twins):
        return [("outside a kernel", "warns" if rule.severity == "warning" else "raises")]
    goes_on = "records it and goes on"
    if twins and all(twin.in_source for twin in twins):
        only = "finds it in the source"
        return [("`simulate`, `strict`", "do not look for it"), ("`check`, `check_source`", only)]
    if rule.meaningless:
        ends = "records it and ends the run, without outputs"
        found = [("`simulate`", "raises"), ("`strict`", "raises"), ("`check`", ends)]
        if any(twin.in_source for twin in twins):
            found.append(("`check_source`", "finds it where the source alone shows it"))
        return found
    if rule.detector:
        asked = f'look for it with `detect=("{rule.detector}",)`'
        return [("`simulate`, `strict`", asked), ("`check`", goes_on)]
    found = [
        ("`simulate`", goes_on if looked_for_in_simulate(twins) else "does not look for it"),
        ("`strict`", "raises" if rule.severity == "error" else goes_on),
        ("`check`", goes_on),
    ]
    if rule.silent:
        found.append(("`profile`", "predicts a time, since the device runs the kernel"))
    return found


def looked_for_in_simulate(twins: Sequence[kernels.Twin]) -> bool:
    """Return whether ``simulate`` finds the first twin; some checks are too costly there."""
    if not twins:
        return True
    twin = twins[0]
    launched = twin.launched(twin.bad)
    kernel = simulate(
        launched, target=twin.targets[0], ranks=twin.ranks, nki=twin.options.get("nki")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel(*twin.arguments(twin.inputs))
    return twin.rule in kernel.report.codes


def twin_sections(twin: kernels.Twin) -> list[str]:
    """Return the bad kernel, its finding and the good kernel, each as a complete file."""
    targets = (PROFILED,) if twin.advised else twin.targets
    face = twin.name.partition("_")[2].replace("_", " ")
    bad = example_of((*twin.parts, twin.bad), decorated=not twin.on_host)
    good = example_of((twin.good,), decorated=not twin.on_host)
    return [
        "## Example" + (f": {face}" if face else ""),
        "### Bad",
        *inputs_line(twin.bad, twin.inputs, targets, twin.options.get("nki", "")),
        block("python", bad.text.replace("# here", f"# {twin.rule} is found here")),
        block("text", what_is_said(twin, bad)),
        "### Good",
        *(inputs_line(twin.good, twin.fixed, ()) if twin.fixed is not twin.inputs else []),
        block("python", good.text),
    ]


def inputs_line(
    function: Callable[..., Any], inputs: Sequence[Any], targets: Sequence[str], nki: str = ""
) -> list[str]:
    """Return a line with the arguments, the target and the NKI version of a kernel call."""
    names = inspect.signature(function).parameters
    given = [f"`{n}` {described(v)}" for n, v in zip(names, inputs, strict=False)]
    if not given:
        return []
    where = f" On {', '.join(targets)}." if targets and tuple(targets) != kernels.ALL else ""
    version = f" In NKI {nki}." if nki else ""
    return ["With " + ", ".join(given) + "." + where + version]


def described(value: Any) -> str:
    """Return dtype and shape of an array, or the value itself."""
    return f"{value.dtype} {value.shape}" if hasattr(value, "dtype") else f"`{value!r}`"


def what_is_said(twin: kernels.Twin, example: Example) -> str:
    """Return the finding of the bad kernel, with line numbers of the displayed file."""
    if twin.on_host:
        text = said_on_host(twin)
    elif twin.advised:
        return advised(twin, example)
    else:
        checked = check(
            twin.launched(twin.bad), target=twin.targets[0], ranks=twin.ranks, **twin.options
        )
        report = checked(*twin.arguments(twin.inputs))
        text = next(str(f) for f in report if f.rule.id == twin.rule)

    def shown(match: re.Match[str]) -> str:
        line = example.lines.get((match[1], int(match[2])))
        return f"kernel.py:{line}" if line else "kernel.py"

    def shown_line(match: re.Match[str]) -> str:
        return f"line {example.lines.get((twin.module.stem, int(match[1])), match[1])}"

    files = "|".join({file for file, _ in example.lines})
    text = re.sub(rf"{re.escape(str(ROOT))}/(?:tests|build)/\S*\b({files})\.py:(\d+)", shown, text)
    text = re.sub(r"\bline (\d+)", shown_line, text).replace(f"{ROOT}/", "")
    return text.replace("  # here", "").replace("nkisim.jit", "nki.jit")


def advised(twin: kernels.Twin, example: Example) -> str:
    """Return the advice on the marked line of the bad kernel, as the displayed file gets it."""
    lines = {example.lines.get((twin.module.stem, line)) for line in twin.marked_lines}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.py"
        file.write_text(example.text.replace("  # here", ""))
        with imported(file, 60.0) as module:
            kernel = getattr(module, twin.bad.__name__)
            found = profile(kernel, PROFILED)(*twin.arguments(twin.inputs))
    found.advice = [p for p in found.advice if p.rule == twin.rule and p.line in lines][:1]
    found.together = None
    return str(found).partition("\nadvice\n")[2].rstrip()


def said_on_host(twin: kernels.Twin) -> str:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            twin.bad()
        except NkiValidationError as error:
            return str(error.finding)
    return f"{warned[0].category.__name__}: {warned[0].message}"


def rule_index() -> str:
    parts = [
        "# Rules",
        "Every rule that nkisim knows. A rule's id never changes its meaning. Each page has a "
        "kernel that breaks the rule, what nkisim reports about it, and the fixed kernel.",
        "Each kernel is a whole file. Saved as `kernel.py`, it is checked by `nkisim check "
        'kernel.py --shapes "a=f32[64,32]"`, with the arguments that the page names. Advice on '
        "speed is printed by `nkisim profile` with the same arguments.",
    ]
    for letter, title in FAMILIES.items():
        rules = sorted((r for r in RULES.values() if r.id[0] == letter), key=lambda r: r.id)
        if rules:
            rows = [(f"[{r.id}]({r.id}.md)", r.slug, r.severity, r.checks) for r in rules]
            parts += [f"## {title}", table(("id", "name", "severity", "what is found"), rows)]
    others = [
        (id, ", ".join(f"[{rule}]({rule}.md)" for rule in rules) or "refused before it runs")
        for id, rules in sorted(REPORTED_AS.items())
    ]
    parts += [
        "## Not decidable on a CPU",
        "What a simulation cannot find, and why.",
        table(("id", "reason"), sorted(UNDECIDABLE.items())),
        "## Found under another id",
        "Faults that have two ids, and the rules that find them.",
        table(("id", "found as"), others),
    ]
    return join(parts)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
