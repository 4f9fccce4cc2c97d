"""Runs the shell blocks of README.md and docs/start from a wheel and from a source package.

Both packages are built from the last commit, and each is installed in a fresh environment. The
blocks run in a clone and in the unpacked source package, so that no block sees the files of this
checkout. Text directly below a block is what it must print. The package index is used; the torch
of constraints.txt brings no CUDA where pip finds a CPU build of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from docs.pages import Block, Page  # noqa: E402

NOT_RUN_AT_MOST = 5
_SECONDS = 1800
_OURS = ("NKI", "PIP_REQUIRE", "PYTHON", "TRN", "VIRTUAL_ENV")
"""Variables of this process that a new user's shell does not have."""


def main(root: Path = ROOT) -> None:
    """Build, install and run; print a line for each block.

    Raises:
        SystemExit: A block failed, or too many blocks are not run.
    """
    started = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        clone = folder / "clone"
        _done("git", "clone", "--quiet", str(root), str(clone))
        builder = _environment(folder / "builder", clone, "build")
        _done(str(builder / "bin" / "python"), "-m", "build", str(clone))
        (wheel,) = (clone / "dist").glob("*.whl")
        (source,) = (clone / "dist").glob("*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        unpacked = folder / source.name.removesuffix(".tar.gz")
        failed = 0
        for package, checkout in ((wheel, clone), (source, unpacked)):
            print(package.name, flush=True)
            environment = _environment(folder / package.name, clone, f"{package}[torch]")
            failed += len(failures(checkout, environment))
    print(f"{failed} blocks failed, {time.monotonic() - started:.0f} s")
    if failed:
        raise SystemExit(1)


def failures(checkout: Path, environment: Path) -> list[str]:
    """Run the blocks of the pages of ``checkout``, and return those that failed.

    Raises:
        SystemExit: Too many blocks are not run.
    """
    pages = [checkout / "README.md", *sorted((checkout / "docs" / "start").glob("*.md"))]
    blocks = [(page, b) for page in pages for b in Page.read(page).blocks if b.is_shell]
    left_out = sum(bool(block.not_run) for _, block in blocks)
    if left_out > NOT_RUN_AT_MOST:
        raise SystemExit(f"got {left_out} blocks that are not run, accepted: {NOT_RUN_AT_MOST}")
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = _clean() | {"PATH": path}
    failed = []
    for page, block in blocks:
        place = f"{page.relative_to(checkout)}:{block.line}"
        before = time.monotonic()
        fault = "" if block.not_run else _fault(block, checkout, variables)
        word = f"not run: {block.not_run}" if block.not_run else "FAILED" if fault else "ok"
        print(f"  {place:<32}{time.monotonic() - before:6.0f} s  {word}", flush=True)
        if fault:
            failed.append(place)
            print(f"{block.text}{fault}", flush=True)
    return failed


def _fault(block: Block, folder: Path, variables: Mapping[str, str]) -> str:
    """Run a block as a user pastes it, and return what is wrong."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block.text],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    if block.output and not block.prints(done.stdout):
        return f"printed\n{done.stdout}but the page shows\n{block.output}"
    return ""


def _environment(folder: Path, checkout: Path, requirement: str) -> Path:
    """Make a virtual environment with the versions of constraints.txt; builds obey them, too."""
    _done(sys.executable, "-m", "venv", str(folder))
    constraint = {"PIP_CONSTRAINT": str(checkout / "constraints.txt")}
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _done(*pip, "install", requirement, **constraint)
    return folder


def _clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}


def _done(*command: str, **variables: str) -> None:
    subprocess.run(command, env=_clean() | variables, stdout=subprocess.DEVNULL, check=True)
