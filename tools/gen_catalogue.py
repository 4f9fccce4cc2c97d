#!/usr/bin/env python
"""Writes the reference pages: one per rule and one per instruction.

Everything comes from the declarations in nkisim and from the twin kernels in tests/kernels; what
nkisim says about a bad kernel is what it said while the page was made.

The pages of rules are kept in the repository: findings and other pages link to them, and
``nkisim rule`` prints them. A test compares them with what this makes. Those of instructions show
the code of the simulator and are made for the site only.

    python tools/gen_catalogue.py [FOLDER]     FOLDER/rules and FOLDER/instructions; default: docs
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

import kernels  # noqa: E402
import nkisim  # noqa: E402
from nkisim import NkiValidationError, check, simulate  # noqa: E402
from nkisim.diagnostics import RULES, Rule  # noqa: E402
from nkisim.diagnostics.undecidable import SPOKEN_FOR, UNDECIDABLE  # noqa: E402
from nkisim.memory import MemoryRegion  # noqa: E402
from nkisim.spec import INSTRUCTIONS, Instruction, Operand  # noqa: E402

FAMILIES = {
    "L": "Language",
    "S": "Shape, layout and access patterns",
    "M": "Memory and initialisation",
    "D": "Number formats",
    "A": "Interface, engines and generations",
    "C": "Collectives and cores",
    "R": "Races and ordering",
    "W": "Lost work",
}

ARITHMETIC = {
    "fp32": "float32: operands are widened to float32 and the result is rounded once into the "
    "destination",
    "bits": "bits: unsigned bit patterns, no conversion",
    "integer": "integers: exact 32-bit arithmetic that wraps",
    "copy": "copies: stored elements go in and come out unchanged",
}

# What serves the command line and pytest declares nothing and needs what a user may not have.
ENTRY_POINTS = ("nkisim.__main__", "nkisim.cli", "nkisim.pytest_plugin")

ROLES = {"in": "read", "out": "written", "sum": "summed into", "named": "named only"}


def main(folder: Path = ROOT / "docs") -> None:
    """Write all pages below ``folder``, in place of those of an earlier run."""
    import_everything()
    pages = {"rules": rule_pages(all_twins()), "instructions": instruction_pages()}
    for name, written in pages.items():
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        for stale in home.glob("*.md"):
            stale.unlink()
        for stem, text in written.items():
            (home / f"{stem}.md").write_text(text, encoding="utf-8")
        print(f"{home}: {len(written)} pages")


def import_everything() -> None:
    """Import every module of nkisim, since rules and instructions are declared where they act."""
    for module in pkgutil.walk_packages(nkisim.__path__, "nkisim."):
        if not module.name.startswith(ENTRY_POINTS):
            importlib.import_module(module.name)


# -- rules -----------------------------------------------------------------------------------------


def all_twins() -> dict[str, list[kernels.Twin]]:
    """Return the twins of every rule, those that wait for an instruction last."""
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
    ]
    users = [i.name for i in INSTRUCTIONS.values() if rule in rules_of(i)]
    if users:
        rows.append(("checked by", ", ".join(f"`nisa.{n}`" for n in users)))
    parts = [f"# {rule.id} {rule.slug}", table(("", ""), rows)]
    if not twins:
        parts.append("No kernel can show this rule yet: what it needs is not simulated.")
    for twin in twins:
        parts += twin_sections(twin)
    return join(parts)


def consequences(rule: Rule, twins: Sequence[kernels.Twin]) -> list[tuple[str, str]]:
    """Return what the rule does at each level of strictness."""
    if twins and all(twin.on_host for twin in twins):
        return [("outside a kernel", "warns" if rule.severity == "warning" else "raises")]
    goes_on = "records it and goes on"
    if twins and all(twin.in_source for twin in twins):
        only = "finds it in the source"
        return [("`simulate`, `strict`", "do not look for it"), ("`check`, `check_source`", only)]
    if rule.meaningless:
        ends = "records it and ends the run, without outputs"
        return [("`simulate`", "raises"), ("`strict`", "raises"), ("`check`", ends)]
    if rule.detector:
        asked = f'look for it with `detect=("{rule.detector}",)`'
        return [("`simulate`, `strict`", asked), ("`check`", goes_on)]
    return [
        ("`simulate`", goes_on if looked_for_in_simulate(twins) else "does not look for it"),
        ("`strict`", "raises" if rule.severity == "error" else goes_on),
        ("`check`", goes_on),
    ]


def looked_for_in_simulate(twins: Sequence[kernels.Twin]) -> bool:
    """Return whether ``simulate`` finds the first twin; some values are too costly to watch."""
    if not twins:
        return True
    twin = twins[0]
    kernel = simulate(twin.launched(twin.bad), target=twin.targets[0], ranks=twin.ranks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel(*twin.arguments(twin.inputs))
    return twin.rule in kernel.report.codes


def twin_sections(twin: kernels.Twin) -> list[str]:
    """Return the bad kernel, what is said about it, and the good one."""
    face = twin.name.partition("_")[2].replace("_", " ")
    found = twin.rule + " is found here"
    bad = [source_of(part) for part in (*twin.parts, twin.bad)]
    return [
        "## Example" + (f": {face}" if face else ""),
        "### Bad",
        *inputs_line(twin.bad, twin.inputs, twin.targets),
        block("python", "\n\n\n".join(bad).replace("# here", f"# {found}")),
        block("text", what_is_said(twin)),
        "### Good",
        *(inputs_line(twin.good, twin.mended, ()) if twin.mended is not twin.inputs else []),
        block("python", source_of(twin.good)),
    ]


def inputs_line(
    function: Callable[..., Any], inputs: Sequence[Any], targets: Sequence[str]
) -> list[str]:
    """Return a line on what a kernel is called with, and where."""
    names = inspect.signature(function).parameters
    given = [f"`{n}` {described(v)}" for n, v in zip(names, inputs, strict=False)]
    if not given:
        return []
    where = f" On {', '.join(targets)}." if targets and tuple(targets) != kernels.ALL else ""
    return ["With " + ", ".join(given) + "." + where]


def described(value: Any) -> str:
    """Return dtype and shape of an array, or the value itself."""
    return f"{value.dtype} {value.shape}" if hasattr(value, "dtype") else f"`{value!r}`"


def what_is_said(twin: kernels.Twin) -> str:
    """Return the finding that the bad kernel brings, with paths relative to the repository."""
    if twin.on_host:
        text = said_on_host(twin)
    else:
        checked = check(
            twin.launched(twin.bad), target=twin.targets[0], ranks=twin.ranks, **twin.options
        )
        report = checked(*twin.arguments(twin.inputs))
        text = next(str(f) for f in report if f.rule.id == twin.rule)
    return places_of(twin, text).replace("  # here", "")


def places_of(twin: kernels.Twin, text: str) -> str:
    """Return a text with lines counted in the kernel as it is shown, not in its file."""
    begins = {}
    shown = 1
    for part in (*twin.parts, twin.bad):
        lines, first = inspect.getsourcelines(part)
        source = source_of(part).splitlines()
        head = first + len(lines) - len(source)
        for i in range(len(source)):
            begins.setdefault(head + i, shown + i)
        shown += len(source) + 2
    first_line = inspect.getsourcelines(twin.bad)[1]
    begins.setdefault(first_line, begins[max(begins)] - len(source_of(twin.bad).splitlines()) + 1)

    def short(match: re.Match[str]) -> str:
        line = begins.get(int(match[1]))
        return f"kernel.py:{line}" if line else "kernel.py"

    file = re.escape(twin.file)
    return re.sub(rf"{file}(?::(\d+))", short, text).replace(f"{ROOT}/", "")


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
        "kernel that breaks the rule, what nkisim says about it, and the mended kernel.",
        "In the examples `stored(tile)` copies an on-chip tile to a new tensor in `nl.shared_hbm` "
        "and returns that.",
    ]
    for letter, title in FAMILIES.items():
        rules = sorted((r for r in RULES.values() if r.id[0] == letter), key=lambda r: r.id)
        if rules:
            rows = [(f"[{r.id}]({r.id}.md)", r.slug, r.severity, r.checks) for r in rules]
            parts += [f"## {title}", table(("id", "name", "severity", "what is found"), rows)]
    others = [
        (id, ", ".join(f"[{rule}]({rule}.md)" for rule in rules) or "refused before it runs")
        for id, rules in sorted(SPOKEN_FOR.items())
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


# -- instructions ----------------------------------------------------------------------------------


def rules_of(instruction: Instruction) -> set[Rule]:
    """Return the rules that an instruction's own declaration names."""
    named = {rule for constraint in instruction.require for rule in constraint.rules}
    named |= {o.buffer_rule for o in instruction.operands.values() if o.buffer_rule is not None}
    return named | {rule for rule, _ in instruction.removed.values()}


