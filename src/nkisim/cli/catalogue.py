"""``nkisim rule M004`` and ``nkisim rules``: the catalogue, offline."""

from __future__ import annotations

import difflib
from importlib import resources

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from nkisim.checker import all_rules
from nkisim.cli.group import commands
from nkisim.diagnostics import RULES
from nkisim.diagnostics.undecidable import SPOKEN_FOR, UNDECIDABLE

__all__ = ["rule", "rules"]


@commands.command()
@click.argument("name")
@click.option("--plain", is_flag=True, help="Print the page's own text.")
def rule(name: str, plain: bool) -> None:
    """Print the page of a rule, by id or name."""
    known = all_rules()
    by_name = {r.slug: r.id for r in known.values()} | {r.id: r.id for r in known.values()}
    id = by_name.get(name) or by_name.get(name.upper())
    if name.upper() in UNDECIDABLE or name.upper() in SPOKEN_FOR:
        click.echo(_no_rule(name.upper()))
        return
    if id is None:
        near = difflib.get_close_matches(name, by_name, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"no rule is called {name!r}{hint}")
    text = page_text(id)
    console = Console(highlight=False)
    if plain or not console.is_terminal:
        click.echo(text, nl=False)
    else:
        console.print(Markdown(text))


def _no_rule(id: str) -> str:
    """Return the reason why a fault of the catalogue has no rule."""
    if id in UNDECIDABLE:
        return f"# {id}\n\nNot decidable on a CPU: {UNDECIDABLE[id]}."
    return f"# {id}\n\n{SPOKEN_FOR[id]}"


def page_text(id: str) -> str:
    """Return the page of a rule, or the text of its declaration if there is no page."""
    package = resources.files("nkisim")
    # Pages are inside an installed package, and in the docs folder of a checkout.
    for home in (package / "pages", package / ".." / ".." / "docs" / "rules"):
        page = home / f"{id}.md"
        if page.is_file():
            return page.read_text(encoding="utf-8")
    found = RULES[id]
    return (
        f"# {id} {found.slug}\n\n{found.checks}\n\nWhy it matters: {found.matters}.\n\n"
        f"Severity: {found.severity}.\n"
    )


@commands.command()
@click.argument("families", nargs=-1)
def rules(families: tuple[str, ...]) -> None:
    """List all rules, or those whose id begins with one of FAMILIES."""
    shown = [
        r
        for _, r in sorted(all_rules().items())
        if not families or any(r.id.startswith(family.upper()) for family in families)
    ]
    if not shown:
        raise click.UsageError(f"no rule begins with {' or '.join(families)}")
    console = Console(highlight=False)
    if not console.is_terminal:
        for r in shown:
            click.echo(f"{r.id}  {r.severity:8}{r.slug:32}{r.checks}")
        return
    table = Table(box=None, pad_edge=False)
    for head in ("id", "severity", "name", "what is found"):
        table.add_column(head)
    for r in shown:
        table.add_row(r.id, r.severity, r.slug, r.checks)
    console.print(table)
