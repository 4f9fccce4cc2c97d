"""Signatures of a function in each NKI version, and errors for calls that do not match one."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar

from nkisim import versions
from nkisim.diagnostics import NkiCallError, NkiValidationError, Rule, flag, hide_own_frames
from nkisim.intents import argument_meant, nearest
from nkisim.spec import enums, rules

_MODULES = ("nki.isa", "nki.collectives")


def home_of(name: str) -> tuple[str, str]:
    """Return module and name of a function from its name in messages, such as ``nl.load``."""
    if name.startswith("nl."):
        return "nki.language", name.removeprefix("nl.")
    newest = versions.VERSIONS[::-1]
    for module in _MODULES:
        if any(versions.has(version, module, name) for version in newest):
            return module, name
    return _MODULES[0], name


def signatures(name: str, declared: inspect.Signature) -> dict[str, inspect.Signature]:
    """Return the signature of a function in each version that has it.

    Args:
        name: Its name in messages.
        declared: All parameters that it has in any version. A version defines which of them exist,
            their order and their defaults.

    Functions that no version documents have the declared signature in all of them.
    """
    module, plain = home_of(name)
    found: dict[str, inspect.Signature] = {}
    made: dict[str, inspect.Signature] = {}
    for version in versions.VERSIONS:
        text = versions.parameters(version, module, plain)
        if text is not None:
            if text not in made:
                made[text] = _signature(text, declared)
            found[version] = made[text]
    return found or dict.fromkeys(versions.VERSIONS, declared)


def _signature(text: str, declared: inspect.Signature) -> inspect.Signature:
    """Return the signature that a version's text describes."""
    parameters = []
    for name, value in parsed_parameters(text):
        parameter = declared.parameters[name]
        default: Any = parameter.empty if value is None else _value(value, parameter.default)
        same = default is parameter.default
        parameters.append(parameter if same else parameter.replace(default=default))
    unchanged = [*map(id, parameters)] == [*map(id, declared.parameters.values())]
    return declared if unchanged else inspect.Signature(parameters)


@functools.cache
def parsed_parameters(text: str) -> list[tuple[str, ast.expr | None]]:
    """Return the names of parameters and their defaults; many functions have the same text."""
    arguments = ast.parse(f"lambda {text}: 0", mode="eval").body.args  # type: ignore[attr-defined]
    required = [None] * (len(arguments.args) - len(arguments.defaults))
    by_position = zip(arguments.args, [*required, *arguments.defaults], strict=True)
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [(argument.arg, value) for argument, value in (*by_position, *by_name)]


def _value(default: ast.expr, declared: Any) -> Any:
    """Return the value of a default: a literal, a member of an enum, or the declared object."""
    if isinstance(default, ast.Attribute) and isinstance(default.value, ast.Name):
        kind = getattr(enums, default.value.id, None)
        return declared if kind is None else kind[default.attr]
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return declared
    return declared if type(declared) is type(value) and declared == value else value


class Removal(NamedTuple):
    """A keyword that a function does not have any more.

    Attributes:
        rule: The violated rule.
        fix: Fix, in words.
        renamed: The parameter that has its meaning now, where there is one.
    """

    rule: Rule
    fix: str
    renamed: str = ""


Removed = Mapping[str, Removal]
"""Keywords of earlier releases."""

Refuse = Callable[[Mapping[str, Any], tuple[Any, ...], Mapping[str, Any]], NoReturn]
"""Callback that reports a call that does not match; same arguments as ``CheckedCall.reject``."""

F = TypeVar("F", bound=Callable[..., Any])

_RETURNED = ("nothing", {"0.6.0": "no tensor"})
"""Result of an instruction in words, by version."""

MASK = Removal(rules.REMOVED_MASK, "slice every operand to the valid extent")
"""The removed keyword ``mask``, which every function had."""


def call_text(name: str, signature: inspect.Signature) -> str:
    """Return the text of a call: the parameters and their defaults, without annotations."""
    parts = []
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        value = str(p.default) if isinstance(p.default, Enum) else repr(p.default)
        parts.append(p.name if p.default is p.empty else f"{p.name}={value}")
    return f"{name}({', '.join(parts)})"


