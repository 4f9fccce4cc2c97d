"""Positional arguments whose position changed, by the signatures of the two versions of a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from nkisim import versions
from nkisim.source import string
from nkisim.upgrade.beta2.arguments import HIDDEN, hides, named
from nkisim.upgrade.releases import MODULES
from nkisim.upgrade.rules import Finder, Match, rule
from nkisim.upgrade.source import Source
from nkisim.versions import parameter_names


def first_moved(older: str, newer: str, module: str, name: str) -> int | None:
    """Return the first position of a function that has another parameter in a newer version."""
    if not (versions.has(older, module, name) and versions.has(newer, module, name)):
        return None
    old, new = (parameter_names(version, module, name) for version in (older, newer))
    for position, parameter in enumerate(old):
        if parameter not in new[position : position + 1]:
            return position
    return None


@cache
def moved_functions(older: str, newer: str) -> dict[tuple[str, str], int]:
    """Return the functions with moved parameters, by module and name, with the first position.

    A parameter that was renamed or removed has no keyword that both versions take: functions with
    such a parameter have rules of their own.
    """
    found = {}
    for module in MODULES:
        for name in versions.names_of(older)[module]["functions"]:
            position = first_moved(older, newer, module, name)
            new = parameter_names(newer, module, name)
            if position is not None and set(parameter_names(older, module, name)) <= set(new):
                found[module, name] = position
    return found


def keywords(older: str, newer: str, *names: str, others: tuple[str, ...] = ()) -> Finder:
    """Return the function that passes moved arguments of functions of nki.isa by keyword.

    Without ``names`` it covers all functions of NKI but ``others``.
    """

    def find(source: Source) -> Iterator[Match]:
        for (module, name), position in moved_functions(older, newer).items():
            if name in others or (names and name not in names):
                continue
            tail = parameter_names(older, module, name)[position:]
            for call in source.calls(module, name):
                if hides(source, call, position):
                    yield Match(call, HIDDEN.format(tail[0]), certain=True)
                    continue
                edits = named(source, call, position, tail)
                given = sum(argument.keyword is None for argument in source.given(call))
                # A call with more arguments than parameters is of another release.
                if edits and given == position + len(edits):
                    message = f"arguments from {tail[0]} on are passed by keyword"
                    moved = zip(call.args[position:], tail, strict=False)
                    certain = any(_is_of(source, value, key) for value, key in moved)
                    yield Match(call, message, edits, certain=certain)

    return find


def _is_of(source: Source, value: ast.expr, parameter: str) -> bool:
    """Return whether a value is visibly one for a parameter: a member of its enum, a name."""
    member = (source.name(value) or "").startswith(f"nki.isa.{parameter}.")
    return member or (parameter == "name" and string(value) is not None)


rule("MG-401", "dma_copy: priority was inserted before oob_mode", "safe", certain=False)(
    keywords("0.3.0", "0.4.0", "dma_copy")
)
rule("MG-402", "dma_transpose: priority was inserted before dge_mode", "safe", certain=False)(
    keywords("0.3.0", "0.4.0", "dma_transpose")
)
rule("MG-403", "dma_compute: oob_mode was inserted before name", "safe", certain=False)(
    keywords("0.3.0", "0.4.0", "dma_compute")
)
rule("MG-403a", "other functions whose parameters moved in 0.4.0", "safe", certain=False)(
    keywords("0.3.0", "0.4.0", others=("dma_copy", "dma_transpose", "dma_compute"))
)
rule("MG-609a", "functions whose parameters moved in 0.6.0", "safe", certain=False)(
    keywords("0.5.0", "0.6.0")
)
