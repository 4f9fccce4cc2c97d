"""The ten-minute start, done as its page says, with the wheel and from an empty folder."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from docs.pages import DOCS, ROOT, Page

pytestmark = pytest.mark.slow

PAGE = Page.read(DOCS / "start" / "run-a-kernel.md")
FIRST, BROKEN, FIXED, *LATER = [block for block in PAGE.blocks if block.runs]
LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")
PACKAGES = ("nki-stubs", "nkisim", "trnsci", *LIBRARIES)
_VARIABLES = ("TRN", "NKI", "NEURON_", "PYTHON")


def pip(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir")
    pip("wheel", ROOT, *offline, "-w", folder)
    (path,) = folder.glob("nkisim-*.whl")
    return path


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


@pytest.fixture
def python(site, tmp_path):
    """A function that runs the interpreter in an empty folder, with the wheel's packages first."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_VARIABLES)}
    clean |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    clean |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "120"}
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*arguments, returns=0):
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=folder,
            env=clean,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == returns, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        # A script that is run names itself by its whole path, the page by its name.
        return done.stdout.replace(f"{folder}{os.sep}", "")

    run.folder = folder
    return run


def test_the_wheel_holds_what_is_no_module(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert {"nki-stubs/isa.pyi", "nki-stubs/language.pyi", "nkisim/isa/__init__.pyi"} <= names
    assert {"trnsci/page.html", "trnsci/validation/hardware/README.md"} <= names
    assert {f"nkisim/pages/{path.name}" for path in (DOCS / "rules").glob("*.md")} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


@pytest.mark.parametrize("package", ["nkisim", "trnsci", "trnblas"])
def test_the_packages_are_those_of_the_wheel(python, site, package):
    found = python("-c", f"import {package}; print({package}.__file__)").strip()
    assert Path(found).is_relative_to(site)


def test_run_break_read_mend(python):
    file = python.folder / "row_sums.py"

    file.write_text(FIRST.text)
    assert python("row_sums.py") == FIRST.output

    file.write_text(f"{FIRST.text}\n{BROKEN.text}")
    assert python("row_sums.py") == FIRST.output + BROKEN.output
    assert "error[M001] unwritten-sbuf" in BROKEN.output

    # "Change one line of the kernel": the one that the page shows changed, and no other.
    (changed,) = (line for line in FIXED.text.splitlines() if "# was: data=tile" in line)
    old = changed.partition("  #")[0].replace("data=tile[:, 0:f]", "data=tile")
    assert FIRST.text.count(old) == 1
    fixed = FIRST.text.replace(old, changed)
    assert FIXED.text.removesuffix(BROKEN.text).strip() in fixed
    file.write_text("\n".join([fixed, BROKEN.text, *(block.text for block in LATER)]))
    shown = "".join(block.output for block in (FIRST, FIXED, *LATER))
    assert python("row_sums.py") == shown
    assert list(python.folder.iterdir()) == [file]


def test_the_command_checks_the_file(python):
    file = python.folder / "row_sums.py"
    file.write_text(FIRST.text)
    assert "no findings; checked 1 kernel" in python("-m", "nkisim", "check", "row_sums.py")
    shapes = ("--shapes", "x=f32[128,700]")
    found = python("-m", "nkisim", "check", "row_sums.py", *shapes, returns=1)
    assert "error[M001] unwritten-sbuf" in found
    file.write_text(FIRST.text.replace("data=tile,", "data=tile[:, 0:f],"))
    assert "no findings" in python("-m", "nkisim", "check", "row_sums.py", *shapes)


def test_the_commands_of_the_page_answer(python, site):
    assert "nkisim info" in next(b.text for b in PAGE.blocks if b.info[:1] == ["sh"])
    told = python("-m", "nkisim", "info")
    assert told == python(str(site / "bin" / "nkisim"), "info")
    assert "NKI version of kernels" in told
    assert "[ok] run kernels on the simulator" in python("-m", "trnsci", "doctor")
    listed = python("-m", "trnsci", "kernels")
    assert {f"{library}." for library in LIBRARIES} <= set(re.findall(r"^\w+\.", listed, re.M))
    assert "\ntrnblas.gemm " in listed
