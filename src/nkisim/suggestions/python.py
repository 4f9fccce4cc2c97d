"""Fixes of Python that kernels cannot use: operators on tiles, comprehensions, some loops."""

from __future__ import annotations

import ast
import re

from nkisim.diagnostics import Rewrite
from nkisim.intents import Intent, intent_of, language_name
from nkisim.source import COMPARISONS, OPERATORS, base_name, expression, names_in
from nkisim.suggestions.calls import is_of_rows, value_of
from nkisim.suggestions.products import added_product
from nkisim.suggestions.staging import divided
from nkisim.suggestions.statement import Case, NoFixError, expect, fixes, one_of, only_if, required

_POWERS = {"2": "square", "2.0": "square", "0.5": "sqrt", "-0.5": "rsqrt", "-1": "reciprocal"}
_IN_PLACE = ("add", "subtract", "multiply")
_MODULES = ("numpy", "math")
_NO_CODE = ("", "matmul")  # nl.matmul takes its first operand transposed


@fixes("L027")
def _operators(case: Case) -> Rewrite:
    """Operators and functions of NumPy become functions of ``nki.language``."""
    # A tile in place of a condition would decide nothing.
    only_if(not case.finding.data.get("condition"))
    return one_of(case, _added_product, _as_functions)


def _as_functions(case: Case) -> Rewrite:
    tensors, statement = _Tensors(case), case.statement
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name, target = required(OPERATORS.get(type(statement.op))), statement.target.id
        value = _of_two(case, name, expression(target), statement.value)
        return case.rewrite(f"{target} = {value}")
    if isinstance(statement, ast.For):
        new = case.replaced(tensors.change, statement.iter)
        only_if(tensors.made or new != ast.unparse(statement.iter))
        return case.head(statement, ast.unparse(statement.target), new)
    text = case.replaced(tensors.change)
    only_if(text != ast.unparse(statement))
    return case.rewrite(text)


def _added_product(case: Case) -> Rewrite:
    """``acc += nl.matmul(...)`` and ``acc = acc + nl.matmul(...)``, with ``acc`` in PSUM."""
    match case.statement:
        case ast.AugAssign(ast.Name(name), ast.Add(), product):
            return added_product(case, name, product)
        case ast.Assign([ast.Name(name)], ast.BinOp(ast.Name(left), ast.Add(), product)):
            only_if(left == name)
            return added_product(case, name, product)
    raise NoFixError


