"""``nkisim rule M004`` and ``nkisim rules``: the catalogue, offline."""

from __future__ import annotations

import sys
from importlib import resources
from typing import NamedTuple

import click

from nkisim.cli.group import commands


class Row(NamedTuple):
    """A rule in the index of the pages, which is generated from the declarations."""

    id: str
    severity: str
    slug: str
    checks: str


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
    """Return the page of a rule by its name, or the reason why a fault has no rule."""
    by_name = {name: row.id for row in rows() for name in (row.id, row.slug)}
    if name in by_name:
        return _page(by_name[name])
    from nkisim.diagnostics.rules import REPORTED_AS, UNDECIDABLE
    from nkisim.filecheck.settings import OWN_RULES  # rules about the check itself have no pages
    from nkisim.intents import nearest

    if (id := name.upper()) in UNDECIDABLE:
        return f"# {id}\n\nNot decidable on a CPU: {UNDECIDABLE[id]}.\n"
    if id in REPORTED_AS:
        others = ", ".join(REPORTED_AS[id])
        return f"# {id}\n\n{f'Found as {others}' if others else 'Refused before it runs'}.\n"
    own = {name: r for r in OWN_RULES for name in (r.id, r.slug)}
    if (r := own.get(name) or own.get(id)) is not None:
        return (
            f"# {r.id} {r.slug}\n\n{r.checks}\n\nWhy it matters: {r.matters}.\n\n"
            f"Severity: {r.severity}.\n"
        )
    near = nearest(name, {**by_name, **own})
    hint = f"; did you mean {near!r}?" if near else ""
    raise click.UsageError(f"no rule is called {name!r}{hint}")


def _page(name: str) -> str:
    """Return the page of a rule, or the index; empty if there is none."""
    package = resources.files("nkisim")
    # Pages are inside an installed package, and in the docs folder of a checkout.
    for home in (package / "pages", package / ".." / ".." / "docs" / "rules"):
        page = home / f"{name}.md"
        if name.isalnum() and page.is_file():
            return page.read_text(encoding="utf-8")
    return ""


def rows() -> list[Row]:
    """Return the rules of the index by id. Their declarations are in a hundred modules."""
    found = []
    for line in _page("index").splitlines():
        if line.startswith("| ["):
            link, slug, severity, checks = line.strip("| ").split(" | ")
            id, text = link[1 : link.index("]")], checks.replace("\\|", "|")
            found.append(Row(id, severity, slug, text))
    return sorted(found)


@commands.command()
@click.argument("text", nargs=-1)
def rules(text: tuple[str, ...]) -> None:
    """List all rules, or those that TEXT selects.

    TEXT is the beginning of ids, such as M or S028, or words of a rule's name, description and
    page, all of which it must have: `nkisim rules psum bank`.
    """
    known = rows()
    families = [t.upper() for t in text if any(row.id.startswith(t.upper()) for row in known)]
    words = [t.lower() for t in text if t.upper() not in families]
    shown = [
        row
        for row in known
        if (not families or row.id.startswith(tuple(families))) and _has(row, words)
    ]
    if not shown:
        from nkisim.intents import nearest

        near = nearest(text[0].lower(), {word for row in known for word in row.slug.split("-")})
        hint = f"; did you mean {near!r}?" if near else ""
        raise click.UsageError(f"no rule has {' '.join(text)!r}{hint}")
    if not sys.stdout.isatty():
        for row in shown:
            click.echo(f"{row.id}  {row.severity:8}{row.slug:32}{row.checks}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("id", "severity", "name", "what is found"):
        table.add_column(head)
    for row in shown:
        table.add_row(*row)
    Console(highlight=False).print(table)


def _has(row: Row, words: list[str]) -> bool:
    """Return whether a rule has all words; the page is read only if the row does not."""
    missing = [word for word in words if word not in f"{row.slug} {row.checks}".lower()]
    if not missing:
        return True
    page = _page(row.id).lower()
    return all(word in page for word in missing)
