"""Files and processes of the tests of ``nkisim serve``."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import psutil

SOURCES = Path(find_spec("nkisim").origin).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}
COMMAND = [sys.executable, "-m", "nkisim", "serve"]

GOOD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
def double(x: nt.tensor[128, 512]):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""

BAD = GOOD.replace("operand0=2.0", "scalar=2.0")
"""An argument that the instruction does not have; the finding has tried code."""

ENDLESS = GOOD.replace(
    "    tile = nl.load(x)\n", "    while True:\n        pass\n    tile = nl.load(x)\n"
)
CRASHING = GOOD.replace("tile = nl.load(x)", "import os; os.abort()")


def written(folder, text, name="kernel.py"):
    """The path of a file with this text."""
    path = folder / name
    path.write_text(text)
    return str(path)


def descendants():
    """The processes that this one has started, with those that they have."""
    return psutil.Process().children(recursive=True)
