"""The wheel in fresh environments without extras: alone, over its old name, beside a namesake."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
OFFLINE = ("--quiet", "--no-deps", "--no-index")
OLD_KERNEL = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out
"""


def run(*command, env=None, cwd=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TRN", "NKI", "PYTHON"))}
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd,
        env=clean | {"PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
    )


def pip(*arguments):
    done = run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def packed(path, name, version, files):
    """Write a wheel of files by their names; the last one of a wheel is its RECORD."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    } | files
    wheel = path / f"{name}-{version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, data in files.items():
            archive.writestr(file, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{file},sha256={digest},{len(data)}\n")
        archive.writestr(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]))
    return wheel


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("ours")
    pip("wheel", ROOT, *OFFLINE, "--no-build-isolation", "--no-cache-dir", "-w", folder)
    (wheel,) = folder.iterdir()
    assert wheel.name == f"nkisim-{VERSION}-py3-none-any.whl"
    return wheel


@pytest.fixture(scope="module")
def earlier(ours, tmp_path_factory):
    """The same under the name that the distribution had before."""
    with zipfile.ZipFile(ours) as archive:
        files = {
            name: archive.read(name) for name in archive.namelist() if "dist-info/" not in name
        }
        commands = archive.read(f"nkisim-{VERSION}.dist-info/entry_points.txt")
    files["trnsci-0.0.9.dist-info/entry_points.txt"] = commands
    return packed(tmp_path_factory.mktemp("earlier"), "trnsci", "0.0.9", files)


@pytest.fixture(scope="module")
def namesake(tmp_path_factory):
    """Another project's distribution ``trnsci``, with a folder and a file of the same names."""
    files = {"trnsci/__init__.py": b"", "trnsci/other.py": b"", "trnblas/other.py": b""}
    return packed(tmp_path_factory.mktemp("namesake"), "trnsci", "9.9", files)


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory):
    """A folder with links to what the distribution needs without extras, and nothing else."""
    folder = tmp_path_factory.mktemp("dependencies")
    wanted, known = list(PROJECT["dependencies"]), set()
    while wanted:
        requirement = wanted.pop()
        name = re.match(r"[\w.-]+", requirement)[0]
        if "extra ==" in requirement or name in known:
            continue
        known.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another Python or system
            continue
        wanted += found.requires or []
        for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            (folder / top).symlink_to(found.locate_file(top))
    assert {"click", "ml_dtypes", "numpy", "rich", "threadpoolctl"} <= known
    return folder


class Environment:
    """A fresh environment with the dependencies."""

    def __init__(self, root, dependencies):
        venv.create(root, with_pip=False, symlinks=True)
        self.bin = root / "bin"
        done = run(self.bin / "python", "-c", "import site; print(*site.getsitepackages())")
        site = Path(done.stdout.strip())
        # The name sorts behind nkisim_simulator.pth, which has to work before numpy is found.
        (site / "others.pth").write_text(f"{dependencies}\n")

    def install(self, wheel):
        pip("--python", self.bin / "python", "install", *OFFLINE, wheel)

    def uninstall(self, *names):
        pip("--python", self.bin / "python", "uninstall", "--quiet", "--yes", *names)

    def __call__(self, command, *arguments, returns=0, cwd=None):
        done = run(self.bin / command, *arguments, cwd=cwd)
        assert done.returncode == returns, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def works(self, folder):
        """Whether both commands do what needs no extra; a command that fails is an error."""
        assert self("nkisim", "--version") == f"nkisim, version {VERSION}\n"
        assert self("trnsci", "--version").startswith(f"trnsci, version {VERSION} of ")
        assert re.search(rf"nkisim +{re.escape(VERSION)} *$", self("nkisim", "info"), re.MULTILINE)
        file = folder / "double.py"
        file.write_text(OLD_KERNEL)
        self("nkisim", "upgrade", "--write", file)
        assert "neuronxcc" not in file.read_text()
        assert "no findings" in self("nkisim", "check", file, "--shapes", "x=f32[128,64]")
        assert "### Good" in self("nkisim", "rule", "M004")
        hint = self("trnsci", "validate", returns=1)
        assert hint == "Error: torch is not installed: pip install 'nkisim[torch]'\n"
        return True


@pytest.fixture
def environment(tmp_path, dependencies):
    return Environment(tmp_path / "venv", dependencies)


def test_the_commands_need_no_extra(environment, ours, tmp_path):
    environment.install(ours)
    assert environment.works(tmp_path)
    told = environment("trnsci", "doctor")
    assert f", nkisim {VERSION}\n" in told
    assert "[ok] import names: " in told


def test_installed_over_the_old_name(environment, earlier, ours, tmp_path):
    environment.install(earlier)
    environment.install(ours)
    assert environment.works(tmp_path)
    told = environment("trnsci", "doctor", returns=1)
    assert "[!!] import names: the distribution trnsci 0.0.9, an earlier installation of" in told
    assert "pip uninstall trnsci nkisim, then install nkisim again" in told
    # As the remedy says: to uninstall trnsci alone would remove files of nkisim.
    environment.uninstall("trnsci", "nkisim")
    environment.install(ours)
    assert "[ok] import names: " in environment("trnsci", "doctor")
    assert environment("nkisim", "--version") == f"nkisim, version {VERSION}\n"


@pytest.mark.parametrize("last", ["ours", "namesake"])
def test_beside_a_namesake(environment, namesake, ours, tmp_path, last):
    for wheel in (namesake, ours) if last == "ours" else (ours, namesake):
        environment.install(wheel)
    assert environment.works(tmp_path)
    told = environment("trnsci", "doctor", returns=1)
    assert "the distribution trnsci 9.9, another project, also has trnblas, trnsci\n" in told
