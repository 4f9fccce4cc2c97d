"""``nkisim rule M004`` and ``nkisim rules``: the catalogue, offline."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TYPE_CHECKING

import click

from nkisim.cli.group import commands

if TYPE_CHECKING:
    from nkisim.diagnostics import Rule


@commands.command()
@click.argument("name")
@click.option("--plain", is_flag=True, help="Print the page's own text.")
def rule(name: str, plain: bool) -> None:
    """Print the page of a rule, by id or name."""
    text = _page(name.upper()) or _text_by_name(name)
    if plain or not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(highlight=False).print(Markdown(text))


def _text_by_name(name: str) -> str:
    """Return the text on a rule by its name, or the reason why a fault has no rule."""
    from nkisim.diagnostics.rules import SPOKEN_FOR, UNDECIDABLE
    from nkisim.filecheck import all_rules
    from nkisim.filecheck.rules import OWN_RULES
    from nkisim.intents import nearest

    known = {**all_rules(), **{r.id: r for r in OWN_RULES}}
    by_name = {r.slug: r.id for r in known.values()} | {r.id: r.id for r in known.values()}
    if (id := name.upper()) in UNDECIDABLE:
        return f"# {id}\n\nNot decidable on a CPU: {UNDECIDABLE[id]}.\n"
    if id in SPOKEN_FOR:
        return f"# {id}\n\n{SPOKEN_FOR[id]}\n"
    id = by_name.get(name) or by_name.get(id, "")
    if not id:
        near = nearest(name, by_name)
        hint = f"; did you mean {near!r}?" if near else ""
        raise click.UsageError(f"no rule is called {name!r}{hint}")
    return page_text(known[id])


def _page(id: str) -> str:
    """Return the page of a rule; empty if there is none."""
    package = resources.files("nkisim")
    # Pages are inside an installed package, and in the docs folder of a checkout.
    for home in (package / "pages", package / ".." / ".." / "docs" / "rules"):
        page = home / f"{id}.md"
        if id.isalnum() and page.is_file():
            return page.read_text(encoding="utf-8")
    return ""


def page_text(rule: Rule) -> str:
    """Return the page of a rule, or the text of its declaration if there is no page."""
    from nkisim.versions.rules import rows

    return _page(rule.id) or (
        f"# {rule.id} {rule.slug}\n\n{rule.checks}\n\nWhy it matters: {rule.matters}.\n\n"
        f"Severity: {rule.severity}.\n"
        + "".join(f"{version}: {text}.\n" for version, text in rows(rule.id))
    )


@commands.command()
@click.argument("text", nargs=-1)
def rules(text: tuple[str, ...]) -> None:
    """List all rules, or those that TEXT selects.

    TEXT is the beginning of ids, such as M or S028, or words of a rule's name, description and
    page, all of which it must have: `nkisim rules psum bank`.
    """
    from nkisim.filecheck import all_rules
    from nkisim.intents import nearest

    known = sorted(all_rules().items())
    families = [t.upper() for t in text if any(id.startswith(t.upper()) for id, _ in known)]
    words = [t.lower() for t in text if t.upper() not in families]
    shown = [
        r
        for id, r in known
        if (not families or id.startswith(tuple(families))) and (not words or _has(r, words))
    ]
    if not shown:
        near = nearest(text[0].lower(), {w for _, r in known for w in r.slug.split("-")})
        hint = f"; did you mean {near!r}?" if near else ""
        raise click.UsageError(f"no rule has {' '.join(text)!r}{hint}")
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        for r in shown:
            click.echo(f"{r.id}  {r.severity:8}{r.slug:32}{r.checks}")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("id", "severity", "name", "what is found"):
        table.add_column(head)
    for r in shown:
        table.add_row(r.id, r.severity, r.slug, r.checks)
    console.print(table)


def _has(rule: Rule, words: list[str]) -> bool:
    """Return whether a rule has all words; the page is read only if its own text does not."""
    own = f"{rule.slug} {rule.checks} {rule.matters}".lower()
    missing = [word for word in words if word not in own]
    return not missing or all(word in page_text(rule).lower() for word in missing)
