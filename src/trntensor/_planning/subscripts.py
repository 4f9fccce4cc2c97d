"""Parser of contraction subscripts, with errors that show the position.

A parsed equation names every dimension of every operand by one character. Letters are themselves;
the dimensions of an ellipsis get characters that are not valid in subscripts, numbered from the
right, so that operands with fewer of them broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, count
from operator import index
from typing import Any, NamedTuple

from torch import Tensor

from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.interop import constant_to_compile

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""Letters of the integers in sublists, in the order of torch, capitals first. Subscripts accept
letters of any alphabet: a network of forty tensors has more than 52 indices."""

_SIGNS = frozenset(",->. ")
_HIDDEN = 0x2460  # the dimensions of an ellipsis print as circled numbers, which are not letters
_MORE = 0x4E00  # further letters for networks with more indices than LETTERS


class Equation(NamedTuple):
    """A contraction with every dimension named.

    Attributes:
        inputs: One string for each operand, a character for each of its dimensions.
        output: A character for each dimension of the result.
        text: The subscripts of the call, for messages.
    """

    inputs: tuple[str, ...]
    output: str
    text: str

    @property
    def plain(self) -> str:
        """The contraction in letters only; up to 52 indices it is valid for ``torch.einsum``."""
        found = dict.fromkeys("".join((*self.inputs, self.output)))
        every = chain(LETTERS, map(chr, count(_MORE)))
        free = (letter for letter in every if letter not in found)
        named = {label: label if label in LETTERS else next(free) for label in found}
        terms = ["".join(named[label] for label in term) for term in (*self.inputs, self.output)]
        return f"{','.join(terms[:-1])}->{terms[-1]}"


def pointed(message: str, text: str, places: Iterable[int] = ()) -> str:
    """Return a message followed by the subscripts, with carets below the given positions."""
    carets = set(places)
    line = "".join("^" if at in carets else " " for at in range(len(text) + 1)).rstrip()
    return f"{message}\n    {text}" + (f"\n    {line}" if line else "")


@constant_to_compile
@lru_cache(maxsize=1024)
def parse(function: str, text: str, ranks: tuple[int, ...]) -> Equation:
    """Parse subscripts for operands of the given ranks.

    Args:
        function: Name of the public function, for messages.
        text: Such as ``"ij,jk->ik"``; spaces, ``...`` and a missing output are as in torch.
        ranks: The number of dimensions of each operand.

    Raises:
        FlagError: The subscripts are malformed.
        ShapeError: The number of operands or a rank does not match.
    """
    if not isinstance(text, str):
        raise DTypeError(f"{function}: subscripts must be a string, got {type(text).__name__}")
    bad = [at for at, sign in enumerate(text) if sign not in _SIGNS and not _is_label(sign)]
    if bad:
        found = ", ".join(repr(text[at]) for at in bad)
        message = f"{function}: subscripts have invalid characters: {found}"
        raise FlagError(pointed(message, text, bad))
    _check_arrow(function, text)
    left, arrow, right = text.partition("->")
    terms, at = [], 0
    for term in left.split(","):
        terms.append(_cut(function, text, term, at))
        at += len(term) + 1
    if len(terms) != len(ranks):
        number = f"{len(terms)} operand term{'s' * (len(terms) != 1)}"
        message = f"{function}: subscripts have {number}, and {_operands(len(ranks))} given"
        raise ShapeError(pointed(message, text))
    inputs = tuple(
        _named(function, text, number, term, rank)
        for number, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    )
    hidden = max((len(term) - len(cut.letters) for term, cut in zip(inputs, terms, strict=True)))
    if not arrow:
        return Equation(inputs, _hidden(hidden) + _once(inputs), text)
    output = _cut(function, text, right, len(left) + 2)
    _check_output(function, text, output, inputs)
    names = output.letters
    if output.dots is not None:
        names = names[: output.dots] + _hidden(hidden) + names[output.dots :]
    return Equation(inputs, names, text)


class _Term(NamedTuple):
    """Letters of one term, their positions in the text, and the position of the ellipsis."""

    letters: str
    places: tuple[int, ...]
    dots: int | None


def _cut(function: str, text: str, term: str, at: int) -> _Term:
    dots = term.find("...")
    rest = term if dots < 0 else f"{term[:dots]}   {term[dots + 3 :]}"
    wrong = [at + i for i, sign in enumerate(rest) if sign in ".->"]
    if wrong:
        message = f"{function}: an ellipsis is three dots, at most once in each operand"
        raise FlagError(pointed(message, text, wrong))
    found = [(sign, at + i) for i, sign in enumerate(rest) if sign != " "]
    before = None if dots < 0 else sum(sign != " " for sign in term[:dots])
    return _Term("".join(s for s, _ in found), tuple(place for _, place in found), before)


def _check_arrow(function: str, text: str) -> None:
    bare = text.replace("->", "  ")
    wrong = [at for at, sign in enumerate(bare) if sign in "->"]
    arrows = [at for at in range(len(text)) if text.startswith("->", at)]
    if wrong or len(arrows) > 1:
        message = f"{function}: subscripts have at most one arrow '->'"
        raise FlagError(
            pointed(message, text, wrong or [a + i for a in arrows[1:] for i in (0, 1)])
        )
    if arrows and "," in text[arrows[0] :]:
        message = f"{function}: there is one output, and so no comma after '->'"
        raise FlagError(pointed(message, text, [text.index(",", arrows[0])]))


