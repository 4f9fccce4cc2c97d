"""A kernel that replays a program.

Everything is computed anew by the functions of NKI that the program names: legality, results, and
what detectors and profiles see. The program decides which functions are called, with which values.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Collection, Iterator, Sequence
from inspect import Parameter, Signature
from itertools import count, zip_longest
from os.path import basename
from types import FunctionType
from typing import Any

import numpy as np

from nkisim.api import Kernel
from nkisim.diagnostics import CHECKED, REPLAYED, Finding, NkiCallError, Place, Position
from nkisim.language.grids import NkiGrid
from nkisim.machine import CORE, Core
from nkisim.memory import Lifetime, NkiTensor
from nkisim.program.calls import described, leaves, tape_name
from nkisim.program.data import ProgramData
from nkisim.program.operations import FIELDS
from nkisim.program.tape import LOOPS
from nkisim.program.values import ProgramError, decoded, malformed
from nkisim.program.waist import published_method
from nkisim.spec.signatures import PUBLISHED
from nkisim.versions import in_force

MOST_STEPS = 20_000_000
"""Operations after which a replay ends, iterations of loops counted."""

_KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)


def kernel_of(program: ProgramData, files: Collection[str] = ()) -> Kernel:
    """Return a kernel that replays a program; ``files`` as for ``Program.load``."""
    names = [_shown(file, text, files) for file, text in program.files]
    with malformed():
        places = [_position(row, names) for row in program.places]

    def replayed(*args: Any, **kwargs: Any) -> Any:
        core = CORE.get()
        assert core is not None, "the run has a core"
        return _replay(program, core, names, places, args, kwargs)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return replayed(*args, **kwargs)

    file, first = program.defined
    code = kernel.__code__.replace(
        co_filename=names[file],
        co_firstlineno=first,
        co_name=program.kernel,
        co_qualname=program.kernel,
    )
    function = FunctionType(code, {}, program.kernel, None, kernel.__closure__)
    with malformed():
        parameters = [_parameter(*given) for given in program.parameters]
        function.__signature__ = Signature(parameters, __validate_parameters__=False)  # type: ignore[attr-defined]
        function.__annotations__ = {
            name: decoded(spec, {}, {}) for name, spec in program.annotations.items()
        }
    try:
        return Kernel(function, program.cores).with_schedule([*map(tuple, program.schedule)])
    except (TypeError, ValueError) as error:
        raise ProgramError(f"no program: {error}") from None


def _shown(file: str, text: str, files: Collection[str]) -> str:
    """Return the name under which a file is shown; its text is then known to ``linecache``."""
    if file in files:
        return file
    lines = text.splitlines(keepends=True)
    for number in count(1):
        folder = "<program>" if number == 1 else f"<program {number}>"
        name = f"{folder}/{basename(file)}"
        known = linecache.cache.setdefault(name, (len(text), None, lines, name))
        if len(known) > 2 and known[2] == lines:
            return name
    raise AssertionError("unreachable: some number is free")


def _position(row: Sequence[Any], names: Sequence[str]) -> Position:
    """Return a position of a program; its first loops are those of the innermost function."""
    file, line, first, loops = row
    around = tuple((names[f], header, variable, value) for f, header, variable, value in loops)
    inner = tuple((variable, value) for *_, variable, value in reversed(around[:first]))
    return Position(Place(names[file], line, inner), around)


def _parameter(name: str, kind: int, *default: Any) -> Parameter:
    value = decoded(default[0], {}, {}) if default and default[0] != ["?"] else None
    return Parameter(name, _KINDS[kind], default=value if default else Parameter.empty)


def _replay(
    program: ProgramData,
    core: Core,
    names: Sequence[str],
    places: Sequence[Position],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Repeat the operations of one core and return the kernel's result."""
    made_for = (program.nki, program.target)
    if made_for != (core.version, core.generation.name):
        raise ProgramError(
            f"{program.kernel} was recorded for NKI {program.nki} on {program.target}, and is run "
            f"for NKI {core.version} on {core.generation.name}"
        )
    tape = program.tapes.get(tape_name(core))
    if tape is None:
        raise ProgramError(f"{program.kernel} was not recorded for core {tape_name(core)}")
    given = list(leaves((args, kwargs)))
    for number, (wanted, value) in enumerate(zip_longest(tape["given"], given)):
        if wanted != described(value):
            raise ProgramError(
                f"{program.kernel} was recorded for {program.arguments}; part {number} of the "
                f"arguments is {described(value)}"
            )
    tensors = [value for value in given if isinstance(value, NkiTensor)]
    del given, args, kwargs  # a tile is freed when nothing holds it
    player = _Player(names, places, tape["claim"], tensors)
    token = REPLAYED.set(REPLAYED.get())
    try:
        player.run(tape["ops"])
        return player.value(tape["result"])
    finally:
        REPLAYED.reset(token)
        player.leave_all()


