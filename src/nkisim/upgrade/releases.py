"""The releases that a file can come from and go to, and the rules between the two."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Literal, cast, get_args

from nkisim import versions
from nkisim.upgrade.rules import RULES, Era, Rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import is_tile
from nkisim.versions import parameter_names

ERAS: tuple[Era, ...] = get_args(Era)
TARGETS = versions.VERSIONS
MODULES = tuple(versions.names_of(TARGETS[0]))
"""The modules of NKI whose names each version lists."""

UNLISTED_METHODS = frozenset(("ap", "get_pattern", "reshape", "view"))
"""Methods that tensors have in 0.3.0; the lists of names have methods from 0.4.0 on."""

Since = Era | Literal["auto"]


def version_of(era: Era) -> str | None:
    """Return the NKI version of a release, in the form of ``TARGETS``; None for the betas."""
    return None if era.startswith("beta") else versions.resolve(era)


def release_of(source: Source, since: Since, target: str) -> tuple[Era, bool]:
    """Return the release of a file, and whether it is known or only the oldest possible one.

    It is known if it is given, and for the betas: ``neuronxcc`` is the package of Beta 1, and an
    argument or a position that 0.3.0 changed shows a file of Beta 2.
    """
    if since != "auto":
        return since, True
    era = era_of(source)
    if era == "beta1":
        return era, True
    for rule in [r for r in RULES.values() if r.since == "beta2" and r.certain and r.shows]:
        if any(match.edits and rule.applies(match, target, None) for match in rule.find(source)):
            return "beta2", True
    return era, False


def rules_between(era: Era, target: str, certain: bool = False) -> list[Rule]:
    """Return the rules of the steps from a release to a target, by id.

    Args:
        era: The release of the file.
        target: The version that it is brought to.
        certain: Whether rules of older releases whose old form cannot be mistaken for newer code
            are used as well.
    """
    chosen = {
        rule.id: rule
        for rule in RULES.values()
        if TARGETS.index(rule.to) <= TARGETS.index(target)
        and not (rule.until and TARGETS.index(target) >= TARGETS.index(rule.until))
        and ((ERAS.index(rule.since) >= ERAS.index(era)) or (certain and rule.certain))
    }
    return [rule for _, rule in sorted(chosen.items()) if rule.same_as not in chosen]


def era_of(source: Source) -> Era:
    """Return the oldest release that a module can be written for, as far as its names show it.

    ``neuronxcc`` is the package of Beta 1. In other files the newest of the NKI names and keywords
    decides. Beta 2 has no list of names: its files count as 0.3.
    """
    for statement in (*source.all(ast.Import), *source.all(ast.ImportFrom)):
        if "neuronxcc" in source.code(statement):
            return "beta1"
    newest = max(_first_versions(source), key=TARGETS.index, default=TARGETS[0])
    return cast(Era, newest.removesuffix(".0"))


def _first_versions(source: Source) -> Iterator[str]:
    """Yield the version in which each NKI name and keyword of a file appears first."""
    nodes = (*source.all(ast.Attribute), *source.all(ast.Name))
    for full in (*source.imported_names(), *(source.name(node) or "" for node in nodes)):
        module, _, name = full.rpartition(".")
        if module in MODULES:
            yield from [v for v in TARGETS if versions.has(v, module, name)][:1]
    for attribute in source.all(ast.Attribute):
        member = _members().get(attribute.attr)
        if member is not None and is_tile(source, attribute.value):
            yield member
    for call in source.all(ast.Call):
        module, _, name = (source.name(call.func) or "").rpartition(".")
        for argument in source.given(call) if module in MODULES else ():
            key = argument.keyword
            yield from [v for v in TARGETS if key in parameter_names(v, module, name)][:1]


@cache
def _members() -> dict[str, str]:
    """Return the methods and attributes of tensors that 0.4.0 and 0.5.0 brought, with the version.

    0.6.0 lists attributes that tensors always had, such as ``shape``.
    """
    found: dict[str, str] = {}
    for version in ("0.4.0", "0.5.0"):
        listed = versions.names_of(version)["nki.language"]["classes"]["NkiTensor"]
        for name in (*listed["methods"], *listed["attributes"]):
            if name not in UNLISTED_METHODS:
                found.setdefault(name, version)
    return found
