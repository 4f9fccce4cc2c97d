"""The notebook: its cells run in order in one namespace and show what its text says they do."""

import ast
import json
import linecache
import re
from pathlib import Path

import pytest

from nkisim import uninstall

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
NOTEBOOK = json.loads(TOUR.read_text(encoding="utf-8"))
CODE = ["".join(c["source"]) for c in NOTEBOOK["cells"] if c["cell_type"] == "code"]


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


@pytest.fixture
def tour(capsys, monkeypatch):
    """The namespace after the last cell; by number of a cell, its last value and its prints."""
    for name in ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NEURON_PLATFORM_TARGET_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    names = {"__name__": "__main__"}
    shown, printed, files = [], [], []
    try:
        for number, text in enumerate(CODE, 1):
            # Kernels are read from their source, which a notebook keeps in linecache too.
            file = f"<tour cell {number}>"
            files.append(file)
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            tree = ast.parse(text, file)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, file, "exec"), names)
            value = None
            if last is not None:
                value = eval(compile(ast.Expression(last.value), file, "eval"), names)
            shown.append(value)
            printed.append(capsys.readouterr().out)
        yield names, shown, printed
    finally:
        uninstall()
        for file in files:
            linecache.cache.pop(file, None)


def test_the_cells_show_what_the_text_says(tour):
    names, shown, printed = tour
    run, broken, report, data, mended, library, status = range(len(CODE))
    assert shown[run].tolist() == [1024.0] * 3

    assert "[nan nan nan]" in printed[broken]
    assert "error[M001] unwritten-sbuf" in printed[broken]
    page = shown[report]._repr_html_()
    assert "error[M001]" in re.sub(r"<[^>]+>", "", page)
    assert "nisa.tensor_reduce(dst=part, op=nl.add, data=<mark>tile</mark>, axis=1)" in page
    assert "Memory in use" in page
    line = 1 + next(n for n, text in enumerate(CODE[run].splitlines()) if "tensor_reduce" in text)
    assert shown[data] == ([("M001", line)], {"M001"})
    assert printed[mended] == "[700. 700. 700.]\nno findings\n"

    exact = names["A"].double() @ names["B"].double()
    for result in (names["on_torch"], names["on_simulator"]):
        # 160 products and sums in float32, each with a relative error of 2^-24 at most.
        bound = 161 * 2.0**-24 * (names["A"].abs().double() @ names["B"].abs().double())
        assert ((result.double() - exact).abs() <= bound).all()
    assert f"{names['difference']:.1e}" in printed[library]
    assert sum(shown[library].values()) == 1

    assert printed[status].startswith("passed against known answers of Random123")
    assert shown[status] == {"gen2": [], "gen3": [], "gen4": []}
