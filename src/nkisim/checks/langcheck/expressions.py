"""Expressions and literals that the compiler does not translate."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import Found, Unit
from nkisim.diagnostics import declare
from nkisim.source import is_none

_REFUSED = "the compiler refuses the expression"

LAMBDA = declare("L002", "lambda", "A function has a lambda expression.", _REFUSED)
COMPREHENSION = declare(
    "L006",
    "comprehension",
    "A function has a comprehension or a generator expression.",
    _REFUSED,
)
WALRUS = declare("L013", "assignment-expression", "A function has an assignment by :=.", _REFUSED)
EXPANSION = declare(
    "L025",
    "expansion",
    "Arguments, elements or targets are expanded with * or **.",
    "the compiler has to see every argument",
)
DICTIONARY_KEY = declare(
    "L043",
    "dictionary-key",
    "A dictionary has a key that is not a string.",
    "the compiler's dictionaries have string keys",
)
LITERAL = declare(
    "L044",
    "literal-kind",
    "A function has a set, a bytes or a complex literal.",
    "the compiler has no such values",
)
TEXT_OPERATION = declare(
    "L045",
    "text-operation",
    "Text is formatted with a specification, indexed, or used by its methods.",
    "the compiler supports plain f-strings only",
)
UNPACKING = declare(
    "L046",
    "unpacking",
    "Several values are unpacked into anything but plain names, or several elements are set at "
    "once.",
    "the compiler takes a flat pattern of names",
)
CHAINED_COMPARISON = declare(
    "L054",
    "chained-comparison",
    "A chained comparison calls a function late in the chain, or chains `in`.",
    "the compiler evaluates all of a chain, where Python stops at the first False",
    severity="warning",
)
ELLIPSIS = declare("L056", "ellipsis", "The literal ... is used outside an index.", _REFUSED)
IDENTITY = declare(
    "A017",
    "identity-test",
    "A function tests identity with `is`, other than against None.",
    "0.3.0 does not support the operator",
)

_PURE = {"abs", "bool", "float", "int", "len", "max", "min"}


def check_expressions(unit: Unit) -> Iterator[Found]:
    """Find expressions outside the language."""
    for node in unit.of(ast.Lambda):
        fix = "define a function at the top of the module, or write the expression where it is used"
        yield Found(LAMBDA, node, f"{unit.name} has a lambda", fix)
    yield from _comprehensions(unit)
    for named in unit.of(ast.NamedExpr):
        fix = f"assign {named.target.id} in a statement before"
        yield Found(WALRUS, named, f"{named.target.id} is assigned inside an expression", fix)
    yield from _expansions(unit)
    yield from _literals(unit)
    yield from _text(unit)
    yield from _targets(unit)
    yield from _comparisons(unit)


def _comprehensions(unit: Unit) -> Iterator[Found]:
    for node in unit.of(ast.ListComp, ast.GeneratorExp):
        head = node.generators[0]
        loop = f"for {ast.unparse(head.target)} in {ast.unparse(head.iter)}:"
        fix = f"items = []; {loop} items.append({ast.unparse(node.elt)})"
        plain = len(node.generators) == 1 and not head.ifs
        kind = "list comprehension" if isinstance(node, ast.ListComp) else "generator expression"
        yield Found(
            COMPREHENSION,
            node,
            f"{unit.name} has a {kind}",
            fix if plain else "write the loops and append to a list",
        )
    for other in unit.of(ast.SetComp, ast.DictComp):
        kind = "set" if isinstance(other, ast.SetComp) else "dict"
        fix = "write the loop and add item by item"
        yield Found(COMPREHENSION, other, f"{unit.name} has a {kind} comprehension", fix)


def _expansions(unit: Unit) -> Iterator[Found]:
    fix = "spell the items out"
    for node in unit.of(ast.Starred):
        yield Found(EXPANSION, node, f"*{ast.unparse(node.value)} is expanded", fix)
    for call in unit.of(ast.Call):
        for keyword in call.keywords:
            if keyword.arg is None:
                text = ast.unparse(keyword.value)
                yield Found(EXPANSION, call, f"**{text} is expanded", fix)
    for display in unit.of(ast.Dict):
        if None in display.keys:
            yield Found(EXPANSION, display, "a dictionary is expanded into another", fix)


def _literals(unit: Unit) -> Iterator[Found]:
    for made in unit.of(ast.Set):
        yield Found(LITERAL, made, f"{ast.unparse(made)} is a set", "use a tuple or a list")
    for display in unit.of(ast.Dict):
        wrong = [
            key
            for key in display.keys
            if isinstance(key, ast.Tuple)
            or (isinstance(key, ast.Constant) and not isinstance(key.value, str))
        ]
        if wrong:
            fix = "use strings as keys, or a list indexed by integers"
            text = ", ".join(map(ast.unparse, wrong))
            said = f"keys {text} are not strings" if len(wrong) > 1 else f"key {text} is no string"
            yield Found(DICTIONARY_KEY, wrong[0], f"dictionary {said}", fix)
    for constant in unit.of(ast.Constant):
        value = constant.value
        if isinstance(value, (bytes, complex)):
            kind = type(value).__name__
            yield Found(LITERAL, constant, f"{value!r} is {kind}", "use numbers, tuples or text")
        elif value is ... and not _is_index(unit, constant):
            if not isinstance(unit.tree.parent(constant), ast.Expr):
                yield Found(ELLIPSIS, constant, "... is not an index here", "use None or remove it")
            elif not isinstance(unit.node, ast.ClassDef):
                yield Found(ELLIPSIS, constant, "... is a statement here", "write pass")


def _is_index(unit: Unit, node: ast.AST) -> bool:
    parent = unit.tree.parent(node)
    if isinstance(parent, ast.Tuple):
        node, parent = parent, unit.tree.parent(parent)
    return isinstance(parent, ast.Subscript) and parent.value is not node


def _text(unit: Unit) -> Iterator[Found]:
    for part in unit.of(ast.FormattedValue):
        if part.format_spec is not None:
            value, spec = ast.unparse(part.value), ast.unparse(part.format_spec)
            yield Found(
                TEXT_OPERATION,
                part,
                f"{value} is formatted with {spec[2:-1]!r}",
                f"write {{{value}}} without the specification",
            )
    for operation in unit.of(ast.BinOp):
        if isinstance(operation.op, ast.Mod) and _is_text(operation.left):
            yield Found(TEXT_OPERATION, operation, "text is formatted with %", "use an f-string")
    for attribute in unit.of(ast.Attribute):
        if _is_text(attribute.value):
            message = f"method {attribute.attr} of text is used"
            fix = (
                "use an f-string" if attribute.attr == "format" else "prepare the text on the host"
            )
            yield Found(TEXT_OPERATION, attribute, message, fix)
    for subscript in unit.of(ast.Subscript):
        if _is_text(subscript.value):
            fix = "prepare the text on the host"
            yield Found(TEXT_OPERATION, subscript, "text is indexed", fix)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _targets(unit: Unit) -> Iterator[Found]:
    for statement in unit.of(ast.Assign):
        for target in statement.targets:
            if not isinstance(target, (ast.Tuple, ast.List)):
                continue
            parts = [p for p in target.elts if not isinstance(p, (ast.Name, ast.Starred))]
            if parts:
                text = " and ".join(map(ast.unparse, parts))
                said = "are targets" if len(parts) > 1 else "is a target"
                fix = "unpack into plain names and assign one by one"
                yield Found(UNPACKING, statement, f"{text} {said} of unpacking", fix)
        changed = [t for t in statement.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
        if len(changed) > 1:
            text = " and ".join(map(ast.unparse, changed))
            fix = "write one assignment for each"
            yield Found(UNPACKING, statement, f"{text} are set in one statement", fix)


def _comparisons(unit: Unit) -> Iterator[Found]:
    for compare in unit.of(ast.Compare):
        operands = [compare.left, *compare.comparators]
        for op, left, right in zip(compare.ops, operands, operands[1:], strict=False):
            if isinstance(op, (ast.Is, ast.IsNot)) and not (is_none(left) or is_none(right)):
                word = "==" if isinstance(op, ast.Is) else "!="
                text = f"{ast.unparse(left)} {word} {ast.unparse(right)}"
                message = f"`{ast.unparse(compare)}` tests identity"
                yield Found(IDENTITY, compare, message, f"write {text}")
        if len(compare.ops) > 1:
            late = [n for part in operands[2:] for n in ast.walk(part) if isinstance(n, ast.Call)]
            impure = [c for c in late if unit.meaning(c.func).path not in _PURE]
            if impure or any(isinstance(op, (ast.In, ast.NotIn)) for op in compare.ops):
                message = f"`{ast.unparse(compare)}` is chained"
                fix = "join simple comparisons with `and`"
                yield Found(CHAINED_COMPARISON, compare, message, fix)
