"""What one core of a kernel asks of NKI, written down while its code runs without values."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from nkisim.diagnostics import leaves_while, repeats_while, user_line, user_position
from nkisim.isa.registers.virtual import VirtualRegister
from nkisim.language.grids import NkiGrid
from nkisim.machine import Iterations
from nkisim.memory import NkiTensor, is_on_chip
from nkisim.program.loops import TURNS, folded, turns_of
from nkisim.program.operations import FIELDS
from nkisim.program.values import ProgramError, encoded
from nkisim.program.waist import OBJECTS, observe
from nkisim.spec.signatures import PUBLISHED
from nkisim.versions import in_force

_MOST_OPERATIONS = 2_000_000
_VALUES = frozenset({"nl.ds", "nl.program_ndim"})
"""Functions whose results a program holds as values."""
_BREAK = "a loop of the device that is left by break"
LOOPS = frozenset({"nl.fori_loop", "nl.while_loop", "nl.dynamic_range"})
"""Loops of the device."""

_BODY = "body_fun"
"""The parameter of loops of the device that has their body."""


@dataclass
class Tables:
    """What the tapes of one program share.

    Attributes:
        files: Names of files.
        places: Positions, which name files by number.
        operations: Number of operations.
    """

    files: list[str] = field(default_factory=list)
    places: list[Any] = field(default_factory=list)
    operations: int = 0
    _known: dict[Any, int] = field(default_factory=dict)

    def file(self, name: str) -> int:
        """Return the number of a file."""
        if name not in self.files:
            self.files.append(name)
        return self.files.index(name)

    def here(self) -> int:
        """Return the number of the present position of the kernel's code."""
        position = user_position()
        number = self._known.get(position)
        if number is None:
            place, around = position
            loops = [[self.file(file), *loop] for file, *loop in around]
            number = self._known[position] = len(self.places)
            self.places.append([self.file(place.file), place.line, len(place.loops), loops])
        return number


@dataclass
class _Level:
    """The operations of one iteration of a device loop, or those outside of all loops.

    Attributes:
        loop: The loop; None outside of all.
        scope: Number of the iteration, unique in the tape.
        ops: The operations.
        scopes: Iterations whose objects exist here: this one, and the last one of each loop that
            has ended in it.
        freed: Its objects that were freed inside a loop that still runs.
        index: Number of the index, if it is an object.
    """

    loop: _Loop | None = None
    scope: int = 0
    ops: list[Any] = field(default_factory=list)
    scopes: set[int] = field(default_factory=set)
    freed: list[Any] = field(default_factory=list)
    index: int | None = None


@dataclass
class _Loop:
    """A loop of the device that is being recorded.

    Attributes:
        op: Its operation, whose last field becomes the body.
        number: Its number.
        indices: The index of each iteration if the kernel's code has it as an integer, else None.
        bodies: The iterations that have ended.
        last: The last of them.
    """

    op: list[Any]
    number: int
    indices: Sequence[int] | None = None
    bodies: list[Any] = field(default_factory=list)
    last: _Level | None = None