def instruction_pages() -> dict[str, str]:
    """Return the text of every instruction's page and of the index, by file stem."""
    pages = {name: instruction_page(i) for name, i in INSTRUCTIONS.items()}
    return pages | {"index": instruction_index()}


def instruction_page(instruction: Instruction) -> str:
    """Return the page of one instruction."""
    engines = [e.name for e in instruction.engines]
    facts = [
        ("engines", ", ".join(engines)),
        ("generations", f"gen{instruction.since} and later" if instruction.since > 2 else "all"),
        ("arithmetic", arithmetic(instruction)),
        ("cost", "not known" if instruction.cost is None else f"{instruction.cost}"),
        ("documented in", instruction.source),
        ("simulated in", f"`{module_file(instruction.body)}`"),
    ]
    operands = [(f"`{name}`", *operand_row(o)) for name, o in instruction.operands.items()]
    demands = [(c.says, linked(c.rules)) for c in instruction.require]
    demands += [
        (f"{name} is in {memories(o.buffers)}", linked([o.buffer_rule]))
        for name, o in instruction.operands.items()
        if o.buffer_rule is not None
    ]
    removed = [(f"`{k}=`", linked([r]), fix) for k, (r, fix) in instruction.removed.items()]
    return join(
        [
            f"# {instruction.name}",
            inspect.getdoc(instruction.body) or "",
            block("python", f"nisa.{instruction.name}{signature(instruction.signature)}"),
            table(("", ""), facts),
            "## Operands",
            table(("operand", "role", "memory", "also accepted"), operands),
            "## Constraints",
            table(("every legal call", "rules"), demands),
            "Operands also obey the rules for every instruction: start partitions, access "
            "patterns, written memory. See [the rules](../rules/index.md).",
            "## Arguments of earlier releases",
            table(("argument", "rule", "instead"), removed),
            "## Meaning",
            meaning(instruction),
            block("python", source_of(instruction.body)),
        ]
    )


