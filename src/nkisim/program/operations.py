"""The operations of a program, as lists that begin with the kind and the position.

    ["call", at, name, {parameter: value}, numbers]       a function; numbers of its results
    ["method", at, name, [owner, *values], {...}, numbers]
    ["range", at, [start, stop, step], loop]               nl.affine_range begins
    ["turn", at, loop]                                     its next iteration
    ["end", at, loop, finished]                            its end; False if left by break
    ["loop", at, name, {parameter: value}, loop, body]     a loop of the device
    ["while", at, register, loop, body]                    ``while register:``
    ["enter", at]  ["leave", at]                           nl.no_reorder
    ["free", at, number]                                   no variable holds a tile any more
    ["stop", at]                                           the kernel raises

A body is ``[number of the index, operations, result]``, or None if no iteration was recorded. A
position is a number of a row of the program's table; in a device loop it may be such a row, whose
loop indices are affine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

Field = Literal["exact", "value", "values", "body"]

FIELDS: Mapping[str, tuple[Field, ...]] = {
    "call": ("exact", "values", "exact"),
    "method": ("exact", "values", "values", "exact"),
    "range": ("values", "exact"),
    "turn": ("exact",),
    "end": ("exact", "exact"),
    "loop": ("exact", "values", "exact", "body"),
    "while": ("value", "exact", "body"),
    "enter": (),
    "leave": (),
    "free": ("exact",),
    "stop": (),
}
"""For each kind of operation, what follows kind and position.

``exact`` is a name, a number of an object or a flag; ``values`` is a list or a mapping of values.
"""


def names_of(operations: list[Any]) -> Iterator[Any]:
    """Yield the names of the functions that operations call, those of bodies included."""
    for kind, _, *fields in operations:
        if kind in ("call", "loop"):
            yield fields[0]
        for form, part in zip(FIELDS[kind], fields, strict=True):
            if form == "body" and part is not None:
                yield from names_of(part[1])
