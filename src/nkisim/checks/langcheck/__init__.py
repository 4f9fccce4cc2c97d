"""Static checks of a kernel's source; nothing is executed.

The compiler parses the source of a kernel and of everything it calls; it does not run Python. Code
outside its language works in a simulator and fails to compile. The checks report only what is
certain from the source: they can miss a mistake but report no false ones.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import linecache
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from nkisim.checks.langcheck.api import API_RULES, check_api, check_deprecated
from nkisim.checks.langcheck.calls import check_calls
from nkisim.checks.langcheck.endless import check_endless, endless_recursion
from nkisim.checks.langcheck.expressions import check_expressions
from nkisim.checks.langcheck.loops import check_loops
from nkisim.checks.langcheck.names import check_names
from nkisim.checks.langcheck.statements import check_signature, check_statements
from nkisim.checks.langcheck.tensors import check_tensors
from nkisim.checks.langcheck.unit import Unit, reached_from, unit_of
from nkisim.checks.langcheck.values import check_early_values, check_values
from nkisim.diagnostics import Finding, Place, Rule, declare, defined_at
from nkisim.intents import nearest
from nkisim.source import (
    File,
    LiveGlobals,
    Meaning,
    definition_of,
    file_globals,
    raise_if_unreadable,
)
from nkisim.versions import in_force, language
from nkisim.versions.rules import held, is_off

NO_SOURCE = declare(
    "L065",
    "no-source",
    "The source of a kernel cannot be read back.",
    "the compiler reads a kernel's text",
)

_CHECKS = (
    check_statements,
    check_expressions,
    check_calls,
    check_api,
    check_deprecated,
    check_names,
    check_early_values,
    check_endless,
    check_values,
    check_tensors,
    check_loops,
    check_signature,
)
_OF_RUNS = (
    *("A016", "A018", "L019", "L026", "L027", "L028", "L030", "L031", "L033", "L034", "L035"),
    *("L036", "L037", "L038", "L060", "L070", "M029"),
    *API_RULES,
)
"""Rules of runs that are also checked in the source."""

_KNOWN: WeakKeyDictionary[Any, dict[str, list[Finding]]] = WeakKeyDictionary()
"""Findings of live functions by NKI version."""


@cache
def source_rules(*, alone: bool = False) -> frozenset[str]:
    """Return the ids of the rules that are checked in the source, or in the source alone."""
    homes = [vars(sys.modules[check.__module__]) for check in _CHECKS]
    own = {value.id for names in homes for value in names.values() if isinstance(value, Rule)}
    own.add(NO_SOURCE.id)
    return frozenset(own.difference(_OF_RUNS) if alone else own.union(_OF_RUNS))


def kernel_findings(kernel: Any) -> list[Finding]:
    """Return the findings in the source of a kernel and of the definitions it reaches.

    Args:
        kernel: A function, a method or an object that can be called.
    """
    function = inspect.unwrap(kernel)
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType) and callable(function):
        function = type(function).__call__
    try:
        known = _KNOWN.setdefault(function, {})
        found = known.get(_judged_by())
        if found is None:
            found = known[_judged_by()] = _of_function(function)
    except TypeError:  # objects defined in C have no weak references
        found = _of_function(function)
    return [dataclasses.replace(finding) for finding in found]


def _of_function(function: Any) -> list[Finding]:
    definition = definition_of(function)
    if definition is None:
        code = getattr(function, "__code__", None)
        place = defined_at(code) if code else Place("<unknown>", 0)
        name = getattr(function, "__name__", type(function).__name__)
        kind = "a lambda" if code is not None and code.co_name == "<lambda>" else place.file
        return [_without_source(name, place, kind)]
    scope = LiveGlobals(getattr(function, "__globals__", {}))
    meaning = Meaning("definition", "", *definition, scope, function, True)
    return _of_kernels([unit_of(meaning)])


def _without_source(name: str, place: Place, seen: str) -> Finding:
    return Finding(
        NO_SOURCE,
        f"the source of kernel {name} is not available, so it was not checked",
        place,
        seen=seen,
        fix="define the kernel with def, in a file",
        level=held(NO_SOURCE.id).level,
    )


class KernelSource(NamedTuple):
    """A kernel in a file.

    Attributes:
        name: Its name, with its class as in ``Class.kernel``.
        node: Its definition; a lambda for a kernel without source.
        constants: The values that the file assigns to its names.
    """

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
    constants: dict[str, ast.expr]


def file_findings(
    path: str | Path, kernel: str | None = None
) -> tuple[list[KernelSource], list[Finding]]:
    """Return the kernels of a file, and the findings in their source; imports nothing.

    Args:
        path: A Python file.
        kernel: Name of one of its functions, decorated or not; None takes all that ``nki.jit``
            decorates.

    Raises:
        SyntaxError: The file is not valid Python.
        ValueError: The file has no function ``kernel``.
    """
    file = str(path)
    linecache.checkcache(file)
    scope = file_globals(file)
    if scope is None:
        raise_if_unreadable(file)
        return [], []
    tree = scope.tree
    chosen = scope.kernels() if kernel is None else [scope.function(kernel)]
    if kernel is not None and isinstance(chosen[0].value, ast.Lambda):
        node = chosen[0].value
        found = [_without_source(kernel, Place(file, node.lineno), "a lambda")]
        return [KernelSource(kernel, node, tree.constants)], found
    if kernel is not None and chosen[0].kind != "definition":
        raise ValueError(f"{file} defines no function {kernel}{_others(tree, kernel)}")
    units = [unit_of(dataclasses.replace(meaning, is_kernel=True)) for meaning in chosen]
    kernels = [KernelSource(tree.qualified(u.node), u.node, tree.constants) for u in units]
    try:
        return kernels, _of_kernels(units)
    except RecursionError:
        raise SyntaxError("too deeply nested", (file, 1, None, None)) from None


def _others(tree: File, name: str) -> str:
    """Return which function of a file was probably meant."""
    names = [tree.qualified(n) for n in tree.definitions if not isinstance(n, ast.ClassDef)]
    near = nearest(name, names)
    if near:
        return f"; did you mean {near}?"
    return f"; it has {', '.join(names)}" if names else "; it has none"


def _of_kernels(kernels: Iterable[Unit]) -> list[Finding]:
    """Return the findings of several kernels without duplicates, in source order."""
    found: dict[tuple[str, int], list[Finding]] = {}
    for kernel in kernels:
        units = list(reached_from(kernel))
        for finding in (*(f for unit in units for f in _of_unit(unit)), *endless_recursion(units)):
            of_line = found.setdefault((finding.file, finding.line), [])
            if finding not in of_line:
                of_line.append(finding)
    return [finding for line in sorted(found) for finding in found[line]]


def _of_unit(unit: Unit) -> list[Finding]:
    key = _judged_by()
    if key not in unit.found:
        found = [f for check in _CHECKS for f in check(unit) if not is_off(f.rule.id)]
        unit.found[key] = [f.at_level(held(f.rule.id).level).finding(unit.tree.file) for f in found]
    return unit.found[key]


def _judged_by() -> str:
    """Return the key of results: names of one version, and the language of one."""
    return f"{in_force()} {language()}"
