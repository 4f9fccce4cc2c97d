"""Metadata that depends on where the project is kept: its addresses, and the links of README.md.

The address is that of ``TRNSCI_REPOSITORY_URL``, else that of the remote ``origin`` of this
checkout if it is one on the web. With it a package names its home, and the relative links and
pictures of README.md lead to the files of this version's tag. Without it a package names no
address, and what would lead nowhere on an index page is plain text there.

    python hatch_build.py     prints the address, or nothing
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "TRNSCI_REPOSITORY_URL"

_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^@/:]+):(?P<path>[^:\\]+)")  # git@host:owner/name.git
_SCHEMES = {"https": "https", "http": "http", "ssh": "https", "git": "https", "git+ssh": "https"}
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(
    r"(?P<code>`[^`]*`)"
    r"|(?P<picture>!?)\[(?P<text>(?:`[^`]*`|[^\]`])*)\]\((?P<target>[^)\s]+)\)"
)


class AddressHook(MetadataHookInterface):
    """Fills in ``urls`` and ``readme``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what the table of the project leaves open."""
        root = Path(self.root)
        address = repository_address(root, os.environ)
        tag = f"v{metadata['version']}"
        # A source distribution brings both along: it was made where the address was known.
        if "readme" not in metadata:
            text = (root / "README.md").read_text(encoding="utf-8")
            text = index_page(text, address, tag, is_folder=lambda path: (root / path).is_dir())
            metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if "urls" not in metadata and address is not None:
            metadata["urls"] = project_urls(address, tag)


def repository_address(root: Path, environment: Mapping[str, str]) -> str | None:
    """Return the address of the project on the web, None where none is known.

    An empty variable says that there is none, whatever the checkout's remote is.

    Raises:
        ValueError: The variable holds something that is no address on the web.
    """
    given = environment.get(VARIABLE)
    if given is None:
        return web_address(_origin(root))
    address = web_address(given)
    if given and address is None:
        # Without the value: it may hold a password.
        raise ValueError(f"{VARIABLE}: accepted: an address such as https://HOST/OWNER/NAME")
    return address


def web_address(remote: str) -> str | None:
    """Return the page of a Git remote, without name and password; None if it has none.

    Paths, and hosts that only this machine or its network knows by that name, have none.
    """
    remote = remote.strip()
    if "://" in remote:
        try:
            parts = urlsplit(remote)
            scheme, host, port = _SCHEMES.get(parts.scheme, ""), parts.hostname or "", parts.port
        except ValueError:
            return None
        if port is not None and parts.scheme in ("http", "https"):
            host += f":{port}"
        path = parts.path
    else:
        short = _SCP.fullmatch(remote)
        if short is None:
            return None
        scheme, host, path = "https", short["host"], short["path"]
    path = path.strip("/").removesuffix(".git")
    name = host.partition(":")[0]
    public = "." in name and not re.fullmatch(r"[\d.]+", name)
    return f"{scheme}://{host}/{path}" if scheme and public and path else None


def _origin(root: Path) -> str:
    """Return the remote of the checkout that begins at ``root``, empty if there is none.

    A folder inside another checkout, such as an unpacked archive, is no part of that project.
    """
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        return _git(root, "remote", "get-url", "origin") if Path(top).samefile(root) else ""
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.strip()


def project_urls(address: str, tag: str) -> dict[str, str]:
    """Return what an index page links to beside the description."""
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/{tag}/docs/index.md",
        "Source": f"{address}/tree/{tag}",
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
    }


def index_page(
    text: str, address: str | None, tag: str, *, is_folder: Callable[[str], bool]
) -> str:
    """Return a page of the repository as it can stand anywhere: no link in it is relative."""

    def elsewhere(match: re.Match[str]) -> str:
        target = match["target"]
        if match["code"] or re.match(r"[a-z][a-z+.-]*:|#", target):
            return match[0]
        if address is None:
            return f"*{match['text']}*" if match["picture"] else match["text"]
        kind = "raw" if match["picture"] else "tree" if is_folder(target) else "blob"
        return f"{match['picture']}[{match['text']}]({address}/{kind}/{tag}/{target})"

    parts = _FENCED.split(text)
    return "".join(part if n % 2 else _LINK.sub(elsewhere, part) for n, part in enumerate(parts))


if __name__ == "__main__":
    try:
        print(repository_address(Path(__file__).resolve().parent, os.environ) or "")
    except ValueError as error:
        sys.exit(str(error))