class _Missing:
    """Sentinel for an argument that was not given."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()
"""Sentinel default of required parameters, in functions that accept any arguments."""


def open_function(
    name: str,
    signature: inspect.Signature,
    call: Callable[..., Any],
    refuse: Refuse,
    declared: inspect.Signature | None = None,
) -> FunctionType:
    """Return a function with a given signature that also receives calls that do not match it.

    It binds its arguments and passes them to ``call`` by position. Python rejects a call that does
    not match before the function runs, and ``Signature.bind`` takes longer than a small
    instruction. So required parameters have a sentinel default, and surplus or unknown arguments
    are accepted and rejected here. Only an argument that is given twice is rejected by Python.

    The function is compiled at its first call, because a program calls few of all functions.

    Args:
        name: Its name.
        signature: Of parameters that can be given by position and by name, or by name alone.
        call: Implementation; takes an argument for every parameter.
        refuse: Called with the arguments by name, the surplus positional arguments, and the
            arguments with unknown names.
        declared: All parameters of ``call``; parameters that the signature lacks get their
            defaults.
    """
    parameters = signature.parameters.values()
    every = (declared or signature).parameters
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    by_position = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]

    def compiled() -> None:
        _UNCOMPILED.pop(opened, None)
        lacking = "".join(f" or {p.name} is _MISSING" for p in parameters if p.default is p.empty)
        named = ", ".join(f"{p.name!r}: {p.name}" for p in parameters)
        passed = ", ".join(
            (f"{p.name}=" if p.kind is p.KEYWORD_ONLY else "")
            + (p.name if p.name in signature.parameters else f"_default_{p.name}")
            for p in every.values()
        )
        opened.__code__ = _code(
            name,
            ", ".join([*by_position, "*_more", *by_name, "**_unknown"]),
            f"if _more or _unknown{lacking}: _refuse({{{named}}}, _more, _unknown)",
            f"return _call({passed})",
        )

    defaults = {
        p.name: MISSING if p.default is p.empty else p.default
        for p in (*every.values(), *parameters)
    }
    scope = {f"_default_{parameter}": default for parameter, default in defaults.items()}
    scope |= {
        "_MISSING": MISSING,
        "_refuse": refuse,
        "_call": call,
        "_parameters": [*every.values()],
    }
    scope |= {"_Finding": NkiValidationError, "_hide_own_frames": hide_own_frames}
    opened = FunctionType(_FIRST_CALL, scope, name)
    opened.__defaults__ = tuple(defaults[parameter] for parameter in by_position)
    opened.__kwdefaults__ = {parameter: defaults[parameter] for parameter in by_name}
    scope |= {"_compiled": compiled, "_function": opened}
    _UNCOMPILED[opened] = compiled
    return opened


_UNCOMPILED: dict[FunctionType, Callable[[], None]] = {}
"""The functions that were not called yet, each with the callback that compiles it."""


def compile_all() -> None:
    """Compile the functions that were not called yet."""
    for compiled in [*_UNCOMPILED.values()]:
        compiled()


def _code(name: str, parameters: str, *statements: str) -> CodeType:
    """Return the code of a function; outside a kernel it hides nkisim's frames of a finding."""
    body = "".join(f"        {statement}\n" for statement in statements)
    source = (
        f"def {name}({parameters}):\n"
        f"    try:\n{body}"
        "    except _Finding as error:\n"
        "        _hide_own_frames(error)\n"
        "        raise\n"
    )
    # private: a function of a given signature can only be made from source text; compile is a
    # builtin of every Python. The file name exists nowhere, so tracebacks show no source line of
    # the function. A bare raise does not add the frame a second time.
    module = compile(source, f"{Path(__file__).parent}/<{name}>", "exec")
    return next(part for part in module.co_consts if isinstance(part, CodeType))


_FIRST_CALL = _code(
    "first_call", "*given, **named", "_compiled()", "return _function(*given, **named)"
)


class CallFault(NamedTuple):
    """The reason why a call does not match a signature; the fields are as in a Finding."""

    rule: Rule
    message: str
    operand: str
    seen: str
    allowed: str
    fix: str
    data: Mapping[str, Any] = MappingProxyType({})


