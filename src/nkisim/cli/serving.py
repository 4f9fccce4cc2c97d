"""``nkisim serve``: one warm process for an editor or for a program."""

from __future__ import annotations

from importlib import import_module

import click

from nkisim.cli.group import commands
from nkisim.serve.requests import Server


def warm_server() -> Server:
    """Return the server whose children run this command line."""
    return Server("nkisim.cli.group:main", "nkisim.cli.warm:rehearse")


@commands.command()
@click.option("--mcp", is_flag=True, help="Tools for programs, by the Model Context Protocol.")
@click.option("--lsp", is_flag=True, help="An editor's server, by the Language Server Protocol.")
def serve(mcp: bool, lsp: bool) -> None:
    """Answer requests on stdin and stdout from one warm process, until stdin ends.

    Each request runs in a child process with limits on time and memory. --mcp needs the extra
    nkisim[agents], --lsp the extra nkisim[editor].
    """
    if mcp == lsp:
        raise click.UsageError("give one of --mcp and --lsp")
    try:
        protocol = import_module("nkisim.serve.tools" if mcp else "nkisim.serve.editor")
    except ModuleNotFoundError as error:
        extra = "agents" if mcp else "editor"
        raise click.UsageError(
            f"{error.name} is not installed: pip install 'nkisim[{extra}]'"
        ) from None
    with warm_server() as server:
        server.start()
        protocol.serve_stdio(server)
