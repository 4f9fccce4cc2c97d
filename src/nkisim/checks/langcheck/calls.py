"""Calls that the compiler cannot resolve, and iterables of loops."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import Found, Unit
from nkisim.diagnostics import RULES, declare
from nkisim.intents import counterpart
from nkisim.source import RANGES, Kinds
from nkisim.versions import at, in_force, is_traced
from nkisim.ways import undecided

LOOP_SOURCE = declare(
    "L017",
    "loop-source",
    "A loop runs over something other than a range, a list, a tuple or a view of a dictionary.",
    "the compiler unrolls these only",
)
RANGE_VALUE = declare(
    "L018",
    "range-value",
    "A range is used outside a loop header.",
    "the compiler supports ranges in loop headers only",
)
BUILTIN = declare(
    "L020",
    "builtin-function",
    "A function calls a Python builtin that the compiler does not have.",
    "the compiler does not find the name",
)
FOREIGN_CALL = declare(
    "L021",
    "foreign-call",
    "A function calls into NumPy, torch, the standard library, or a part of math that the compiler "
    "does not have.",
    "the compiler does not find the function",
)
MANY_ARGUMENTS = declare(
    "L022",
    "min-max-arguments",
    "min or max has three or more arguments, key= or default=.",
    "the compiler's min and max are not known to take them",
    severity="warning",
)
OLD_NAMESPACE = declare(
    "L061",
    "old-namespace",
    "A name of neuronxcc is reached from a kernel.",
    "kernels of 0.3.0 use the nki namespace; 0.4.0 refuses the old one",
)
INNER_GRID = declare(
    "L062",
    "inner-grid",
    "A kernel is launched on a grid from inside a kernel.",
    "a call inside a kernel is compiled into it and has no grid",
)

_OLD = {"0.4.0": "{path} is an old name, which the compiler refuses"}
"""Message about a name of neuronxcc, from a version on."""
_SUPPORTED = (
    "abs bool dict divmod float int isinstance len list max min print range slice str tuple type"
)
# Harmless on their own, or covered by other rules.
_SILENT = {"super"} | {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_MAKERS = [f"nki.language.{name}" for name in ("full", "ndarray", "ones", "zeros")]
_MATH = "ceil e floor gcd inf log10 log2 nan pi pow sqrt"
_ITERATORS = {"enumerate", "filter", "iter", "map", "reversed", "set", "sorted", "zip"}
# Modules whose use in a kernel is a declaration and no call.
_DECLARING = {"typing", "dataclasses", "enum", "collections.abc", "__future__", "abc"}


def check_calls(unit: Unit) -> Iterator[Found]:
    """Find calls outside of the language."""
    kinds = unit.kinds
    headers = {loop.iter for loop in unit.of(ast.For)}
    # Parts of a construct that is refused as a whole are not checked.
    refused = {part.iter for part in unit.of(ast.comprehension)}
    refused |= {item.context_expr for item in unit.of(ast.withitem)}
    for call, meaning in unit.calls:
        in_header = call in headers
        if call in refused:
            continue
        if meaning.kind == "builtin":
            yield from _builtin(call, meaning.path, in_header)
        elif meaning.kind == "foreign":
            yield from _foreign(call, meaning.path, in_header, kinds)
        if is_range(meaning.path):
            yield from fractions(call.args)
        elif meaning.path in _MAKERS and call.args and isinstance(call.args[0], ast.Tuple):
            yield from fractions(call.args[0].elts)
        if is_range(meaning.path) and not in_header:
            message = f"{ast.unparse(call)} is used outside a loop header"
            fix = "write the range in the loop header: for i in range(...):"
            yield Found(RANGE_VALUE, call, message, fix)
        if isinstance(call.func, ast.Subscript):
            launched = unit.meaning(call.func.value)
            if launched.is_kernel:
                name = ast.unparse(call.func.value)
                message = f"kernel {name} is launched on a grid from {unit.name}"
                yield Found(INNER_GRID, call, message, f"call {name}(...) without a grid")
    yield from _old_names(unit)


def _old_names(unit: Unit) -> Iterator[Found]:
    """Find names of the old namespace, once per function: one import fixes them all."""
    old = [(n, m.path) for n, m in unit.references if m.path.partition(".")[0] == "neuronxcc"]
    if old:
        node, path = min(old, key=lambda found: (found[0].lineno, found[0].col_offset))
        message = at(in_force(), f"{path} is an old name", _OLD).format(path=path)
        if len(old) > 1:
            message += f", one of {len(old)} in {unit.name}"
        yield Found(OLD_NAMESPACE, node, message, "import it from nki, nki.language or nki.isa")


def fractions(extents: list[ast.expr]) -> Iterator[Found]:
    """Find bounds and extents that a true division makes floats."""
    for extent in extents:
        if isinstance(extent, ast.BinOp) and isinstance(extent.op, ast.Div):
            text = ast.unparse(extent)
            whole = f"{ast.unparse(extent.left)} // {ast.unparse(extent.right)}"
            message = f"`{text}` is a float, even where it divides"
            fix = f"write {whole}, or math.ceil({text})"
            yield Found(RULES["L019"], extent, message, fix, data={"expression": text})


def is_range(path: str) -> bool:
    """Return whether a dotted name is a range of Python or NKI."""
    return path in (*RANGES, "nki.language.dynamic_range")


def _builtin(call: ast.Call, name: str, in_header: bool) -> Iterator[Found]:
    if in_header and name in _ITERATORS:
        yield Found(
            LOOP_SOURCE, call, f"a loop runs over {ast.unparse(call)}", _loop_fix(call, name)
        )
    elif name not in _SUPPORTED.split() and name not in _SILENT:
        message = f"the compiler has no {name}()"
        fix = f"write a loop, or compute it on the host; supported: {_SUPPORTED}"
        yield Found(BUILTIN, call, message, fix, operand=name)
    elif name in ("min", "max"):
        named = [k.arg for k in call.keywords if k.arg in ("key", "default")]
        if len(call.args) > 2 or named:
            message = (
                f"{name}() has {', '.join(f'{k}=' for k in named) if named else len(call.args)}"
            )
            message += "" if named else " arguments"
            fix = f"nest calls with two arguments, or pass one list: {name}([...])"
            yield Found(MANY_ARGUMENTS, call, message, fix)


def _loop_fix(call: ast.Call, name: str) -> str:
    """Return the header with an explicit index."""
    texts = [ast.unparse(argument) for argument in call.args]
    if name == "reversed" and texts:
        return f"for i in range(len({texts[0]})): and index with len({texts[0]}) - 1 - i"
    if name in ("enumerate", "zip") and texts:
        parts = ", ".join(f"{text}[i]" for text in texts)
        return f"for i in range(len({texts[0]})): and take {parts}"
    return "make a list on the host, or in a loop before, and run over range(len(...))"


def _foreign(call: ast.Call, path: str, in_header: bool, kinds: Kinds) -> Iterator[Found]:
    module, _, name = path.rpartition(".")
    if module in _DECLARING or path.startswith("neuronxcc"):
        return
    of_tile = any(_holds_tensor(node, kinds) for node in (*call.args, *call.keywords))
    if not of_tile and (is_traced() or (module == "math" and name in _MATH.split())):
        return
    fix = _foreign_fix(call, module, name, of_tile=of_tile)
    if in_header:
        yield Found(LOOP_SOURCE, call, f"a loop runs over {ast.unparse(call)}", fix)
        return
    message = f"{path} is called from a kernel"
    text = ast.unparse(call)
    yield Found(FOREIGN_CALL, call, message, fix, seen=text, operand=path, data={"call": text})


def _foreign_fix(call: ast.Call, module: str, name: str, *, of_tile: bool) -> str:
    """Return what replaces a function of another package, of a tile and of a number."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    known = counterpart(name)
    said = known if undecided(name) else f"write {known}"
    if of_tile:
        general = "use a function of nki.language, or an instruction of nki.isa with a dst="
        return said if known else general
    of_number = "compute it on the host and pass the result as an argument"
    if module == "math":
        of_number += f"; math has {_MATH} in kernels"
    elif name in _MATH.split():
        of_number = f"write math.{name}"
    if not known or not given or all(_is_number(node) for node in given):
        return of_number
    return f"for a tile {said}; for a number {of_number}"


def _is_number(node: ast.AST) -> bool:
    """Return whether an expression is certainly made of numbers, extents and texts alone."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("shape", "ndim", "size", "dtype")
    if isinstance(node, ast.Name):
        return False
    if isinstance(node, ast.Subscript):
        return _is_number(node.value)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("len", "int", "float")
    parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    return all(map(_is_number, parts))


def _holds_tensor(node: ast.AST, kinds: Kinds) -> bool:
    """Return whether an argument is made of a tensor, and not of a number such as its extent."""
    if isinstance(node, ast.Attribute):
        return False
    if kinds.of(node) == "tensor":
        return True
    return any(_holds_tensor(part, kinds) for part in ast.iter_child_nodes(node))
