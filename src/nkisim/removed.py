"""Names that an NKI version does not have, and arguments that its functions do not take."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from nkisim import versions
from nkisim.diagnostics import (
    RECORDER,
    NkiCallError,
    NkiValidationError,
    Place,
    Rule,
    Severity,
    declare,
    flag,
    hide_own_frames,
)
from nkisim.intents import DTYPE_NAMES, intent_of, nearest
from nkisim.ways import undecided

BAD_CALL = declare(
    "A025",
    "bad-call",
    "A call does not fit the signature in its NKI version, names a function or a method that the "
    "version does not have, passes something that is no tensor where one is needed, or an argument "
    "that a method of tensors cannot take.",
    "the front end refuses the call",
    meaningless=True,
)


def refuse_argument(
    name: str,
    argument: str,
    value: Any,
    allowed: str,
    fix: str,
    *,
    wanted: str = "",
    got: str = "",
    on_device: bool = False,
) -> NoReturn:
    """Raise A025: an argument is not of a type that a function takes.

    Args:
        name: The function.
        argument: The parameter.
        value: What was passed.
        allowed: The accepted values.
        fix: What to do.
        wanted: What the argument must be, in the message; ``allowed`` unless given.
        got: What it is, in the message; its type unless given.
        on_device: Whether it must be a tensor or a register.
    """
    flag(
        BAD_CALL,
        f"{name}: {argument} must be {wanted or allowed}, got {got or type(value).__name__}",
        instruction=name,
        operand=argument,
        seen=repr(value)[:80],
        allowed=allowed,
        fix=fix,
        error=NkiCallError,
        data={"is_none": value is None} if on_device else None,
    )
    raise AssertionError("unreachable: A025 always raises")


REMOVED_INDEXING = declare(
    "A029",
    "removed-indexing",
    "A kernel uses index tensors or block dimensions of Beta 1.",
    "0.3.0 indexes with slices and access patterns only",
    meaningless=True,
)
REMOVED_ENTRY_POINT = declare(
    "A030",
    "removed-entry-point",
    "A function of an earlier release is used that 0.3.0 does not have.",
    "the name does not exist any more",
    meaningless=True,
)
REMOVED_ALLOCATOR = declare(
    "A031",
    "removed-allocator",
    "Allocation decorators or allocators of nki.compiler are used.",
    "0.3.0 places tensors with address=",
    meaningless=True,
)
DYNAMIC_COPY = declare(
    "A021",
    "dynamic-copy",
    "tensor_copy_dynamic_src or tensor_copy_dynamic_dst is used.",
    "both are deprecated in NKI 0.3.0 and gone in 0.4.0",
    severity="warning",
)

_SLICES = "use slices, nl.ds or .ap(...)"
_RULES = {
    "nki.language": {
        "arange": (REMOVED_INDEXING, _SLICES),
        "mgrid": (REMOVED_INDEXING, _SLICES),
        "par_dim": (REMOVED_INDEXING, "the first dimension is the partition dimension"),
        "atomic_rmw": (REMOVED_ENTRY_POINT, "use nisa.dma_compute"),
        "loop_reduce": (REMOVED_ENTRY_POINT, "accumulate with nisa.tensor_tensor in a loop"),
        "spmd_dim": (REMOVED_ENTRY_POINT, "launch with kernel[lnc]"),
        "nc": (REMOVED_ENTRY_POINT, "launch with kernel[lnc]"),
        "min_max": (REMOVED_ENTRY_POINT, "use nl.max and nl.min"),
    },
    "nki.isa": {
        "tensor_copy_dynamic_src": (DYNAMIC_COPY, "nisa.tensor_copy with .ap(scalar_offset=...)"),
        "tensor_copy_dynamic_dst": (DYNAMIC_COPY, "nisa.tensor_copy with .ap(scalar_offset=...)"),
    },
    "nki": {
        "baremetal": (REMOVED_ENTRY_POINT, "use @nki.jit, or nki.simulate without a device"),
        "benchmark": (REMOVED_ENTRY_POINT, "use @nki.jit and the profiler"),
        "profile": (REMOVED_ENTRY_POINT, "use @nki.jit and the profiler"),
        "simulate_kernel": (REMOVED_ENTRY_POINT, "use nki.simulate(kernel)(*arrays)"),
        "trace": (REMOVED_ENTRY_POINT, "use @nki.jit"),
        "compiler": (REMOVED_ALLOCATOR, "use the address= argument of nl.ndarray"),
    },
}


class NkiRemovedError(NkiValidationError, AttributeError):
    """A name that NKI 0.3.0 does not have; ``hasattr`` returns False for it."""


def hide_modules(names: dict[str, Any], keep: tuple[str, ...] = ()) -> None:
    """Remove submodules from a package's names, so that using one raises with the remedy.

    ``import`` still finds them.
    """
    inner = names["__name__"] + "."
    for name, value in list(names.items()):
        if isinstance(value, ModuleType) and value.__name__.startswith(inner) and name not in keep:
            del names[name]


def by_version(module: str, names: dict[str, Any]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module of NKI, whose names depend on the version in force.

    It takes the names that are not the same in all versions out of ``names``, the module's own, and
    returns those of the version in force; others raise with the remedy. ``dir`` and ``__all__``,
    the public names, follow the version too.
    """
    differing = {name: names.pop(name) for name in list(names) if versions.differs(module, name)}
    refuse = missing_name(module)

    @functools.cache
    def served(version: str) -> dict[str, Any]:
        return {
            name: getattr(found, "in_version", {}).get(version, found)
            for name, found in differing.items()
            if versions.has(version, module, name)
        }

    def there() -> set[str]:
        return {*names, *served(versions.in_force())}

    names["__dir__"] = there

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(name for name in there() if name[0].isalpha())
        found = served(versions.in_force())
        if name in found:
            return found[name]
        try:
            refuse(name)
        except AttributeError as error:
            hide_own_frames(error)
            raise

    return get


