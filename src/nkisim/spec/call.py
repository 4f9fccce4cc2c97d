"""One call of an instruction for its static checks: all arguments, without tensor values."""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, NamedTuple, Protocol

from nkisim.arch import Generation
from nkisim.diagnostics import Fact, NkiCallError, NkiValidationError, Rule, Severity, flag
from nkisim.memory import NkiTensor
from nkisim.spec.enums import engine as Engine
from nkisim.spec.operands import Operand
from nkisim.spec.ops import Op, as_op


class Violation(NamedTuple):
    """A violated constraint, to be flagged at the line of the call.

    ``of_view`` is True when the operand's view breaks the rule, whichever instruction uses it.
    """

    rule: Rule
    message: str
    instruction: str
    operand: str
    seen: object
    allowed: object
    fix: str
    error: type[NkiValidationError]
    severity: Severity | None = None
    facts: tuple[Fact, ...] = ()
    data: Mapping[str, Any] | None = None
    of_view: bool = False

    def flag(self, operand: Any = None) -> None:
        """Raise the error, or record the finding, for the line that the kernel executes.

        Args:
            operand: The operand that breaks the rule; None for the call as a whole.
        """
        view = self.of_view and isinstance(operand, NkiTensor)
        flag(
            self.rule,
            self.message,
            instruction=self.instruction,
            operand=self.operand,
            seen=self.seen,
            allowed=self.allowed,
            fix=self.fix,
            severity=self.severity,
            error=self.error,
            facts=self.facts,
            data=self.data,
            cause=(operand.life.line, operand.form.region) if view else None,
        )


class _Declaration(Protocol):
    """The part of ``Instruction`` that a call uses."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...
    @property
    def engines(self) -> tuple[Engine, ...]: ...
    @property
    def operands(self) -> Mapping[str, Operand]: ...
    @property
    def arithmetic(self) -> Callable[[Call], str]: ...


@dataclass(slots=True)
class Call:
    """The arguments of a call by name, and the target.

    Attributes:
        instruction: The called instruction.
        values: Arguments by parameter name, defaults filled in.
        generation: Target of the run.
        engine: Engine that executes the call; set once the operands are validated.
        violations: Violations found so far.
        normalised: Normalised arguments that replace the given ones in every call of the signature.
    """

    instruction: _Declaration
    values: MutableMapping[str, Any]
    generation: Generation
    engine: Engine = Engine.unknown
    violations: list[Violation] = field(default_factory=list)
    normalised: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the instruction."""
        return self.instruction.name

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def tensor(self, name: str) -> NkiTensor | None:
        """Return an argument if it is a tensor."""
        value = self.values[name]
        return value if isinstance(value, NkiTensor) else None

    def operand(self, name: str) -> NkiTensor:
        """Return an argument that is always a tensor."""
        value: NkiTensor = self.values[name]
        return value

    def tensors(self, *names: str) -> list[tuple[str, NkiTensor]]:
        """Return name and value of each named argument that is a tensor."""
        return [(n, t) for n in names if (t := self.tensor(n)) is not None]

    def op(self, name: str) -> Op | None:
        """Return an argument as an operator."""
        return as_op(self.values[name])

    def normalise(self, name: str, value: Any) -> None:
        """Replace an argument by its normalised form."""
        self.values[name] = self.normalised[name] = value

    def fail(
        self,
        rule: Rule,
        message: str,
        *,
        operand: str = "",
        seen: object = "",
        allowed: object = "",
        fix: str = "",
        named: bool = True,
        severity: Severity | None = None,
        error: type[NkiValidationError] = NkiValidationError,
        data: Mapping[str, Any] | None = None,
        of_view: bool = False,
    ) -> None:
        """Add a violation; one without a natural result stops the checks immediately.

        The message begins with the instruction's name unless ``named`` is False. ``severity``
        replaces the severity of the rule in this case.
        """
        text = f"{self.name} {message}" if named else message
        violation = Violation(
            *(rule, text, self.name, operand, seen, allowed, fix, error, severity, self._facts()),
            data=data,
            of_view=of_view,
        )
        if rule.meaningless:
            violation.flag()
        self.violations.append(violation)

    def _facts(self) -> tuple[Fact, ...]:
        return tuple(
            Fact(
                name,
                "",
                tensor.shape,
                str(tensor.dtype),
                tensor.buffer.value,
                tensor.life.shape,
                tuple((step, count) for step, count in tensor.get_pattern()),
                tensor.offset,
            )
            for name, tensor in self.tensors(*self.values)
        )

    def fail_call(self, rule: Rule, message: str, **details: Any) -> None:
        """Add a violation of the signature itself."""
        self.fail(rule, message, error=NkiCallError, **details)


class _Recorded(UserDict[str, Any]):
    """Arguments of a call that records which of them are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.data[name]


def arguments_read(check: Callable[[Call], object], call: Call) -> set[str]:
    """Return the names of the arguments that ``check`` reads of a call.

    What ``check`` reads depends only on the arguments that it has read. If it reads none of some
    arguments here, it reads none of them in any call with the same other arguments.
    """
    recorded = _Recorded(call.values)
    check(dataclasses.replace(call, values=recorded, violations=[], normalised={}))
    return recorded.read