def _named(function: str, text: str, number: int, term: _Term, rank: int) -> str:
    """Return the names of an operand's dimensions."""
    count = len(term.letters)
    if count > rank or (count < rank and term.dots is None):
        least = " or more" if term.dots is not None else ""
        message = (
            f"{function}: operand {number} has {rank} dimension{'s' * (rank != 1)}, and its "
            f"subscripts name {count}{least}"
        )
        raise ShapeError(pointed(message, text, term.places))
    if term.dots is None:
        return term.letters
    return term.letters[: term.dots] + _hidden(rank - count) + term.letters[term.dots :]


def _hidden(count: int) -> str:
    """Return names for the last ``count`` dimensions of an ellipsis."""
    return "".join(chr(_HIDDEN + at) for at in range(count - 1, -1, -1))


def _is_label(sign: str) -> bool:
    """Return whether a character may name an index: any letter, and × and ÷ of opt_einsum."""
    return sign.isalpha() or sign in "×÷"


def _once(inputs: tuple[str, ...]) -> str:
    every = "".join(inputs)
    return "".join(sorted(x for x in set(every) if _is_label(x) and every.count(x) == 1))


def _check_output(function: str, text: str, output: _Term, inputs: tuple[str, ...]) -> None:
    known = set("".join(inputs))
    for letter, place in zip(output.letters, output.places, strict=True):
        if letter not in known:
            message = f"{function}: output index {letter!r} is in no operand"
            raise FlagError(pointed(message, text, [place]))
        if output.letters.count(letter) > 1:
            places = [p for x, p in zip(output.letters, output.places, strict=True) if x == letter]
            message = f"{function}: output index {letter!r} is there twice"
            raise FlagError(pointed(message, text, places))


def sizes_of(function: str, equation: Equation, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the size of every index; size 1 broadcasts to the size in other operands.

    Raises:
        ShapeError: An index has two sizes.
    """
    sizes: dict[str, int] = {}
    owner: dict[str, int] = {}
    for number, (term, shape) in enumerate(zip(equation.inputs, shapes, strict=True)):
        own: dict[str, int] = {}
        for label, size in zip(term, shape, strict=True):
            known = own.setdefault(label, size)
            if known != size:
                _two_sizes(function, equation, label, number, known, number, size)
        for label, size in own.items():
            known = sizes.get(label, 1)
            if known not in (1, size) and size != 1:
                _two_sizes(function, equation, label, owner[label], known, number, size)
            if size != 1 or label not in sizes:
                sizes[label], owner[label] = size, number
    return sizes


def _two_sizes(
    function: str, equation: Equation, label: str, first: int, a: int, second: int, b: int
) -> None:
    name = f"index {label!r}"
    if not _is_label(label):
        name = f"dimension -{ord(label) - _HIDDEN + 1} of the ellipsis"
    where = f"{b} elsewhere in it" if first == second else f"{b} in operand {second}"
    message = f"{function}: {name} has size {a} in operand {first} and {where}"
    raise ShapeError(pointed(message, equation.text, _places(equation.text, label, first, second)))


def _places(text: str, label: str, *operands: int) -> list[int]:
    """Return the positions of an index in the terms of the given operands."""
    sign, width = (label, 1) if _is_label(label) else ("...", 3)
    found, at = [], 0
    for number, term in enumerate(text.partition("->")[0].split(",")):
        if number in operands:
            starts = [at + i for i in range(len(term)) if term.startswith(sign, i)]
            found += [start + i for start in starts for i in range(width)]
        at += len(term) + 1
    return found


def from_sublists(function: str, args: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts and operands of a call ``(operand, sublist, operand, sublist, output)``.

    Raises:
        FlagError: A sublist entry is neither 0 to 51 nor ``...``.
    """
    if len(args) < 2:
        raise DTypeError(
            f"{function}: the call is (subscripts, *operands) or (operand, sublist, ...), got "
            f"{type(args[0]).__name__} alone"
        )
    operands = list(args[0 : len(args) - len(args) % 2 : 2])
    terms = [_letters(function, sublist) for sublist in args[1::2]]
    text = ",".join(terms)
    if len(args) % 2:
        text = f"{text}->{_letters(function, args[-1])}"
    return text, operands


def _letters(function: str, sublist: Any) -> str:
    listed = isinstance(sublist, Iterable) and getattr(sublist, "ndim", 1) == 1
    if isinstance(sublist, Tensor) or not listed:
        kind = type(sublist).__name__
        raise DTypeError(
            f"{function}: subscripts must be a string, or operands and sublists must alternate, "
            f"got {kind} for a sublist"
        )
    entries = list(sublist)
    found = []
    for entry in entries:
        if entry is Ellipsis:
            found.append("...")
            continue
        try:
            number = index(entry)
        except TypeError:
            number = -1
        if not 0 <= number < len(LETTERS):
            raise FlagError(
                f"{function}: a sublist holds '...' and integers from 0 to {len(LETTERS) - 1}, "
                f"got {entry!r} in {entries}"
            )
        found.append(LETTERS[number])
    return "".join(found)


def _operands(count: int) -> str:
    return f"{count} operand was" if count == 1 else f"{count} operands were"