class CheckedCall(NamedTuple):
    """The declaration of a callable function.

    Attributes:
        name: Its name in messages.
        signature: Its signature.
        removed: Keywords of earlier releases.
        tiles: The parameters that must be tensors.
        misfit: The rule that missing arguments violate, if it is not the general one.
    """

    name: str
    signature: inspect.Signature
    removed: Removed
    tiles: Collection[str] = ()
    misfit: Rule | None = None

    def fault(
        self,
        passed: Collection[str],
        more: int,
        unknown: Collection[str],
        missing: Collection[str],
        first_is_tensor: bool,
    ) -> CallFault | None:
        """Return why a call does not match: a removed keyword, no destination, a typo; or None.

        Args:
            passed: The parameters that the call gives.
            more: Number of positional arguments beyond the last parameter.
            unknown: Keywords that are no parameters.
            missing: Required parameters that the call does not give.
            first_is_tensor: Whether the first parameter is given, as a tensor.
        """
        accepted = list(self.signature.parameters)
        written = call_text(self.name, self.signature)
        for keyword in unknown:
            return self._unknown(keyword, [p for p in accepted if p not in passed], written)
        seen = ", ".join(passed)
        without = f"{self.name} is called without {', '.join(missing)}"
        # A Beta 1 call has no dst: its last tile is missing, or its first argument is no tensor.
        shifted = not first_is_tensor or set(missing) <= set(self.tiles)
        if "dst" in self.tiles and missing and passed and shifted:
            returned = versions.at(versions.in_force(), *_RETURNED)
            message = f"{without}: instructions return {returned}, dst comes first"
            fix = "allocate dst with nl.ndarray and pass it as the first argument"
            return CallFault(rules.NO_DESTINATION, message, "dst", seen, written, fix)
        if not missing and not more:
            return None
        many = f"{self.name} takes {len(accepted)} arguments, not {len(accepted) + more}"
        return CallFault(
            self.misfit or rules.BAD_CALL,
            without if missing else many,
            "",
            seen or "no arguments",
            written,
            f"call {written}",
        )

    def _unknown(self, keyword: str, free: list[str], written: str) -> CallFault:
        """Return the fault of a keyword that is no parameter."""
        accepted = list(self.signature.parameters)
        data = {"keyword": keyword}
        if keyword in self.removed:
            rule, remedy, renamed = self.removed[keyword]
            data |= {"renamed": renamed} if renamed else {}
            message = f"{self.name} has no argument {keyword}= in NKI {versions.in_force()}"
        else:
            rule, message = rules.BAD_CALL, f"{self.name} has no argument {keyword}="
            in_version = CALLS.get(self.name, {}).items()
            having = [v for v, call in in_version if keyword in call.signature.parameters]
            near = argument_meant(keyword, free) or nearest(keyword, accepted)
            remedy = f"did you mean {near}=? " if near else ""
            if having:
                remedy = f"{versions.found_in(having[0])}. "
            if keyword.startswith("transpose") and self.name == "nc_matmul":
                remedy = "transpose the operand first, with nisa.nc_transpose. "
            remedy += f"The signature is {written}"
        return CallFault(rule, message, keyword, keyword, ", ".join(accepted), remedy, data)

    def reject(
        self, given: Mapping[str, Any], more: tuple[Any, ...], unknown: Mapping[str, Any]
    ) -> NoReturn:
        """Raise for a call that does not match.

        Args:
            given: The arguments by parameter; MISSING, or the default, for those not given.
            more: Arguments beyond the last parameter.
            unknown: Arguments with unknown names.
        """
        defaults = {p.name: p.default for p in self.signature.parameters.values()}
        passed = [p for p, x in given.items() if x is not MISSING and x is not defaults[p]]
        missing = [p for p, x in given.items() if x is MISSING]
        first = next(iter(given.values()), MISSING)
        fault = self.fault(passed, len(more), unknown, missing, hasattr(first, "dtype"))
        assert fault is not None, "only calls that do not match are rejected"
        flag(
            fault.rule,
            fault.message,
            instruction=self.name,
            operand=fault.operand,
            seen=fault.seen,
            allowed=fault.allowed,
            fix=fault.fix,
            data=fault.data,
            error=NkiCallError,
        )
        raise AssertionError("unreachable: A025 always raises")


