"""The distribution nkisim: its name, versions and extras, and others that own its import names."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import nkisim
import trnsci
from each_case import each_case
from fresh_process import printed_by
from trnsci.cli import main
from trnsci.cli.doctor import diagnoses, other_owners

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = sorted(path.parent.name for path in (ROOT / "src").glob("*/__init__.py"))
OPTIONAL = [
    "cotengra",
    "matplotlib",
    "numba",
    "opt_einsum",
    "pyamg",
    "pyscf",
    "scipy",
    "torch",
]


def test_the_name_and_the_versions():
    assert PROJECT["name"] == "nkisim"
    assert nkisim.__version__ == trnsci.__version__ == PROJECT["version"]
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("nkisim", "nkisim, version {}\n"),
        ("trnsci", "trnsci, version {} of the distribution nkisim\n"),
    ],
)
def test_both_commands_show_the_version_of_the_distribution(command, said):
    done = subprocess.run(
        [sys.executable, "-m", command, "--version"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (said.format(nkisim.__version__), "")


SUFFIXES = (".html", ".ipynb", ".md", ".py", ".pyi", ".sh", ".yml", "")


def texts():
    """The text files of the project that a user may read or run, by their paths."""
    for name in ("README.md", "CONTRIBUTING.md", "Makefile", "SECURITY.md", "pyproject.toml"):
        yield ROOT / name
    for folder in (".ci", ".github", "benchmarks", "docs", "examples", "scripts", "src", "tools"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def test_every_extra_that_a_text_names_exists():
    named = re.compile(r"(?:\b(nkisim|trnsci)|(?<=[\"' ])\.)\[([a-z]+(?:,[a-z]+)*)\]")
    found = {}
    for path in texts():
        for line in path.read_text(encoding="utf-8").splitlines():
            if "pip install" not in line and "PIP" not in line:
                continue
            for name, extras in named.findall(line):
                found.setdefault((name, extras), path.relative_to(ROOT).as_posix())
    assert ("nkisim", "torch") in found
    assert ("", "dev") in found
    # What the other project's package is called is in the guide for those who come from it.
    assert found.pop(("trnsci", "all")) == "docs/guides/migrate.md"
    known = set(PROJECT["optional-dependencies"])
    for (name, extras), path in found.items():
        assert name in ("nkisim", ""), path
        assert set(extras.split(",")) <= known, path


# Other distributions


def installed(folder, name, files, scripts=""):
    """Lay the metadata of an installed distribution into a folder, and its files, all empty.

    Since Python 3.12 ``importlib.metadata`` leaves out files that are listed and missing.
    """
    info = folder / f"{name}-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    if scripts:
        (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


EARLIER = "nkisim = nkisim.cli:main\ntrnsci = trnsci.cli:main"
WHOLE = [f"{package}/__init__.py" for package in PACKAGES]


@each_case(
    ("files", "scripts", "packages", "origin"),
    [
        (["trnsci/__init__.py", "trnsci/more/a.py"], "", ["trnsci"], "another project"),
        (["trnblas/a.py", "own/b.py"], "", ["trnblas"], "another project"),
        (["trnsci/a.py"], "trnsci = trnsci.a:main", ["trnsci"], "another project"),
        (WHOLE, EARLIER, PACKAGES, "an earlier installation of nkisim"),
        # An editable installation lists a path file and no module.
        (["_trnsci.pth"], EARLIER, ["nkisim", "trnsci"], "an earlier installation of nkisim"),
    ],
)
def test_doctor_names_who_else_has_our_import_names(
    tmp_path_factory, files, scripts, packages, origin
):
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder)])
        installed(folder, "nkisim", WHOLE, EARLIER)
        installed(folder, "trnsci", files, scripts)
        assert other_owners() == {"trnsci": packages}
        (found,) = (entry for entry in diagnoses() if entry.what == "import names")
    shared = ", ".join(packages)
    assert found.state == "wrong"
    assert found.why == f"the distribution trnsci 9.9, {origin}, also has {shared}"
    assert found.remedy.startswith("pip uninstall trnsci nkisim, then install nkisim again")


def test_doctor_reports_no_distribution_that_only_uses_ours(tmp_path, monkeypatch):
    installed(tmp_path, "nkisim", WHOLE, EARLIER)
    installed(tmp_path, "user", ["user/nkisim.py"], "usercheck = nkisim.cli:main")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert other_owners() == {}
    (found,) = (entry for entry in diagnoses() if entry.what == "import names")
    assert found.state == "yes"


# Without the optional packages

COMMAND_WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from click.testing import CliRunner
import trnsci.cli.bench
from trnsci.cli import main
trnsci.cli.bench.subprocess = None  # no benchmark is started, whatever the command does
found = {{}}
for name in {names!r}:
    for arguments in ([name], [name, "--help"]):
        done = CliRunner().invoke(main, arguments, env={{"TRNSCI_RECORDS": {folder!r}}})
        ended = done.exception is None or isinstance(done.exception, SystemExit)
        found[" ".join(arguments)] = [ended and done.exit_code, done.output]
print(json.dumps(found))
"""


def test_every_command_ends_with_a_hint_where_packages_are_missing(tmp_path):
    code = COMMAND_WITHOUT.format(missing=OPTIONAL, names=list(main.commands), folder=str(tmp_path))
    found = printed_by(code)
    # Its status depends on what else is installed here.
    assert "[--] use the libraries: torch is not installed\n" in found.pop("doctor")[1]
    hints = set()
    for command, (status, output) in found.items():
        assert status in (0, 1), (command, output)
        assert "Traceback" not in output
        if status:
            hints.add(command)
            assert re.search(r"^Error: torch is not installed: ", output), output
            assert re.search(r"pip install 'nkisim\[torch\]'$", output.strip()), output
    assert {"bench", "validate"} <= hints
