"""Dispatch of instructions: declaration, argument binding, lookup of the plan."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from nkisim import versions
from nkisim.diagnostics import NkiCallError, flag
from nkisim.machine.calls.plan import Plan, make_plan
from nkisim.machine.core import CORE, Core, current_core
from nkisim.machine.handles import handle_of
from nkisim.memory import NkiTensor
from nkisim.spec import enums, rules
from nkisim.spec.call import Call, arguments_read
from nkisim.spec.constants import check_constant
from nkisim.spec.instruction import INSTRUCTIONS, Instruction
from nkisim.spec.ops import Op
from nkisim.spec.signatures import CALLS, MASK, CheckedCall, Removal, Removed, publish
from nkisim.versions import found_in

_BY_VALUE = frozenset(
    {Op, str, type(None), *(kind for kind in vars(enums).values() if isinstance(kind, type))}
)
"""Types whose values are used as keys unchanged."""

_EVERYWHERE: Removed = {
    "mask": MASK,
    "dtype": Removal(rules.REMOVED_DTYPE, "allocate dst with the wanted dtype"),
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
            plan = core.plans.add(key, _first_plan(declared.at(core.version), values, core))
        plan.run(core, values)
        return handle_of(core, declared.name) if core.handles else None

    tiles = {p for p, operand in declared.operands.items() if not operand.scalar}

    checked = CheckedCall(declared.name, declared.signature, declared.removed, tiles)
    call = publish(checked, execute, declared.body)
    for function in {*call.in_version.values()}:  # type: ignore[attr-defined]
        function.declaration = declared
        function.__doc__ = declared.documentation(function.__signature__.parameters)
    return call


def _refuse_other_versions(declared: Instruction, values: tuple[Any, ...], version: str) -> None:
    """Flag a call of a function, or with an argument or operator, that a version does not have.

    A function has the name and signature of the version that was in force at its import, but the
    version of the call decides what is legal.
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
    """Return a name in a call that ``version`` lacks and a version that has it, or None."""
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
    varying = [i for i, p in enumerate(parameters) if p.name in declared.varying]
    without = {*declared.operands, *declared.varying, "name"}  # ``name`` is used in messages only
    others = [(i, p.default) for i, p in enumerate(parameters) if p.name not in without]
    usual = [*(_static_key(p.default) for p in parameters), declared.name]

    def key_of(values: tuple[Any, ...]) -> tuple[Any, ...]:
        key = usual.copy()
        for i in operands:
            value = values[i]
            known = isinstance(value, NkiTensor) and value.form.layout >= 0
            key[i] = value.form.layout if known else _operand_key(value)
        for i, default in others:
            if values[i] is not default:
                key[i] = _static_key(values[i])
        for i in varying:
            kind = type(values[i])
            key[i] = kind if kind in _NUMBERS else _static_key(values[i])
        return tuple(key)

    return key_of


_NUMBERS = (int, float)
"""Types of varying arguments whose values are not part of the key."""


def _first_plan(declared: Instruction, values: tuple[Any, ...], core: Core) -> Plan | _VaryingPlan:
    """Return the plan of all calls with the key of a call."""
    numbers = [
        i
        for i, name in enumerate(declared.parameters)
        if name in declared.varying and type(values[i]) in _NUMBERS
    ]
    return _VaryingPlan(declared, numbers) if numbers else make_plan(declared, values, core)


class _VaryingPlan:
    """The plans of calls that differ only in numbers that ``Instruction.varying`` names.

    Calls with legal numbers share one plan; every other call has its own plan. New numbers are
    checked by those constraints only that read a varying argument in the first call: the other
    constraints read none in any call with the same key.
    """

    __slots__ = ("checks", "declared", "names", "numbers_of", "plans", "shared", "varying")

    def __init__(self, declared: Instruction, numbers: list[int]) -> None:
        self.declared = declared
        self.names = declared.parameters
        self.varying = {self.names[i] for i in numbers}
        self.numbers_of = itemgetter(*numbers)
        self.plans: dict[Any, Plan] = {}
        self.shared: Plan | None = None
        self.checks: list[Callable[[Call], None]] = []

    def run(self, core: Core, values: tuple[Any, ...]) -> None:
        """Execute a call with the plan of its numbers."""
        numbers = self.numbers_of(values)
        plan = self.plans.get(numbers)
        if plan is None:
            if len(self.plans) >= _MOST_NUMBERS:
                self.plans.clear()
            plan = self.plans[numbers] = self._plan(core, values)
        plan.run(core, values)

    def _plan(self, core: Core, values: tuple[Any, ...]) -> Plan:
        """Check a call with new numbers, and return its plan."""
        call = Call(self.declared, dict(zip(self.names, values, strict=True)), core.generation)
        plan = self.shared
        if plan is None:
            plan = make_plan(self.declared, values, core)
            self.checks = _checks_of(self.declared, self.varying, call)
        for check in self.checks:
            check(call)
        if not call.violations and not call.normalised:
            self.shared = plan
        elif plan is self.shared:
            plan = make_plan(self.declared, values, core)
        return plan


def _checks_of(
    declared: Instruction, varying: set[str], call: Call
) -> list[Callable[[Call], None]]:
    """Return the checks of an instruction that read one of its varying arguments."""
    kinds = [functools.partial(check_constant, name=name) for name in sorted(varying)]
    checks: list[Callable[[Call], None]] = [*kinds, *(c.check for c in declared.require)]
    return [check for check in checks if arguments_read(check, call) & varying]


_MOST_NUMBERS = 1 << 12
"""Largest number of entries of ``_VaryingPlan.plans``; beyond it the cache is cleared."""

_FLOAT, _ZERO = (float, False), (float, True)
_EXACT = 1 << 24


def _operand_key(value: Any) -> Any:
    """Return the key of a tensor operand: the layout of a tensor, or the kind of a number.

    A number may change in every iteration of a loop. The key of a float, and of an integer that is
    exact in float32, is therefore its type and whether it is 0. The key of a layout is an integer,
    and no other key is one.
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
