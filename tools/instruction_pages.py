"""Reference pages of the instructions, from their declarations and one example call each."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Any

import accepted_dtypes
from instruction_examples import EXAMPLES, program
from markdown_text import ROOT, block, join, module_file, table
from nki_names import found_in, in_words, names_and_versions

import nkisim
import nkisim.isa as nisa
from nkisim.arch import Generation
from nkisim.diagnostics import Rule
from nkisim.memory import MemoryRegion
from nkisim.options import SimOptions
from nkisim.spec import INSTRUCTIONS, Constraint, Instruction
from nkisim.spec.parameters import described
from nkisim.spec.signatures import CALLS
from nkisim.versions import VERSIONS

ARITHMETIC = {
    "fp32": "float32: operands are widened to float32 and the result is rounded once into the "
    "destination",
    "bits": "bits: unsigned bit patterns, no conversion",
    "integer": "integers: exact 32-bit arithmetic that wraps",
    "copy": "copies: stored elements go in and come out unchanged",
}

ROLES = {"in": "read", "out": "written", "sum": "summed into", "named": "named only"}

# Functions of nki.isa that are not engine instructions with operands in memory.
BY_HAND = (
    "get_nc_sub_version",
    "get_nc_version",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
)


def instruction_pages(names: Collection[str] = INSTRUCTIONS) -> dict[str, str]:
    """Return the pages of instructions, of other functions and of the index, by file stem."""
    dtypes = accepted_dtypes.accepted(ROOT / "tests", names)
    pages = {name: instruction_page(INSTRUCTIONS[name], dtypes) for name in names}
    pages |= {name: function_page(name) for name in BY_HAND}
    return pages | {"index": instruction_index()}


def instruction_page(instruction: Instruction, dtypes: accepted_dtypes.Accepted) -> str:
    """Return the page of one instruction."""
    engines = [e.name for e in instruction.engines]
    versions = [*CALLS[instruction.name]]
    facts = [
        *([("NKI versions", in_words(versions))] if in_words(versions) else []),
        ("engines", ", ".join(engines)),
        ("generations", f"gen{instruction.since} and later" if instruction.since > 2 else "all"),
        ("arithmetic", arithmetic(instruction)),
        ("cost", "not known" if instruction.cost is None else f"{instruction.cost}"),
        ("documented in", instruction.source),
        ("simulated in", f"`{module_file(instruction.body)}`"),
    ]
    operands = [
        (
            f"`{name}`",
            ROLES[o.role],
            memories(o.buffers),
            accepted_dtypes.described(dtypes.get((instruction.name, name), {})),
            also_accepted(instruction, name),
        )
        for name, o in instruction.operands.items()
    ]
    demands = [
        (constraint.says + (f" ({where})" if where else ""), linked(constraint.rules))
        for constraint, where in constraints(instruction)
    ]
    demands += [
        (f"{name} is in {memories(o.buffers)}", linked([o.buffer_rule]))
        for name, o in instruction.operands.items()
        if o.buffer_rule is not None
    ]
    removed = [(f"`{k}=`", linked([r]), fix) for k, (r, fix, _) in instruction.removed.items()]
    return join(
        [
            f"# {instruction.name}",
            marked(instruction.description),
            *calls(instruction.name),
            *parameters(instruction.meanings),
            table(("", ""), facts),
            "## Operands",
            table(("operand", "role", "memory", "dtypes", "also accepted"), operands),
            "Dtypes are those for which some call is legal; which of them go together is said "
            "below.",
            "## Limits",
            table(("", "gen2", "gen3", "gen4"), limits(instruction)),
            "## Constraints",
            table(("every legal call", "rules"), demands),
            "Operands also obey the rules for every instruction: start partitions, access "
            "patterns, written memory. See [the rules](../rules/index.md).",
            "## Example",
            *example(instruction.name),
            "## Arguments of earlier releases",
            table(("argument", "rule", "instead"), removed),
        ]
    )


def marked(text: str) -> str:
    """Return a docstring's text with the code marks of a page."""
    return text.replace("``", "`")


