"""The recording child runs the text of the kernel's file, not its bytecode, and what it imports."""

import importlib.util
import py_compile
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from nkisim.judging import entry

from .judged import RIGHT, verdict_of
from .references import matmul

SHAPES = "a=f32[256,64] b=f32[256,128]"
QUICK = {"hostile": False, "shapes": False}

AS_IT_IS = """
@nki.jit
def cheat(a, b):
    return matmul(a, b)
"""

ZEROS = """
@nki.jit
def cheat(a, b):
    tile = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return stored(tile, a.dtype)
"""

WITH_HELPER = "from helper import FACTOR\n" + RIGHT.replace(
    "def matmul(a, b):\n", "def matmul(a, b):\n    assert FACTOR\n"
)
SCALED = """
@nki.jit
def cheat(a, b):
    return stored(nl.multiply(product(a, b, a.dtype), FACTOR), a.dtype)
"""


NEXT_TO_THE_FILE = "next to the file"
IN_A_FOLDER = "in a folder of its own"


@pytest.fixture
def bytecode(request, tmp_path_factory, monkeypatch):
    """Writes the bytecode of a text as that of a file, which Python takes without a check.

    Its parameter is where Python looks for it; a folder of its own also has links to the bytecode
    that there is of the libraries, without which a child compiles all of them.
    """
    prefix = None
    if getattr(request, "param", IN_A_FOLDER) == IN_A_FOLDER:
        prefix = tmp_path_factory.mktemp("bytecode")
        root = tmp_path_factory.getbasetemp().parts[1]
        kept = Path(sys.pycache_prefix).iterdir() if sys.pycache_prefix else ()
        for folder in kept:
            if folder.name != root:
                (prefix / folder.name).symlink_to(folder)
    monkeypatch.setattr(sys, "pycache_prefix", prefix and str(prefix))

    def forge(file, text):
        source = tmp_path_factory.mktemp("forged") / file.name
        source.write_text(text)
        py_compile.compile(
            str(source),
            cfile=importlib.util.cache_from_source(str(file)),
            dfile=str(file),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )

    return forge


def judged(folder, text):
    return verdict_of(folder, text, "cheat", matmul, SHAPES, **QUICK)


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "bytecode",
    [NEXT_TO_THE_FILE, pytest.param(IN_A_FOLDER, marks=pytest.mark.slow)],
    indirect=True,
)
def test_bytecode_of_another_kernel_is_not_run(bytecode, tmp_path):
    bytecode(tmp_path / "cheat.py", RIGHT + AS_IT_IS)
    verdict = judged(tmp_path, RIGHT + ZEROS)
    assert [fault.kind for fault in verdict.faults] == ["result"], verdict


@pytest.mark.slow
def test_a_right_kernel_passes_next_to_bytecode_which_stays(bytecode, tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 1.0\n")
    bytecode(tmp_path / "helper.py", "FACTOR = 1.0\n")
    bytecode(tmp_path / "cheat.py", RIGHT + ZEROS)
    before = set(contents(tmp_path))
    verdict = judged(tmp_path, WITH_HELPER + SCALED)
    assert verdict.passed, verdict
    assert set(contents(tmp_path)) - before == {tmp_path / "cheat.py", tmp_path / "reference.py"}


def test_no_bytecode_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "helper.py").write_text("FACTOR = 1.0\n")
    assert judged(tmp_path, WITH_HELPER + SCALED).passed
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["cheat.py", "helper.py", "reference.py"]


@pytest.mark.parametrize("name", ["ml_dtypes", "threadpoolctl"])
def test_a_file_of_the_name_of_a_library_is_not_loaded_in_its_place(name, tmp_path, monkeypatch):
    """Not even where its folder is the first one in which Python looks for modules."""
    (tmp_path / f"{name}.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    verdict = judged(tmp_path, f"import {name}\n" + RIGHT + AS_IT_IS)
    assert verdict.passed, verdict


def test_libraries_that_nothing_has_loaded_yet_can_be_used(tmp_path):
    text = "import string\nimport numpy as np\n\nSCALE = len(string.digits)\n" + RIGHT + AS_IT_IS
    text += """
def nkisim_examples():
    a, b = np.random.default_rng(0).uniform(size=(2, 128, 64)).astype(np.float32)
    return [(cheat, (a, b))]
"""
    verdict = verdict_of(tmp_path, text, "cheat", matmul, **QUICK)
    assert verdict.passed, verdict


def test_machine_code_next_to_the_kernel_is_not_loaded(tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 1.0\n")
    (tmp_path / f"helper{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    verdict = judged(tmp_path, WITH_HELPER + SCALED)
    assert verdict.outcome == "no verdict", verdict
    assert "helper" in verdict.unheld


def test_a_kernel_in_a_package_is_judged_with_the_files_around_it(tmp_path):
    folder = tmp_path / "package" / "kernels"
    folder.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("SCALE = 1.0\n")
    (folder / "__init__.py").write_text("from .. import SCALE\n")
    (folder / "helper.py").write_text(
        "from . import parts\nfrom .. import SCALE\n\nFACTOR = SCALE\n"
    )
    (folder / "parts.py").write_text("from package import SCALE\n")
    assert judged(folder, WITH_HELPER.replace("helper", ".helper") + SCALED).passed
    (tmp_path / "package" / "__init__.py").write_text("import os\nSCALE = os.getpid() and 0.5\n")
    verdict = judged(folder, WITH_HELPER.replace("helper", ".helper") + SCALED)
    assert [fault.kind for fault in verdict.faults] == ["result"], verdict


def test_a_text_in_another_encoding_is_what_runs(tmp_path):
    text = "# coding: latin-1\n" + RIGHT + AS_IT_IS + 'NAME = "\xe4"\nassert len(NAME) == 1\n'
    file = tmp_path / "cheat.py"
    verdict_of(tmp_path, RIGHT, "matmul", matmul)  # writes the reference
    file.write_bytes(text.encode("latin-1"))
    settings = entry.Settings(advice=False, seed=1, **QUICK)
    verdict = entry.verdict_on(file, "cheat", matmul, settings, [SHAPES])
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    "line", ["from ......... import x", "from .absent import x", "import absent"]
)
def test_an_import_of_nothing_that_is_known_is_a_fault(line, tmp_path):
    verdict = judged(tmp_path, f"{line}\n" + RIGHT + AS_IT_IS)
    assert [fault.kind for fault in verdict.faults] == ["import"], verdict


@pytest.mark.parametrize("text", ["x = " + "(" * 500 + ")" * 500, "x = '\0'", "def"])
def test_a_text_that_is_no_python_is_refused(text, tmp_path):
    assert judged(tmp_path, text).outcome == "refused"
