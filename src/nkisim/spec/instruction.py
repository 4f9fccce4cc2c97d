"""The declaration of an instruction: the single source for checks, execution and docs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from nkisim.diagnostics import Rule
from nkisim.spec.call import Call
from nkisim.spec.constraints import Constraint
from nkisim.spec.cost import Cost
from nkisim.spec.enums import engine as Engine
from nkisim.spec.operands import Operand
from nkisim.spec.parameters import SHARED, arguments_section, described
from nkisim.versions import VERSIONS

Arithmetic = Literal["fp32", "bits", "integer", "copy"]
"""Conversion of values by an instruction.

``"fp32"``: operands widened to float32, the result rounded once into the destination. ``"bits"``:
unsigned patterns, no conversion. ``"integer"``: exact 32-bit arithmetic that wraps. ``"copy"``:
storage form in, storage form out.
"""

Spread = Literal["all", "lanes", "elements", "product", "transpose"]
"""Operand elements that a result element depends on; all of them where uncertain.

``"lanes"``: the elements of the same partition. ``"elements"``: the element at the same position if
the numbers of elements agree, else as ``"lanes"``. ``"product"``: a row of the result depends on a
column of ``stationary``, a column on a column of ``moving``. ``"transpose"``: the element with
first and last index exchanged.
"""

Shortcut = Callable[[Any, Sequence[Any]], tuple[Any, ...]]
"""Computes a call on stored elements, in blocks that stay in the processor's cache.

Takes the core and the arguments, with tensors replaced by their stored elements; returns the
results, None for one that it has written itself. Results and findings are the body's.
"""

ValueWatch = Callable[[Sequence[Any]], None]
"""Checks the arguments of a call, with tensors replaced by arrays, and flags violations."""

Follow = Callable[[Any, Sequence[Any]], None]
"""Called in every run, also without values: takes the core and the arguments, tensors as views."""

INSTRUCTIONS: dict[str, Instruction] = {}
"""Every declared instruction by name."""


def _always_fp32(call: Call) -> Arithmetic:
    return "fp32"


def unconverted(call: Call) -> Arithmetic:
    """Arithmetic of instructions that take elements as they are stored."""
    return "copy"


class Instruction(NamedTuple):
    """One instruction of ``nki.isa``.

    Attributes:
        name: Its name.
        signature: The parameters of all NKI versions.
        engines: Engines that can run it; the first is the default.
        operands: The tensor arguments, by parameter name.
        require: Constraints in addition to the ones that ``operands`` imply.
        varying: Number arguments that may change in each call. Legal calls share a plan. The
            constraints that read such an argument check each new number; besides them only the body
            may depend on it.
        since: First generation that has it.
        choose_engine: Selects the engine for the call; None takes ``engine=`` or the first of
            ``engines``.
        arithmetic: Selects the conversion of values.
        moves: True when the instruction or this call only moves data, so that lossy integer paths
            are D017 and not D016.
        inexact: Specific rule for integers that float32 cannot hold, if there is one.
        cost: Cost on the engine.
        source: Where its meaning is documented.
        body: Function of arrays. Operands that are read are passed as elements; operands that are
            written are passed as views. It returns each result, or None for one already written to
            its view.
        stateful: True when the body takes the core as its first argument.
        synchronises: True when the body must run even where no values are computed.
        follow: Returns a callback that records the effect of each call on its engine, such as on a
            chain of accumulations, or None.
        raw_results: Results that the body returns in storage form, such as indices.
        function: Returns a function that computes the result of a call, or None. It takes the
            elements that the call reads, in the order of the parameters; then, if the call may add
            to ``dst``, the mask of the elements to add to; and ``out``, an array for the result, or
            None.
        reads_first: True when the engine reads a column on all partitions before it writes that
            column, so that source and destination may be different rows of the same columns.
        spread: Taint propagation from operands to results.
        shortcut: Returns a fast path for a call, or None.
        watch_values: Returns a check of the loaded arguments of each call, or None.
        removed: Keywords of earlier releases, with the rule and the fix.
        changes: Fields that differ from an NKI version on, such as ``{"0.5.0": {"body": other}}``;
            a body has the same parameters in all versions.
        summary: First line of the body's docstring.
        description: The body's docstring without its ``Args``.
        meanings: The meaning of each parameter, in one sentence.
    """

    name: str
    signature: inspect.Signature
    engines: tuple[Engine, ...]
    operands: Mapping[str, Operand]
    body: Callable[..., Any]
    require: tuple[Constraint, ...] = ()
    varying: tuple[str, ...] = ()
    since: int = 2
    choose_engine: Callable[[Call], Engine] | None = None
    arithmetic: Callable[[Call], Arithmetic] = _always_fp32
    moves: bool | Callable[[Call], bool] = False
    inexact: Rule | None = None
    cost: Cost | None = None
    source: str = ""
    stateful: bool = False
    synchronises: bool = False
    follow: Callable[[Call], Follow | None] | None = None
    raw_results: tuple[str, ...] = ()
    function: Callable[[Call], Callable[..., Any] | None] | None = None
    reads_first: bool = False
    spread: Spread = "all"
    shortcut: Callable[[Call], Shortcut | None] | None = None
    watch_values: Callable[[Call], ValueWatch | None] | None = None
    removed: Mapping[str, Any] = MappingProxyType({})
    changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def at(self, version: str) -> Instruction:
        """Return the declaration as it holds in an NKI version."""
        found = self
        for known in VERSIONS[: VERSIONS.index(version) + 1]:
            if known in self.changes:
                found = found._replace(**self.changes[known])
        return found

    @property
    def summary(self) -> str:
        """One-line description of the instruction."""
        return self.description.split("\n")[0]

    @property
    def description(self) -> str:
        """What the instruction does."""
        return described(inspect.getdoc(self.body) or "")[0]

    @property
    def meanings(self) -> dict[str, str]:
        """One sentence for each parameter: from the body's docstring, else from ``SHARED``."""
        _, own = described(inspect.getdoc(self.body) or "")
        return {name: own.get(name, SHARED.get(name, "")) for name in self.parameters}

    def documentation(self, parameters: Collection[str]) -> str:
        """Return the docstring of the public function that has these parameters."""
        meanings = self.meanings
        return self.description + arguments_section({name: meanings[name] for name in parameters})

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in order."""
        return tuple(self.signature.parameters)
