"""Dispatch of instructions: declaration, argument binding, lookup of the plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim import versions
from nkisim.diagnostics import NkiCallError, flag
from nkisim.machine.core import CORE, current_core
from nkisim.machine.handles import handle_of
from nkisim.machine.plan import make_plan
from nkisim.memory import NkiTensor
from nkisim.spec import enums, rules
from nkisim.spec.instruction import INSTRUCTIONS, Instruction
from nkisim.spec.ops import Op
from nkisim.spec.signatures import CALLS, CheckedCall, Removed, publish
from nkisim.versions import found_in

__all__ = ["instruction"]

_BY_VALUE = frozenset(
    {Op, str, type(None), *(kind for kind in vars(enums).values() if isinstance(kind, type))}
)
"""Types whose values are used as keys unchanged."""

_EVERYWHERE: Removed = {
    "mask": (rules.REMOVED_MASK, "slice every operand to the valid extent"),
    "dtype": (rules.REMOVED_DTYPE, "allocate dst with the wanted dtype"),
}


def instruction(
    *, removed: Removed | None = None, **declaration: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an instruction; the decorated function is its body.

    Bodies of ``stateful`` instructions take the core first; it is not part of the public
    signature.
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(body)
        parameters = list(signature.parameters.values())
        if declaration.get("stateful"):
            parameters = parameters[1:]
        public = inspect.Signature(
            [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
        )
        declared = Instruction(
            name=body.__name__,
            signature=public,
            body=body,
            removed={**_EVERYWHERE, **(removed or {})},
            **declaration,
        )
        INSTRUCTIONS[declared.name] = declared
        return _callable(declared)

    return decorate


def _callable(declared: Instruction) -> Callable[..., Any]:
    """Return the public function: bind, look up the plan, run it."""
    key_of = _key_maker(declared)

    def execute(*values: Any) -> Any:
        core = CORE.get() or current_core(f"nisa.{declared.name}")
        key = key_of(values)
        plan = core.plans.get(key)
        if plan is None:
            _refuse_other_versions(declared, values, core.version)
            plan = core.plans.add(key, make_plan(declared.at(core.version), values, core))
        plan.run(core, values)
        return handle_of(core, declared.name) if core.handles else None

    tiles = {p for p, operand in declared.operands.items() if not operand.scalar}

    checked = CheckedCall(declared.name, declared.signature, declared.removed, tiles)
    call = publish(checked, execute, declared.body)
    for function in {*call.in_version.values()}:  # type: ignore[attr-defined]
        function.declaration = declared
    return call


def _refuse_other_versions(declared: Instruction, values: tuple[Any, ...], version: str) -> None:
    """Flag a call of a function, or with an argument or operator, that a version does not have.

    Names and signatures are those of the version in force when a function was imported.
    """
    missing = _of_other_versions(declared, values, version)
    if missing is None:
        return
    what, other = missing
    flag(
        rules.BAD_CALL,
        f"{what} does not exist in NKI {version}",
        instruction=declared.name,
        operand=what,
        seen=what,
        fix=found_in(other),
        error=NkiCallError,
    )


def _of_other_versions(
    declared: Instruction, values: tuple[Any, ...], version: str
) -> tuple[str, str] | None:
    """Return what a version lacks of a call, and a version that has it; None if it has all."""
    calls = CALLS[declared.name]
    known = calls.get(version)
    if known is None:
        return f"nki.isa.{declared.name}", next(iter(calls))
    there = known.signature.parameters
    for parameter, value in zip(declared.signature.parameters.values(), values, strict=True):
        if parameter.name not in there and value is not parameter.default:
            having = (v for v, call in calls.items() if parameter.name in call.signature.parameters)
            return f"{declared.name}({parameter.name}=)", next(having)
        if type(value) is Op and versions.differs("nki.language", value.name):
            having = (v for v in versions.VERSIONS if versions.has(v, "nki.language", value.name))
            if not versions.has(version, "nki.language", value.name):
                return f"{value!r}", next(having)
    return None


def _key_maker(declared: Instruction) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return the function that computes the key of a plan from the arguments of a call."""
    parameters = list(declared.signature.parameters.values())
    operands = [i for i, p in enumerate(parameters) if p.name in declared.operands]
    varying = [
        (i, declared.varying[p.name])
        for i, p in enumerate(parameters)
        if p.name in declared.varying
    ]
    without = {*declared.operands, *declared.varying, "name"}  # the name is only for messages
    others = [(i, p.default) for i, p in enumerate(parameters) if p.name not in without]
    usual = [*(_static_key(p.default) for p in parameters), declared.name]

    def key_of(values: tuple[Any, ...]) -> tuple[Any, ...]:
        key = usual.copy()
        for i in operands:
            value = values[i]
            known = type(value) is NkiTensor and value.form.layout >= 0
            key[i] = value.form.layout if known else _operand_key(value)
        for i, default in others:
            if values[i] is not default:
                key[i] = _static_key(values[i])
        for i, breaks_no_rule in varying:
            plain = type(values[operands[0]]) is NkiTensor and breaks_no_rule(*values)
            key[i] = type(values[i]) if plain else _static_key(values[i])
        return tuple(key)

    return key_of


_FLOAT, _ZERO = (float, False), (float, True)
_EXACT = 1 << 24


def _operand_key(value: Any) -> Any:
    """Return the key of a tensor operand: its layout, or the kind of number.

    Numbers change from call to call of a loop, so the key of a float, and of an integer exact in
    float32, is only whether it is 0. Layout keys are numbers: the key of anything else never is.
    """
    kind = type(value)
    if kind is NkiTensor:
        return value.layout
    if kind is float:
        return _ZERO if value == 0.0 else _FLOAT
    if kind is int and -_EXACT <= value <= _EXACT:
        return (int, value == 0)
    return None if value is None else _static_key(value)


def _static_key(value: Any) -> Any:
    """Return the key of any other argument: its type and value."""
    kind = type(value)
    if kind in _BY_VALUE:
        return value
    if kind is bool or kind is int:  # equal keys of different arguments
        return (kind, value)
    if kind is NkiTensor:
        return (NkiTensor, value.layout)
    if isinstance(value, (list, tuple)):
        return (kind, *map(_static_key, value))
    if isinstance(value, np.ndarray):
        return (kind, value.shape, value.dtype.str, value.tobytes())
    if value != value:  # NaN is unequal to itself
        return (kind, "nan")
    try:
        hash(value)
    except TypeError:
        return kind
    # True, 1, 1.0 and NumPy's ones are equal keys but different arguments.
    return (kind, value)