class _Tensors:
    """Expressions of a statement that are tensors, and what replaces them.

    Attributes:
        made: The new expressions, as text.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self.made: set[str] = set()

    def _is_tensor(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return self._case.variable(node.id) is not None
        if isinstance(node, ast.Subscript):
            return self._is_tensor(node.value)
        return ast.unparse(node) in self.made

    def _new(self, text: str) -> ast.expr:
        self.made.add(text)
        return expression(text)

    def _call(self, name: str, *operands: ast.expr) -> ast.expr:
        return self._new(f"{self._case.nl}.{name}({', '.join(map(ast.unparse, operands))})")

    def change(self, node: ast.expr) -> ast.expr | None:
        """Return what replaces an expression; None for one that stays."""
        if isinstance(node, ast.BinOp) and any(map(self._is_tensor, (node.left, node.right))):
            name = OPERATORS.get(type(node.op))
            return self._new(_of_two(self._case, name, node.left, node.right)) if name else None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            operands = (node.left, node.comparators[0])
            name = COMPARISONS.get(type(node.ops[0]))
            tensors = any(map(self._is_tensor, operands))
            return self._call(name, *operands) if name and tensors else None
        if isinstance(node, ast.UnaryOp) and self._is_tensor(node.operand):
            return self._call("negative", node.operand) if isinstance(node.op, ast.USub) else None
        tensor = isinstance(node, ast.Call) and node.args and self._is_tensor(node.args[0])
        return self._function(node) if tensor and isinstance(node, ast.Call) else None

    def _function(self, node: ast.Call) -> ast.expr | None:
        """Return what replaces a function of NumPy or math, abs, len or range of a tensor."""
        case, tensor = self._case, ast.unparse(node.args[0])
        if isinstance(node.func, ast.Name):
            extents = {"len": f"{tensor}.shape[0]"}
            if len(node.args) == 1:
                extents["range"] = f"range({tensor}.shape[0])"
            text = extents.get(node.func.id)
            if node.func.id == "abs":
                return self._call("abs", node.args[0])
            return None if text is None else expression(text)
        module, _, function = case.path(node.func).rpartition(".")
        intent = intent_of(function) if module in _MODULES else None
        given: dict[str, ast.expr] = {k.arg or "**": k.value for k in node.keywords}
        if intent is not None and intent.expression and not is_same(intent, function):
            along = "axis=1" in intent.expression and is_of_rows(case, given, None)
            fits = along == ("axis=1" in intent.expression) and len(node.args) == intent.operands
            return self._new(value_of(case, intent, *node.args)) if fits and not given else None
        name = language_name(function) if module in _MODULES else ""
        known = name not in _NO_CODE and not node.keywords
        return self._call(name, *node.args) if known else None


def is_same(intent: Intent, name: str) -> bool:
    """Return whether a name has its meaning in ``nki.language`` too, for the same arguments."""
    return "axis=1" not in intent.expression and intent.function == name


def _of_two(case: Case, name: str, left: ast.expr, right: ast.expr) -> str:
    """Return an operation on a tile and another operand as an expression that engines have."""
    power = _POWERS.get(ast.unparse(right)) if name == "power" else None
    if power is not None:
        return f"{case.nl}.{power}({ast.unparse(left)})"
    return value_of(case, Intent("binary", name), left, right)


@fixes("D013", "D014")
def _quotient(case: Case) -> Rewrite:
    """A quotient is a product with a reciprocal, and a power by a number a function of its own."""
    name = {"D013": "divide", "D014": "power"}[case.rule]
    path = f"nki.language.{name}"

    def change(node: ast.expr) -> ast.expr | None:
        plain = isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords
        if not plain or not isinstance(node, ast.Call) or case.path(node.func) != path:
            return None
        return expression(_of_two(case, name, *node.args))

    others = (divided,) if name == "divide" else ()
    return one_of(case, lambda case: case.rewrite(case.replaced(change)), *others)


@fixes("L029")
def _in_place(case: Case) -> Rewrite:
    """``t += u`` on a tile is an instruction that writes ``t``."""
    return one_of(case, _added_product, _updated)


def _updated(case: Case) -> Rewrite:
    statement = expect(ast.AugAssign, case.statement)
    name = OPERATORS.get(type(statement.op))
    only_if(name in _IN_PLACE)
    dst, op, text = ast.unparse(statement.target), f"{case.nl}.{name}", ast.unparse(statement.value)
    if isinstance(statement.value, ast.Constant):
        return case.rewrite(case.isa("tensor_scalar", dst=dst, data=dst, op0=op, operand0=text))
    return case.rewrite(case.isa("tensor_tensor", dst=dst, data1=dst, data2=text, op=op))


@fixes("L021")
def _foreign(case: Case) -> Rewrite:
    """A function of NumPy that ``nki.language`` has too."""
    path = case.finding.operand
    name = language_name(path.rpartition(".")[2])
    only_if(path.startswith("numpy."), name not in _NO_CODE)
    only_if(any(case.variable(used) is not None for used in names_in(case.statement)))

    def change(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Call) or node.keywords or case.path(node.func) != path:
            return None
        arguments = ", ".join(map(ast.unparse, node.args))
        return expression(f"{case.nl}.{name}({arguments})")

    return case.rewrite(case.replaced(change))


@fixes("L006")
def _comprehension(case: Case) -> Rewrite:
    """A list comprehension becomes a loop that appends."""
    made, name = expect(ast.ListComp, case.value), case.target
    only_if(name, len(made.generators) == 1)
    source = made.generators[0]
    lines = [f"{name} = []", f"for {ast.unparse(source.target)} in {ast.unparse(source.iter)}:"]
    indent = "    "
    for condition in source.ifs:
        lines.append(f"{indent}if {ast.unparse(condition)}:")
        indent += "    "
    lines.append(f"{indent}{name}.append({ast.unparse(made.elt)})")
    return case.rewrite(*lines)


@fixes("L012")
def _deleted(case: Case) -> Rewrite:
    """A tile ends with its last use, without a statement."""
    return case.rewrite("pass")


@fixes("L022", "L044")
def _listed(case: Case) -> Rewrite:
    """Three arguments of min and max are one list, and a set is a tuple."""

    def change(node: ast.expr) -> ast.expr | None:
        if case.rule == "L044":
            return ast.Tuple(node.elts, ast.Load()) if isinstance(node, ast.Set) else None
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("min", "max"):
            return None
        node.args = [ast.List(node.args, ast.Load())] if len(node.args) > 2 else node.args
        return node

    return case.rewrite(case.replaced(change))


@fixes("L067")
def _printed(case: Case) -> Rewrite:
    """A tile is printed on the device."""
    call = expect(ast.Call, case.value)
    only_if(ast.unparse(call.func) == "print", len(call.args) == 1)
    name = expect(ast.Name, call.args[0]).id
    return case.rewrite(f"{case.nl}.device_print({name!r}, {name})")


@fixes("L019")
def _division(case: Case) -> Rewrite:
    """An extent is divided by ``//``."""
    text = case.finding.data.get("expression")
    shape = case.arguments.get("shape")
    inside = {ast.unparse(n) for n in ast.walk(shape)} if text is None and shape is not None else ()

    def change(node: ast.expr) -> ast.expr | None:
        divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if divides and (ast.unparse(node) == text or ast.unparse(node) in inside):
            assert isinstance(node, ast.BinOp)
            node.op = ast.FloorDiv()
        return None

    if isinstance(case.statement, ast.For) and text is not None:
        source = ast.unparse(case.statement.iter)
        new = source.replace(text, text.replace(" / ", " // ", 1), 1)
        return case.head(case.statement, ast.unparse(case.statement.target), new)
    return case.rewrite(case.replaced(change))


