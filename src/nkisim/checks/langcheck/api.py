"""Names and calls of NKI that the version in force does not have, or that a later one drops."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator, Mapping
from enum import EnumMeta
from types import ModuleType
from typing import Any

from nkisim import collectives, isa, language
from nkisim.checks.langcheck.guards import is_guarded
from nkisim.checks.langcheck.unit import Found, Unit
from nkisim.diagnostics import RULES, Severity, declare
from nkisim.intents import nearest
from nkisim.language.grids import NkiBlockGrid
from nkisim.memory import NkiTensor
from nkisim.memory.tensor.refused import method_remedy, tensor_attributes
from nkisim.removed import (
    BAD_CALL,
    is_deprecated,
    missing_text,
    removed_names,
    why_missing,
)
from nkisim.source import FileGlobals, Meaning
from nkisim.spec.signatures import CALLS, CheckedCall
from nkisim.versions import (
    FRONTEND_VARIABLE,
    JIT_CONFIGS,
    VERSIONS,
    at,
    differs,
    dropped,
    has,
    in_force,
    is_traced,
)

_MODULES: dict[str, ModuleType] = {
    "nki.collectives": collectives,
    "nki.isa": isa,
    "nki.language": language,
}
_CHECKED = [call for versions in CALLS.values() for call in versions.values()]

POSITIONAL = declare(
    "A040",
    "positional-argument",
    "An argument is given by a position that has another meaning in other releases.",
    "another release binds it to another parameter",
    severity="note",
)

API_RULES = sorted(
    {rule.id for names in removed_names().values() for rule, _ in names.values()}
    | {gone.rule.id for call in _CHECKED for gone in call.removed.values()}
    | {call.misfit.id for call in _CHECKED if call.misfit is not None}
    | {"A019", "A020", "A025", "A026"}
)
"""Ids of the rules that names and calls can violate."""


def check_api(unit: Unit) -> Iterator[Found]:
    """Find missing names of NKI, and calls that do not fit."""
    for node in unit.of(ast.Attribute, ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield from _missing(unit, node, unit.meaning(node))
    for call, meaning in unit.calls:
        declared = _declared(meaning)
        if in_force() in declared:
            yield from _misfit(unit, call, declared[in_force()])
            yield from _moved(call, declared)
    for node in _before_the_run(unit):
        yield from _missing(unit, node, unit.meaning(node))
    yield from _attributes(unit)
    yield from _jit_arguments(unit)


def _before_the_run(unit: Unit) -> Iterator[ast.Attribute]:
    """Yield the dotted names that Python evaluates on import: defaults and the file's constants."""
    if not unit.is_kernel or isinstance(unit.node, ast.ClassDef):
        return
    if not isinstance(unit.scope, FileGlobals):
        return  # the file was imported without an error
    given = unit.node.args
    values = [*given.defaults, *(d for d in given.kw_defaults if d is not None)]
    for value in (*values, *unit.tree.constants.values()):
        yield from (n for n in ast.walk(value) if isinstance(n, ast.Attribute))


def _missing(unit: Unit, node: ast.expr, meaning: Meaning) -> Iterator[Found]:
    if meaning.kind != "nki" or meaning.assumed:
        return
    module, _, name = meaning.path.rpartition(".")
    if isinstance(node, ast.Name) and not isinstance(unit.scope, FileGlobals):
        return  # an object that exists; its path is a guess
    if module in _MODULES and not name.startswith("_"):
        there = _has(module, name) and not is_deprecated(module, name)
        if there or is_guarded(unit, node, name):
            return
        rule, fix = why_missing(module, name)
    elif module == "nki" and name in removed_names()["nki"]:
        if is_guarded(unit, node, name):
            return
        rule, fix = removed_names()["nki"][name]
    else:
        accepted = _members(module)
        if not accepted or name in accepted or is_guarded(unit, node, name):
            return
        near = nearest(name, accepted)
        shown = ", ".join(n for n in accepted if n != "mro")
        rule, fix = BAD_CALL, f"did you mean {near}?" if near else f"there is {shown}"
    message, severity = missing_text(rule, meaning.path)
    yield Found(
        rule,
        node,
        message,
        fix,
        seen=meaning.path,
        operand=name,
        level=severity,
        data={"module": module},
    )


def _has(module: str, name: str) -> bool:
    """Return whether a module of NKI has a name in the version in force."""
    if differs(module, name):
        return has(in_force(), module, name)
    return name in vars(_MODULES[module])