def parameters(sentences: Mapping[str, str]) -> list[str]:
    """Return the parameters as a list, each with its sentence, if there are any."""
    lines = [f"- `{name}`: {marked(said)}" for name, said in sentences.items()]
    return ["\n".join(lines)] if lines else []


def calls(name: str) -> list[str]:
    """Return the signatures of an instruction, each with the versions that have it."""
    texts: dict[str, list[str]] = {}
    for version, call in CALLS[name].items():
        texts.setdefault(f"nisa.{name}{signature(call.signature)}", []).append(version)
    shown = []
    for text, versions in texts.items():
        where = in_words(versions) if len(texts) > 1 else ""
        shown.append(block("python", (f"# {where}\n" if where else "") + text))
    return shown


def constraints(instruction: Instruction) -> list[tuple[Constraint, str]]:
    """Return the constraints of all versions, each with the versions in which it holds."""
    found: dict[str, tuple[Constraint, list[str]]] = {}
    versions = [*CALLS[instruction.name]]
    for version in versions:
        for constraint in instruction.at(version).require:
            found.setdefault(constraint.says, (constraint, []))[1].append(version)
    return [
        (constraint, "" if held == versions else in_words(held))
        for constraint, held in found.values()
    ]


def function_page(name: str) -> str:
    """Return the page of a function that is not an engine instruction."""
    versions = names_and_versions(nisa)[name]
    function = found_in(nisa, name, versions[0])
    where = in_words(versions)
    description, sentences = described(inspect.getdoc(function) or "")
    return join(
        [
            f"# {name}",
            marked(description),
            block("python", f"nisa.{name}{signature(inspect.signature(function))}"),
            *parameters(sentences),
            *([f"{where[0].upper()}{where[1:]}."] if where else []),
            f"Simulated in `{module_file(function)}`.",
        ]
    )


def rules_of(instruction: Instruction) -> set[Rule]:
    """Return the rules that an instruction's own declaration names, in any version."""
    named = {rule for constraint, _ in constraints(instruction) for rule in constraint.rules}
    named |= {o.buffer_rule for o in instruction.operands.values() if o.buffer_rule is not None}
    return named | {gone.rule for gone in instruction.removed.values()}


def example(name: str) -> list[str]:
    """Return an example call and its current output.

    Raises:
        AssertionError: The check has findings on a generation that supports the instruction.
    """
    made = EXAMPLES[name]
    text = program(made)
    file = f"{name}.py"
    names: dict[str, Any] = {}
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, file, "exec"), names)
        kernel = names["example"] if made.cores == 1 else names["example"][made.cores]
        arguments = [names[given] for given in made.inputs or ["unused"]]
        for target in (made.target,) if made.target else accepted_dtypes.GENERATIONS:
            report = nkisim.check(kernel, target=target, nki=made.nki)(*arguments)
            assert not report.findings, f"{name} on {target}: {report}"
    finally:
        del linecache.cache[file]
    return [block("python", text.rstrip()), block("text", printed.getvalue().rstrip())]


def limits(instruction: Instruction) -> list[tuple[str, ...]]:
    """Return the maximum extents of one instruction on each generation."""
    generations = [SimOptions(target=t).generation() for t in accepted_dtypes.GENERATIONS]
    engines = {e.name for e in instruction.engines}
    placed = {b for o in instruction.operands.values() for b in o.buffers}
    rows: list[tuple[str, Callable[[Generation], int]]] = []
    on_chip = [("sbuf", MemoryRegion.sbuf), ("psum", MemoryRegion.psum)]
    if any(region in placed for _, region in on_chip):
        rows.append(("partitions of an operand on the chip", lambda g: g.partitions))
    if instruction.name.startswith("nc_matmul"):
        rows.append(("columns of `stationary`", lambda g: g.stationary_free_max))
        rows.append(("columns of `moving`", lambda g: g.moving_free_max))
    elif engines & {"vector", "scalar"}:
        if MemoryRegion.sbuf in placed:
            rows.append(("elements per partition in SBUF", lambda g: g.sbuf_free_elements))
        if MemoryRegion.psum in placed:
            rows.append(("elements per partition in PSUM", lambda g: g.psum_free_elements))
    if instruction.name == "bn_stats":
        rows.append(("elements of one group of `data`", lambda g: g.bn_stats_free_max))
    having = [g.number >= instruction.since for g in generations]
    return [
        (what, *(str(of(g)) if has else "-" for g, has in zip(generations, having, strict=True)))
        for what, of in rows
    ]


