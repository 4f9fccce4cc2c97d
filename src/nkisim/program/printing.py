"""A program as text: a straight-line kernel in NKI, for people to read."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from nkisim.program.data import ProgramData
from nkisim.program.values import AFFINE, REFERENCE, ProgramError, decoded, malformed
from nkisim.spec.signatures import home_of

_MODULES = {"nki.isa": "nisa", "nki.language": "nl", "nki.collectives": "ncc"}
_OPERATORS = {
    **{"__add__": "{0} + {1}", "__sub__": "{0} - {1}", "__mul__": "{0} * {1}"},
    **{"__radd__": "{1} + {0}", "__rsub__": "{1} - {0}", "__rmul__": "{1} * {0}"},
    **{"__neg__": "-{0}", "__getitem__": "{0}[{1}]", "data": "{0}.data"},
}
_FORMS = {
    "s": "slice({0})",
    "ds": "nl.ds({0})",
    "R": "ncc.ReplicaGroup({0})",
    "range": "range({0})",
    "...": "...",
    "f": 'float("{1}")',
    "u": "np.{1}",
}
_MEMBERS = {"MemoryRegion": "nl.{1}", "rg_partition_op": "ncc.{0}.{1}"}
"""Forms of members of enums that are not in ``nki.isa``."""
_NAMED = frozenset({"e", "d", "D", "N", "o", "f", "u"})
"""Kinds of values that print as names."""
_WIDTH = 100


def source_of(program: ProgramData) -> str:
    """Return a program as text: one function for each of its cores."""
    constants: dict[str, str] = {}
    functions = []
    for core, tape in program.tapes.items():
        name = program.kernel.rpartition(".")[2]
        if len(program.tapes) > 1:
            name = f"{name}_{core.replace('.', '_')}"
        with malformed():
            lines = _Printer(program, tape, constants).function(name)
            functions.append("\n".join(lines) + "\n")
    head = (
        f'"""{program.kernel} for {program.arguments}.\n\n'
        f"On {program.target} with NKI {program.nki}.\n"
        f'SHA-256 of the program: {program.digest}\n"""\n\n'
        + ("import base64\n\nimport ml_dtypes\n" if constants else "")
        + "import numpy as np\n\nimport nki\nimport nki.collectives as ncc\n"
        "import nki.isa as nisa\nimport nki.language as nl\n"
        + "".join(f"\n{name} = {text}\n" for text, name in constants.items())
    )
    return "\n\n".join([head, *functions])


def _array(value: Any) -> str:
    """Return the expression for an array, or for a number of NumPy."""
    kind = value.dtype
    dtype = f'"{kind.str}"' if kind.isbuiltin != 2 else f"ml_dtypes.{kind.name}"
    rows = textwrap.wrap(base64.b64encode(value.tobytes()).decode(), _WIDTH - 10) or [""]
    text = "\n".join(f'        "{row}"' for row in rows)
    form = "[0]" if isinstance(value, np.generic) else f".reshape({value.shape})"
    return f"np.frombuffer(\n    base64.b64decode(\n{text}\n    ),\n    {dtype},\n){form}"


