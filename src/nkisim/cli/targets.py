"""What command lines name: files, kernels, generations, and the project of a file."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from nkisim.arch import GENERATIONS, resolve_target
from nkisim.cli.group import put_in_force
from nkisim.files import source_file
from nkisim.project import ProjectSettings, SettingsError, project_settings
from nkisim.versions import NKI_VARIABLE

_STDIN = "nkisim.stdin"
"""Key of the file with the text of stdin in the ``meta`` of click's context."""


def split_name(name: str, *, stdin: bool = False) -> tuple[Path, str | None]:
    """Return the file and the kernel of ``FILE::KERNEL``.

    With ``stdin`` the file of ``-`` is a temporary one with the text of stdin.
    """
    file, _, kernel = name.partition("::")
    if stdin and file == "-":
        return _stdin(), kernel or None
    path = Path(file)
    if not path.exists():
        raise click.UsageError(f"{file!r} does not exist")
    if kernel and path.is_dir():
        raise click.UsageError(f"{file!r} is a folder; name the file of {kernel}")
    return path, kernel or None


@contextmanager
def reference_of(name: str, max_seconds: float) -> Iterator[Callable[..., Any]]:
    """Context manager of the function that ``FILE::FUNCTION`` names, in its file, imported.

    Raises:
        ValueError: The file has no such function.
        CannotImport: The file cannot be imported.
    """
    from nkisim.filecheck.calls import attribute_of
    from nkisim.filecheck.modules import imported

    file, function = split_name(name)
    if function is None:
        raise click.UsageError(f"--reference: got {name!r}; accepted: FILE::FUNCTION")
    with imported(file.resolve(), max_seconds) as module:
        found = attribute_of(module, function)
        if not callable(found):
            raise ValueError(f"--reference: {file} has no function {function}")
        yield found


def _stdin() -> Path:
    """Return a file with the text of stdin, which the command removes at its end."""
    context = click.get_current_context()
    if _STDIN not in context.meta:
        text = sys.stdin.read()
        context.meta[_STDIN] = context.with_resource(source_file(text))
        # Reports show the lines of "-".
        linecache.cache["-"] = (len(text), None, text.splitlines(keepends=True), "-")
        context.call_on_close(lambda: linecache.cache.pop("-", None))
    file: Path = context.meta[_STDIN]
    return file


def stdin_file() -> str:
    """Return the file that has the text of stdin, or an empty string."""
    return str(click.get_current_context().meta.get(_STDIN, ""))


def project_of(path: Path) -> ProjectSettings:
    """Return the settings of the project of a file or folder, and put its NKI version in force.

    The project of stdin is that of the working folder.
    """
    if str(path) == stdin_file():
        path = Path.cwd()
    try:
        found = project_settings(path.resolve() if path.is_dir() else path.resolve().parent)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    if found.nki and NKI_VARIABLE not in os.environ:
        put_in_force(found.nki)
    return found


def targets_of(text: str) -> tuple[str, ...]:
    """Return the generations that a text such as ``"all"`` or ``"trn2,trn3"`` names."""
    if text == "all":
        return tuple(generation.name for generation in GENERATIONS)
    return tuple(dict.fromkeys(resolve_target(name.strip()).name for name in text.split(",")))
