"""The table of rules: what each changes, from which release on, and the function that does it.

Changes that several rules make are functions here: a name for a nested expression, a tile's copy.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from nkisim.rewriting import Edit, before
from nkisim.source import base_name
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.versions import VERSIONS

Era = Literal["beta1", "beta2", "0.3", "0.4", "0.5", "0.6", "0.7"]
Kind = Literal["safe", "partial", "report", "optional"]


@dataclass(frozen=True)
class Match:
    """One place where a rule applies: the edits, or without any, the advice for the user.

    Attributes:
        node: The construct of the older release.
        message: What is done, or what is to be done.
        edits: The change; empty for a finding.
        review: What to check after the change; empty where the result is equivalent.
        certain: Whether no newer release takes the construct as it is; None: as the rule says.
        only: The release of the only files in which the construct is changed; None: of all.
    """

    node: ast.AST
    message: str
    edits: tuple[Edit, ...] = ()
    review: str = ""
    certain: bool | None = None
    only: Era | None = None


Finder = Callable[[Source], Iterator[Match]]


@dataclass(frozen=True)
class Rule:
    """One incompatible change between two releases.

    Attributes:
        id: Its stable id, ``MG-314``.
        title: The change in a few words.
        since: The newest release whose kernels it applies to.
        to: The release that requires the new form, or prefers it.
        kind: ``safe`` rewrites keep the meaning, ``partial`` ones ask for a review or leave some
            cases as findings, ``report`` only finds. ``optional`` finds what a new feature would
            make simpler, which leaves nothing to do.
        certain: Whether the old form cannot be mistaken for code of the newer release. What is not
            certain is changed and reported only in files of a known release: the one that the user
            names, or a beta that its own forms show.
        find: The function that yields the places.
        deprecated: Whether the release ``to`` and all later ones still take the old form, which
            therefore stays in files whose release is not known.
        shows: Whether the old form shows a file of its release. Mistakes that are made in newer
            files, too, do not.
        refused: The first version that refuses the old form, where ``to`` only deprecates it.
        until: The version from which on the old form works again; the rule is not used for it.
        same_as: The id of a rule of an earlier step that finds the same places; this rule is used
            only where that one is not.
    """

    id: str
    title: str
    since: Era
    to: str
    kind: Kind
    certain: bool
    find: Finder
    deprecated: bool = False
    refused: str = ""
    shows: bool = True
    until: str = ""
    same_as: str = ""

    def applies(self, match: Match, target: str, known: Era | None) -> bool:
        """Return whether a place is changed or reported for a target version.

        Args:
            match: The place.
            target: The version that the file is brought to.
            known: The release of the file, if it is known. If not, only what the target refuses
                is changed: everything else may be written for it.
        """
        if known is not None:
            return match.only in (None, known)
        works = self.deprecated or (
            self.refused != "" and VERSIONS.index(target) < VERSIONS.index(self.refused)
        )
        return (self.certain if match.certain is None else match.certain) and not works


RULES: dict[str, Rule] = {}

_STEPS: dict[str, tuple[Era, str]] = {
    "MG-1": ("beta1", "0.3.0"),
    "MG-2": ("beta2", "0.3.0"),
    "MG-3": ("beta2", "0.3.0"),
    "MG-34": ("0.3", "0.3.0"),
    "MG-35": ("0.3", "0.3.0"),
    "MG-345": ("beta1", "0.3.0"),
    "MG-347": ("beta1", "0.3.0"),
    "MG-4": ("0.3", "0.4.0"),
    "MG-407a": ("0.4", "0.5.0"),
    "MG-5": ("0.4", "0.5.0"),
    "MG-6": ("0.5", "0.6.0"),
    "MG-7": ("0.6", "0.7.0"),
}
"""The newest release whose kernels rules apply to, and the one they lead to, by start of the id."""


def rule(
    id: str,
    title: str,
    kind: Kind,
    *,
    certain: bool = True,
    deprecated: bool = False,
    refused: str = "",
    shows: bool = True,
    until: str = "",
    same_as: str = "",
) -> Callable[[Finder], Finder]:
    """Return the decorator that enters a function into the table under its id.

    The example of a rule, its old form and what becomes of it, is in
    ``tests/data/upgrade_pairs.toml``.
    """

    def register(find: Finder) -> Finder:
        assert id not in RULES
        since, to = _STEPS[max(filter(id.startswith, _STEPS), key=len)]
        form = (deprecated, refused, shows, until, same_as)
        RULES[id] = Rule(id, title, since, to, kind, certain, find, *form)
        return find

    return register


def removed(keyword: str, *functions: str, review: str = "") -> Finder:
    """Return the function that drops a keyword argument in the calls of functions of NKI."""

    def find(source: Source) -> Iterator[Match]:
        for function in functions:
            module, _, name = function.rpartition(".")
            for call in source.calls(module, name):
                argument = source.keyword(call, keyword)
                if argument is not None:
                    edit = source.without_argument(call, argument)
                    yield Match(call, f"{keyword}= is removed", (edit,), review)

    return find


def copied(name: str, tile: str, dtype: str = "", *, engine: str = "") -> tuple[str, str]:
    """Return the statements that copy a tile to a new one in SBUF; without dtype, of its own."""
    made = (
        f"{name} = {NL}.ndarray({tile}.shape, dtype={dtype or tile + '.dtype'}, buffer={NL}.sbuf)"
    )
    tail = f", engine={engine}" if engine else ""
    return made, f"{NISA}.tensor_copy(dst={name}, src={tile}{tail})"


def staged(source: Source, operand: ast.expr, dtype: str = "") -> tuple[Edit, ...] | None:
    """Return the edits that copy an operand to SBUF in front of its statement and use the copy.

    None where the operand is no tile with a name, or its statement is not a line of its own.
    """
    tile, line = base_name(operand), source.statement(operand)
    if tile is None or line is None or not source.unconditional(operand):
        return None
    stage = source.fresh(f"{tile.id}_sbuf")
    rows = copied(stage, source.code(operand), dtype or f"{tile.id}.dtype")
    return before(source, line, rows), source.replaced(operand, stage)


def hoisted(source: Source, node: ast.AST, wish: str, message: str, otherwise: str = "") -> Match:
    """Return the change that gives an expression a name, in a statement in front of its line.

    ``otherwise`` is the advice where it is not always evaluated.
    """
    line = source.statement(node)
    if line is None or not source.unconditional(node):
        return Match(node, otherwise)
    name = source.fresh(wish)
    edits = (before(source, line, [f"{name} = {source.code(node)}"]), source.replaced(node, name))
    return Match(node, message, edits)
