"""``nkisim find``: the call of NKI that was meant by a name or by words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import click

from nkisim.cli.group import commands, format_option, nki_option
from nkisim.diagnostics.codes import is_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST = 8

_NAMESPACES = {"nisa": "isa", "nl": "language", "ncc": "collectives"}
_CALLED = re.compile(r"(?<!op=)(?<!op[01]=)\b(?:nisa|nl|ncc)\.\w+")


class Call(NamedTuple):
    """A function of NKI: its name, such as ``"nl.load"``, its call, and its documentation."""

    name: str
    call: str
    text: str


@commands.command()
@click.argument("words", nargs=-1, required=True)
@format_option("text", "json")
@nki_option
def find(words: tuple[str, ...], form: str) -> int:
    """Print the calls of NKI that WORDS mean, with their signatures.

    WORDS are the name of a function, such as nisa.nc_matmul, which is printed with its
    documentation; a name that NKI does not have, such as nisa.multiply or torch.gather; or an
    operation in words. In code x and y are tiles of p partitions and n columns, and table is a
    tensor in HBM. A code of the compiler, such as NCC_IBIR440, is explained instead. Exit status: 0
    found, 1 nothing found.
    """
    text = " ".join(words)
    if is_code(text):
        from nkisim.cli.logs import find_code

        return find_code(text.strip(), form)
    known = calls()
    remedy, found = meant(text, known)
    if form == "json":
        data = {"remedy": remedy, "calls": [call._asdict() for call in found]}
        click.echo(json.dumps(data, indent=2))
    elif len(found) == 1 and not remedy:
        click.echo(f"{found[0].call}\n\n{found[0].text}")
    else:
        lines = [f"{remedy}\n"] if remedy else []
        lines += [f"{c.call}\n    {c.text.partition(chr(10))[0]}" for c in found]
        click.echo("\n".join(lines) or f"no call of NKI has {text!r}")
    return 0 if found or remedy else 1


def calls() -> dict[str, Call]:
    """Return every function of the version in force whose calls are checked, by name."""
    from importlib import import_module

    from nkisim.spec.signatures import CALLS, call_text, home_of
    from nkisim.versions import in_force

    shorts = {f"nki.{module}": short for short, module in _NAMESPACES.items()}
    for module in _NAMESPACES.values():
        import_module(f"nkisim.{module}")
    found = {}
    for written, versions in CALLS.items():
        if in_force() not in versions:
            continue
        module, plain = home_of(written)
        name = f"{shorts[module]}.{plain}"
        function = getattr(import_module(module.replace("nki.", "nkisim.")), plain, None)
        call = call_text(name, versions[in_force()].signature)
        found[name] = Call(name, call, getattr(function, "__doc__", "") or "")
    return found


def meant(text: str, known: Mapping[str, Call]) -> tuple[str, list[Call]]:
    """Return what to call in words, where a name means it, and the calls that a text means."""
    from nkisim.intents import counterpart, nearest
    from nkisim.ways import ways

    owner, _, plain = text.strip().removesuffix("()").rpartition(".")
    short = {f"nki.{module}": name for name, module in _NAMESPACES.items()}.get(owner, owner)
    exact = [name for name in known if name in (f"{short}.{plain}", text)]
    if exact:
        return "", [known[exact[0]]]
    word = re.sub(r"[\s-]+", "_", plain.lower())
    if re.fullmatch(r"\w+", plain) or word in ways():
        same = [call for name, call in known.items() if name.rpartition(".")[2] == plain]
        way = ways().get(word)
        remedy = counterpart(plain) if way is None else f"{way.code}\n    {way.note}".lstrip()
        named = [known[name] for name in _CALLED.findall(remedy) if name in known]
        found = list(dict.fromkeys([*same, *named]))
        if found or way is not None:
            return remedy, found
        near = nearest(plain, (name.rpartition(".")[2] for name in known), 0.8)
        if near:
            return f"did you mean {near}?", [
                c for c in known.values() if c.name.endswith(f".{near}")
            ]
    return "", _with_words(text, known.values())


def _with_words(text: str, known: Iterable[Call]) -> list[Call]:
    """Return the calls whose name and first line have most of the words."""
    wanted = {_stem(word) for word in re.findall(r"[a-z0-9]+", text.lower())}
    rated = []
    for call in known:
        name = {_stem(word) for word in call.name.partition(".")[2].split("_")}
        line = re.findall(r"[a-z0-9]+", call.text.partition("\n")[0].lower())
        rate = 2 * len(wanted & name) + len(wanted & {_stem(word) for word in line})
        rated.append((-rate, call.name, call))
    best = sorted(one for one in rated if one[0] < 0)[:_MOST]
    return [call for rate, _, call in best if 2 * rate <= best[0][0]]


def _stem(word: str) -> str:
    return re.sub(r"(?:ing|es|s|e)$", "", word)