@fixes("L016", "L017")
def _pairs(case: Case) -> Rewrite:
    """A loop over pairs runs over an index."""
    loop = expect(ast.For, case.statement)
    names = [ast.unparse(name) for name in expect(ast.Tuple, loop.target).elts]
    source = expect(ast.Call, loop.iter)
    function = expect(ast.Name, source.func).id
    only_if(not source.keywords)
    if function == "enumerate" and len(source.args) == 1 and len(names) == 2:
        index, parts = names[0], names[1:]
    else:
        only_if(function == "zip", len(source.args) == len(names))
        index, parts = case.fresh("i"), names
    texts = [ast.unparse(part) for part in source.args]
    calls = {ast.unparse(part): part for part in source.args if isinstance(part, ast.Call)}
    only_if(all(ast.unparse(c.func) == "range" and len(c.args) == 1 for c in calls.values()))
    # A range has no length and no items outside a loop header; those of range(n) are the indices.
    items = [index if text in calls else f"{text}[{index}]" for text in texts]
    taken = [f"{name} = {item}" for name, item in zip(parts, items, strict=True)]
    first = texts[0] if texts[0] in calls else f"range(len({texts[0]}))"
    return case.head(loop, index, first, taken)


@fixes("L031", "L032", "L033")
def _static(case: Case) -> Rewrite:
    """A dynamic loop with bounds that are known needs no register: its index is a number."""
    loop, source = case.loop_over("dynamic_range")
    bounds = list(map(ast.unparse, source.args))
    only_if(all(re.fullmatch(r"-?\d+|\w+\.shape\[\d\]", bound) for bound in bounds))
    return case.head(loop, ast.unparse(loop.target), f"range({', '.join(bounds)})")


@fixes("L028")
def _assigned_part(case: Case) -> Rewrite:
    """An assignment to a part of a tensor is a copy, a transfer or a fill."""
    statement = expect(ast.Assign, case.statement)
    target, value = expect(ast.Subscript, statement.targets[0]), statement.value
    dst, src = ast.unparse(target), ast.unparse(value)
    tensor = required(case.named(target.value))
    if isinstance(value, ast.Constant) and "hbm" not in tensor.buffer:
        return case.rewrite(case.isa("memset", dst=dst, value=src))
    other = required(case.named(required(base_name(value))))
    far = "hbm" in tensor.buffer or "hbm" in other.buffer
    return case.rewrite(case.isa("dma_copy" if far else "tensor_copy", dst=dst, src=src))


@fixes("A013")
def _member(case: Case) -> Rewrite:
    """An integer becomes the enum member of that value."""
    node = expect(ast.Constant, case.arguments.get(case.finding.operand))
    member = f"{case.nisa}.{case.finding.data['member']}"
    return case.rewrite(case.with_expression(node, member))
