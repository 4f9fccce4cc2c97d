"""``nkisim.record``: run a kernel once, without values, and return it as a program."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nkisim.api import Kernel, as_kernel
from nkisim.diagnostics import Finding, NkiValidationError
from nkisim.machine import Core, Stopped
from nkisim.memory import NkiTensor
from nkisim.objects import parts_of
from nkisim.options import SimOptions
from nkisim.program.calls import described, leaves, tape_name
from nkisim.program.loops import TURNS
from nkisim.program.program import Program
from nkisim.program.tape import Tables, Tape
from nkisim.program.values import ProgramError
from nkisim.program.waist import TAPE, observed
from nkisim.runs import Run
from nkisim.runs.host import definition_place, tensor_annotations


def record(
    kernel: Any, *, target: str | None = None, nki: str | None = None, ranks: int = 1
) -> Callable[..., Program]:
    """Return a callable that records what ``kernel`` asks of NKI for its arguments.

    The kernel's code runs once, without values: of arrays it sees shape and dtype.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``.
        target: Generation or instance; None as for ``simulate``.
        nki: NKI version; None as for ``simulate``.
        ranks: Number of ranks, as for ``simulate``.

    Raises:
        ProgramError: When called: no program can hold the kernel, and why. Errors of the kernel's
            own Python code raise too. A finding that ends the kernel ends its program.
    """
    options = SimOptions(target=target, nki=nki, ranks=ranks)
    found = as_kernel(kernel)

    def recorded(*args: Any, **kwargs: Any) -> Program:
        run = Recording(found, options, args, kwargs)
        run.execute()
        return run.program()

    return recorded


class Recording(Run):
    """A run without values, whose cores write down what the kernel asks of NKI."""

    def __init__(
        self, kernel: Kernel, options: SimOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        chosen = replace(
            options,
            strictness="check",
            source=False,
            detect=(),
            ignore=(),
            values=False,
            trip_count=TURNS,
        )
        super().__init__(kernel, chosen, args, kwargs)
        self._tapes: dict[str, dict[str, Any]] = {}
        self._tables = Tables()

    def execute(self) -> None:
        """Run the kernel once and record it."""
        with observed():
            super().execute()

    def _called(self, core: Core, positional: list[Any], named: dict[str, Any]) -> Any:
        given = list(leaves((positional, named)))
        tape = Tape(self._tables, [part for part in given if isinstance(part, NkiTensor)])
        entry = {"given": [*map(described, given)], "ops": [], "result": None, "claim": None}
        token = TAPE.set(tape)
        try:
            result = super()._called(core, positional, named)
            entry["result"] = tape.value(_plain(result))
            entry["ops"] = tape.finished()
        except (NkiValidationError, Stopped) as error:
            entry["ops"] = tape.stopped()
            if isinstance(error, NkiValidationError):
                entry["claim"] = self._claim(error.finding)
            raise
        finally:
            TAPE.reset(token)
            self._tapes[tape_name(core)] = entry
        return result

    def _claim(self, finding: Finding) -> list[Any]:
        """Return the finding that ended the kernel: a replay that gets so far raises it."""
        file, line, loops = finding.place
        text = [finding.instruction, finding.operand, finding.seen, finding.allowed, finding.fix]
        data = {k: v for k, v in finding.data.items() if isinstance(v, (str, int, type(None)))}
        place = [self._tables.file(file), line, [[*loop] for loop in loops]]
        level = finding.level
        return [finding.rule.id, finding.message, place, text, [*finding.notes], level, data]

    def program(self) -> Program:
        """Return what was recorded.

        Raises:
            ProgramError: The call was refused before the kernel began.
        """
        if not self._tapes:
            raise ProgramError(f"{self.report.kernel} was not run: {self.report.stopped}")
        function, report, tables = self.kernel.function, self.report, self._tables
        place = definition_place(function)
        code = getattr(function, "__code__", None)
        first = place.line if code is None else code.co_firstlineno
        parameters = [
            [p.name, int(p.kind), *([] if p.default is p.empty else [described(p.default)])]
            for p in self.kernel.parameters
        ]
        annotations = tensor_annotations(function)
        defined = (tables.file(place.file), first)
        return Program(
            kernel=report.kernel,
            target=report.target,
            nki=report.nki,
            cores=self.kernel.cores,
            schedule=tuple((after, [*before]) for after, before in self.kernel.schedule),
            parameters=tuple(parameters),
            annotations={name: described(spec) for name, spec in annotations.items()},
            files=tuple((file, "".join(linecache.getlines(file))) for file in tables.files),
            defined=defined,
            places=tuple(tables.places),
            tapes=self._tapes,
        )


def _plain(result: Any) -> Any:
    """Return a result with tuples in place of the kernel's own objects."""
    if isinstance(result, NkiTensor) or type(result) is dict or not parts_of(result):
        return result
    parts = [_plain(part) for _, part in parts_of(result)]
    return parts if type(result) is list else tuple(parts)
