"""Statements that the compiler does not translate, and signatures that it does not accept.

A run reports signatures, inputs and outputs too; here they are found in files that are not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import Found, Unit, operand_name
from nkisim.diagnostics import RULES, declare
from nkisim.source import names_in, nki_arguments
from nkisim.versions import is_traced

_REFUSED = "the compiler refuses the statement"

INNER_FUNCTION = declare(
    "L001",
    "inner-function",
    "A function is defined inside a kernel or inside a function that a kernel reaches.",
    _REFUSED,
)
INNER_CLASS = declare("L003", "inner-class", "A class is defined inside a function.", _REFUSED)
EXCEPTION = declare(
    "L007", "exception-handling", "A kernel has try, except, finally or raise.", _REFUSED
)
INNER_IMPORT = declare("L008", "inner-import", "A module is imported inside a function.", _REFUSED)
GLOBAL_NAME = declare("L009", "global-statement", "A function has global or nonlocal.", _REFUSED)
COROUTINE = declare("L010", "coroutine", "A function has async, await or yield.", _REFUSED)
MATCH = declare("L011", "match-statement", "A function has match.", _REFUSED)
DELETE = declare("L012", "del-statement", "A function has del.", _REFUSED)
CONTEXT = declare(
    "L014",
    "with-statement",
    "A with statement is anything but a bare nl.no_reorder().",
    "the compiler supports no other context manager",
)
LOOP_ELSE = declare("L015", "loop-else", "A for or while loop has an else clause.", _REFUSED)
LOOP_TARGET = declare(
    "L016",
    "loop-target",
    "The target of a for loop is not one plain name.",
    "the compiler takes no pattern in a loop header",
)
VARIABLE_ARGUMENTS = declare(
    "L023",
    "variable-arguments",
    "A function has a *args parameter.",
    "the compiler binds fixed parameters only",
)
KEYWORD_ARGUMENTS = declare(
    "L024",
    "keyword-arguments",
    "A function has a **kwargs parameter.",
    "the compiler warns, and its contents cannot be used",
    severity="warning",
)


def check_statements(unit: Unit) -> Iterator[Found]:
    """Find statements outside the language."""
    yield from _definitions(unit)
    yield from _parameters(unit)
    yield from _blocks(unit)
    yield from _loops(unit)
    for statement in unit.of(ast.Import, ast.ImportFrom):
        names = ", ".join(alias.name for alias in statement.names)
        fix = "import it at the top of the module"
        yield Found(INNER_IMPORT, statement, f"{names} is imported inside {unit.name}", fix)
    for declared in unit.of(ast.Global, ast.Nonlocal):
        if is_traced() and isinstance(declared, ast.Nonlocal) and not unit.loop:
            continue  # a variable of the kernel
        names = ", ".join(declared.names)
        fix = "return the value, or keep it in a field of an nl.NKIObject"
        word = type(declared).__name__.lower()
        yield Found(GLOBAL_NAME, declared, f"{unit.name} declares {names} {word}", fix)
    for deleted in unit.of(ast.Delete):
        fix = "remove the statement; a tile is freed after its last use"
        text = ", ".join(map(ast.unparse, deleted.targets))
        yield Found(DELETE, deleted, f"{unit.name} deletes {text}", fix)


def _definitions(unit: Unit) -> Iterator[Found]:
    if isinstance(unit.node, ast.ClassDef):
        return
    if isinstance(unit.node, ast.AsyncFunctionDef) and (unit.is_kernel or not is_traced()):
        yield Found(COROUTINE, unit.node, f"{unit.name} is async", "make it a plain function")
    bodies = [body.node for body in unit.bodies]
    for inner in unit.of(ast.FunctionDef, ast.AsyncFunctionDef):
        if inner in bodies:
            continue
        yield Found(
            INNER_FUNCTION,
            inner,
            f"function {inner.name} is defined inside {unit.name}",
            f"move {inner.name} to the top of the module and pass what it needs as arguments",
        )
    for made in unit.of(ast.ClassDef):
        yield Found(
            INNER_CLASS,
            made,
            f"class {made.name} is defined inside {unit.name}",
            f"move {made.name} to the top of the module, derived from nl.NKIObject",
        )


def _parameters(unit: Unit) -> Iterator[Found]:
    if isinstance(unit.node, ast.ClassDef) or (is_traced() and not unit.is_kernel):
        return
    if (many := unit.node.args.vararg) is not None:
        fix = f"name the parameters, or take one tuple {many.arg}"
        yield Found(VARIABLE_ARGUMENTS, many, f"{unit.name} takes *{many.arg}", fix)
    if (named := unit.node.args.kwarg) is not None:
        fix = "name the parameters, with defaults"
        yield Found(KEYWORD_ARGUMENTS, named, f"{unit.name} takes **{named.arg}", fix)


def _blocks(unit: Unit) -> Iterator[Found]:
    for tried in unit.of(ast.Try, ast.TryStar):
        fix = "decide by an if on what is known when the kernel is compiled"
        yield Found(EXCEPTION, tried, f"{unit.name} has a try statement", fix)
    for raised in unit.of(ast.Raise):
        fix = 'write assert condition, "text"'
        yield Found(EXCEPTION, raised, f"{unit.name} raises", fix)
    for node in unit.of(ast.AsyncFor, ast.AsyncWith, ast.Await, ast.Yield, ast.YieldFrom):
        if is_traced() and not unit.is_kernel:
            break
        fix = "make it a plain function, which returns a tuple or a list"
        word = "yields" if isinstance(node, (ast.Yield, ast.YieldFrom)) else "waits"
        yield Found(COROUTINE, node, f"{unit.name} {word}", fix)
        break  # one makes it a coroutine
    for match in unit.of(ast.Match):
        fix = "write if and elif"
        yield Found(MATCH, match, f"{unit.name} has a match statement", fix)
    for context in unit.of(ast.With):
        if not _keeps_order(unit, context):
            text = ", ".join(ast.unparse(item) for item in context.items)
            fix = "write with nl.no_reorder(): or remove the context"
            yield Found(CONTEXT, context, f"{unit.name} enters {text}", fix)


def _keeps_order(unit: Unit, context: ast.With) -> bool:
    """Return whether a context is a bare ``nl.no_reorder()``, or unknown from the source."""
    item = context.items[0]
    if len(context.items) > 1 or item.optional_vars is not None:
        return False
    call = item.context_expr
    return (
        isinstance(call, ast.Call)
        and unit.meaning(call.func).path == "nki.language.no_reorder"
        and not (call.args or call.keywords)
    )


def _loops(unit: Unit) -> Iterator[Found]:
    for loop in unit.of(ast.For, ast.While):
        if loop.orelse:
            fix = "set a flag in the loop and test it after"
            yield Found(LOOP_ELSE, loop, "a loop has an else clause", fix)
    for loop in unit.of(ast.For):
        if not isinstance(loop.target, ast.Name):
            fix = "loop over range(len(...)) and take the parts by index"
            text = ast.unparse(loop.target)
            yield Found(LOOP_TARGET, loop, f"the loop target is {text}", fix)


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
