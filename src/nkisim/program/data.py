"""The fields of a program, their form as JSON, and the validation of JSON from strangers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from nkisim.dtypes import DTYPES
from nkisim.program.operations import FIELDS
from nkisim.program.values import ProgramError

FORMAT = 1
"""Version of the JSON format; incremented when the meaning of a field changes."""

MOST_BYTES = 1 << 28
MOST_DEPTH = 60
_NAME = re.compile(r"[\w.<>?\[\]]{1,200}")


@dataclass(frozen=True)
class ProgramData:
    """What a kernel asks of NKI in one call.

    Attributes:
        kernel: Name of the kernel.
        target: Generation that it was recorded for.
        nki: NKI version that it was recorded for.
        cores: Number of cores of the launch grid, None without a grid.
        schedule: Names of instructions, each with those that run before it.
        parameters: Name, kind and default of each parameter.
        annotations: The ``nt.tensor`` annotations of parameters.
        files: Name and text of each file that its positions name.
        defined: File of the kernel's definition, and its first line.
        places: The positions that operations number.
        tapes: For each core as ``"rank.core"``: ``given``, the arguments; ``ops``, the operations
            (``nkisim.program.operations``); ``result``; ``claim``, the finding that ended it.
    """

    kernel: str
    target: str
    nki: str
    cores: int | None
    schedule: tuple[Any, ...]
    parameters: tuple[Any, ...]
    annotations: Mapping[str, Any]
    files: tuple[tuple[str, str], ...]
    defined: tuple[int, int]
    places: tuple[Any, ...]
    tapes: Mapping[str, Mapping[str, Any]]

    def to_bytes(self) -> bytes:
        """Return the program as JSON."""
        plain = {"program": FORMAT}
        plain |= {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return json.dumps(plain, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        """SHA-256 of the program, as hexadecimal digits."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def arguments(self) -> str:
        """The arguments that it was recorded for, as text."""
        texts = []
        for given in next(iter(self.tapes.values()))["given"]:
            is_tensor = isinstance(given, list) and given[0] == "tensor"
            texts.append(f"{given[2]}{list(given[1])}" if is_tensor else json.dumps(given))
        return ", ".join(texts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the program in JSON data.

        Raises:
            ProgramError: The data is no program.
        """
        if len(data) > MOST_BYTES:
            raise ProgramError(f"no program: {len(data):,} bytes, accepted: {MOST_BYTES:,}")
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ProgramError(f"no program: {error}") from None
        if type(plain) is not dict or plain.pop("program", None) != FORMAT:
            raise ProgramError(f"no program of format {FORMAT}")
        _require_shallow(plain)
        names = {field.name for field in dataclasses.fields(cls)}
        if plain.keys() != names:
            odd = ", ".join(sorted(plain.keys() ^ names))
            raise ProgramError(f"no program: {odd}")
        try:
            _require_form(plain)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise ProgramError(f"no program: {error}") from None
        return cls(**plain)


def _require_shallow(data: Any) -> None:
    """Raise ProgramError for data that is nested deeper than ``MOST_DEPTH``."""
    level, depth = [data], 1
    while level:
        if depth > MOST_DEPTH:
            raise ProgramError(f"no program: nested deeper than {MOST_DEPTH}")
        inner: list[Any] = []
        for part in level:
            parts = part.values() if type(part) is dict else part
            inner += [one for one in parts if type(one) in (list, dict)]
        level, depth = inner, depth + 1


def _require_form(plain: dict[str, Any]) -> None:
    """Raise an error for fields of other types; what values describe is checked by the replay."""
    for name in ("kernel", "target", "nki"):
        _require(_is_name(plain[name]), name)
    _require(plain["cores"] in (None, 1, 2), "cores")
    for after, before in plain["schedule"]:
        _require(type(after) is str and type(before) is list, "schedule")
    for name, text in plain["files"]:
        _require(type(name) is str and type(text) is str, "files")
    count = len(plain["files"])
    for file, line, first, loops in plain["places"]:
        _require(_is_index(file, count) and type(line) is int, "places")
        _require(_is_index(first, len(loops) + 1), "places")
        for other, header, variable, value in loops:
            _require(_is_index(other, count) and type(header) is type(value) is int, "places")
            _require(type(variable) is str, "places")
    file, first = plain["defined"]
    _require(_is_index(file, count) and type(first) is int, "defined")
    _require(type(plain["annotations"]) is dict, "annotations")
    for name, kind, *_ in plain["parameters"]:
        _require(type(name) is str and name.isidentifier() and _is_index(kind, 5), "parameters")
    _require(len(plain["tapes"]) > 0, "tapes")
    for core, tape in plain["tapes"].items():
        _require(_is_name(core), "tapes")
        _require(tape.keys() == {"given", "ops", "result", "claim"}, "tapes")
        _require(type(tape["given"]) is list, "given")
        for given in tape["given"]:
            _require(type(given) is not list or _is_argument(given), "given")
        _require_operations(tape["ops"], len(plain["places"]))


def _require_operations(operations: list[Any], places: int) -> None:
    for kind, at, *fields in operations:
        expected = FIELDS[kind]
        _require(len(fields) == len(expected), f"operation {kind}")
        _require(type(at) is list or at is None or _is_index(at, places), "position")
        for form, part in zip(expected, fields, strict=True):
            if form == "values":
                _require(type(part) in (list, dict), f"values of {kind}")
            elif form == "body" and part is not None:
                _require_operations(part[1], places)


def _is_name(value: Any) -> bool:
    """Return whether a value is a text that prints as a part of a line, and is no code."""
    return type(value) is str and _NAME.fullmatch(value) is not None


def _is_argument(given: list[Any]) -> bool:
    """Return whether a list describes a tensor, or begins as a value of another kind."""
    if given[0] != "tensor":
        return _is_name(given[0])
    _, shape, dtype = given
    is_shape = type(shape) is list and all(type(n) is int and n >= 0 for n in shape)
    return is_shape and type(dtype) is str and dtype in DTYPES


def _is_index(value: Any, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