def _members(path: str) -> list[str]:
    """Return the public attributes of an enum or of ``nl.tile_size``; none for other objects."""
    module, _, name = path.rpartition(".")
    there = module in _MODULES and _has(module, name)
    owner: Any = getattr(_MODULES[module], name) if there else None
    if not isinstance(owner, EnumMeta) and owner is not language.tile_size:
        return []
    names = {*dir(type(owner)), *dir(owner)}
    return sorted(n for n in names if not n.startswith("_") and hasattr(owner, n))


def _attributes(unit: Unit) -> Iterator[Found]:
    """Find attributes that tensors do not have, or no kind of grid."""
    kinds = unit.kinds
    known = {"tensor": tensor_attributes(NkiTensor, in_force()), "grid": {*dir(NkiBlockGrid)}}
    for node in unit.of(ast.Attribute):
        name, kind = node.attr, kinds.of(node.value)
        if kind not in known or name in known[kind]:
            continue
        if not isinstance(node.ctx, ast.Load) or name.startswith("_"):
            continue
        if is_guarded(unit, node, name):
            continue
        owner = "NkiTensor" if kind == "tensor" else "NkiGrid"
        shown = ", ".join(n for n in sorted(known[kind]) if not n.startswith("_"))
        fix = method_remedy(name) if kind == "tensor" else f"there is {shown}"
        message, seen = f"{owner}.{name} does not exist in NKI {in_force()}", f"{owner}.{name}"
        data = {"module": owner}
        yield Found(BAD_CALL, node, message, fix, seen=seen, operand=name, data=data)


def _jit_arguments(unit: Unit) -> Iterator[Found]:
    """Find arguments of ``nki.jit`` that 0.3.0 refuses or ignores."""
    for decorator in unit.node.decorator_list:
        if not isinstance(decorator, ast.Call) or unit.of_decorator(decorator).path != "nki.jit":
            continue
        for keyword in decorator.keywords:
            if keyword.arg == "platform_target":
                message = f"nki.jit(platform_target=...) is not supported in NKI {in_force()}"
                fix = "set the environment variable NEURON_PLATFORM_TARGET_OVERRIDE"
                yield Found(RULES["A019"], decorator, message, fix, operand=keyword.arg)
            elif keyword.arg is not None and keyword.arg not in at(in_force(), (), JIT_CONFIGS):
                refused = keyword.arg in dropped(in_force(), "nki", "jit")
                does = "refuses" if refused else "ignores"
                message = f"nki.jit {does} {keyword.arg} in NKI {in_force()}"
                fix = f"remove {keyword.arg}="
                level: Severity | None = "error" if refused else None
                rule = RULES["A020"]
                yield Found(rule, decorator, message, fix, operand=keyword.arg, level=level)


def _declared(meaning: Meaning) -> Mapping[str, CheckedCall]:
    """Return the declarations of a called function of NKI, by version."""
    module, _, name = meaning.path.rpartition(".")
    if meaning.kind != "nki" or meaning.assumed or module not in _MODULES:
        return {}
    return CALLS.get(f"nl.{name}" if module == "nki.language" else name, {})


def _moved(call: ast.Call, declared: Mapping[str, CheckedCall]) -> Iterator[Found]:
    """Find arguments whose position has another meaning in a later version."""
    version = in_force()
    here = list(declared[version].signature.parameters)
    for later in VERSIONS[VERSIONS.index(version) + 1 :]:
        there = list(declared[later].signature.parameters) if later in declared else here
        for given, name, other in zip(call.args, here, there, strict=False):
            if isinstance(given, ast.Starred):
                break
            if name != other:
                text = ast.unparse(given)
                message = f"{declared[version].name} gets {text} by position"
                yield Found(POSITIONAL, call, message, f"pass {text} by its name", operand=text)
                return