def arithmetic(instruction: Instruction) -> str:
    """Return how values pass through, read from what the declaration can answer."""
    known = [kind for kind in ARITHMETIC if kind in constants(instruction.arithmetic.__code__)]
    text = "; or ".join(ARITHMETIC[kind] for kind in known)
    if instruction.raw_results:
        text += f". {' and '.join(instruction.raw_results)} holds indices, stored as they are"
    return text + (". Which one depends on operators, dtypes and engine" if len(known) > 1 else "")


def constants(code: Any) -> set[Any]:
    """Return the constants of a function and of the functions inside it."""
    inner = [c for c in code.co_consts if inspect.iscode(c)]
    return {c for c in code.co_consts if isinstance(c, str)}.union(*map(constants, inner))


def operand_row(operand: Operand) -> tuple[str, str, str]:
    accepted = []
    if operand.scalar:
        accepted.append("a number")
    if operand.optional:
        accepted.append("None")
    if operand.column:
        accepted.append("as a tile: one element per partition")
    return ROLES[operand.role], memories(operand.buffers), "; ".join(accepted)


def memories(buffers: Iterable[MemoryRegion]) -> str:
    names = ["HBM" if "hbm" in b.value else b.value.upper() for b in buffers]
    return ", ".join(dict.fromkeys(names))


def linked(rules: Iterable[Rule]) -> str:
    return ", ".join(f"[{r.id}](../rules/{r.id}.md)" for r in rules)


def meaning(instruction: Instruction) -> str:
    core = "the core, for its state, and " if instruction.stateful else ""
    return (
        f"The body takes {core}the elements of what it reads, by default of shape (partitions, "
        "elements), and the views that it writes; it returns the results."
    )


def signature(found: inspect.Signature) -> str:
    """Return a signature with enum members as a user writes them."""
    shown = []
    for p in found.parameters.values():
        default = "" if p.default is p.empty else f"={default_text(p.default)}"
        shown.append(p.name + default)
    one_line = "(" + ", ".join(shown) + ")"
    if len(one_line) <= 80:
        return one_line
    return "(\n" + "".join(f"    {s},\n" for s in shown) + ")"


def default_text(value: Any) -> str:
    return f"nisa.{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def instruction_index() -> str:
    rows = [
        (f"[{i.name}]({i.name}.md)", ", ".join(e.name for e in i.engines), i.summary)
        for _, i in sorted(INSTRUCTIONS.items())
    ]
    return join(
        [
            "# Instructions",
            "Every instruction of `nki.isa` that nkisim simulates, from its declaration. Costs are "
            "formulas in cycles of the engine; no clock is applied to them.",
            table(("instruction", "engines", "what it does"), rows),
        ]
    )


# -- text ------------------------------------------------------------------------------------------


def source_of(function: Callable[..., Any]) -> str:
    """Return a function's source without its decorators."""
    text = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(text).body
    return "".join(text.splitlines(keepends=True)[definition.lineno - 1 :]).rstrip()


def module_file(function: Callable[..., Any]) -> str:
    return str(Path(inspect.getsourcefile(function) or "").relative_to(ROOT))


def block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, or a word when there is nothing to put in it."""
    lines = [cells(row) for row in rows]
    return "\n".join([cells(head), cells(["---"] * len(head)), *lines]) if lines else "None."


def cells(row: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
