"""What type checkers know: stubs are current, and a typo or a missing operand fails mypy."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]

GOOD = """
import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.memory import NkiTensor


@nkisim.jit
def doubled(x: NkiTensor) -> NkiTensor:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=2.0)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2, engine=nisa.engine.vector)
    nl.store(out, tile)
    return out


result = nkisim.simulate(doubled)(np.ones((4, 8), np.float32))
"""

BAD = """
import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.memory import NkiTensor


def kernel(x: NkiTensor) -> None:
    tile = nl.load(x)
    nisa.activaton(dst=tile, op=nl.exp, data=tile)  # attr-defined
    nisa.activation(dst=tile, op=nl.exp)  # call-arg
    nisa.activation(dst=tile, op=nl.exp, dta=tile)  # call-arg
    nisa.tensor_tensor(dst=tile, data1=tile, data2=2.0, op=nl.add)  # arg-type
    nisa.tensor_copy(dst=tile, src=tile, engine=5)  # arg-type
    nl.lod(x)  # attr-defined
    nl.load(src=x, dtyp=nl.float32)  # call-arg


nkisim.simulat(kernel)  # attr-defined
"""


def test_the_stubs_are_what_the_generator_makes():
    for path, text in loaded(ROOT / "tools/gen_stubs.py").stubs().items():
        assert (ROOT / "src" / path).read_text() == text, f"run `make docs`: {path} is old"


@pytest.mark.slow
def test_a_typo_or_a_missing_operand_fails_mypy(tmp_path):
    (tmp_path / "good.py").write_text(textwrap.dedent(GOOD))
    (tmp_path / "bad.py").write_text(textwrap.dedent(BAD))
    apart = ["--cache-dir", tmp_path / "cache", "--config-file", os.devnull]
    quiet = ["--follow-imports", "silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *apart, *quiet, "good.py", "bad.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = re.findall(r"^bad\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    marked = [
        (str(number), line.partition("# ")[2])
        for number, line in enumerate(textwrap.dedent(BAD).splitlines(), 1)
        if "# " in line
    ]
    assert found == marked, done.stdout + done.stderr
    assert "good.py" not in done.stdout