def _misfit(unit: Unit, call: ast.Call, checked: CheckedCall) -> Iterator[Found]:
    """Find arguments that a signature does not have, and required ones that are not given."""
    parameters = list(checked.signature.parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return
    names = [p.name for p in parameters]
    unfolded = any(isinstance(a, ast.Starred) for a in call.args)
    unfolded |= any(k.arg is None for k in call.keywords)
    positional = [] if unfolded else call.args
    keywords = [k.arg for k in call.keywords if k.arg is not None]
    passed = [*names[: len(positional)], *(k for k in keywords if k in names)]
    required = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    fault = checked.fault(
        [name for name in names if name in passed],
        max(0, len(positional) - len(names)),
        [k for k in keywords if k not in names],
        [] if unfolded else [name for name in required if name not in passed],
        _may_be_tensor(unit, call, names[0] if names else ""),
    )
    twice = [name for name in keywords if name in names[: len(positional)]]
    if fault is None and not twice:
        return
    if is_guarded(unit, call, checked.name):
        return
    if fault is None:
        message = f"{checked.name} gets {twice[0]} by position and by name"
        yield Found(BAD_CALL, call, message, f"remove {twice[0]}=", operand=twice[0])
        return
    yield Found(
        fault.rule,
        call,
        fault.message,
        fault.fix,
        seen=fault.seen,
        operand=fault.operand,
        allowed=fault.allowed,
        instruction=checked.name,
        data=fault.data,
    )


def _may_be_tensor(unit: Unit, call: ast.Call, first: str) -> bool:
    """Return whether the first parameter is given, and as something that may be a tensor."""
    named = [k.value for k in call.keywords if k.arg == first]
    given = call.args[0] if call.args else named[0] if named else None
    if given is None or isinstance(given, (ast.Constant, ast.Tuple, ast.List)):
        return False
    return unit.meaning(given).kind != "nki"


DEPRECATED = declare(
    "A045",
    "deprecated-name",
    "A kernel uses a name or a loop that the release in force deprecates.",
    "a later release does not have it",
    severity="note",
)

_RANGE = ("0.6.0", "range(...), which is unrolled the same")
_NAMES = {
    "nki.language.affine_range": _RANGE,
    "nki.language.sequential_range": _RANGE,
    "nki.language.static_range": _RANGE,
    "nki.language.dynamic_range": ("0.6.0", "nl.fori_loop with the body in a function"),
    "nki.isa.gpsimd_engine": ("0.6.0", "nisa.engine.gpsimd"),
    "nki.isa.scalar_engine": ("0.6.0", "nisa.engine.scalar"),
    "nki.isa.tensor_engine": ("0.6.0", "nisa.engine.tensor"),
    "nki.isa.unknown_engine": ("0.6.0", "nisa.engine.unknown"),
    "nki.isa.vector_engine": ("0.6.0", "nisa.engine.vector"),
    "nki.language.tile_size.psum_fmax": ("0.4.0", "nl.tile_size.psum_bank_fmax"),
    "nki.language.tile_size.total_available_sbuf_size": (
        "0.4.0",
        "nl.tile_size.sbuf_fmax_bytes for a partition, or sbuf_size_bytes for all",
    ),
}
"""Deprecated names: the first version that deprecates them, and the replacement."""

_GONE = "nki.language.dynamic_range"
_WHILE = ("0.6.0", "nl.while_loop with the body in a function")


def check_deprecated(unit: Unit) -> Iterator[Found]:
    """Find deprecated names, and loops on a register."""
    for node, meaning in unit.references:
        if meaning.path in _NAMES and not meaning.assumed:
            since, instead = _NAMES[meaning.path]
            if meaning.path == _GONE and is_traced():
                message = f"nl.dynamic_range does not run under NKI {in_force()}"
                yield Found(RULES["L031"], node, message, f"use {instead}", seen=_GONE)
                continue
            yield from _deprecated(node, meaning.path, since, instead)
    kinds = unit.kinds
    if in_force() == "0.7.0":
        if not is_traced() and unit.is_kernel:
            what = f"{FRONTEND_VARIABLE}={os.environ[FRONTEND_VARIABLE]}"
            yield from _deprecated(unit.node, what, "0.7.0", "the default, which traces the kernel")
        for call in unit.of(ast.Call):
            waits = isinstance(call.func, ast.Attribute) and call.func.attr == "depends_on"
            if waits and not {"kind", None} & {keyword.arg for keyword in call.keywords}:
                what = "depends_on without kind"
                yield from _deprecated(call, what, "0.7.0", "kind=nisa.dependency.runtime")
    for loop in unit.of(ast.While):
        if kinds.of(loop.test) == "register" and not is_traced():
            yield from _deprecated(loop, f"`while {ast.unparse(loop.test)}`", *_WHILE)


def _deprecated(node: ast.AST, what: str, since: str, instead: str) -> Iterator[Found]:
    version = in_force()
    if VERSIONS.index(version) >= VERSIONS.index(since):
        message = f"{what} is deprecated in NKI {version}"
        yield Found(DEPRECATED, node, message, f"use {instead}", seen=what)
