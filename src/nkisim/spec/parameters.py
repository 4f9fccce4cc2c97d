"""Meaning of the parameters of instructions: one sentence each.

A body's docstring describes its own parameters in an ``Args`` section. Parameters that mean the
same in several instructions are described here; a body that describes one of them replaces the
sentence.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

SHARED: Mapping[str, str] = {
    "dge_mode": "Generator of the descriptors of the transfer: ``swdge`` (software), ``hwdge`` "
    "(hardware, gen3 and later), ``none`` for descriptors that are made before the kernel runs, "
    "or ``unknown`` for the choice of the compiler.",
    "dst": "Tile that receives the result.",
    "engine": "Engine that runs the call; with ``unknown`` it is the first of those that can.",
    "name": "Label of the call; it has no effect.",
    "oob_mode": "Effect of an index out of bounds: ``error`` is a fault, ``skip`` leaves the rows "
    "of that index out of the transfer.",
    "priority": "Order among transfers that wait, from 0 (first) to 3 (last), on gen4; it changes "
    "no values and no predicted time.",
    "reduce_cmd": "Command to the engine's accumulator registers, one per partition: ``idle`` "
    "reduces nothing, ``reset`` sets them to the operator's neutral element, ``reduce`` combines "
    "the results with them, ``reset_reduce`` does both, and ``load_reduce`` combines the results "
    "with a given value.",
    "reduce_res": "Tile (P, 1) that receives the accumulator registers after the call; None leaves "
    "them unread.",
    "reverse0": "Whether ``operand0`` is on the left of ``op0``.",
    "reverse1": "Whether ``operand1`` is on the left of ``op1``.",
}
"""Meaning of a parameter by name, used if the instruction's docstring does not describe it."""

_HEADING = "\n\nArgs:\n"

_LINE = re.compile(r"\S.{0,79}(?!\S)|\S+")
"""As many words as 80 characters have room for, or one longer word."""


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """Return a docstring without its ``Args`` section, and the sentences of that section.

    Args:
        docstring: Without common indentation, as ``inspect.getdoc`` returns it.
    """
    text, _, section = docstring.partition(_HEADING)
    sentences: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(section).splitlines():
        if line.startswith(" "):
            sentences[name] += f" {line.strip()}"
        else:
            name, _, first = line.partition(": ")
            sentences[name] = first
    return text, sentences


def arguments_section(sentences: Mapping[str, str]) -> str:
    """Return an ``Args`` section, to be added to a docstring."""
    entries = [
        "    " + "\n        ".join(_LINE.findall(f"{name}: {sentence}"))
        for name, sentence in sentences.items()
    ]
    return _HEADING + "\n".join(entries) if entries else ""
