"""Checks of a kernel's signature, inputs and outputs from its source.

A run reports all of these too; here they are found in files that are not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.found import Found
from nkisim.checks.langcheck.unit import Unit, operand_name
from nkisim.diagnostics import RULES
from nkisim.source import names_in, nki_arguments


def check_signature(unit: Unit) -> Iterator[Found]:
    """Find illegal parameters, written inputs, and outputs that are not returned."""
    node = unit.node
    if not unit.is_kernel or isinstance(node, ast.ClassDef):
        return
    if node.args.kwonlyargs:
        names = ", ".join(a.arg for a in node.args.kwonlyargs)
        message = f"kernel {unit.name} has keyword-only parameters: {names}"
        fix = "remove the * and put parameters with defaults last"
        yield Found(RULES["A016"], node, message, fix, seen=names)
    named = [*node.args.posonlyargs, *node.args.args]
    first = len(named) - len(node.args.defaults)
    for parameter, default in zip(named[first:], node.args.defaults, strict=True):
        if isinstance(default, (ast.List, ast.ListComp)):
            message = f"argument {parameter.arg} is a list by default"
            fix = f"make the default of {parameter.arg} a tuple"
            yield Found(RULES["A018"], node, message, fix, operand=parameter.arg)
    returned = [r.value for r in unit.of(ast.Return) if r.value is not None]
    if not returned and _makes_output(unit):
        message = "the kernel returns nothing, although it allocates a tensor in shared_hbm"
        yield Found(RULES["L060"], node, message, "return the output tensor")
    yield from _written_inputs(unit, [a.arg for a in named], returned)


def _makes_output(unit: Unit) -> bool:
    for call, meaning in unit.calls:
        if meaning.path == "nki.language.ndarray":
            buffer = nki_arguments(call, meaning.path).get("buffer")
            if buffer is not None and unit.meaning(buffer).path == "nki.language.shared_hbm":
                return True
    return False


def _written_inputs(unit: Unit, parameters: list[str], returned: list[ast.expr]) -> Iterator[Found]:
    """Find parameters that an instruction writes and that no result can hold."""
    kept = names_in(*returned)
    bound = {n.id for n in unit.of(ast.Name) if isinstance(n.ctx, ast.Store)}
    # A name that is returned may hold anything that was ever put into it.
    if kept & bound:
        kept |= names_in(*(assign.value for assign in unit.of(ast.Assign)))
    for call, meaning in unit.calls:
        if meaning.path.startswith("nki.isa.register_"):
            continue
        name = operand_name(nki_arguments(call, meaning.path).get("dst"))
        if name in parameters and name not in bound and name not in kept:
            yield Found(
                RULES["M029"],
                unit.node,
                f"the kernel writes argument {name} and does not return it",
                "return the argument, or write to a tensor in nl.shared_hbm and return that",
                operand=name or "",
            )