class _Printer:
    """The text of one tape; ``constants`` gets the names of its arrays, by their text."""

    def __init__(self, program: ProgramData, tape: Any, constants: dict[str, str]) -> None:
        self._tape, self._constants = tape, constants
        tensors = [
            given for given in tape["given"] if isinstance(given, list) and given[0] == "tensor"
        ]
        names = [p[0] for p in program.parameters]
        plain = len(tape["given"]) <= len(names)
        self._arguments = [
            name if plain else f"argument_{number}"
            for number, (name, given) in enumerate(
                zip(names if plain else tape["given"], tape["given"], strict=False)
            )
            if given in tensors
        ]

    def function(self, name: str) -> Iterator[str]:
        """Yield the lines of the kernel."""
        yield "@nki.jit"
        yield f"def {name}({', '.join(self._arguments)}):"
        yield from self._block(self._tape["ops"], "    ")
        if self._tape["claim"] is not None:
            yield f"    # stops here: {_name(self._tape['claim'][0])}"
        yield f"    return {self.value(self._tape['result'])}"

    def _block(self, operations: list[Any], indent: str) -> Iterator[str]:
        regions = ""
        for kind, _, *fields in operations:
            if kind == "leave":
                regions = regions[4:]
                continue
            lines = getattr(self, f"_{kind}")(*fields)
            for line in lines:
                yield from (
                    textwrap.wrap(
                        line,
                        _WIDTH,
                        initial_indent=indent + regions,
                        subsequent_indent=indent + regions + "        ",
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
                    if not line.startswith(" ")
                    else [indent + regions + line]
                )
            if kind == "enter":
                regions += "    "

    # -- values ------------------------------------------------------------------------------------

    def _object(self, number: int) -> str:
        count = len(self._arguments)
        return self._arguments[number] if 0 <= number < count else f"v{int(number)}"

    def value(self, data: Any) -> str:
        """Return the text of a value."""
        if type(data) is not list:
            return repr(data)
        kind, *rest = data
        if kind == REFERENCE:
            return self._object(rest[0])
        if kind == AFFINE:
            loop, first, step = int(rest[0]), *rest[1:]
            product = f"i{loop}" if step == 1 else f"{self.value(step)} * i{loop}"
            return product if first == 0 else f"{self.value(first)} + {product}"
        if kind == "a":
            text = _array(decoded(data, {}, {}))
            return self._constants.setdefault(text, f"CONSTANT_{len(self._constants) + 1}")
        if kind == "m":
            return "{" + ", ".join(f"{self.value(p[1])}: {self.value(p[2])}" for p in rest) + "}"
        if kind in _NAMED:
            rest = [_name(part) for part in rest if type(part) is str]
        parts = ", ".join(map(self.value, rest))
        forms = {"t": "({0},)" if len(rest) == 1 else "({0})", "l": "[{0}]"} | _FORMS
        if kind == "e":
            return _MEMBERS.get(rest[0], "nisa.{0}.{1}").format(*rest)
        return forms.get(kind, "nl.{1}").format(parts, *rest)

    def _index(self, data: Any) -> str:
        """Return the text between the brackets of a subscript."""
        kind, *rest = data if type(data) is list else [None]
        if kind == "t" and rest:
            return ", ".join(map(self._index, rest))
        if kind == "s":
            start, stop, step = ("" if part is None else self.value(part) for part in rest)
            return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
        return self.value(data)

    def _given(self, values: Any) -> str:
        if type(values) is dict:
            return ", ".join(f"{_name(k)}={self.value(part)}" for k, part in values.items())
        return ", ".join(map(self.value, values))

    def _bound(self, numbers: Any) -> str:
        if type(numbers) is list:
            return ", ".join("_" if n is None else self._object(n) for n in numbers) + " = "
        return "" if numbers is None else f"{self._object(numbers)} = "

    # -- operations --------------------------------------------------------------------------------

    def _call(self, name: str, values: Any, numbers: Any) -> Iterator[str]:
        yield f"{self._bound(numbers)}{_dotted(name)}({self._given(values)})"

    def _method(self, name: str, values: Any, named: Any, numbers: Any) -> Iterator[str]:
        owner, *rest = values
        member = _name(name).partition(".")[2]
        if member == "__setitem__":
            yield f"{self.value(owner)}[{self._index(rest[0])}] = {self.value(rest[1])}"
            return
        form = _OPERATORS.get(member)
        if form is not None:
            text = form.format(self.value(owner), *map(self._index, rest))
        else:
            given = ", ".join(filter(None, [self._given(rest), self._given(named)]))
            text = f"{self.value(owner)}.{member}({given})"
        yield self._bound(numbers) + text

    def _range(self, values: Any, loop: int) -> Iterator[str]:
        yield f"# loop {int(loop)}: nl.affine_range({self._given(values)})"

    def _turn(self, loop: int) -> Iterator[str]:
        yield f"# next iteration of loop {int(loop)}"

    def _end(self, loop: int, finished: bool) -> Iterator[str]:
        yield f"# end of loop {int(loop)}" + ("" if finished else ", by break")

    def _loop(self, name: str, values: Any, loop: int, body: Any) -> Iterator[str]:
        index, operations, result = body or (None, [], None)
        loop = int(loop or 0)  # a loop whose bounds are refused has no number
        if name.startswith("nl.dynamic_range"):
            yield f"for i{loop} in nl.dynamic_range({self._given(values)}):"
            if index is not None:
                yield f"    {self._object(index)} = i{loop}"
            yield from self._body(operations, None)
            return
        yield f"def body_{loop}({'_' if index is None else self._object(index)}):"
        yield from self._body(operations, result)
        given = ", ".join(filter(None, [self._given(values), f"body_fun=body_{loop}"]))
        yield f"{_dotted(name)}({given})"

    def _while(self, register: Any, _: int, body: Any) -> Iterator[str]:
        yield f"while {self.value(register)}:"
        yield from self._body(body[1] if body else [], None)

    def _body(self, operations: list[Any], result: Any) -> Iterator[str]:
        lines = list(self._block(operations, "    "))
        if result is not None:
            lines.append(f"    return {self.value(result)}")
        yield from lines or ["    pass"]

    def _enter(self) -> Iterator[str]:
        yield "with nl.no_reorder():"

    def _free(self, number: int) -> Iterator[str]:
        yield from ()

    def _stop(self) -> Iterator[str]:
        yield "# the kernel is refused here"


def _dotted(name: str) -> str:
    """Return a function's name in messages with its module."""
    plain = _name(name.partition(" ")[0])
    module, function = home_of(plain)
    return f"{_MODULES[module]}.{function}"


def _name(text: str) -> str:
    """Return a name of a program, which may come from a stranger and must not print as code.

    Raises:
        ProgramError: It is no name.
    """
    if not all(part.isidentifier() for part in text.lstrip("-").split(".")):
        raise ProgramError(f"{text[:40]!r} is no name")
    return text