class _Player:
    """The state of one core: the objects of its tape and the loops that it is in."""

    def __init__(
        self,
        names: Sequence[str],
        places: Sequence[Position],
        claim: Any,
        tensors: list[NkiTensor],
    ) -> None:
        self._names, self._places, self._claim = names, places, claim
        self._objects: dict[int, Any] = dict(enumerate(tensors))
        self._views: dict[Lifetime, list[int]] = {}
        self._indices: dict[int, int] = {}
        self._loops: dict[int, Iterator[Any]] = {}
        self._regions: list[Any] = []
        self._steps = 0

    def value(self, data: Any) -> Any:
        """Return the value of JSON data."""
        with malformed():
            return decoded(data, self._objects, self._indices)

    def run(self, operations: list[Any]) -> None:
        """Repeat operations."""
        for kind, at, *fields in operations:
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise ProgramError(f"a program of more than {MOST_STEPS:,} operations")
            if at is not None:
                REPLAYED.set(self._places[at] if type(at) is int else self._affine(at))
            _REPEAT[kind](self, *fields)

    def leave_all(self) -> None:
        """Leave the regions that an error has left open."""
        while self._regions:
            self._regions.pop().__exit__(None, None, None)

    def _affine(self, row: Any) -> Position:
        loops = ["l", *(["l", *loop] for loop in row[3])]
        with malformed():
            return _position(self.value(["l", *row[:3], loops]), self._names)

    def _values(self, data: Any) -> Any:
        if type(data) is dict:
            return {name: self.value(part) for name, part in data.items()}
        return [self.value(part) for part in data]

    def _keep(self, numbers: Any, result: Any) -> None:
        """Give the objects of a result their numbers."""
        if type(numbers) is int:
            self._objects[numbers] = result
            tensor = result._source if isinstance(result, NkiGrid) else result
            if isinstance(tensor, NkiTensor):
                self._views.setdefault(tensor.life, []).append(numbers)
        elif type(numbers) is list:
            with malformed():
                pairs = list(zip(numbers, result, strict=True))
            for number, part in pairs:
                self._keep(number, part)

    # -- operations --------------------------------------------------------------------------------

    def _call(self, name: Any, values: Any, numbers: Any) -> None:
        function, given = _function(name), self._values(values)
        if name.startswith("nl.shared_constant") and not isinstance(
            given.get("constant"), np.ndarray
        ):
            raise ProgramError("a constant that is no array")  # NKI would read a file
        self._keep(numbers, function(**given))

    def _method(self, name: Any, values: Any, named: Any, numbers: Any) -> None:
        owner, *rest = self._values(values)
        found = published_method(name) if type(name) is str else None
        if found is None or not isinstance(owner, found[0]):
            raise ProgramError(f"no method {str(name)[:40]!r} of a {type(owner).__name__}")
        member = getattr(owner, found[1])
        is_method = callable(member)
        self._keep(numbers, member(*rest, **self._values(named)) if is_method else member)

    def _range(self, values: Any, loop: int) -> None:
        self._loops[loop] = iter(_function("nl.affine_range")(**self._values(values)))

    def _loop_of(self, number: int) -> Iterator[Any]:
        if number not in self._loops:
            raise ProgramError("an iteration of no loop")
        return self._loops[number]

    def _turn(self, loop: int) -> None:
        if next(self._loop_of(loop), None) is None:
            raise ProgramError("a loop of more iterations than its range has")

    def _end(self, loop: int, finished: bool) -> None:
        turns = self._loop_of(loop)
        if finished and next(turns, None) is not None:
            raise ProgramError("a loop of fewer iterations than its range has")

    def _loop(self, name: Any, values: Any, loop: int, body: Any) -> None:
        given, function = self._values(values), _function(name)
        if name.partition(" ")[0] not in LOOPS:
            raise ProgramError(f"{name!r} is no loop of the device")
        at, turns = REPLAYED.get(), count()

        def turn(index: Any) -> Any:
            if body is None:
                raise ProgramError("a loop that had no iteration when it was recorded")
            number, operations, result = body
            self._indices[loop] = index if isinstance(index, int) else next(turns)
            if number is not None:
                self._keep(number, index)
            self.run(operations)
            REPLAYED.set(at)
            return self.value(result)

        if name.startswith("nl.dynamic_range"):
            for index in function(**given):
                turn(index)
        else:
            function(**given, body_fun=turn)

    def _while(self, register: Any, loop: int, body: Any) -> None:
        at, turns = REPLAYED.get(), count()
        while self.value(register):
            if body is None:
                raise ProgramError("a loop that had no iteration when it was recorded")
            self._indices[loop] = next(turns)
            self.run(body[1])
            REPLAYED.set(at)

    def _enter(self) -> None:
        region = _function("nl.no_reorder")()
        region.__enter__()
        self._regions.append(region)

    def _leave(self) -> None:
        if not self._regions:
            raise ProgramError("the end of no region")
        self._regions.pop().__exit__(None, None, None)

    def _free(self, number: int) -> None:
        found = self._objects.get(number)
        tensor = found._source if isinstance(found, NkiGrid) else found
        if isinstance(tensor, NkiTensor):
            for view in self._views.pop(tensor.life, ()):
                self._objects.pop(view, None)

    def _stop(self) -> None:
        if self._claim is None:
            raise ProgramError("a program whose kernel was stopped by another core")
        with malformed():
            rule, message, (file, line, loops), texts, notes, level, data = self._claim
            place = Place(self._names[file], line, tuple((n, v) for n, v in loops))
            instruction, operand, seen, allowed, fix = map(str, texts)
            finding = Finding(
                *(CHECKED[rule], str(message), place, instruction, operand, seen, allowed, fix),
                notes=tuple(map(str, notes)),
                level=level,
                data=dict(data),
            )
        raise NkiCallError(finding)


_REPEAT: dict[str, Callable[..., None]] = {kind: getattr(_Player, f"_{kind}") for kind in FIELDS}


def _function(name: Any) -> Callable[..., Any]:
    """Return a public function of NKI: of the version in force, or of the one that is named."""
    plain, _, version = name.partition(" ") if type(name) is str else ("", "", "")
    functions = PUBLISHED.get(plain, {})
    found = functions.get(version or in_force())
    if found is None:
        raise ProgramError(f"{str(name)[:60]!r} is no function of NKI {version or in_force()}")
    return found