class Tape:
    """The operations of one core; a ``Recorder`` of ``nkisim.program.waist``."""

    def __init__(self, tables: Tables, arguments: Sequence[NkiTensor]) -> None:
        self._tables = tables
        self._arguments = {id(tensor): number for number, tensor in enumerate(arguments)}
        for tensor in arguments:
            observe(tensor)
        self._depth = 0
        self._next = len(arguments)
        self._scopes = count(1)
        self._levels = [_Level(scopes={0})]
        self._whiles: list[tuple[_Loop, Any, Any]] = []
        self._raised = self._left = self._ended = False
        self._problem = ""

    def finished(self) -> list[Any]:
        """Return the operations of a kernel that has returned."""
        self._ended = True  # what is freed from now on is not freed by the kernel
        outermost, *loops = self._levels
        if self._problem or self._left or loops:
            raise ProgramError(self._problem or _BREAK)
        return outermost.ops

    def stopped(self) -> list[Any]:
        """Return the operations of a kernel that has raised."""
        self._ended = True
        if self._problem:
            raise ProgramError(self._problem)
        at = self._tables.here()
        for level in reversed(self._levels):
            ops = level.ops
            if ops and len(ops[-1]) < 2 + len(FIELDS[ops[-1][0]]):
                ops.pop()  # the recorder itself was stopped, by Python's limit of recursion
            ops.append(["stop", at])
            if (loop := level.loop) is None:
                return ops
            if loop.bodies:
                loop.op[-1] = self._folded(loop)
            else:
                loop.op[-1] = [level.index, ops, None]
        raise AssertionError("unreachable: the first level has no loop")

    # -- objects and values ------------------------------------------------------------------------

    def is_outermost(self) -> bool:
        """Return whether the kernel's own code is running."""
        return not self._depth

    def knows(self, value: Any) -> bool:
        """Return whether an object is one of the tape's."""
        return self._mark(value) is not None

    def _mark(self, value: Any) -> tuple[int, int] | None:
        """Return the number of an object, and the iteration that made it."""
        mark = getattr(value, "recorded", None)
        if mark is not None and mark[2] is self:
            return mark[0], mark[1]
        number = self._arguments.get(id(value))
        return None if number is None else (number, 0)

    def _number_of(self, value: Any) -> int | None:
        if not isinstance(value, OBJECTS):
            return None
        mark = self._mark(value)
        if mark is None:
            raise ProgramError(f"a {type(value).__name__} that no call of NKI has returned")
        number, scope = mark
        if not any(scope in level.scopes for level in self._levels):
            raise ProgramError("a loop of the device that uses what an earlier iteration made")
        return number

    def value(self, value: Any) -> Any:
        """Return a value, or the number of an object, as JSON."""
        return encoded(value, self._number_of)

    def _bound(self, value: Any) -> Any:
        """Number the objects in a result; return the numbers."""
        if isinstance(value, OBJECTS):
            value.recorded = (self._next, self._levels[-1].scope, self)
            observe(value)
            self._next += 1
            return self._next - 1
        if isinstance(value, (tuple, list)):
            return [self._bound(part) for part in value]
        return None

    def _refuse(self, problem: str) -> NoReturn:
        self._problem = problem  # the kernel may catch the exception
        raise ProgramError(problem)

    def needs_value(self, what: str) -> NoReturn:
        """Refuse a kernel whose code reads what only the device knows."""
        self._refuse(f"Python code that needs the value of {what}")

    # -- operations --------------------------------------------------------------------------------

    def _add(self, kind: str, *fields: Any) -> list[Any]:
        if self._raised:
            self._problem = "a kernel that goes on after an error of NKI"
        elif self._left and kind != "end":
            self._problem = _BREAK
        operation = [kind, self._tables.here(), *fields]
        self._levels[-1].ops.append(operation)
        self._tables.operations += 1
        if self._tables.operations > _MOST_OPERATIONS:
            self._refuse(f"a kernel of more than {_MOST_OPERATIONS:,} operations")
        return operation

    def _inside(self, call: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Call a function of nkisim, whose own calls are not recorded."""
        self._depth += 1
        try:
            return call(*values, **named)
        except BaseException:
            self._raised = True
            raise
        finally:
            self._depth -= 1

    def _performed(
        self, operation: list[Any], fields: Callable[[], list[Any]], call: Callable[[], Any]
    ) -> Any:
        """Return the result of a call whose operation gets the values that ``fields`` returns.

        An error of the call comes before that of a value that no program can hold.
        """
        problem = ""
        try:
            operation += fields()
        except ProgramError as error:
            problem = str(error)
        try:
            result = self._inside(call)
        except BaseException:
            if problem:  # a replay cannot repeat the call
                operation[:] = ["stop", operation[1]]
            operation += [None] * (2 + len(FIELDS[operation[0]]) - len(operation))
            raise
        if problem:
            self._refuse(problem)
        return result

    def call(
        self, name: str, function: FunctionType, call: Callable[..., Any], given: dict[str, Any]
    ) -> Any:
        """Record a call of a public function and return its result."""
        if name in _VALUES:
            return self._inside(call, **given)
        if name == "nl.shared_constant" and isinstance(given["constant"], (str, Path)):
            given = {"constant": np.load(given["constant"])}
        defaults = _defaults(function)
        values = {n: given[n] for n, default in defaults.items() if given[n] is not default}
        called = partial(call, **given)

        def fields() -> list[Any]:
            return [{n: self.value(v) for n, v in values.items() if n != _BODY}]

        if name in LOOPS:
            return self._device_loop(name, call, given, fields)
        if name == "nl.affine_range":
            operation = self._add("range")
            numbers = self._performed(operation, fields, called)
            return self._unrolled(operation, numbers)
        if name == "nl.no_reorder":
            return _Region(self, self._inside(called))
        operation = self._add("call", _versioned(name, function))
        result = self._performed(operation, fields, called)
        operation.append(self._bound(result))
        self._follow(result)
        return result

    def method(
        self, name: str, call: Callable[..., Any], owner: Any, args: Any, kwargs: Any
    ) -> Any:
        """Record a call of a method and return its result."""
        operation = self._add("method", name)

        def fields() -> list[Any]:
            values = [self.value(value) for value in (owner, *args)]
            return [values, {n: self.value(value) for n, value in kwargs.items()}]

        result = self._performed(operation, fields, partial(call, owner, *args, **kwargs))
        outermost = len(self._levels) == 1
        if outermost and isinstance(result, NkiTensor) and self.knows(result):
            self._levels[-1].ops.remove(operation)  # tensors keep some of their views
        else:
            operation.append(self._bound(result))
        return result

    def _follow(self, result: Any) -> None:
        """Record when the tiles of a result are freed: others may then take their place."""
        for part in result if isinstance(result, (tuple, list)) else (result,):
            tensor = part._source if isinstance(part, NkiGrid) else part
            if isinstance(tensor, NkiTensor) and is_on_chip(tensor.buffer):
                number, scope = part.recorded[:2]
                weakref.finalize(tensor._owner, self._freed, number, scope).atexit = False

    def _freed(self, number: int, scope: int) -> None:
        level = next((one for one in reversed(self._levels) if scope in one.scopes), None)
        if level is None or self._ended:
            return  # of an earlier iteration, whose objects the next one replaces
        ops = level.ops if level is self._levels[-1] else level.freed
        ops.append(["free", None, number])

    def _unrolled(self, operation: list[Any], numbers: range) -> Iterations:
        loop = self._next
        self._next += 1
        operation.append(loop)

        def turns() -> Iterator[int]:
            finished = False
            try:
                for number in numbers:
                    self._add("turn", loop)
                    yield number
                finished = True
            finally:
                if not self._raised:  # by an error that ends the kernel, too
                    self._add("end", loop, finished)

        return Iterations(numbers, turns)

    # -- loops of the device -----------------------------------------------------------------------

    def _opened(self, operation: list[Any]) -> _Loop:
        """Return the loop of an operation, which gets its number and its body."""
        loop = _Loop(operation, self._next)
        self._next += 1
        operation += [loop.number, None]
        return loop

    def _begin(self, loop: _Loop, index: Any = None) -> None:
        scope = next(self._scopes)
        self._next = loop.number + 1
        self._levels.append(_Level(loop, scope, scopes={scope}))
        self._levels[-1].index = self._bound(index)

    def _end(self, loop: _Loop, result: Any = None) -> None:
        level = self._levels[-1]
        if level.loop is not loop:
            self._refuse(_BREAK)
        returned = self.value(result) if isinstance(result, OBJECTS) else None
        loop.bodies.append([level.index, level.ops, returned])
        loop.last = self._levels.pop()

    def _close(self, loop: _Loop) -> None:
        level = self._levels[-1]
        if loop.last is not None:
            level.scopes |= loop.last.scopes
        level.ops += level.freed
        level.freed = []
        try:
            loop.op[-1] = self._folded(loop)
        except ProgramError as error:
            self._refuse(str(error))

    def _folded(self, loop: _Loop) -> Any:
        """Return the one body of the iterations that have ended."""
        indices = loop.indices and loop.indices[: len(loop.bodies)]
        return folded(loop.bodies, self._tables.places, loop.number, indices)

    def _device_loop(
        self,
        name: str,
        call: Callable[..., Any],
        given: dict[str, Any],
        fields: Callable[[], list[Any]],
    ) -> Any:
        """Record a loop of the device and return the loop's result."""
        operation = self._add("loop", name)
        if name == "nl.dynamic_range":
            self._performed(operation, fields, partial(call, **given))
            return self._dynamic_range(self._opened(operation), call, **given)
        body = given[_BODY]
        loop: _Loop | None = None

        def turn(register: Any) -> Any:
            assert loop is not None
            if len(loop.bodies) == TURNS:
                return register if name == "nl.while_loop" else None
            self._begin(loop, register)
            depth, self._depth = self._depth, 0
            try:
                result = body(register)
            finally:
                self._depth = depth
            self._end(loop, result)
            return result

        def run() -> None:
            nonlocal loop
            loop = self._opened(operation)
            try:
                call(**given | ({_BODY: turn} if callable(body) else {}))
            except BaseException:
                if loop.bodies and self._levels[-1].loop is not loop:
                    self._close(loop)  # what a body returns is refused
                raise
            if not loop.bodies and any(getattr(v, "loaded", False) for v in given.values()):
                bounds = {"lower": VirtualRegister(0), "upper": VirtualRegister(TURNS)}
                call(**given | bounds | {_BODY: turn})

        self._performed(operation, fields, run)
        assert loop is not None
        self._close(loop)
        return None

    def _dynamic_range(
        self, loop: _Loop, call: Callable[..., Any], start: Any, stop: Any, step: int
    ) -> Iterations:
        bounds = (0, start) if stop is None else (start, stop)
        first, last = (b.read() if isinstance(b, VirtualRegister) else int(b) for b in bounds)
        counted = any(isinstance(b, VirtualRegister) and b.loaded for b in bounds)
        loop.indices = turns_of(range(first, last, step), counted=counted)

        def turns() -> Iterator[Any]:
            for number in loop.indices or ():
                # In some versions the index is a register.
                (index,) = self._inside(lambda n=number: [*call(start=n, stop=n + 1, step=1)])
                self._begin(loop, index)
                try:
                    yield index
                except GeneratorExit:
                    self._left = True  # by break, if the kernel goes on, or by an error
                    raise
                self._end(loop)
            self._close(loop)

        return Iterations(range(first, last, step), turns)

    def tested(self, register: VirtualRegister, test: Callable[..., bool]) -> bool:
        """Record a test of a register, as ``while register:`` makes one before each iteration."""
        result = self._inside(test, register)
        number = self._number_of(register)
        if self._whiles and self._whiles[-1][1:] == (number, user_line()):
            loop = self._whiles[-1][0]
            self._end(loop)
            if len(loop.bodies) < TURNS:
                self._begin(loop)
                return True
            self._whiles.pop()
            self._close(loop)
            return False
        if not repeats_while():
            self._refuse("a branch on a register")
        if leaves_while():
            self._refuse(_BREAK)
        loop = self._opened(self._add("while", ["r", number]))
        if result or register.loaded:
            self._whiles.append((loop, number, user_line()))
            self._begin(loop)
        return result or register.loaded


class _Region:
    """The context of ``nl.no_reorder``, whose ends are recorded."""

    def __init__(self, tape: Tape, region: Any) -> None:
        self._tape, self._region = tape, region

    def __enter__(self) -> Any:
        self._tape._add("enter")
        return self._region.__enter__()

    def __exit__(self, *error: Any) -> Any:
        if error[0] is None:
            self._tape._add("leave")
        return self._region.__exit__(*error)


@cache
def _defaults(function: FunctionType) -> dict[str, Any]:
    """Return the parameters of a public function, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def _versioned(name: str, function: FunctionType) -> str:
    """Return the name of a function; with its version if that is not the one in force.

    A module binds the functions of the version in force at its import.
    """
    versions = PUBLISHED[name]
    if versions.get(in_force()) is function:
        return name
    return f"{name} {next(v for v, other in versions.items() if other is function)}"