def arithmetic(instruction: Instruction) -> str:
    """Return the arithmetic of an instruction, from its declaration."""
    known = [kind for kind in ARITHMETIC if kind in constants(instruction.arithmetic.__code__)]
    text = "; or ".join(ARITHMETIC[kind] for kind in known)
    if instruction.raw_results:
        text += f". {' and '.join(instruction.raw_results)} holds indices, stored as they are"
    return text + (". Which one depends on operators, dtypes and engine" if len(known) > 1 else "")


def constants(code: Any) -> set[Any]:
    """Return the constants of a function and of the functions inside it."""
    inner = [c for c in code.co_consts if inspect.iscode(c)]
    return {c for c in code.co_consts if isinstance(c, str)}.union(*map(constants, inner))


def also_accepted(instruction: Instruction, name: str) -> str:
    """Return the alternatives to a tile operand, and its constraints."""
    operand, accepted = instruction.operands[name], []
    if operand.scalar:
        accepted.append("a number")
    versions = [*CALLS[instruction.name]]
    optional = [v for v in versions if instruction.at(v).operands[name].optional]
    if optional:
        where = "" if optional == versions else in_words(optional)
        accepted.append(f"None {where}".strip())
    if operand.many:
        accepted.append("a list of tensors")
    if operand.column:
        accepted.append("as a tile: one element per partition")
    return "; ".join(accepted)


def memories(buffers: Iterable[MemoryRegion]) -> str:
    """Return the hardware names of memories."""
    names = ["HBM" if "hbm" in b.value else b.value.upper() for b in buffers]
    return ", ".join(dict.fromkeys(names))


def linked(rules: Iterable[Rule]) -> str:
    """Return rule ids as links to their pages."""
    return ", ".join(f"[{r.id}](../rules/{r.id}.md)" for r in rules)


def signature(found: inspect.Signature) -> str:
    """Return a signature with enum members in the form of user code."""
    shown = []
    for p in found.parameters.values():
        default = "" if p.default is p.empty else f"={default_text(p.default)}"
        shown.append(p.name + default)
    one_line = "(" + ", ".join(shown) + ")"
    if len(one_line) <= 80:
        return one_line
    return "(\n" + "".join(f"    {s},\n" for s in shown) + ")"


def default_text(value: Any) -> str:
    """Return a default value as source text."""
    return f"nisa.{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def instruction_index() -> str:
    """Return the index page of the instructions."""
    versions = names_and_versions(nisa)
    rows = [
        (
            f"[{i.name}]({i.name}.md)",
            ", ".join(e.name for e in i.engines),
            i.summary,
            in_words([*CALLS[i.name]]),
        )
        for _, i in sorted(INSTRUCTIONS.items())
    ]
    others = [
        (
            f"[{name}]({name}.md)",
            (inspect.getdoc(found_in(nisa, name, versions[name][0])) or "").splitlines()[0],
            in_words(versions[name]),
        )
        for name in BY_HAND
    ]
    return join(
        [
            "# Instructions",
            "Every instruction of `nki.isa` that nkisim simulates, from its declaration. Each page "
            "has the dtypes and memories of the operands, the limits of each generation, the "
            "rules that judge a call, and a small call with what it computes. Costs are formulas "
            "in cycles of the engine; no clock is applied to them.",
            f"NKI {VERSIONS[0]} has them, and all later versions, unless the last column says "
            "otherwise.",
            table(("instruction", "engines", "what it does", ""), rows),
            "## Registers and the target",
            table(("function", "what it does", ""), others),
        ]
    )
