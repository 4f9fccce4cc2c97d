"""The validation record of one kernel: a JSON file, written atomically."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from trnsci.core.errors import FlagError

FORMAT = 1
RECORDS_VARIABLE = "TRNSCI_RECORDS"
HARDWARE = Path(__file__).with_name("hardware")
"""Folder of the records of runs on a NeuronCore, which are part of a release."""
CHECKOUT = Path(__file__).parents[3]
"""The repository, where the package is imported from one; a folder of Python otherwise."""


@dataclass(frozen=True)
class Record:
    """The validation result of one kernel.

    Attributes:
        library, kernel, title: Names of the library and the kernel, and its title.
        status: Whether the result was right, the kernel ran and no generation has findings.
        reference: The source of the expected result.
        error, bound: Relative error in the L2 norm, and the allowed error.
        launches: Launches of this kernel in one call.
        public: Whether that call was one of the public interface, under ``set_backend``.
        generations: Ids of the findings by generation; empty if clean.
        instructions, hbm_bytes: Counts of one launch, on the first generation run with values.
        message: Why it failed; empty if it passed.
        fingerprint: Hash of the sources that the record covers.
        stamp: Date, versions, commit and, for hardware, the instance and the SDK.
        values_on: Generations that computed values; the others were checked without values.
        speed: Predicted device time by generation: ``us``, ``bound_by``, ``bound_share`` and
            ``advice``, or the reason why it was ``refused``; empty in records of other runs.
        dtypes: Dtypes of operands that reach the kernel by the call, by level of precision.
    """

    library: str
    kernel: str
    title: str
    status: Literal["passed", "failed"]
    reference: str = ""
    error: float | None = None
    bound: float | None = None
    launches: int = 0
    public: bool = True
    generations: dict[str, list[str]] = field(default_factory=dict)
    instructions: int = 0
    hbm_bytes: int = 0
    message: str = ""
    fingerprint: str = ""
    stamp: dict[str, str] = field(default_factory=dict)
    values_on: tuple[str, ...] = ()
    speed: dict[str, dict[str, Any]] = field(default_factory=dict)
    dtypes: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the record as JSON text."""
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        return json.dumps(content, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Return the record in a JSON text.

        Raises:
            FlagError: The text is JSON, but not a record of this format.
            ValueError: The text is not JSON.
        """
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise FlagError(f"no record of format {FORMAT}")
        names = {entry.name for entry in dataclasses.fields(cls)}
        if {*content, "speed", "dtypes"} != names:  # records of version 0.1.0 lack these two
            raise FlagError(f"other fields than a record has: {sorted(set(content) ^ names)}")
        if content["status"] not in ("passed", "failed"):
            raise FlagError(f"a status of {content['status']!r}")
        content["values_on"] = tuple(content["values_on"])
        return cls(**content)


@dataclass(frozen=True)
class Unreadable:
    """A file without a valid record.

    Attributes:
        path: The file.
        why: The error.
    """

    path: Path
    why: str


def records_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the records.

    It is the given one, that of TRNSCI_RECORDS, ``build/records`` of the checkout that this package
    is imported from, or else a folder in the user's cache.
    """
    named = given or os.environ.get(RECORDS_VARIABLE)
    if named:
        return Path(named)
    if CHECKOUT.joinpath("pyproject.toml").is_file():
        return CHECKOUT / "build" / "records"
    cached = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cached) / "trnsci" / "records"


def write_record(record: Record, folder: Path) -> Path:
    """Write a record atomically: other processes read the old file or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.library}.{record.kernel}.json"
    write_whole(path, record.to_json())
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically; a failure leaves no temporary file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_records(folder: Path) -> tuple[dict[tuple[str, str], Record], list[Unreadable]]:
    """Return the records of a folder by library and kernel, and the unreadable files."""
    found: dict[tuple[str, str], Record] = {}
    bad = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = Record.from_json(path.read_text(encoding="utf-8"))
        except (ValueError, TypeError, OSError) as error:
            bad.append(Unreadable(path, str(error)))
        else:
            found[record.library, record.kernel] = record
    return found, bad


def hardware_records() -> dict[tuple[str, str], Record]:
    """Return the hardware records shipped with this version."""
    return read_records(HARDWARE)[0]


@cache
def fingerprint(library: str) -> str:
    """Return a hash of the sources of a library's kernels and of the code that runs them."""
    digest = hashlib.sha256()
    for package in sorted({"nkisim", "trnblas", "trnsci", library}):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        root = Path(spec.origin).parent
        for path in sorted((root / "core" if package == "trnsci" else root).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def stamp() -> dict[str, str]:
    """Return the current versions and commit for a record; the date is added by the run."""
    found = {"python": sys.version.partition(" ")[0]}
    for name in ("nkisim", "torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    commit = _commit()
    return {**found, "commit": commit} if commit else found


def device_stamp() -> dict[str, str]:
    """Return the instance type of this machine, and the versions of AWS's tools."""
    product = Path("/sys/devices/virtual/dmi/id/product_name")
    try:
        instance = product.read_text(encoding="utf-8").strip()
    except OSError:
        instance = "unknown instance"
    found = []
    for name in ("nki", "neuronx-cc"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return {"instance": instance, "sdk": ", ".join(found) or "unknown SDK"}


def _commit() -> str:
    """Return the commit of the checkout of this file, with a + if there are uncommitted changes."""
    here = Path(__file__).parent

    def git(*arguments: str) -> Any:
        return subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, timeout=30
        )

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        if head.returncode or git("ls-files", "--error-unmatch", __file__).returncode:
            return ""
        changed = git("status", "--porcelain", "--untracked-files=no").stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(head.stdout.strip()) + ("+" if changed else "")