def missing_name(module: str) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` that raises with the remedy for names that a module lacks."""

    def get(name: str) -> NoReturn:
        known = name in _RULES.get(module, ())
        if not known and (RECORDER.get() is None or name.startswith("_")):
            # Python searches the exception's ``obj`` for the nearest name.
            home = sys.modules[_home(module)]
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}", name=name, obj=home
            )
        rule, remedy = why_missing(module, name)
        refuse_name(rule, module, name, remedy)

    return get


def removed_names() -> Mapping[str, Mapping[str, tuple[Rule, str]]]:
    """Return the names of other releases by module, with the violated rule and the remedy."""
    return _RULES


def why_missing(module: str, name: str) -> tuple[Rule, str]:
    """Return the rule that the use of a missing name of a module violates, and the remedy."""
    known = versions.VERSIONS if module in versions.names_of("0.3.0") else ()
    having = [version for version in known if versions.has(version, module, name)]
    if having and name not in _RULES.get(module, {}):
        # The next version that has it, or the last one before it was removed.
        version = min((v for v in having if v > versions.in_force()), default=having[-1])
        return BAD_CALL, versions.found_in(version)
    return _RULES.get(module, {}).get(name) or (BAD_CALL, _meant(_home(module), name))


def _home(module: str) -> str:
    """Return the module of this package that implements one of NKI."""
    return module.replace("nki", "nkisim", 1)


_SHORT = {
    "nkisim.isa": "nisa",
    "nkisim.language": "nl",
    "nkisim.collectives": "ncc",
    "nkisim": "nki",
}


def _meant(home: str, name: str) -> str:
    """Return the replacement of a name that does not exist."""
    names = [n for n in dir(sys.modules[home]) if not n.startswith("_")]
    if home in ("nkisim.isa", "nkisim.language") and (text := undecided(name)):
        return text
    intent, here = intent_of(name), _SHORT.get(home, home)
    if intent is not None and (home == "nkisim.isa" or intent.kind == "matmul"):
        return f"write {intent.remedy()}"
    for other, short in _SHORT.items():
        if other != home and other != "nkisim" and name in dir(sys.modules.get(other, sys)):
            return f"it is in the other module: {short}.{name}"
    if intent is not None and home == "nkisim.language":
        same = f"{here}.{intent.function}" if intent.function in names else intent.expression
        return f"write {same or intent.remedy()}"
    if name in DTYPE_NAMES:
        return f"write nl.{DTYPE_NAMES[name]}"
    near = nearest(name, names)
    return f"did you mean {here}.{near}?" if near else f"dir({here}) lists the names"


_DEPRECATED: tuple[str, Severity] = ("is deprecated in NKI 0.3.0", "warning")
_REMOVED: tuple[str, Severity] = ("was removed in NKI 0.4.0", "error")


def missing_text(rule: Rule, full_name: str) -> tuple[str, Severity]:
    """Return message and severity for a name that the version in force lacks."""
    version = versions.in_force()
    if rule is not DYNAMIC_COPY:
        return f"{full_name} does not exist in NKI {version}", rule.severity
    text, severity = versions.at(version, _DEPRECATED, {"0.4.0": _REMOVED})
    return f"{full_name} {text}", severity


def refuse_name(
    rule: Rule, module: str, name: str, remedy: str, place: Place | None = None
) -> NoReturn:
    """Raise the error of a rule for a name that the version in force lacks."""
    full_name = f"{module}.{name}"
    message, severity = missing_text(rule, full_name)
    flag(
        rule,
        message,
        operand=name,
        seen=full_name,
        fix=remedy,
        place=place,
        severity=severity,
        error=NkiRemovedError,
        data={"module": module},
        stops=True,
    )
    raise AssertionError("unreachable: the rules of removed names always raise")


def is_deprecated(module: str, name: str) -> bool:
    """Return whether the version in force has a name that it deprecates."""
    known = name in _RULES.get(module, ())
    return known and versions.has(versions.in_force(), module, name)


def flag_dynamic_copy(name: str) -> None:
    """Flag the use of a deprecated copy, or raise where the version in force does not have it."""
    rule, remedy = _RULES["nki.isa"][name]
    full_name = f"nki.isa.{name}"
    if not is_deprecated("nki.isa", name):
        refuse_name(rule, "nki.isa", name, remedy)
    message, severity = missing_text(rule, full_name)
    flag(rule, message, operand=name, seen=full_name, fix=remedy, severity=severity)