CALLS: dict[str, dict[str, CheckedCall]] = {}
"""Every function of NKI whose calls are checked, by its name in messages and by version."""

PUBLISHED: dict[str, Mapping[str, FunctionType]] = {}
"""The function of each of ``CALLS`` in each version; versions may share one."""

Observer = Callable[[str, FunctionType, Callable[..., Any], dict[str, Any]], Any]
"""Callback for a call: name, function, implementation by parameters, and the arguments."""


@contextlib.contextmanager
def intercepted(observe: Observer) -> Iterator[None]:
    """Replace the implementations of all functions in ``PUBLISHED`` inside this context.

    ``observe`` is called in their place, with every parameter of the implementation bound, and
    returns the result. Outside of the context a call costs nothing more.
    """
    replaced: list[tuple[dict[str, Any], Any]] = []
    for name, functions in PUBLISHED.items():
        for function in {*functions.values()}:
            scope = function.__globals__
            replaced.append((scope, scope["_call"]))
            scope["_call"] = _observed(observe, name, function)
    try:
        yield
    finally:
        for scope, implementation in replaced:
            scope["_call"] = implementation


def _observed(observe: Observer, name: str, function: FunctionType) -> Callable[..., Any]:
    implementation, parameters = function.__globals__["_call"], function.__globals__["_parameters"]
    by_position = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]

    def implemented(**given: Any) -> Any:
        values = [given.pop(parameter) for parameter in by_position]
        return implementation(*values, **given)

    def call(*values: Any, **named: Any) -> Any:
        given = dict(zip(by_position, values, strict=True)) | named
        return observe(name, function, implemented, given)

    return call


def parameters_of(name: str) -> list[str]:
    """Return the parameters of an instruction in the version in force, else in its oldest one."""
    known = CALLS[name]
    version = versions.in_force()
    found = known.get(version) or next(iter(known.values()))
    return list(found.signature.parameters)


def publish(
    checked: CheckedCall, call: Callable[..., Any], model: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that checks its calls, with the signature of the oldest version.

    Its ``in_version`` maps each version that has the function to the function for that version.
    Versions with equal parameters share one function.

    Args:
        checked: The declaration, with the parameters of all versions.
        call: Implementation; takes an argument for every declared parameter.
        model: The function whose name and docstring it takes.
    """
    assert checked.name not in PUBLISHED, f"{checked.name} is declared twice"
    made: dict[int, FunctionType] = {}
    calls: dict[str, CheckedCall] = {}
    functions: dict[str, FunctionType] = {}
    for version, signature in signatures(checked.name, checked.signature).items():
        of_version = checked._replace(signature=signature)
        calls[version] = of_version
        if id(signature) not in made:
            function = open_function(
                model.__name__, signature, call, of_version.reject, checked.signature
            )
            functools.update_wrapper(function, model)
            del function.__wrapped__  # type: ignore[attr-defined]
            function.__signature__ = signature  # type: ignore[attr-defined]
            made[id(signature)] = function
        functions[version] = made[id(signature)]
    for function in made.values():
        function.in_version = functions  # type: ignore[attr-defined]
    CALLS[checked.name], PUBLISHED[checked.name] = calls, functions
    return next(iter(functions.values()))


def checked_call(
    name: str,
    removed: Removed | None = None,
    *,
    tiles: Collection[str] = (),
    misfit: Rule | None = None,
    changes: Mapping[str, Callable[..., Any]] | None = None,
) -> Callable[[F], F]:
    """Decorate a function so that calls that do not match its signature raise with the fix.

    Args:
        name: Its name in messages.
        removed: Keywords of earlier releases.
        tiles: The parameters that must be tensors.
        misfit: The rule that a call with missing arguments violates, if not the general one.
        changes: By NKI version, the function that replaces this one from that version on; it has
            the same parameters.
    """
    known = {"mask": MASK, **(removed or {})}

    def decorate(function: F) -> F:
        def changed(*values: Any) -> Any:
            meant: Callable[..., Any] = function
            meant = versions.at(versions.in_force(), meant, changes or {})
            return meant(*values)

        checked = CheckedCall(name, inspect.signature(function), known, tiles, misfit)
        return publish(checked, changed if changes else function, function)  # type: ignore[return-value]

    return decorate
