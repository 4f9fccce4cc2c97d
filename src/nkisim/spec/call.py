"""One call of an instruction, seen by its static checks: everything but the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, Protocol

from nkisim.arch import Generation
from nkisim.diagnostics import Fact, NkiCallError, NkiValidationError, Rule, Severity, flag
from nkisim.memory import NkiTensor
from nkisim.spec.enums import engine as Engine
from nkisim.spec.operands import Operand
from nkisim.spec.ops import Op, as_op

__all__ = ["Call", "Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken constraint, ready to be flagged at whatever line makes the call."""

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

    def flag(self) -> None:
        """Raise or record it for the line that is running now."""
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
        )


class Declaration(Protocol):
    """What a call knows of the instruction that is called: see ``Instruction``."""

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
    """The arguments of a call, by name, with what is known about the target.

    Attributes:
        instruction: What is called.
        values: Arguments by parameter name, defaults filled in.
        generation: Target of the run.
        engine: Engine that executes the call; set once the operands are known to be sound.
        violations: What was found so far.
        mended: Arguments that every call of the signature has in place of the given ones.
    """

    instruction: Declaration
    values: dict[str, Any]
    generation: Generation
    engine: Engine = Engine.unknown
    violations: list[Violation] = field(default_factory=list)
    mended: dict[str, Any] = field(default_factory=dict)

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
        """Return an argument that is a tensor in every call, as its declaration says."""
        value: NkiTensor = self.values[name]
        return value

    def tensors(self, *names: str) -> list[tuple[str, NkiTensor]]:
        """Return those of the named arguments that are tensors."""
        return [(n, t) for n in names if (t := self.tensor(n)) is not None]

    def op(self, name: str) -> Op | None:
        """Return an argument as an operator."""
        return as_op(self.values[name])

    def mend(self, name: str, value: Any) -> None:
        """Replace an argument by what it stands for."""
        self.values[name] = self.mended[name] = value

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
    ) -> None:
        """Add a violation; one that leaves no natural result stops the checks at once.

        The message begins with the instruction's name unless ``named`` is False. ``severity`` is
        that of this case, where it differs from the rule's.
        """
        text = f"{self.name} {message}" if named else message
        violation = Violation(
            rule, text, self.name, operand, seen, allowed, fix, error, severity, self._facts()
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
