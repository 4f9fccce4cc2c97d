"""The notebook: its cells run one after the other and show what its text says."""

import ast
import json
import os
import re
from pathlib import Path

import pytest
import torch
from nbmake.nb_run import NotebookRun

from fresh_process import forked

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
NOTEBOOK = json.loads(TOUR.read_text(encoding="utf-8"))
CODE = ["".join(c["source"]) for c in NOTEBOOK["cells"] if c["cell_type"] == "code"]
SECONDS_PER_CELL = 300


def test_it_is_a_notebook_without_outputs():
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in NOTEBOOK["cells"]:
        fields = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            fields |= {"outputs", "execution_count"}
        assert set(cell) == fields


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    for name in ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NEURON_PLATFORM_TARGET_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))


IN_A_SHELL = """
import json, sys
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell, cells = InteractiveShell.instance(), []
for source in json.loads(sys.argv[1]):
    shown = []
    shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=shown)
    with capture_output() as kept:
        result = shell.run_cell(source)
    result.raise_error()
    assert not kept.stderr, kept.stderr
    cells.append((kept.stdout, *(part['data'] for part in shown)))
print(json.dumps(cells))
"""


def test_a_shell_shows_what_the_text_says():
    """Cell by cell, as a Jupyter kernel runs them; the slow test starts one."""
    done = forked("torch", IN_A_SHELL, arguments=[json.dumps(CODE)], env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout.splitlines()[-1])
    assert_said([(printed, shown[0] if shown else {}) for printed, *shown in cells])


@pytest.mark.slow
def test_a_jupyter_kernel_shows_what_the_text_says():
    result = NotebookRun(TOUR, SECONDS_PER_CELL).execute()
    assert result.error is None, result.error.trace
    assert_said([parts(cell.outputs) for cell in result.nb.cells if cell.cell_type == "code"])


def parts(outputs):
    """What a code cell printed, and the forms in which its last value is shown."""
    printed = "".join(part["text"] for part in outputs if part.output_type == "stream")
    assert {part.name for part in outputs if part.output_type == "stream"} <= {"stdout"}
    shown = [part.data for part in outputs if part.output_type == "execute_result"]
    return printed, shown[0] if shown else {}


def assert_said(cells):
    run, broken, report, data, fixed, library, status = cells
    assert run[1]["text/plain"] == "array([1024., 1024., 1024.], dtype=float32)"

    assert "[nan nan nan]" in broken[0]
    assert "error[M001] unwritten-sbuf" in broken[0]
    page = report[1]["text/html"]
    assert "error[M001]" in re.sub(r"<[^>]+>", "", page)
    assert "nisa.tensor_reduce(dst=part, op=nl.add, data=<mark>tile</mark>, axis=1)" in page
    assert "Memory in use" in page
    line = 1 + next(n for n, text in enumerate(CODE[0].splitlines()) if "tensor_reduce" in text)
    assert ast.literal_eval(data[1]["text/plain"]) == ([("M001", line)], {"M001"})
    said = "no findings (row_sums(x=float32[128,700]) on gen3, NKI 0.3.0)"
    assert fixed[0] == f"[700. 700. 700.]\n{said}\n"

    generator = torch.Generator().manual_seed(0)
    A = torch.randn(96, 160, generator=generator).abs().double()
    B = torch.randn(160, 64, generator=generator).abs().double()
    # Each of the two: 160 products and sums in float32, relative errors of 2^-24 at most.
    bound = 2 * 161 * 2.0**-24 * float((A @ B).max())
    assert 0 < float(library[0].removeprefix("largest difference ")) <= bound
    assert library[1]["text/plain"] == "Counter({'gemm': 1})"

    assert status[0].startswith("passed against known answers of Random123")
    assert ast.literal_eval(status[1]["text/plain"]) == {"gen2": [], "gen3": [], "gen4": []}
